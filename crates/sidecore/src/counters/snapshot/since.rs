//! What was counted between two snapshots.

use super::{ClassStats, DeviceStats, Histogram, KeyStats, LaneStats, SidecoreStats, Snapshot};
use crate::counters::kinds::{DeviceCounter, KeyCounter, LaneCounter, SidecoreCounter};
use std::cmp::Ordering;

/// A block that was opened since, and all those of a service that started since, counts from its opening on.
pub(super) fn since(now: &Snapshot, then: &Snapshot) -> Snapshot {
    let mut since = now.clone();
    since.interval = now.interval.min(now.taken.saturating_sub(then.taken));
    if now.start != then.start {
        return since;
    }
    for sidecore in &mut since.sidecores {
        if let Some(then) = find(&then.sidecores, |then| then.index.cmp(&sidecore.index)) {
            sidecore.subtract(then);
        }
    }
    for device in &mut since.devices {
        if let Some(then) = find(&then.devices, |then| then.index.cmp(&device.index)) {
            device.subtract(then);
        }
    }
    for lane in &mut since.lanes {
        if let Some(then) = find(&then.lanes, |then| then.index.cmp(&lane.index)) {
            lane.subtract(then);
        }
    }
    for key in &mut since.keys {
        if let Some(then) = find(&then.keys, |then| then.place.cmp(&key.place)) {
            key.subtract(then);
        }
    }
    for class in &mut since.classes {
        if let Some(then) = find(&then.classes, |then| then.class.cmp(&class.class)) {
            class.subtract(then);
        }
    }
    since
}

impl SidecoreStats {
    fn subtract(&mut self, then: &Self) {
        subtract_sums(&mut self.counters, &then.counters, |i| SidecoreCounter::ALL[i].is_level());
    }
}

impl DeviceStats {
    fn subtract(&mut self, then: &Self) {
        if self.generation != then.generation {
            return;
        }
        subtract_sums(&mut self.counters, &then.counters, |i| DeviceCounter::ALL[i].is_level());
        self.time = self.time.since(&then.time);
    }
}

impl LaneStats {
    fn subtract(&mut self, then: &Self) {
        if self.generation != then.generation {
            return;
        }
        subtract_sums(&mut self.counters, &then.counters, |i| LaneCounter::ALL[i].is_level());
        subtract_all(&mut self.stages, &then.stages);
    }
}

impl KeyStats {
    fn subtract(&mut self, then: &Self) {
        if self.generation != then.generation {
            return;
        }
        subtract_sums(&mut self.counters, &then.counters, |i| KeyCounter::ALL[i].is_level());
        subtract_all(&mut self.stages, &then.stages);
    }
}

impl ClassStats {
    fn subtract(&mut self, then: &Self) {
        subtract(&mut self.requests, then.requests);
        subtract(&mut self.bytes, then.bytes);
        subtract_all(&mut self.stages, &then.stages);
    }
}

/// All lists are in order of their numbers.
fn find<T>(list: &[T], compare: impl Fn(&T) -> Ordering) -> Option<&T> {
    list.binary_search_by(compare).ok().map(|at| &list[at])
}

fn subtract_sums(now: &mut [u64], then: &[u64], is_level: impl Fn(usize) -> bool) {
    for (i, (now, then)) in now.iter_mut().zip(then).enumerate() {
        if !is_level(i) {
            subtract(now, *then);
        }
    }
}

fn subtract(now: &mut u64, then: u64) {
    *now = now.saturating_sub(then);
}

fn subtract_all(now: &mut [Histogram], then: &[Histogram]) {
    now.iter_mut().zip(then).for_each(|(now, then)| *now = now.since(then));
}
