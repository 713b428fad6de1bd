//! One sidecore: its rounds over devices and lanes, and its waits.
//!
//! [`Sidecore`] decides, a [`Host`] carries out: the service's thread in real time, a simulated one under `cargo
//! xtask faults`. The caller asks for one [`Sidecore::advance`] after the other and does as [`Action`] says. In between it
//! may add and close lanes and devices. Each call is statically dispatched, so the service's compiler sees one loop.
//!
//! Time is shared by user, then by client, then by lane. Each user has a share of each round, and its clients take turns
//! within it. Lanes of whoever has used up its share are passed over at little cost: a user with a thousand lanes takes
//! no more of others' time than one with a single lane.
//!
//! A round looks once at all devices and at all watched lanes. Lanes that were quiet for a while go dormant: they are
//! armed and not looked at, and their doorbell brings them back, so a thousand idle lanes cost a busy one nothing.

mod devices;
mod host;
mod lanes;
mod requests;
mod rounds;
mod spent;
mod watched;

pub use devices::{Health, Reply};
pub use host::{Clock, Devices, Engine, Event, Gauges, Host, Lanes, Observer, Plan, TurnStats};
pub use lanes::NewLane;

use crate::dispatch::record::{Call, Recorded, Tape};
use crate::dispatch::{Dispatch, Limits};
use crate::inflight::Ticket;
use crate::policy::balance::Balance;
use crate::policy::notify::{Notify, WaitLoop, Waiter};
use crate::time::Nanos;
use crate::work::ClientId;
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use devices::Device;
use lanes::Lane;
use rounds::{RoundPhase, Timers};
use spent::Spent;
use watched::Watched;

/// Rounds over empty lanes between two looks at the clock; what the caller does on [`Action::Spin`].
pub const SPIN_ROUNDS: u32 = 16;

/// Parameters of a sidecore. Times in ns.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Sizes of its tables.
    pub limits: Limits,
    /// How devices are chosen.
    pub balance: Balance,
    /// How each side of its hops waits.
    pub notify: WaitPolicies,
    /// Cost of a sleep and a wake.
    pub park_cost: Nanos,
    /// Longest usual time from a ring until it runs.
    pub wake_time: Nanos,
    /// It owns its core.
    pub may_spin: bool,
    /// A device with work and without progress for this time is removed.
    pub device_timeout: Nanos,
    /// Intervals and limits that depend on the machine's speed.
    pub loop_limits: LoopLimits,
}

/// Intervals and limits of a sidecore's duties outside the hot path.
#[derive(Clone, Copy, Debug)]
pub struct LoopLimits {
    /// Most requests of one lane in a row before the other lanes are looked at.
    pub turn: u32,
    /// Number of lanes that are watched permanently. If there are more, quiet ones go dormant.
    pub watched_lanes: usize,
    /// A lane without traffic for this time is quiet, ns.
    pub quiet: Nanos,
    /// Interval of a busy sidecore's looks for rings of dormant lanes, ns.
    pub listen: Nanos,
    /// Interval of housekeeping, ns: counters are updated and devices are checked.
    pub housekeeping: Nanos,
    /// Longest work of a busy sidecore between two looks around, ns, by its known times.
    pub look: Nanos,
}

impl LoopLimits {
    /// Values of the service.
    pub const SERVICE: Self =
        Self { turn: 128, watched_lanes: 8, quiet: 1_000_000, listen: 20_000, housekeeping: 10_000_000, look: 20_000 };
}

/// How each side of each hop waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitPolicies {
    /// Clients for completions.
    pub client: Notify,
    /// The sidecore for submissions.
    pub service: Notify,
    /// Devices for requests.
    pub to_device: Notify,
    /// The sidecore for replies.
    pub from_device: Notify,
}

/// The caller's duty before the next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// None: the budget is used up.
    Step,
    /// Obeys the waiting commands.
    Obey,
    /// Looks without waiting for lanes that rang, and reports them by [`Sidecore::rang`].
    Listen,
    /// Stays on its core for up to [`SPIN_ROUNDS`] looks at [`Sidecore::is_something_ready`].
    Spin,
    /// Waits for a ring, at most until `until`, and reports the lanes that rang by [`Sidecore::rang`].
    Sleep {
        /// Time to wake without a ring, ns.
        until: Option<Nanos>,
    },
}

/// The state of one sidecore. `L` is a lane and `R` a request that a device has, both as the host knows them.
#[derive(Debug)]
pub struct Sidecore<L, R> {
    dispatch: Recorded,
    notify: WaitPolicies,
    loop_limits: LoopLimits,
    device_timeout: Nanos,
    lanes: Vec<Option<Box<Lane<L>>>>,
    /// By the host's name: number, and count of lanes.
    clients: BTreeMap<u64, (ClientId, u32)>,
    watched: Watched,
    open_lanes: usize,
    devices: Vec<Device>,
    remote: Vec<usize>,
    /// Requests on such devices, by ticket number.
    requests: Vec<Option<R>>,
    orphans: VecDeque<Ticket>,
    round: u64,
    /// Serial number of the round of shares.
    share: u64,
    /// Who has used up what this round permits.
    spent: Spent,
    /// A client within its share found no room on any device that can do its request.
    blocked: bool,
    /// No new shares are assigned in this round.
    withheld: bool,
    busy: bool,
    /// Watched lanes from this place on had their turn in this round, or joined after its start.
    round_end: usize,
    phase: RoundPhase,
    turn: Option<TurnStats>,
    waits: WaitLoop,
    now: Nanos,
    timers: Timers,
}

impl<L, R> Sidecore<L, R> {
    /// A sidecore without lanes and devices. Memory is allocated later only for added ones. Its decisions are
    /// recorded if `tape` gives a length in words.
    pub fn new(settings: &Settings, tape: Option<usize>, now: Nanos) -> Self {
        let Settings { limits, balance, notify, .. } = *settings;
        Self {
            dispatch: Recorded::new(limits, balance, tape),
            notify,
            loop_limits: settings.loop_limits,
            device_timeout: settings.device_timeout,
            lanes: Vec::with_capacity(limits.lanes as usize),
            clients: BTreeMap::new(),
            watched: Watched::new(limits.lanes as usize),
            open_lanes: 0,
            devices: Vec::new(),
            remote: Vec::new(),
            requests: (0..limits.in_flight).map(|_| None).collect(),
            orphans: VecDeque::with_capacity(limits.in_flight as usize),
            round: 0,
            share: 0,
            spent: Spent::new(&limits),
            blocked: false,
            withheld: false,
            busy: false,
            round_end: 0,
            phase: RoundPhase::Round,
            turn: None,
            waits: WaitLoop::new(waiter(settings)),
            now,
            timers: Timers::default(),
        }
    }

    /// Goes on until the caller must do something, for at most `budget` steps. It limits the requests that one step
    /// takes as well.
    #[inline]
    pub fn advance<H: Host<Lane = L, Request = R>>(&mut self, host: &mut H, budget: u32) -> Action {
        for _ in 0..budget {
            let next = self.step(host, budget);
            if next != Action::Step {
                return next;
            }
        }
        Action::Step
    }

    /// Its dispatch, read-only: changes go through the sidecore.
    pub fn dispatch(&self) -> &Dispatch {
        &self.dispatch
    }

    /// How each side of its hops waits.
    pub fn notify(&self) -> WaitPolicies {
        self.notify
    }

    /// The last known time, ns.
    pub fn now(&self) -> Nanos {
        self.now
    }

    fn gauges(&self) -> Gauges<'_> {
        Gauges {
            rounds: self.round,
            lanes: self.open_lanes,
            dormant: self.open_lanes - self.watched.len(),
            audit: self.waits.waiter.audit(),
            dispatch: &self.dispatch,
        }
    }

    /// Ends the record of its decisions, if there is one.
    pub fn end_record(&mut self) -> Option<Box<Tape>> {
        self.dispatch.end_record()
    }

    /// Sets the CPU time of a sleep and its wake-up, and the time of a wake-up, both ns.
    pub fn set_park_times(&mut self, cost: Nanos, wake: Nanos) {
        self.waits.waiter.set_park_cost(cost);
        self.waits.waiter.set_wake_time(wake);
    }

    /// Changes how devices are chosen.
    pub fn set_balance(&mut self, balance: Balance) {
        self.dispatch.make(&Call::SetBalance(balance));
    }
}

fn waiter(settings: &Settings) -> Waiter {
    let mut waiter = Waiter::new(settings.notify.service, settings.park_cost, settings.may_spin);
    waiter.set_wake_time(settings.wake_time);
    waiter
}
