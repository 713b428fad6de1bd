//! A receive queue: its ring of buffers, its completions, and the driver that serves it.

use super::setup::Setup;
use crate::engine::Timer;
use sidecore_core::policy::notify::{Moderator, Notify, Waiter};
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
#[derive(Debug)]
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
    pub(super) fn new(setup: &Setup) -> Self {
        Self {
            state: State::Armed(0),
            moderator: Moderator::new(setup.set.policy()),
            waiter: Waiter::new(setup.set.policy(), setup.interrupt() as Nanos, true),
            timer: None,
            landed: VecDeque::new(),
            batch: VecDeque::new(),
            held: VecDeque::new(),
            posted: setup.set.nic.ring.get(),
            unposted: 0,
            kick: setup.set.driver.kick.get(),
        }
    }

    /// Whether the interface moderates interrupts, so that the driver sleeps after each batch.
    pub(super) fn is_moderated(&self) -> bool {
        matches!(self.waiter.policy(), Notify::Coalesce { .. })
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

#[cfg(test)]
mod tests {
    use super::super::setup::tests::setup;
    use super::*;

    const PACKET: Packet = Packet { connection: 3, bytes: 1_460 };

    fn queue(ring: u32, kick: u32) -> Queue {
        let (kick, ring) = (format!("driver.kick={kick}"), format!("nic.ring={ring}"));
        Queue::new(&setup(&[&kick, "nic.moderation_count=4", &ring]))
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
}
