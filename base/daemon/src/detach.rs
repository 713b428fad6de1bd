//! `--detach`: a service in a process of its own, whose start the caller waits for.
//!
//! Service managers and scripts start the next service from a command that returns, while the former one still serves.
//! The sandbox needs a process of one thread from its beginning, so the command starts itself again and waits at one end
//! of a pair of sockets. The other end is the service's standard input until it serves.

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

/// What became of the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detached {
    /// It serves, in the process of this number.
    Serves(u32),
    /// It ended with this exit code before it served.
    Ended(u8),
}

/// Starts this command again as the service, and waits until it serves or has ended.
///
/// # Errors
/// The process cannot be started.
pub fn run() -> io::Result<Detached> {
    let (mut ours, theirs) = UnixStream::pair()?;
    let arguments = std::env::args_os()
        .skip(1)
        .map(|argument| if argument == OsStr::new("--detach") { "--detached".into() } else { argument });
    let mut command = Command::new(std::env::current_exe()?);
    command.args(arguments).stdin(Stdio::from(OwnedFd::from(theirs))).stdout(Stdio::null());
    // Signals of a terminal to the caller's group are not for it.
    command.process_group(0);
    let mut service = command.spawn()?;
    // The command has the other end, too.
    drop(command);
    let mut said = Vec::new();
    ours.read_to_end(&mut said)?;
    if said == SERVES {
        return Ok(Detached::Serves(service.id()));
    }
    let status = service.wait()?;
    Ok(Detached::Ended(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(KILLED)))
}

/// The end of the pair, in the service: its standard input is empty from now on.
///
/// # Errors
/// No descriptor is left.
pub fn parent() -> io::Result<OwnedFd> {
    let parent = io::stdin().as_fd().try_clone_to_owned()?;
    rustix::stdio::dup2_stdin(File::open("/dev/null")?).map_err(io::Error::from)?;
    Ok(parent)
}

/// Tells the command that the service serves.
pub fn served(parent: OwnedFd) {
    // It may have been killed, which is no reason to end.
    let _ = File::from(parent).write_all(SERVES);
}
