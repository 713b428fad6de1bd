//! Decisions on frames in a link and their times: loss, queue, rate, delay and moderation.
//!
//! Pure: it receives lengths and times as arguments, has no access to the bytes, and reads no clock.

use super::settings::Settings;
use sidecore::core::policy::notify::{Moderator, Notify, WakeDecision};
use sidecore::core::time::Nanos;
use sidecore_sim::engine::Random;
use std::collections::VecDeque;

const NANOS_PER_S: u64 = 1_000_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Taken,
    Lost,
    Dropped,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Hand over this number of the oldest frames together.
    HandOver(u32),
    At(Nanos),
    Nothing,
}

/// One direction of a link.
///
/// A frame that is not lost waits in the queue until the line is free, is sent at the line's rate, and arrives after
/// the delay. The moderator's interrupt hands it to the receiver. No frame overtakes another.
pub(super) struct Path {
    line: Line,
    delay: Nanos,
    /// Most waiting bytes, without the frame on the line.
    room: u64,
    loss: f64,
    random: Random,
    frames: VecDeque<Frame>,
    /// Number of frames in `frames` that the line has begun to send.
    begun: usize,
    waiting: u64,
    moderator: Moderator,
    ring: WakeDecision,
    held: Nanos,
}

struct Frame {
    begins: Nanos,
    arrives: Nanos,
    bytes: u32,
}

impl Path {
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
            ring: WakeDecision::Nothing,
            held: 0,
        }
    }

    /// `now` never decreases. `on_line`: bytes of the frame on the line.
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

    /// The next action. Call again after each hand-over, until no action is due now.
    ///
    /// All events up to now are processed in order and at their own instants, however late the call is.
    pub(super) fn next(&mut self, now: Nanos) -> Next {
        loop {
            let arrives = self.frames.get(self.moderator.pending() as usize).map(|frame| frame.arrives);
            match (self.ring, arrives) {
                // Only an arrival interrupts immediately, and it was the last event.
                (WakeDecision::Now, _) => return self.hand_over(self.last_arrival()),
                (WakeDecision::At(due), arrives) if due <= now && arrives.is_none_or(|arrives| due < arrives) => {
                    return self.hand_over(due);
                }
                (_, Some(arrives)) if arrives <= now => self.ring = self.moderator.completed(arrives, 1, false),
                (WakeDecision::At(due), arrives) => return Next::At(arrives.map_or(due, |arrives| due.min(arrives))),
                (WakeDecision::Nothing, Some(arrives)) => return Next::At(arrives),
                (WakeDecision::Nothing, None) => return Next::Nothing,
            }
        }
    }

    /// Time from a frame's arrival to its interrupt, summed over all frames handed over, ns.
    pub(super) fn held(&self) -> Nanos {
        self.held
    }

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
        // Arrived frames have left the line.
        self.begin(at);
        let count = self.moderator.pending();
        let held: Nanos = self.frames.drain(..count as usize).map(|frame| at - frame.arrives).sum();
        self.held = self.held.saturating_add(held);
        self.begun -= count as usize;
        self.moderator.rung();
        self.ring = WakeDecision::Nothing;
        Next::HandOver(count)
    }
}

struct Line {
    /// `None`: sending takes no time.
    bits_per_s: Option<u64>,
    free: Nanos,
    /// Remainder of `free` in units of 1 / `bits_per_s` nanoseconds, so that no rate is rounded.
    rest: u64,
}

impl Line {
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
