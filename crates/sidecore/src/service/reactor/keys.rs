//! What is counted for stored keys. A request without one passes by with a single branch.

use super::hands::{Hands, times};
use crate::counters::{KeyBlock, KeyCounter};
use sidecore_core::session::{Op, Refusal};
use sidecore_core::stage::Stamps;
use sidecore_core::wire::Status;

impl Hands {
    /// A request is done here and now.
    #[cold]
    pub(super) fn count_now(&self, key: u16, op: Op, outcome: Result<u32, Refusal>) {
        let Some(counters) = self.counters_of(Some(key)) else { return };
        counters.add(KeyCounter::Submitted, 1);
        counters.add(KeyCounter::of(op), 1);
        counters.add(if outcome.is_ok() { KeyCounter::Done } else { KeyCounter::Refused }, 1);
    }

    /// The request that was done here and now was sampled.
    pub(super) fn record_key(&self, key: u16, stamps: &Stamps) {
        let Some(counters) = self.counters_of(Some(key)) else { return };
        for (stage, time) in times(stamps) {
            counters.record(stage, time);
        }
    }

    /// A request is given to a device that answers later, or kept for one.
    #[inline]
    pub(super) fn count_given(&self, key: Option<u16>, op: Op) {
        let Some(counters) = self.counters_of(key) else { return };
        counters.add(KeyCounter::Submitted, 1);
        counters.add(KeyCounter::of(op), 1);
        counters.add(KeyCounter::InFlight, 1);
    }

    /// A request that was given to a device has its answer.
    #[inline]
    pub(super) fn count_answered(&self, key: Option<u16>, status: Status, stamps: Option<&Stamps>) {
        let Some(counters) = self.counters_of(key) else { return };
        counters.sub(KeyCounter::InFlight, 1);
        end(counters, status, stamps);
    }

    /// A request is refused before any device has it.
    pub(super) fn count_refused(&self, key: Option<u16>) {
        let Some(counters) = self.counters_of(key) else { return };
        counters.add(KeyCounter::Submitted, 1);
        counters.add(KeyCounter::Refused, 1);
    }

    #[inline]
    fn counters_of(&self, key: Option<u16>) -> Option<&KeyBlock> {
        self.stored_keys.get(usize::from(key?))
    }
}

fn end(counters: &KeyBlock, status: Status, stamps: Option<&Stamps>) {
    let counter = match status {
        Status::Done { .. } => KeyCounter::Done,
        Status::Refused(_) => KeyCounter::Refused,
        Status::DeviceFailed { .. } => KeyCounter::Failed,
    };
    counters.add(counter, 1);
    for (stage, time) in stamps.into_iter().flat_map(times) {
        counters.record(stage, time);
    }
}
