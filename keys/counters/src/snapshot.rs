//! One state of the counter file, as plain data.

use crate::kinds::{ClassCounter, Counter, DeviceCounter, KeyCounter, Kind, LaneCounter, REMOVED, SidecoreCounter};
use crate::layout::{HISTOGRAM, Shape, Start};
use crate::limits::{Limit, LimitUse};
use sidecore_core::dispatch::DeviceState;
use sidecore_core::histogram::{BUCKETS, Summary};
use sidecore_core::policy::balance::Balance;
use sidecore_core::policy::notify::{Audit, Notify, Waiters};
use sidecore_core::stage::Stage;
use sidecore_core::time::Nanos;
use sidecore_core::wire::Fault;
use std::ops::Deref;
use std::path::Path;

mod error;
mod reader;

pub use error::{SnapshotError, SnapshotErrorKind};

/// Limit of the heartbeat's age, ns: beyond it a service counts as ended.
const HEARTBEAT_LIMIT: Nanos = 1_000_000_000;

/// The open blocks of the file, with the counts of an interval: since each was opened when [read](Self::read), since
/// an earlier snapshot by [`Snapshot::since`].
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Number of the file's blocks, open or not.
    pub shape: Shape,
    /// The service's properties at its start.
    pub start: Start,
    /// Time of the last heartbeat, ns.
    pub heartbeat: Nanos,
    /// Time of the read, ns.
    pub taken: Nanos,
    /// Length of the interval, ns: since the service's start, or since the earlier snapshot.
    pub interval: Nanos,
    /// Configured policies of the four hops: service, to device, from device, client. `None`: unknown.
    /// [`Snapshot::parked`] gives the reasons where they park instead of spinning.
    pub notify: [Option<Notify>; 4],
    /// Whether clients are advised that they may spin.
    pub clients_may_spin: bool,
    /// The choice of devices. `None`: unknown.
    pub balance: Option<Balance>,
    /// Use of the limits, as published once a second.
    pub limits: Vec<LimitUse>,
    /// Sidecores in order of their numbers.
    pub sidecores: Vec<SidecoreStats>,
    /// Devices in order of their numbers.
    pub devices: Vec<DeviceStats>,
    /// Lanes in order of their numbers.
    pub lanes: Vec<LaneStats>,
    /// Stored keys in order of their places, each added up over the sidecores.
    pub keys: Vec<KeyStats>,
    /// Classes with requests, added up over the sidecores, in order of their numbers.
    pub classes: Vec<ClassStats>,
}

/// The counters of one block, with its description.
#[derive(Clone, Debug)]
pub struct Stats<C: Counter> {
    /// Number of its block, or of the class.
    pub index: usize,
    generation: u64,
    about: C::About,
    counters: Vec<u64>,
    /// Stages of sampled requests in the order of [`Counter::STAGES`]. `deliver` and `total` are the client's
    /// allegation.
    pub stages: Vec<Histogram>,
}

/// One sidecore.
pub type SidecoreStats = Stats<SidecoreCounter>;
/// One device.
pub type DeviceStats = Stats<DeviceCounter>;
/// One open lane.
pub type LaneStats = Stats<LaneCounter>;
/// One stored key, over all sidecores.
pub type KeyStats = Stats<KeyCounter>;
/// One class of requests, over all sidecores.
pub type ClassStats = Stats<ClassCounter>;

impl Snapshot {
    /// Reads the file of a running or ended service.
    ///
    /// # Errors
    /// There is no file, it cannot be read, or it is no counter file of this version.
    pub fn read(path: &Path) -> Result<Self, SnapshotError> {
        reader::read(path).map_err(|why| SnapshotError { path: path.to_owned(), why })
    }

    /// The counts since an earlier snapshot. Levels, such as requests in flight, keep their present value. A block
    /// opened since counts from its opening on, and so do all blocks of a service started since.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let mut since = self.clone();
        since.interval = self.interval.min(self.taken.saturating_sub(earlier.taken));
        if self.start == earlier.start {
            subtract(&mut since.sidecores, &earlier.sidecores);
            subtract(&mut since.devices, &earlier.devices);
            subtract(&mut since.lanes, &earlier.lanes);
            subtract(&mut since.keys, &earlier.keys);
            subtract(&mut since.classes, &earlier.classes);
        }
        since
    }

    /// For each hop of `notify`: the reason why its spinning policy parks.
    pub fn parked(&self) -> [Option<String>; 4] {
        self.waiters().parked(self.notify)
    }

    /// The waiting threads.
    pub fn waiters(&self) -> Waiters {
        let workers = self.devices.iter().filter_map(|device| device.waits(device.get(DeviceCounter::State)));
        Waiters {
            sidecores: self.sidecores.iter().map(|sidecore| sidecore.place).collect(),
            workers: workers.collect(),
            clients_may_spin: self.clients_may_spin,
        }
    }

    /// The policies in force, in a line.
    pub fn policies(&self) -> String {
        let balance = self.balance.map_or("unknown", |balance| balance.name());
        format!("notify: {}; balance: {balance}", self.waiters().in_words(self.notify))
    }

    /// Use of that limit, if it is published.
    pub fn limit(&self, limit: Limit) -> Option<&LimitUse> {
        self.limits.iter().find(|of| of.limit == limit)
    }

    /// Age of the heartbeat, ns.
    pub fn heartbeat_age(&self) -> Nanos {
        self.taken.saturating_sub(self.heartbeat)
    }

    /// Whether the service runs: its heartbeat is at most one second old, and not of an earlier boot's clock.
    pub fn is_alive(&self) -> bool {
        self.heartbeat <= self.taken && self.heartbeat_age() <= HEARTBEAT_LIMIT
    }

    /// Running time of the service, until now or its last heartbeat, ns.
    pub fn uptime(&self) -> Nanos {
        let until = if self.is_alive() { self.taken } else { self.heartbeat };
        until.saturating_sub(self.start.now)
    }

    /// A count of this interval, per second.
    pub fn per_second(&self, count: u64) -> f64 {
        count as f64 * 1e9 / self.interval.max(1) as f64
    }
}

impl<C: Counter> Stats<C> {
    /// Nothing counted yet.
    pub fn new(index: usize, about: C::About) -> Self {
        let stages = vec![Histogram::default(); C::STAGES.len()];
        Self { index, generation: 0, about, counters: vec![0; C::ROWS.len()], stages }
    }

    /// Value of a counter.
    pub fn get(&self, counter: C) -> u64 {
        self.counters[counter.index()]
    }

    /// Values of all counters in the order of [`Counter::ROWS`].
    pub fn counters(&self) -> &[u64] {
        &self.counters
    }

    /// Times of sampled requests in a stage.
    ///
    /// # Panics
    /// The stage is not in [`Counter::STAGES`].
    pub fn stage(&self, stage: Stage) -> &Histogram {
        let kept = C::STAGES.iter().position(|kept| *kept == stage);
        &self.stages[kept.expect("only what is kept can be seen")]
    }

    /// Adds the counts of another. Of a code, the first value that is not 0 stays.
    pub fn merge(&mut self, more: &Self) {
        for ((own, more), row) in self.counters.iter_mut().zip(&more.counters).zip(C::ROWS) {
            *own = if row.kind == Kind::Code && *own != 0 { *own } else { own.saturating_add(*more) };
        }
        self.stages.iter_mut().zip(&more.stages).for_each(|(own, more)| own.merge(more));
    }

    /// Sets all levels to 0.
    pub fn clear_levels(&mut self) {
        let levels = self.counters.iter_mut().zip(C::ROWS).filter(|(_, row)| row.kind.is_level());
        levels.for_each(|(level, _)| *level = 0);
    }

    fn subtract(&mut self, then: &Self) {
        let sums = self.counters.iter_mut().zip(&then.counters).zip(C::ROWS);
        for ((now, then), _) in sums.filter(|(_, row)| !row.kind.is_level()) {
            *now = now.saturating_sub(*then);
        }
        self.stages.iter_mut().zip(&then.stages).for_each(|(now, then)| *now = now.since(then));
    }
}

impl<C: Counter> Deref for Stats<C> {
    type Target = C::About;

    fn deref(&self) -> &C::About {
        &self.about
    }
}

/// Counts of durations in the buckets of [`sidecore_core::histogram`], and their sum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram(Vec<u64>);

impl Default for Histogram {
    fn default() -> Self {
        Self(vec![0; HISTOGRAM])
    }
}

impl Histogram {
    pub(super) fn from_words(words: &[u64]) -> Self {
        debug_assert_eq!(words.len(), HISTOGRAM);
        Self(words.to_vec())
    }

    /// Count of each bucket, in order.
    pub fn counts(&self) -> &[u64] {
        &self.0[..BUCKETS]
    }

    /// Sum of all durations, ns.
    pub fn sum(&self) -> Nanos {
        self.0[BUCKETS]
    }

    /// Count, mean and quantiles.
    pub fn summary(&self) -> Summary {
        Summary::new(self.counts().iter().copied(), self.sum())
    }

    /// Adds the counts of another.
    pub fn merge(&mut self, other: &Self) {
        self.0.iter_mut().zip(&other.0).for_each(|(own, other)| *own = own.saturating_add(*other));
    }

    pub(super) fn since(&self, earlier: &Self) -> Self {
        Self(self.0.iter().zip(&earlier.0).map(|(now, then)| now.saturating_sub(*then)).collect())
    }
}

impl SidecoreStats {
    /// Totals of its waits.
    pub fn audit(&self) -> Audit {
        audit_of(std::array::from_fn(|i| self.counters[SidecoreCounter::Waits as usize + i]))
    }
}

impl DeviceStats {
    /// Its state. `None`: unknown.
    pub fn state(&self) -> Option<DeviceState> {
        let states = [DeviceState::Active, DeviceState::Draining, DeviceState::Gone];
        let gone = self.is_removed().then_some(DeviceState::Gone);
        gone.or_else(|| states.into_iter().find(|state| *state as u64 == self.get(DeviceCounter::State)))
    }

    /// Whether an administrator removed it.
    pub fn is_removed(&self) -> bool {
        self.get(DeviceCounter::State) == REMOVED
    }
}

impl LaneStats {
    /// Totals of the client's waits, by its own report.
    pub fn audit(&self) -> Audit {
        audit_of(std::array::from_fn(|i| self.counters[LaneCounter::ClientWaits as usize + i]))
    }

    /// How the client broke the protocol, if it did.
    pub fn fault(&self) -> Option<Fault> {
        let number = usize::try_from(self.get(LaneCounter::Fault)).ok()?.checked_sub(1)?;
        Fault::ALL.get(number).copied()
    }
}

fn audit_of(words: [u64; 8]) -> Audit {
    let [waits, empty_polls, parks, naps, spun_ns, slept_ns, cost_ns, optimum_ns] = words;
    Audit { waits, empty_polls, naps, parks, spun_ns, slept_ns, cost_ns, optimum_ns }
}

/// Both are in order of their numbers.
fn subtract<C: Counter>(now: &mut [Stats<C>], then: &[Stats<C>]) {
    for now in now {
        let then = then.binary_search_by_key(&now.index, |then| then.index).ok().map(|at| &then[at]);
        if let Some(then) = then.filter(|then| then.generation == now.generation) {
            now.subtract(then);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_is_earlier_and_what_came_since() {
        let mut words = vec![0; HISTOGRAM];
        (words[7], words[BUCKETS]) = (3, 12);
        let earlier = Histogram::from_words(&words);
        (words[9], words[BUCKETS]) = (2, 22);
        let later = Histogram::from_words(&words);
        let mut since = later.since(&earlier);
        assert_eq!((since.summary().count, since.sum()), (2, 10));
        since.merge(&earlier);
        assert_eq!(since, later);
        assert_eq!(earlier.since(&later).summary().count, 0);
    }
}
