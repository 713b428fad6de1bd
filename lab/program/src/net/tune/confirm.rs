//! Checks after a change: whether the peer is still reachable, and whether the user confirms.

use crate::error::LabError;
use crate::net::measure::find_peer;
use crate::net::protocol::{Direction, Load, Transport};
use nix::unistd::getpgrp;
use rustix::termios::{QueueSelector, tcflush, tcgetpgrp};
use sidecore_measure::interrupt::Interrupt;
use sidecore_terminal::output;
use std::io::{self, IsTerminal};
use std::os::fd::AsFd;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

const REACH: Duration = Duration::from_secs(10);
const CONFIRMATION: Duration = Duration::from_secs(60);
const CHECK_INTERVAL: Duration = Duration::from_millis(100);

pub(super) fn reaches(peer: &str) -> Result<(), LabError> {
    let (say, hear) = mpsc::channel();
    let peer = peer.to_owned();
    thread::spawn(move || say.send(round_trips(&peer)));
    hear.recv_timeout(REACH).unwrap_or_else(|_| Err(LabError::broken("the peer did not answer within 10 s")))
}

fn round_trips(peer: &str) -> Result<(), LabError> {
    // Larger than any packet size of the search.
    let load = Load::new(Transport::Tcp, Direction::RoundTrip, 1 << 16, 1);
    let mut path = find_peer(peer)?;
    let mut running = path.begin(&load)?;
    let until = Instant::now() + REACH;
    while running.count()?.near.received.messages == 0 {
        if Instant::now() > until {
            return Err(LabError::broken("no answer came from the peer"));
        }
        thread::sleep(CHECK_INTERVAL);
    }
    running.end()?;
    Ok(())
}

pub(super) fn can_ask() -> Result<(), LabError> {
    if !io::stdin().is_terminal() {
        let why = "nobody can be asked to confirm the settings, as standard input is no terminal: add --yes";
        return Err(LabError::usage(why));
    }
    // Reading in the background would stop this process with the settings changed.
    match tcgetpgrp(io::stdin()) {
        Ok(group) if group.as_raw_nonzero().get() != getpgrp().as_raw() => {
            Err(LabError::usage("nobody can be asked from the background: add --yes, or let it run in front"))
        }
        _ => Ok(()),
    }
}

pub(super) fn asks(interrupt: &Interrupt) -> Result<(), LabError> {
    forget_typed(&io::stdin())?;
    output::tell("The settings are changed. Press Enter within 60 s to keep them; anything else takes them back.");
    let (say, hear) = mpsc::channel();
    // Without input the thread ends with the process.
    thread::spawn(move || {
        let mut line = String::new();
        say.send(io::stdin().read_line(&mut line).is_ok_and(|_| is_enter(&line)))
    });
    let until = Instant::now() + CONFIRMATION;
    while Instant::now() < until && !interrupt.came() {
        match hear.recv_timeout(CHECK_INTERVAL) {
            Ok(true) => return Ok(()),
            Err(RecvTimeoutError::Timeout) => {}
            Ok(false) | Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    Err(LabError::broken("nobody confirmed it"))
}

fn forget_typed(terminal: &impl AsFd) -> Result<(), LabError> {
    tcflush(terminal, QueueSelector::IFlush).map_err(|error| LabError::failed("cannot ask at this terminal", error))
}

fn is_enter(line: &str) -> bool {
    ["\n", "\r\n"].contains(&line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    use std::ffi::OsStr;
    use std::fs::{File, OpenOptions};
    use std::io::Write;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::OpenOptionsExt;

    #[test]
    fn what_was_typed_before_the_question_is_no_answer() {
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&ours).unwrap();
        unlockpt(&ours).unwrap();
        let name = ptsname(&ours, Vec::new()).unwrap();
        let path = OsStr::from_bytes(name.as_bytes());
        let terminal = OpenOptions::new().read(true).write(true).custom_flags(libc::O_NOCTTY).open(path).unwrap();
        let is_typed = |wait: PollTimeout| {
            let mut own = [PollFd::new(terminal.as_fd(), PollFlags::POLLIN)];
            poll(&mut own, wait).unwrap() > 0
        };
        File::from(ours.try_clone().unwrap()).write_all(b"\n").unwrap();
        assert!(is_typed(PollTimeout::NONE));
        forget_typed(&terminal).unwrap();
        assert!(!is_typed(PollTimeout::ZERO));
    }

    #[test]
    fn only_enter_alone_confirms() {
        for (line, is) in [("\n", true), ("\r\n", true), ("no\n", false), (" \n", false), ("yes\n", false), ("", false)]
        {
            assert_eq!(is_enter(line), is, "{line:?}");
        }
    }
}
