//! The command's other programs and libraries, found from the directory of this program, built by cargo or installed.

use crate::error::TerminalError;
use std::env;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

/// The first file of one of these names. Places are relative to this program's directory.
pub fn find(names: &[&str], places: &[&str]) -> Option<PathBuf> {
    let own = env::current_exe().ok()?;
    let own = own.parent()?;
    let files = places.iter().flat_map(|place| names.iter().map(move |name| own.join(place).join(name)));
    files.into_iter().find_map(|path| path.canonicalize().ok())
}

/// Replaces this process by the program of that name. Returns only on failure.
pub fn go_on_as(name: &str, places: &[&str], arguments: impl IntoIterator<Item = OsString>) -> TerminalError {
    let Some(program) = find(&[name], places) else {
        return TerminalError::NoProgram(name.to_owned(), places.join(" or "));
    };
    let error = Command::new(&program).args(arguments).exec();
    TerminalError::Run(program, error)
}
