//! What a client has in flight, and when it is expected back: for the policy `predict`.
//!
//! A request's time is observed only if its completion was waited for; one that was found at the first look may have
//! been there for long. A completion found at the end of a nap counts with its nap. That is no longer than what was
//! expected, so a nap that is too long brings the next forecast down.

use super::Received;
use sidecore_core::policy::notify::{Forecast, Forecaster};
use sidecore_core::session::{Algorithm, Class};
use sidecore_core::time::Nanos;
use sidecore_core::wire::{Status, Submission};
use std::collections::VecDeque;

#[derive(Clone, Copy, Debug)]
struct Sent {
    tag: u32,
    class: Class,
    /// Bytes of input.
    size: u32,
    at: Nanos,
}

/// Requests in flight and the times of earlier ones. Made when the policy begins; allocates nothing after that.
#[derive(Debug)]
pub(super) struct Watch {
    forecaster: Forecaster,
    /// The oldest first. Those submitted before the policy began are not among them.
    sent: VecDeque<Sent>,
    /// The request that was completed last.
    last: Option<Sent>,
}

impl Watch {
    /// For at most so many requests in flight.
    pub(super) fn new(slots: u32) -> Self {
        Self { forecaster: Forecaster::new(), sent: VecDeque::with_capacity(slots as usize), last: None }
    }

    pub(super) fn submitted(&mut self, submission: &Submission, algorithm: Algorithm, now: Nanos) {
        // The service refuses what the algorithm cannot do.
        let class = Class::of(algorithm, submission.op()).unwrap_or(Class::NOOP);
        self.sent.push_back(Sent { tag: submission.tag(), class, size: submission.input_len() as u32, at: now });
    }

    /// The completion of this tag was taken.
    pub(super) fn completed(&mut self, tag: u32) {
        // Mostly the first.
        let place = self.sent.iter().position(|sent| sent.tag == tag);
        self.last = place.and_then(|place| self.sent.remove(place));
    }

    /// The request completed last was waited for, and received now.
    pub(super) fn awaited(&mut self, received: &Received, now: Nanos) {
        if let (Some(Sent { class, size, at, .. }), Status::Done { .. }) = (self.last.take(), received.status) {
            self.forecaster.observe(class, size, now.saturating_sub(at));
        }
    }

    /// When the oldest request in flight is expected, if enough is known.
    pub(super) fn forecast(&self) -> Option<Forecast> {
        let oldest = self.sent.front()?;
        self.forecaster.forecast(oldest.class, oldest.size, oldest.at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sidecore_core::session::Op;
    use sidecore_core::wire::Extent;

    fn submit(watch: &mut Watch, tag: u32, size: u32, now: Nanos) {
        let submission = Submission::new(tag, Op::Encrypt, 0, &[Extent::new(0, size)], &[]).unwrap();
        watch.submitted(&submission, Algorithm::Aes256Gcm, now);
    }

    fn receive(watch: &mut Watch, tag: u32, now: Nanos) {
        watch.completed(tag);
        watch.awaited(&Received { tag, status: Status::Done { len: 0 }, stages: None }, now);
    }

    #[test]
    fn the_oldest_in_flight_is_expected() {
        let mut watch = Watch::new(8);
        for now in (0..20).map(|i| i * 100_000) {
            submit(&mut watch, 7, 1_024, now);
            receive(&mut watch, 7, now + 20_000);
        }
        assert_eq!(watch.forecast(), None, "nothing is in flight");
        submit(&mut watch, 1, 1_024, 3_000_000);
        submit(&mut watch, 2, 1_024, 3_001_000);
        submit(&mut watch, 3, 64, 3_002_000);
        assert_eq!(watch.forecast().unwrap().at, 3_020_000);
        watch.completed(2);
        assert_eq!(watch.forecast().unwrap().at, 3_020_000);
        watch.completed(1);
        assert_eq!(watch.forecast(), None, "of this size nothing is known");
    }

    #[test]
    fn only_what_was_waited_for_and_done_is_observed() {
        let mut watch = Watch::new(8);
        for now in (0..20).map(|i| i * 100_000) {
            submit(&mut watch, 7, 64, now);
            watch.completed(7);
            submit(&mut watch, 8, 64, now);
            watch.completed(8);
            let status = Status::DeviceFailed { device: 0 };
            watch.awaited(&Received { tag: 8, status, stages: None }, now + 5_000);
            receive(&mut watch, 99, now + 5_000);
        }
        submit(&mut watch, 1, 64, 0);
        assert_eq!(watch.forecast(), None);
    }
}
