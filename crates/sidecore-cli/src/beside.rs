//! What lies beside this program, where cargo builds it or where it is installed: the provider, and the other one of the
//! two programs that people know as one command. Both have this module.

use std::env;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

/// The first file of one of those names, in those directories as seen from the one that this program is in.
pub(crate) fn find(names: &[&str], places: &[&str]) -> Option<PathBuf> {
    let own = env::current_exe().ok()?;
    let own = own.parent()?;
    let files = places.iter().flat_map(|place| names.iter().map(move |name| own.join(place).join(name)));
    files.into_iter().find_map(|path| path.canonicalize().ok())
}

/// Goes on as the program of that name. Returns only where it cannot: says why, and what to do.
pub(crate) fn go_on_as(name: &str, places: &[&str], arguments: impl IntoIterator<Item = OsString>) -> String {
    let Some(program) = find(&[name], places) else {
        let places = places.join(" or ");
        return format!("no {name} in {places}, seen from this program: `cargo build --release` builds both");
    };
    let error = Command::new(&program).args(arguments).exec();
    format!("cannot run {}: {error}", program.display())
}
