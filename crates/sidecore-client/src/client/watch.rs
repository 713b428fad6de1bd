//! Requests in flight and their expected completion, for the policy `predict`.
//!
//! Each request is stamped, so that its duration is known even if the client slept through it: the time until the
//! service had its reply, plus the delivery time measured while polling.

use sidecore_core::policy::notify::{Forecast, Forecaster};
use sidecore_core::session::{Algorithm, Class};
use sidecore_core::stage::Stamps;
use sidecore_core::time::Nanos;
use sidecore_core::wire::{Request, Status};
use std::collections::VecDeque;

/// Weight of a new delivery in the average: 1 / `WINDOW`.
const WINDOW: Nanos = 8;

#[derive(Clone, Copy, Debug)]
struct Sent {
    tag: u32,
    class: Class,
    /// Input, bytes.
    size: u32,
    at: Nanos,
}

/// Requests in flight and the times of earlier ones. Made when the policy begins; allocates nothing after that.
#[derive(Debug)]
pub(super) struct Watch {
    forecaster: Forecaster,
    /// Oldest first. Requests from before the policy began are not included.
    sent: VecDeque<Sent>,
    /// Delivery time from reply to receipt while polling: moving average, ns.
    delivery: Nanos,
    /// True while the client polls: then a completion is received as soon as it appears.
    pub(super) looking: bool,
}

impl Watch {
    /// `slots`: limit of requests in flight.
    pub(super) fn new(slots: u32) -> Self {
        let sent = VecDeque::with_capacity(slots as usize);
        Self { forecaster: Forecaster::new(), sent, delivery: 0, looking: false }
    }

    pub(super) fn submitted(&mut self, request: &Request<'_>, algorithm: Algorithm, now: Nanos) {
        // The service refuses operations unknown to the algorithm.
        let class = Class::of(algorithm, request.op).unwrap_or(Class::NOOP);
        let size = request.inputs.iter().fold(0, |size: u32, input| size.saturating_add(input.len));
        self.sent.push_back(Sent { tag: request.tag, class, size, at: now });
    }

    pub(super) fn completed(&mut self, tag: u32, status: Status, stages: Option<(Stamps, Nanos)>) {
        // Usually the first.
        let place = self.sent.iter().position(|sent| sent.tag == tag);
        let sent = place.and_then(|place| self.sent.remove(place));
        let (Some(Sent { class, size, .. }), Status::Done { .. }) = (sent, status) else { return };
        let Some((stamps, now)) = stages else { return };
        if self.looking {
            self.delivery = (self.delivery * (WINDOW - 1) + stamps.deliver(now)) / WINDOW;
        }
        let took = if self.looking { stamps.total(now) } else { stamps.host() + self.delivery };
        self.forecaster.observe(class, size, took);
    }

    /// Expected time of the oldest request in flight, if enough is known.
    pub(super) fn forecast(&self) -> Option<Forecast> {
        let oldest = self.sent.front()?;
        self.forecaster.forecast(oldest.class, oldest.size, oldest.at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sidecore_core::session::{Op, Refusal};
    use sidecore_core::stage::Stamps;
    use sidecore_core::wire::Extent;

    const DONE: Status = Status::Done { len: 0 };

    fn submit(watch: &mut Watch, tag: u32, size: u32, now: Nanos) {
        let (op, inputs) = (Op::Encrypt, &[Extent::new(0, size)]);
        let request =
            Request { tag, op, session: 0, head_len: 0, inputs, outputs: &[], urgent: false, submitted: Some(now) };
        watch.submitted(&request, Algorithm::Aes256Gcm, now);
    }

    /// Runs a request with its reply after 20 us, received `received` ns after its submission.
    fn serve(watch: &mut Watch, tag: u32, now: Nanos, received: Nanos, status: Status) {
        submit(watch, tag, 1_024, now);
        let stamps = Stamps { submitted: now, handed: now + 1_000, taken: now + 20_000 };
        watch.completed(tag, status, Some((stamps, now + received)));
    }

    #[test]
    fn the_oldest_in_flight_is_expected() {
        let mut watch = Watch::new(8);
        (0..20).for_each(|i| serve(&mut watch, 7, i * 100_000, 50_000, DONE));
        assert_eq!(watch.forecast(), None, "nothing is in flight");
        submit(&mut watch, 1, 1_024, 3_000_000);
        submit(&mut watch, 2, 1_024, 3_001_000);
        submit(&mut watch, 3, 64, 3_002_000);
        assert_eq!(watch.forecast(), Some(Forecast { at: 3_020_000, sigma: 0 }), "not when the client woke up");
        for (tag, expected) in [(2, Some(3_020_000)), (1, None)] {
            watch.completed(tag, DONE, None);
            assert_eq!(watch.forecast().map(|forecast| forecast.at), expected);
        }
    }

    #[test]
    fn delivery_is_measured_while_looking_and_added_to_what_was_slept_through() {
        let mut watch = Watch::new(8);
        watch.looking = true;
        (0..100).for_each(|i| serve(&mut watch, 7, i * 100_000, 20_800, DONE));
        watch.looking = false;
        (0..100).for_each(|i| serve(&mut watch, 7, i * 100_000, 90_000, DONE));
        submit(&mut watch, 1, 1_024, 0);
        assert!((20_780..=20_800).contains(&watch.forecast().unwrap().at), "{:?}", watch.forecast());
    }

    #[test]
    fn what_failed_says_nothing() {
        let mut watch = Watch::new(8);
        for status in [Status::DeviceFailed { device: 0 }, Status::Refused(Refusal::TooLarge)] {
            (0..20).for_each(|i| serve(&mut watch, 7, i * 100_000, 30_000, status));
        }
        watch.completed(99, DONE, None);
        submit(&mut watch, 1, 1_024, 0);
        assert_eq!(watch.forecast(), None);
    }
}
