//! What becomes of frames on their way through a link, and when: loss, queue, rate, delay and moderation.
//!
//! It decides only: it is told of frames and the time, never of their bytes, and reads no clock.

use super::settings::Settings;
use sidecore::core::policy::notify::{Moderator, Notify, Ring};
use sidecore::core::time::Nanos;
use sidecore_sim::engine::Random;
use std::collections::VecDeque;

const NANOS_PER_S: u64 = 1_000_000_000;

/// What becomes of a frame that came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It is on its way.
    Taken,
    /// It is lost: the link loses some.
    Lost,
    /// It is dropped: the queue has no room for it.
    Dropped,
}

/// What is to be done for the receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// So many frames, the oldest ones, are handed over together.
    HandOver(u32),
    /// Nothing before that instant, unless a frame comes.
    At(Nanos),
    /// Nothing until a frame comes.
    Nothing,
}

/// One direction of a link.
///
/// A frame that is not lost waits in the queue until the line is free, is sent at the line's rate, arrives after the delay,
/// and is handed to the receiver when the moderator rings. None overtakes another.
pub(super) struct Path {
    line: Line,
    delay: Nanos,
    /// Bytes that may wait beside the frame that is being sent.
    room: u64,
    loss: f64,
    random: Random,
    /// Not handed over, the oldest first.
    frames: VecDeque<Frame>,
    /// How many of them the line has begun to send.
    begun: usize,
    /// Bytes of the others.
    waiting: u64,
    moderator: Moderator,
    ring: Ring,
    /// From arrival to the ring, of all frames together.
    held: Nanos,
}

struct Frame {
    begins: Nanos,
    arrives: Nanos,
    bytes: u32,
}

impl Path {
    /// One as it is set, with nothing on it. Its losses are those of the seed.
    pub(super) fn new(settings: &Settings, seed: u64) -> Self {
        Self {
            line: Line { bits_per_s: settings.rate_bits_per_s, free: 0, rest: 0 },
            delay: settings.delay,
            room: settings.queue_bytes,
            loss: settings.loss,
            random: Random::new(seed),
            frames: VecDeque::with_capacity(4096),
            begun: 0,
            waiting: 0,
            moderator: Moderator::new(settings.moderation.unwrap_or(Notify::Park)),
            ring: Ring::Nothing,
            held: 0,
        }
    }

    /// A frame of so many bytes came, which is so many bytes long on the line. Time never goes back.
    pub(super) fn take(&mut self, now: Nanos, bytes: u32, on_line: u64) -> Fate {
        if self.loss > 0.0 && self.random.uniform() < self.loss {
            return Fate::Lost;
        }
        self.begin(now);
        let (begins, leaves) = self.line.slot(now, on_line);
        let waits = begins > now;
        if waits && self.waiting + u64::from(bytes) > self.room {
            return Fate::Dropped;
        }
        self.line.send(now, on_line);
        self.frames.push_back(Frame { begins, arrives: leaves.saturating_add(self.delay), bytes });
        if waits {
            self.waiting += u64::from(bytes);
        } else {
            self.begun += 1;
        }
        Fate::Taken
    }

    /// What is to be done now. To be asked again after each frames that were handed over, until nothing is to be done now.
    ///
    /// Everything up to now happens in its order and at its own instant, however late it is asked.
    pub(super) fn next(&mut self, now: Nanos) -> Next {
        loop {
            let arrives = self.frames.get(self.moderator.pending() as usize).map(|frame| frame.arrives);
            match (self.ring, arrives) {
                // Only an arrival rings at once, and it was the last thing that happened.
                (Ring::Now, _) => return self.hand_over(self.last_arrival()),
                (Ring::At(due), arrives) if due <= now && arrives.is_none_or(|arrives| due < arrives) => {
                    return self.hand_over(due);
                }
                (_, Some(arrives)) if arrives <= now => self.ring = self.moderator.completed(arrives, 1, false),
                (Ring::At(due), arrives) => return Next::At(arrives.map_or(due, |arrives| due.min(arrives))),
                (Ring::Nothing, Some(arrives)) => return Next::At(arrives),
                (Ring::Nothing, None) => return Next::Nothing,
            }
        }
    }

    /// From a frame's arrival to the ring that announces it, summed over all frames that were handed over, ns.
    pub(super) fn held(&self) -> Nanos {
        self.held
    }

    /// Notes which frames the line has begun to send.
    fn begin(&mut self, now: Nanos) {
        while let Some(frame) = self.frames.get(self.begun).filter(|frame| frame.begins <= now) {
            self.waiting -= u64::from(frame.bytes);
            self.begun += 1;
        }
    }

    fn last_arrival(&self) -> Nanos {
        let pending = self.moderator.pending() as usize;
        self.frames.get(pending.saturating_sub(1)).map_or(0, |frame| frame.arrives)
    }

    fn hand_over(&mut self, at: Nanos) -> Next {
        // What arrived was sent before.
        self.begin(at);
        let count = self.moderator.pending();
        let held: Nanos = self.frames.drain(..count as usize).map(|frame| at - frame.arrives).sum();
        self.held = self.held.saturating_add(held);
        self.begun -= count as usize;
        self.moderator.rung();
        self.ring = Ring::Nothing;
        Next::HandOver(count)
    }
}

/// A line that sends one frame after the other.
struct Line {
    /// `None`: it takes no time.
    bits_per_s: Option<u64>,
    /// When all that was given to it has left.
    free: Nanos,
    /// How much later than `free` that is, in parts of a nanosecond of which `bits_per_s` make one. So no rate is rounded.
    rest: u64,
}

impl Line {
    /// When so many bytes that come now begin to leave, and when they have left.
    fn slot(&self, now: Nanos, bytes: u64) -> (Nanos, Nanos) {
        let (begins, leaves, _) = self.sent(now, bytes);
        (begins, leaves)
    }

    fn send(&mut self, now: Nanos, bytes: u64) {
        (_, self.free, self.rest) = self.sent(now, bytes);
    }

    fn sent(&self, now: Nanos, bytes: u64) -> (Nanos, Nanos, u64) {
        let Some(bits_per_s) = self.bits_per_s else { return (now, now, 0) };
        let (begins, rest) = if self.free > now { (self.free, self.rest) } else { (now, 0) };
        let parts = bytes.saturating_mul(8 * NANOS_PER_S).saturating_add(rest);
        (begins, begins.saturating_add(parts / bits_per_s), parts % bits_per_s)
    }
}

#[cfg(test)]
mod tests;
