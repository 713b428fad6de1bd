//! Sleeps until an event at one or two descriptors.

use super::clock::{self, timespec};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use sidecore_core::time::Nanos;
use std::io;
use std::os::fd::BorrowedFd;

/// Events at two descriptors: a pipe to read, and a socket whose peer may hang up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Woken {
    /// Data to read, or no writer left.
    pub readable: bool,
    /// The peer is gone.
    pub hung_up: bool,
}

/// Sleeps at most `timeout` ns until `wake` is readable or the peer of `socket` is gone. A signal may end it early.
///
/// # Errors
/// Errors of the system.
pub fn wait_two(wake: BorrowedFd<'_>, socket: BorrowedFd<'_>, timeout: Option<Nanos>) -> io::Result<Woken> {
    let mut set = [PollFd::from_borrowed_fd(wake, PollFlags::IN), PollFd::from_borrowed_fd(socket, PollFlags::RDHUP)];
    match poll(&mut set, timeout.map(timespec).as_ref()) {
        Err(error) if error != Errno::INTR => return Err(error.into()),
        _ => {}
    }
    let (wake, socket) = (set[0].revents(), set[1].revents());
    // The service holds the other end of `wake` as well.
    let hung_up =
        socket.intersects(PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR) || wake.contains(PollFlags::HUP);
    Ok(Woken { readable: wake.contains(PollFlags::IN), hung_up })
}

/// Sleeps at most `timeout` ns, through signals, until `source` is readable or has hung up. `false`: the time is over.
///
/// # Errors
/// Errors of the system.
pub fn wait_readable(source: BorrowedFd<'_>, timeout: Option<Nanos>) -> io::Result<bool> {
    wait_for(source, PollFlags::IN, timeout.map(|timeout| clock::now().saturating_add(timeout)))
}

/// Sleeps through signals until an event at `source` or the deadline. `false`: the deadline.
///
/// # Errors
/// Errors of the system.
pub fn wait_for(source: BorrowedFd<'_>, what: PollFlags, deadline: Option<Nanos>) -> io::Result<bool> {
    let mut set = [PollFd::from_borrowed_fd(source, what)];
    loop {
        let left = deadline.map(|deadline| timespec(deadline.saturating_sub(clock::now())));
        match poll(&mut set, left.as_ref()) {
            Ok(ready) => return Ok(ready > 0),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}
