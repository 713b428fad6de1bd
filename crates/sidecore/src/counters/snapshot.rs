//! What the counter file said at one time, as plain data.

use super::block::audit_of;
use super::kinds::{DeviceCounter, KeyCounter, LaneCounter, SidecoreCounter};
use super::{Shape, Start};
use crate::config::{Place, Waiters};
use sidecore_core::dispatch::DeviceState;
use sidecore_core::policy::balance::Balance;
use sidecore_core::policy::notify::{Audit, Notify};
use sidecore_core::policy::order::Order;
use sidecore_core::session::Class;
use sidecore_core::stage::Stage;
use sidecore_core::time::Nanos;
use sidecore_core::wire::Fault;
use std::path::Path;

mod error;
mod histogram;
mod reader;
mod since;

pub use error::{ReadError, ReadReason};
pub use histogram::Histogram;

/// A service whose heartbeat is older does not run, ns.
const HEARTBEAT_LIMIT: Nanos = 1_000_000_000;

/// The open blocks of the file, with all that was counted in an interval: since each was opened when
/// [read](Self::read), since an earlier snapshot by [`Snapshot::since`].
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// How many blocks the file has, open or not.
    pub shape: Shape,
    /// What the service said of itself as it started.
    pub start: Start,
    /// When the service last said that it is alive, ns.
    pub heartbeat: Nanos,
    /// When this was read, ns.
    pub taken: Nanos,
    /// How long was counted, ns: since the service started, or since the earlier snapshot.
    pub interval: Nanos,
    /// Policies that were asked for, of the four hops: service, to device, from device, client. `None`: not known. Where
    /// they park instead of spinning, [`Snapshot::parked`] says why.
    pub notify: [Option<Notify>; 4],
    /// Whether clients are told that they may spin.
    pub clients_may_spin: bool,
    /// How devices are chosen. `None`: not known.
    pub balance: Option<Balance>,
    /// The order of what a device has. `None`: not known.
    pub order: Option<Order>,
    /// Sidecores in order of their numbers.
    pub sidecores: Vec<SidecoreStats>,
    /// Devices in order of their numbers.
    pub devices: Vec<DeviceStats>,
    /// Lanes in order of their numbers.
    pub lanes: Vec<LaneStats>,
    /// Stored keys in order of their places, each added up over the sidecores.
    pub keys: Vec<KeyStats>,
    /// Classes that were asked for, added up over the sidecores, in order of their numbers.
    pub classes: Vec<ClassStats>,
}

/// One sidecore.
#[derive(Clone, Debug)]
pub struct SidecoreStats {
    /// Its number.
    pub index: usize,
    /// Where it runs.
    pub place: Place,
    counters: [u64; SidecoreCounter::COUNT],
}

/// One device.
#[derive(Clone, Debug)]
pub struct DeviceStats {
    /// Number of its block.
    pub index: usize,
    generation: u64,
    /// Name, in printable characters.
    pub name: String,
    /// Kind, in printable characters.
    pub kind: String,
    /// The sidecore that it serves.
    pub sidecore: u32,
    /// Where it runs, if it is a worker.
    pub worker: Option<Place>,
    /// How far it may be used. `None`: not known.
    pub state: Option<DeviceState>,
    counters: [u64; DeviceCounter::COUNT],
    /// Time on the device of sampled requests.
    pub time: Histogram,
}

/// One open lane.
#[derive(Clone, Debug)]
pub struct LaneStats {
    /// Number of its block.
    pub index: usize,
    generation: u64,
    /// Process of the client.
    pub pid: u32,
    /// User of the client.
    pub uid: u32,
    /// The sidecore that it belongs to.
    pub sidecore: u32,
    /// Name of the client, in printable characters.
    pub name: String,
    counters: [u64; LaneCounter::COUNT],
    /// Stages of sampled requests in the order of [`Stage::ALL`]. `deliver` and `total` are the client's word.
    pub stages: [Histogram; Stage::COUNT],
}

/// One stored key, over all sidecores.
#[derive(Clone, Debug)]
pub struct KeyStats {
    /// Its place.
    pub place: usize,
    generation: u64,
    /// Its name, in printable characters.
    pub name: String,
    counters: [u64; KeyCounter::COUNT],
    /// Stages of sampled requests in the order of [`Stage::ALL`]; `deliver` and `total` are not told by key.
    pub stages: [Histogram; Stage::COUNT],
}

/// One class of requests, over all sidecores.
#[derive(Clone, Debug)]
pub struct ClassStats {
    /// The class.
    pub class: Class,
    /// Requests.
    pub requests: u64,
    /// Bytes of their input.
    pub bytes: u64,
    /// Stages of sampled requests in the order of [`Stage::ALL`].
    pub stages: [Histogram; Stage::COUNT],
}

impl Snapshot {
    /// Reads the file of a running or ended service.
    ///
    /// # Errors
    /// There is none, it cannot be read, or it is no counter file of this version.
    pub fn read(path: &Path) -> Result<Self, ReadError> {
        reader::read(path).map_err(|reason| ReadError { path: path.to_owned(), reason })
    }

    /// What was counted since an earlier snapshot. Levels, such as requests in flight, stay what they are now.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        since::since(self, earlier)
    }

    /// For each hop of `notify`: why its policy, which would spin, does not.
    pub fn parked(&self) -> [Option<String>; 4] {
        self.waiters().parked(self.notify)
    }

    /// Who waits.
    pub fn waiters(&self) -> Waiters {
        let serves = |device: &&DeviceStats| device.state != Some(DeviceState::Gone);
        Waiters {
            sidecores: self.sidecores.iter().map(|sidecore| sidecore.place).collect(),
            workers: self.devices.iter().filter(serves).filter_map(|device| device.worker).collect(),
            clients_may_spin: self.clients_may_spin,
        }
    }

    /// Age of the heartbeat, ns.
    pub fn heartbeat_age(&self) -> Nanos {
        self.taken.saturating_sub(self.heartbeat)
    }

    /// Whether the service runs: its heartbeat is at most one second old, and not of a clock that began anew since.
    pub fn is_alive(&self) -> bool {
        self.heartbeat <= self.taken && self.heartbeat_age() <= HEARTBEAT_LIMIT
    }

    /// How long the service runs, or ran until its last heartbeat, ns.
    pub fn uptime(&self) -> Nanos {
        let until = if self.is_alive() { self.taken } else { self.heartbeat };
        until.saturating_sub(self.start.now)
    }

    /// So many in this interval, per second.
    pub fn per_second(&self, count: u64) -> f64 {
        count as f64 * 1e9 / self.interval.max(1) as f64
    }
}

impl SidecoreStats {
    /// Value of a counter.
    pub fn get(&self, counter: SidecoreCounter) -> u64 {
        self.counters[counter as usize]
    }

    /// What its waits cost.
    pub fn audit(&self) -> Audit {
        audit_at(&self.counters, SidecoreCounter::Waits as usize)
    }
}

impl DeviceStats {
    /// Value of a counter.
    pub fn get(&self, counter: DeviceCounter) -> u64 {
        self.counters[counter as usize]
    }
}

impl KeyStats {
    /// Value of a counter.
    pub fn get(&self, counter: KeyCounter) -> u64 {
        self.counters[counter as usize]
    }
}

impl LaneStats {
    /// Value of a counter.
    pub fn get(&self, counter: LaneCounter) -> u64 {
        self.counters[counter as usize]
    }

    /// What the client's waits cost, by its own word.
    pub fn audit(&self) -> Audit {
        audit_at(&self.counters, LaneCounter::ClientWaits as usize)
    }

    /// How the client broke the protocol, if it did.
    pub fn fault(&self) -> Option<Fault> {
        let number = usize::try_from(self.get(LaneCounter::Fault)).ok()?.checked_sub(1)?;
        Fault::ALL.get(number).copied()
    }
}

fn audit_at(counters: &[u64], first: usize) -> Audit {
    audit_of(std::array::from_fn(|i| counters[first + i]))
}
