//! `sidecore sockets run`: a command whose small messages go through the service of sockets. The system stays unchanged.

use crate::args::Run;
use crate::error::CommandError;
use crate::program;
use sidecore_sockets::ask;
use sidecore_sockets::protocol::{SOCKET_VARIABLE, USERS_VARIABLE};
use sidecore_terminal::{output, programs};
use std::env;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Names of the library's file: installed, and built by cargo.
const NAMES: [&str; 2] = ["sidecore-preload.so", "libsidecore_preload.so"];
const PLACES: [&str; 2] = [".", "../lib/sidecore"];
const PRELOAD: &str = "LD_PRELOAD";

/// Becomes the command, with the library for its sockets. Returns only on failure.
pub(crate) fn run(args: &Run) -> CommandError {
    prepared(args).map_or_else(
        |error| error,
        |mut command| {
            let source = command.exec();
            CommandError::Command { program: command.get_program().into(), source }
        },
    )
}

/// An obstacle that leaves connections on the kernel is a warning, not an error.
fn prepared(args: &Run) -> Result<Command, CommandError> {
    let library = match &args.preload {
        Some(path) => path.canonicalize().map_err(|source| CommandError::Library { path: path.clone(), source })?,
        None => programs::find(&NAMES, &PLACES).ok_or(CommandError::NoLibrary)?,
    };
    // The parser demands a command.
    let (name, rest) =
        args.command.split_first().map_or((OsString::default(), &[][..]), |(name, rest)| (name.clone(), rest));
    let mut command = Command::new(&name);
    command.args(rest);
    let looked = program::look(&name);
    if let Some(obstacle) = &looked.obstacle {
        let name = Path::new(&name).display();
        output::tell(format_args!("the connections of {name} stay on the kernel: it {obstacle}"));
    }
    command.env(SOCKET_VARIABLE, &args.service.socket).env(USERS_VARIABLE, ask::trusted_users());
    // A program that cannot load the library would end. Programs that it starts may be able to.
    if looked.loads {
        command.env(PRELOAD, preloaded(env::var_os(PRELOAD), &library)?);
    }
    if let Err(error) = ask::listens(&args.service.socket) {
        let socket = args.service.socket.display();
        output::tell(format_args!(
            "no service of sockets at {socket}: {error}; connections stay on the kernel until one answers there: start it with \
             `sidecore sockets serve`"
        ));
    }
    Ok(command)
}

/// Appends the library to the list. Listed libraries come first: they intercepted the program's calls before, and some
/// require the first place.
fn preloaded(before: Option<OsString>, library: &Path) -> Result<OsString, CommandError> {
    if library.as_os_str().as_bytes().iter().any(|byte| b": ".contains(byte)) {
        return Err(CommandError::Unlistable(PathBuf::from(library)));
    }
    let mut list = before.unwrap_or_default();
    if !list.is_empty() {
        list.push(":");
    }
    list.push(library);
    Ok(list)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_preloaded_already_stays_and_comes_first() {
        let added = |before: Option<&str>| preloaded(before.map(OsString::from), Path::new("/lib/ours.so")).unwrap();
        assert_eq!([added(None), added(Some(""))], ["/lib/ours.so", "/lib/ours.so"]);
        assert_eq!(added(Some("/lib/a.so /lib/b.so")), "/lib/a.so /lib/b.so:/lib/ours.so");
    }

    #[test]
    fn a_path_that_the_loader_would_cut_is_refused() {
        for path in ["/a b/ours.so", "/a:b/ours.so"] {
            assert!(preloaded(None, Path::new(path)).unwrap_err().to_string().contains("--preload"));
        }
    }
}
