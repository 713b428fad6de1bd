//! Sockets that leave their rings before calls whose bytes the library does not see.

use super::{errno, signals};
use crate::calls::{permit, settle};
use crate::gate;
use rustix::io::Errno;
use sidecore_sockets::program;
use sidecore_streams::rule::PathReason;
use std::os::fd::RawFd;
use std::time::Instant;

/// Makes a watched socket with this number leave its ring until it is closed. An error: the ring cannot be emptied.
pub(super) fn drained_for_good(fd: RawFd, why: PathReason) -> Result<(), Errno> {
    gate::watched(fd).map_or(Ok(()), |gate| errno::kept(|| settle::drain_for_good(gate, why)))
}

/// From now on nothing in this process goes through a ring.
pub(super) fn by_the_kernel_alone() {
    errno::kept(|| {
        permit::never();
        let until = Instant::now() + settle::DRAIN_TIMEOUT;
        for gate in gate::all() {
            // The service or the program's next call sends bytes for which the kernel has no room.
            gate.pin(PathReason::Process);
            let _ = settle::drain_until(gate, PathReason::Process, until);
        }
        // Then the process is as without this library: its last thread can end it by a system call of its own.
        if !signals::is_handler() {
            let _ = program::let_go();
        }
    });
}
