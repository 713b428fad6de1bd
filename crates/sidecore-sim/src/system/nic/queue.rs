//! What stands between sender and application. A receive queue: its ring of buffers, its completions, and the driver that
//! serves it. A connection: the sender's window, and the thread that copies out what came.

use super::parameters::NetworkInterface;
use crate::engine::Timer;
use sidecore_core::policy::notify::{Moderator, Waiter};
use sidecore_core::time::Nanos;
use std::collections::VecDeque;

/// A received frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Packet {
    pub(super) connection: u32,
    /// Payload, bytes.
    pub(super) bytes: u32,
}

/// What the driver of a queue does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Sleeps with the interrupt armed, since then.
    Armed(Nanos),
    /// Sleeps, and an interrupt is under way.
    Ringing(Nanos),
    /// Sleeps until a timer rings, since then.
    Napping(Nanos),
    /// Polls, since then.
    Polling(Nanos),
    /// Works on a batch.
    Running,
}

/// A receive queue.
pub(super) struct Queue {
    pub(super) state: State,
    pub(super) moderator: Moderator,
    pub(super) waiter: Waiter,
    /// The moderation's timer or that of the driver's wait.
    pub(super) timer: Option<Timer>,
    /// In memory and not yet seen by the driver.
    pub(super) landed: VecDeque<Packet>,
    /// What the driver took and the stack has not delivered.
    pub(super) batch: VecDeque<Packet>,
    /// Frames that wait in the interface for a buffer.
    held: VecDeque<Packet>,
    /// Buffers that the interface may fill.
    posted: u32,
    /// Buffers that are free, and of which the interface does not know yet.
    unposted: u32,
    kick: u32,
}

impl Queue {
    pub(super) fn new(set: &NetworkInterface) -> Self {
        Self {
            state: State::Armed(0),
            moderator: Moderator::new(set.policy()),
            waiter: Waiter::new(set.policy(), set.interrupt() as Nanos, true),
            timer: None,
            landed: VecDeque::new(),
            batch: VecDeque::new(),
            held: VecDeque::new(),
            posted: set.nic.ring.get(),
            unposted: 0,
            kick: set.driver.kick.get(),
        }
    }

    /// A frame came: whether there is a buffer for it. Without one it waits in the interface, which stops the sender.
    pub(super) fn accept(&mut self, packet: Packet) -> bool {
        if self.posted == 0 {
            self.held.push_back(packet);
            return false;
        }
        self.posted -= 1;
        true
    }

    /// The driver takes all that landed: packets, and the doorbells that it rings for fresh buffers.
    pub(super) fn take(&mut self) -> (u64, u64) {
        self.moderator.rung();
        self.batch.append(&mut self.landed);
        let taken = self.batch.len() as u32;
        ((taken.into()), u64::from((self.unposted + taken) / self.kick))
    }

    /// The driver refilled the buffers of its batch.
    pub(super) fn refill(&mut self) {
        self.unposted += self.batch.len() as u32;
        self.posted += self.unposted / self.kick * self.kick;
        self.unposted %= self.kick;
    }

    /// A frame that waited and has a buffer now.
    pub(super) fn next_held(&mut self) -> Option<Packet> {
        let packet = if self.posted > 0 { self.held.pop_front() } else { None };
        self.posted -= u32::from(packet.is_some());
        packet
    }
}

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
    use super::super::parameters::tests::set;
    use super::*;

    const PACKET: Packet = Packet { connection: 3, bytes: 1_460 };

    fn queue(ring: u32, kick: u32) -> Queue {
        let (kick, ring) = (format!("driver.kick={kick}"), format!("nic.ring={ring}"));
        Queue::new(&set(&[&kick, "nic.moderation_count=4", &ring]))
    }

    #[test]
    fn frames_without_a_buffer_wait_for_the_next_doorbell() {
        let mut queue = queue(8, 4);
        let accepted: Vec<bool> = (0..10).map(|_| queue.accept(PACKET)).collect();
        assert_eq!(accepted.iter().filter(|accepted| **accepted).count(), 8);
        queue.landed.extend([PACKET; 3]);
        assert_eq!(queue.take(), (3, 0));
        queue.refill();
        assert_eq!(queue.next_held(), None, "three buffers are free and no doorbell was rung");
        queue.batch.clear();
        queue.landed.extend([PACKET; 2]);
        assert_eq!(queue.take(), (2, 1));
        queue.refill();
        assert_eq!((queue.next_held(), queue.next_held(), queue.next_held()), (Some(PACKET), Some(PACKET), None));
        assert!(queue.accept(PACKET) && queue.accept(PACKET) && !queue.accept(PACKET), "four were handed back");
    }

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
