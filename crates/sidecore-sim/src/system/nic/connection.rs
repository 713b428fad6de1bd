//! One connection: the sender's window, and the thread that copies out what came.

use sidecore_core::time::Nanos;

/// Something that carries one transfer after another, in the order in which they come.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Serial {
    free: f64,
    /// Time of all transfers that came so far, ns.
    pub(super) busy: f64,
}

impl Serial {
    /// A transfer that takes so long comes now: when it ends.
    pub(super) fn carry(&mut self, now: Nanos, time: f64) -> Nanos {
        self.free = self.free.max(now as f64) + time;
        self.busy += time;
        self.free.ceil() as Nanos
    }
}

/// What the receiving thread does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Reader {
    /// Sleeps until something comes.
    #[default]
    Asleep,
    /// Is being switched in.
    Waking,
    /// Copies out so many bytes.
    Copying(u64),
    /// Sends its answer.
    Sending,
}

/// A connection; at first nothing was sent.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Connection {
    /// The receiving thread.
    pub(super) reader: Reader,
    /// Delivered and not yet copied, bytes.
    pub(super) unread: u64,
    /// Copied of the segment that is being copied, bytes.
    partial: u64,
    /// What the sender may send now, bytes.
    pub(super) credit: u64,
    /// The sender's calls.
    pub(super) writing: Serial,
    /// Copied of the message under way, bytes.
    pub(super) message: u64,
    /// When that message was sent.
    pub(super) sent: Nanos,
}

impl Connection {
    /// Bytes that the thread copies before the sender hears of it, and how many segments are free then. Calls of less
    /// than a segment are taken together up to a segment.
    pub(super) fn take(&mut self, io: u64, segment: u64) -> (u64, u64) {
        let bytes = self.unread.min(io.max(segment));
        let copied = self.partial + bytes;
        self.partial = copied % segment;
        (bytes, copied / segment)
    }

    /// Segments that the sender's credit covers now.
    pub(super) fn segments(&mut self, segment: u64) -> u64 {
        let segments = self.credit / segment;
        self.credit %= segment;
        segments
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_calls_go_together_and_large_ones_take_what_is_there() {
        let mut connection = Connection { unread: 3_000, ..Connection::default() };
        assert_eq!(connection.take(100, 1_460), (1_460, 1));
        assert_eq!(connection.take(65_536, 1_460), (3_000, 2));
        assert_eq!((connection.take(2_000, 1_460), connection.partial), ((2_000, 1), 620));
    }

    #[test]
    fn credit_below_a_segment_is_kept() {
        let mut connection = Connection { credit: 3_000, ..Connection::default() };
        assert_eq!((connection.segments(1_460), connection.credit), (2, 80));
    }

    #[test]
    fn transfers_wait_for_each_other() {
        let mut link = Serial::default();
        assert_eq!((link.carry(100, 10.5), link.carry(100, 10.5), link.carry(200, 1.0)), (111, 121, 201));
        assert!((link.busy - 22.0).abs() < 1e-9);
    }
}
