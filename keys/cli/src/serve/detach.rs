//! `sidecore serve --detach`: a service in a process of its own, whose start the caller waits for.
//!
//! Service managers and scripts start the next service from a command that returns, while the former one still serves.
//! The sandbox needs a process of one thread from its beginning, so the command starts itself again and waits at one end
//! of a pair of sockets. The other end is the service's standard input until it serves.

use crate::error::{CliError, failed};
use sidecore_terminal::output;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

const SERVES: &[u8] = b"serves";
/// Of a process that a signal ended.
const KILLED: u8 = 1;

/// The command that returns.
pub(super) fn run() -> Result<(), CliError> {
    let (mut ours, theirs) = UnixStream::pair()?;
    let arguments = std::env::args_os()
        .skip(1)
        .map(|argument| if argument == OsStr::new("--detach") { "--detached".into() } else { argument });
    let mut command = Command::new(std::env::current_exe()?);
    command.args(arguments).stdin(Stdio::from(OwnedFd::from(theirs))).stdout(Stdio::null());
    // Signals of a terminal to the caller's group are not for it.
    command.process_group(0);
    let mut service = command.spawn().map_err(failed("the service"))?;
    // The command has the other end, too.
    drop(command);
    let mut said = Vec::new();
    ours.read_to_end(&mut said)?;
    if said == SERVES {
        return Ok(output::print(&format!("{}\n", service.id()))?);
    }
    let status = service.wait()?;
    Err(CliError::NotStarted(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(KILLED)))
}

/// The end of the pair, in the service: its standard input is empty from now on.
pub(super) fn parent() -> Result<OwnedFd, CliError> {
    let parent = io::stdin().as_fd().try_clone_to_owned()?;
    rustix::stdio::dup2_stdin(File::open("/dev/null")?).map_err(io::Error::from)?;
    Ok(parent)
}

/// Tells the command that the service serves.
pub(super) fn served(parent: OwnedFd) {
    // It may have been killed, which is no reason to end.
    let _ = File::from(parent).write_all(SERVES);
}
