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

/// A program, the commands that it answers, and the Debian package that has it.
pub type Row = (&'static str, &'static [&'static str], &'static str);

/// Another program of the command.
#[derive(Debug)]
pub struct Other<'a> {
    /// The file's name.
    pub name: &'a str,
    /// What a user types for it, as `sidecore farm`.
    pub words: String,
    /// The Debian package that has it.
    pub package: &'static str,
}

impl<'a> Other<'a> {
    /// The program of that name in this table, for the command that this process was started with. `before`: what a user
    /// types before the command.
    pub fn of(name: &'a str, table: &[Row], before: &str) -> Self {
        let row = table.iter().find(|(program, ..)| *program == name);
        let (commands, package) = row.map_or((&[][..], "sidecore"), |(_, commands, package)| (*commands, *package));
        let typed = env::args_os().skip(1).find_map(|word| commands.iter().find(|command| word == **command));
        let words = typed.map_or_else(|| name.to_owned(), |command| format!("{before} {command}"));
        Self { name, words, package }
    }
}

/// A program that is its own command and package.
impl From<&'static str> for Other<'static> {
    fn from(name: &'static str) -> Self {
        Self { name, words: name.to_owned(), package: name }
    }
}

/// Replaces this process by that program. Returns only on failure.
pub fn go_on_as<'a>(
    other: impl Into<Other<'a>>,
    places: &[&str],
    arguments: impl IntoIterator<Item = OsString>,
) -> TerminalError {
    let other = other.into();
    let Some(program) = find(&[other.name], places) else {
        return TerminalError::NotInstalled { words: other.words, package: other.package };
    };
    let error = Command::new(&program).args(arguments).exec();
    TerminalError::Run(program, error)
}
