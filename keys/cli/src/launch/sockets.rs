//! `sidecore run --sockets`: a command whose small messages go through the service of sockets.

use super::{PLACES, program};
use crate::args::Run;
use crate::error::{CliError, unusable};
use sidecore_sockets::ask;
use sidecore_sockets::protocol::{SOCKET_VARIABLE, USERS_VARIABLE};
use sidecore_terminal::{output, programs};
use std::env;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Command;

/// Names of the library's file: installed, and built by cargo.
const NAMES: [&str; 2] = ["sidecore-preload.so", "libsidecore_preload.so"];
const PRELOAD: &str = "LD_PRELOAD";

/// An obstacle that leaves connections on the kernel is a warning, not an error.
pub(super) fn prepare(command: &mut Command, args: &Run, name: &OsStr) -> Result<(), CliError> {
    let library = match &args.preload {
        Some(path) => path.canonicalize().map_err(unusable(path.display(), "name libsidecore_preload.so"))?,
        None => programs::find(&NAMES, &PLACES).ok_or_else(|| {
            CliError::usage(
                "no library for sockets beside this program or in ../lib/sidecore: build it with `cargo build --release -p \
                 sidecore-preload`, or name it with --preload",
            )
        })?,
    };
    let looked = program::look(name);
    if let Some(obstacle) = &looked.obstacle {
        let name = Path::new(name).display();
        output::tell(format_args!("the connections of {name} stay on the kernel: it {obstacle}"));
    }
    command.env(SOCKET_VARIABLE, &args.socket_of_sockets).env(USERS_VARIABLE, ask::trusted_users());
    // A program that cannot load the library would end. Programs that it starts may be able to.
    if looked.loads {
        command.env(PRELOAD, preloaded(env::var_os(PRELOAD), &library)?);
    }
    if let Err(error) = ask::listens(&args.socket_of_sockets) {
        let socket = args.socket_of_sockets.display();
        output::tell(format_args!(
            "no service of sockets at {socket}: {error}; connections stay on the kernel until one answers there: start it with \
             `sidecore serve --config FILE`, where FILE has a section [sockets]"
        ));
    }
    Ok(())
}

/// Appends the library to the list. Listed libraries come first: they intercepted the program's calls before, and some
/// require the first place.
fn preloaded(before: Option<OsString>, library: &Path) -> Result<OsString, CliError> {
    if library.as_os_str().as_bytes().iter().any(|byte| b": ".contains(byte)) {
        let why = "holds no path with a colon or a space; move it, and name it with --preload";
        return Err(CliError::Usage(format!("{}: {PRELOAD} {why}", library.display())));
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
