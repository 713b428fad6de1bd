//! A process enters other namespaces.
//!
//! The kernel lets no process with more than one thread into another user namespace, and none that shares what threads share
//! into some of the others. So this library's thread, which the program does not know of, is ended before.

use crate::calls::forks;
use crate::calls::promote;
use crate::calls::settle::drain_until;
use crate::gate;
use sidecore_client::sockets::program;
use sidecore_core::streams::rule::Why;
use std::time::{Duration, Instant};

/// How long the call waits for rings that the kernel takes nothing of. Then it finds the thread.
const PATIENCE: Duration = Duration::from_secs(1);

/// Before the call: nothing goes through a ring, and the service is let go of. Returns what [`after`] is to know.
pub(crate) fn before() -> bool {
    // Where another thread of the program is about to promote, this library's is not the only other one.
    let is_paused = promote::pause();
    if is_paused && forks::is_attached() {
        let until = Instant::now() + PATIENCE;
        for gate in gate::full() {
            // Where it does not succeed the thread stays, and the call finds it.
            let _ = drain_until(gate, Why::Special, until);
        }
        // Where it does not succeed the call finds the thread.
        let _ = program::let_go();
    }
    is_paused
}

/// After it. Where the process is by then the service may not be, or not be trusted.
pub(crate) fn after(is_paused: bool, has_entered: bool) {
    if has_entered {
        promote::never();
    }
    if is_paused {
        promote::resume();
    }
}
