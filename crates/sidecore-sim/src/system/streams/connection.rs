//! One connection: the kernel's socket, and a ring where it has one.

use sidecore_core::streams::bell::Bell;
use sidecore_core::streams::cursor::{Cursors, word};
use sidecore_core::streams::hold::Hold;
use sidecore_core::streams::rule::Rule;
use sidecore_core::time::Nanos;
use sidecore_core::words::Line;
use std::collections::VecDeque;

/// Part of a full socket that must be free again before the kernel says so.
const WRITABLE: f64 = 1.0 / 3.0;

/// See the module.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) rule: Rule,
    pub(super) ring: Option<Ring>,
    pub(super) socket: Socket,
    /// Bytes of the message under way that nobody has accepted yet.
    pub(super) left: u32,
    /// The program was told that nothing is taken now.
    pub(super) blocked: bool,
    /// Bytes accepted from the program, and of these the kernel's.
    pub(super) sent: u64,
    given: u64,
    /// Where messages end that are watched on their way to the kernel, and when their sending began.
    watched: VecDeque<(u64, Nanos)>,
}

/// A ring with core's words, in private memory that stands for the shared one.
#[derive(Debug)]
pub(super) struct Ring {
    line: Line,
    size: u32,
    pub(super) head: u64,
    pub(super) tail: u64,
    /// The program gives the rest to the kernel and leaves.
    pub(super) leaves: bool,
    /// The service has the socket.
    pub(super) open: bool,
}

/// What the kernel holds of a connection. Its receiver takes it evenly.
#[derive(Debug)]
pub(super) struct Socket {
    size: f64,
    /// Bytes per ns.
    rate: f64,
    queued: f64,
    since: Nanos,
    /// Somebody waits to be told that there is room.
    pub(super) is_awaited: bool,
}

impl Connection {
    /// On the kernel, with nothing sent.
    pub(super) fn new(size: f64, rate: f64) -> Self {
        Self {
            rule: Rule::default(),
            ring: None,
            socket: Socket { size, rate, queued: 0.0, since: 0, is_awaited: false },
            left: 0,
            blocked: false,
            sent: 0,
            given: 0,
            watched: VecDeque::new(),
        }
    }

    /// The message under way is watched until the kernel has all of it.
    pub(super) fn watch(&mut self, now: Nanos) {
        self.watched.push_back((self.sent + u64::from(self.left), now));
    }

    /// Bytes accepted from the program that neither the kernel nor a ring has.
    #[cfg(test)]
    pub(super) fn lost(&self) -> u64 {
        self.sent - self.given - self.ring.as_ref().map_or(0, |ring| ring.tail - ring.head)
    }

    /// So many bytes more are the kernel's. When the sending of each watched message began of which it now has all.
    pub(super) fn given(&mut self, bytes: u32) -> impl Iterator<Item = Nanos> {
        self.given += u64::from(bytes);
        let ended = self.watched.partition_point(|(end, _)| *end <= self.given);
        self.watched.drain(..ended).map(|(_, begun)| begun)
    }
}

impl Ring {
    /// A stream begins: the sidecore will look at it.
    pub(super) fn new(size: u32) -> Self {
        Self { line: Line::default(), size, head: 0, tail: 0, leaves: false, open: false }
    }

    pub(super) fn bell(&self) -> Bell<'_> {
        Bell(&self.line.0[0])
    }

    pub(super) fn hold(&self) -> Hold<'_> {
        Hold(&self.line.0[1])
    }

    pub(super) fn cursors(&self) -> Cursors {
        Cursors::read(self.head, word(self.tail, false), self.size).expect("no more is written than there is room for")
    }
}

impl Socket {
    /// Takes what there is room for. Returns how much that is.
    pub(super) fn take(&mut self, now: Nanos, bytes: u32) -> u32 {
        self.queued = (self.queued - self.rate * (now - self.since) as f64).max(0.0);
        self.since = now;
        let taken = bytes.min((self.size - self.queued) as u32);
        self.queued += f64::from(taken);
        taken
    }

    /// Time until the kernel says that it takes more, from the last call on, ns.
    pub(super) fn writable_after(&self) -> Nanos {
        ((self.queued - self.size * (1.0 - WRITABLE)) / self.rate).ceil().max(1.0) as Nanos
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sidecore_core::streams::bell::Rung;
    use sidecore_core::streams::hold::Holder;

    #[test]
    fn a_socket_takes_what_its_receiver_makes_room_for() {
        let mut socket = Connection::new(9_000.0, 0.5).socket;
        assert_eq!((socket.take(0, 6_000), socket.take(0, 6_000), socket.take(0, 1)), (6_000, 3_000, 0));
        assert_eq!(socket.writable_after(), 6_000, "when a third is free");
        assert_eq!((socket.take(6_000, 9_000), socket.take(1_000_000, 9_000)), (3_000, 9_000));
    }

    #[test]
    fn a_watched_message_ends_with_its_last_byte() {
        let mut connection = Connection::new(1e6, 1.0);
        (connection.sent, connection.left) = (100, 64);
        connection.watch(7);
        assert_eq!(connection.given(163).next(), None);
        assert_eq!(connection.given(1).collect::<Vec<_>>(), [7]);
    }

    #[test]
    fn bell_and_hold_have_words_of_their_own() {
        let ring = Ring::new(4096);
        ring.bell().arm();
        assert!(ring.hold().take(Holder::Program) && !ring.hold().take(Holder::Sidecore));
        assert_eq!((ring.bell().ring(), ring.cursors().room()), (Rung::Announce, 4096));
    }
}
