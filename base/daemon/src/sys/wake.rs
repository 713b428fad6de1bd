//! The eventfd that wakes a service thread, apart from the two wake-up channels of a lane.

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::{retry_on_intr, write};
use std::io;
use std::os::fd::{AsFd, OwnedFd};

pub use sidecore_ipc::sys::wake::{drain_pipe, pipe, ring_pipe};

/// A new eventfd.
///
/// # Errors
/// Those of the system.
pub fn event() -> io::Result<OwnedFd> {
    Ok(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?)
}

/// Wakes the thread that waits on this eventfd. A full counter has woken it already.
pub fn ring(event: impl AsFd) {
    let _ = retry_on_intr(|| write(&event, &1u64.to_ne_bytes()));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::poller::Poller;
    use sidecore_ipc::sys::wake::Ringer;

    #[test]
    fn each_ring_is_an_event_though_nobody_reads() {
        let (reader, writer) = pipe().unwrap();
        let mut poller = Poller::new().unwrap();
        poller.add_edge(&reader, 7).unwrap();
        let ringer = Ringer::new(reader.try_clone().unwrap(), writer).unwrap();
        // Twice as often as the pipe has bytes.
        for _ in 0..8192 {
            assert!(ringer.ring());
            assert_eq!(poller.wait(Some(0)).collect::<Vec<_>>(), [7]);
            assert_eq!(poller.wait(Some(0)).count(), 0);
        }
    }
}
