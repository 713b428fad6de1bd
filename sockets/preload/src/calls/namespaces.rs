//! Entering other namespaces.
//!
//! The kernel refuses another user namespace to a process with several threads, and some other namespaces to one that
//! shares state with other processes. The program does not know of this library's thread, so it is ended before.

use crate::calls::forks;
use crate::calls::permit;
use crate::calls::settle::drain_until;
use crate::gate;
use sidecore_sockets::program;
use sidecore_streams::rule::PathReason;
use std::time::{Duration, Instant};

/// Time limit for rings that a full kernel does not take. After it, the call meets the thread.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

/// Before the call: empties all rings and disconnects from the service. Returns the argument for [`after`].
pub(crate) fn before() -> bool {
    // If another thread of the program is promoting, this library's thread is not the only other one.
    let is_paused = permit::pause();
    if is_paused && forks::is_attached() {
        let until = Instant::now() + DRAIN_TIMEOUT;
        for gate in gate::full() {
            // On failure the thread stays, and the call meets it.
            let _ = drain_until(gate, PathReason::Process, until);
        }
        // On failure the call meets the thread.
        let _ = program::let_go();
    }
    is_paused
}

/// After the call. The service may not exist in the new namespace, or not be trusted there.
pub(crate) fn after(is_paused: bool, has_entered: bool) {
    if has_entered {
        permit::never();
    }
    if is_paused {
        permit::resume();
    }
}
