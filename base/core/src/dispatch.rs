//! The state machine between a request's arrival and its announcement: admission by fair share, choice of a device,
//! the in-flight table, replay when a device dies, and the decision to wake a client.
//!
//! The caller (the reactor in real time, a simulator in simulated time) reports events together with the time and
//! carries the decisions out. Life of a request:
//!
//! 1. [`Dispatch::may_take`] says whether this lane's client is within its share and its credit.
//! 2. [`Dispatch::place`] picks a device and enters the request in the table; the caller hands it over.
//! 3. [`Dispatch::complete`] takes it out when the device is done; the caller writes the completion. A ticket that
//!    was renewed meanwhile is void: nothing happens twice.
//! 4. [`Dispatch::announce`], once for all completions of a lane in this round, says when its client is woken.
//!
//! Under `priced` a request may be for a device that has no room for it now ([`Limits::deferred`]). Such requests are deferred.
//! [`Dispatch::release`] names them as the device completes, by fair shares of the device's time.
//!
//! When a device dies, [`Dispatch::lose`] stops its use and [`Dispatch::next_orphan`] lists its requests.
//! [`Dispatch::reassign`] moves each of them to another device. It abandons a request without a capable device, or one
//! that [may not be done twice](Class::may_be_replayed).

use crate::inflight::{Entry, InFlight, RequestState, Ticket};
use crate::policy::balance::{Balance, Balancer, BatchEstimate, Load, Rates, SteadyRates};
use crate::policy::notify::{Moderator, Notify, WakeDecision};
use crate::session::{Class, Classes};
use crate::time::Nanos;
use alloc::vec::Vec;

mod clients;
mod deferred;
mod devices;
pub mod record;
mod remote_keys;
#[cfg(all(test, not(loom)))]
mod tests;
mod users;

pub use crate::work::{ClientId, KeyLocation, LaneId, Work};
use clients::{Lane, Tables};
use deferred::DeferredQueue;
use remote_keys::RemoteKeys;
pub use users::{Lack, UserShare};

/// Devices that one dispatch may have at a time.
pub const MAX_DEVICES: usize = 64;
/// Device deaths after which a request is abandoned.
pub const MAX_LOSSES: u8 = 3;

/// Charge for a refused request, ns.
const REFUSAL_COST: Nanos = 100;

/// Sizes of the tables. Fixed at start.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Most lanes.
    pub lanes: u32,
    /// Most clients.
    pub clients: u32,
    /// Most requests in flight over all lanes.
    pub in_flight: u32,
    /// Time on devices that a client of weight 1 may use in one round, ns.
    pub quantum: Nanos,
    /// Under `priced`, most deferred requests of one device, beyond its depth. The sum over all devices should stay
    /// below the size of the table. With 0, requests wait in their lanes until the best device has room.
    pub deferred: u32,
}

impl Limits {
    /// The default of [`Limits::deferred`] for that number of requests in flight. Deferred requests of [`MAX_DEVICES`]
    /// devices do not fill the table.
    pub fn usually_deferred(in_flight: u32) -> u32 {
        in_flight / MAX_DEVICES as u32
    }
}

/// Properties of a device that joins.
#[derive(Clone, Debug)]
pub struct Capability {
    /// Classes of requests that the device can do.
    pub classes: Classes,
    /// The device does a request before the call returns: nothing is ever in flight there.
    pub immediate: bool,
    /// The device serves remote keys: the keys that it [holds](Dispatch::hold), none at first. Other devices serve
    /// local keys.
    pub remote_keys: bool,
    /// Most requests that it holds at a time.
    pub depth: u32,
    /// Relative speed for `sed`, 1 to 1000.
    pub weight: u32,
    /// Rates measured before it joined.
    pub rates: Rates,
}

/// A device for a request, and the request's name from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// Number of the device.
    pub device: usize,
    /// The name.
    pub ticket: Ticket,
    /// Hand it over at once; else keep it for this device until [`Dispatch::release`] names it.
    pub begins: bool,
    /// How long it is expected to take there, ns.
    pub cost: Nanos,
}

/// Where a request goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// To a device that answers later.
    Assigned(Assignment),
    /// Do it on this immediate device now: it counts as completed.
    Now {
        /// Number of the device.
        device: usize,
        /// How long it is expected to take, ns.
        cost: Nanos,
    },
    /// Every device that could do it is full: try again after a completion.
    Full,
    /// No usable device can do it.
    NoDevice,
}

/// A request that left the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    /// The request.
    pub work: Work,
    /// The device that had it.
    pub device: u8,
    /// Time of the handover, ns.
    pub handed: Nanos,
    /// Whether its lane is still open. Without an open lane no completion is written.
    pub lane_open: bool,
}

/// The fate of a request whose device died.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reassigned {
    /// To a device that answers later.
    Assigned(Assignment),
    /// Do it on this immediate device now: it counts as completed.
    Now(Done),
    /// No room now: call again with this ticket after a completion or the loss of a device.
    Wait(Ticket),
    /// Answer that the device failed.
    Abandoned(Done),
}

/// How far a device may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceState {
    /// Gets requests.
    Active,
    /// Gets no more; what it has is finished.
    Draining,
    /// Died or was removed.
    Gone,
}

#[derive(Debug)]
struct Device {
    state: DeviceState,
    classes: Classes,
    immediate: bool,
    remote_keys: Option<RemoteKeys>,
    rates: Rates,
    /// Under `priced`, the rates that choose.
    steady: Option<SteadyRates>,
    deferred: DeferredQueue,
    fills: Option<BatchEstimate>,
    /// The last estimate: requests mostly come in runs of one kind.
    last: Option<(Class, u32, Nanos)>,
}

/// The state machine. One for each sidecore; it owns no memory that another thread sees.
#[derive(Debug)]
pub struct Dispatch {
    quantum: Nanos,
    deferred: u32,
    clients: Tables,
    inflight: InFlight,
    balancer: Balancer,
    /// Beside `devices`, index by index: what the balancer reads.
    loads: Vec<Load>,
    devices: Vec<Device>,
}

impl Dispatch {
    /// Empty tables of those sizes; nothing is allocated later except for added devices and for `priced`.
    pub fn new(limits: Limits, balance: Balance) -> Self {
        Self {
            quantum: limits.quantum,
            deferred: limits.deferred,
            clients: Tables::new(limits.clients, limits.lanes, limits.quantum),
            inflight: InFlight::new(limits.in_flight),
            balancer: Balancer::new(balance),
            loads: Vec::with_capacity(MAX_DEVICES),
            devices: Vec::with_capacity(MAX_DEVICES),
        }
    }

    /// A client of that weight, with at most `credit` requests in flight over all its lanes. It is a user of its own.
    /// `None`: the table is full.
    pub fn add_client(&mut self, weight: u32, credit: u32) -> Option<ClientId> {
        self.add_client_of(UserShare { name: None, weight }, 1, credit)
    }

    /// A client of that user, with that weight among the user's clients, and at most `credit` requests in flight over
    /// all its lanes. `None`: the table is full.
    pub fn add_client_of(&mut self, user: UserShare, weight: u32, credit: u32) -> Option<ClientId> {
        self.clients.add_client(user, weight, credit)
    }

    /// The place of a client's user in the table of users.
    pub fn user_of(&self, client: ClientId) -> u32 {
        self.clients.client(client).user
    }

    /// Forgets a client. Its lanes must be closed.
    pub fn remove_client(&mut self, client: ClientId) {
        self.clients.remove_client(client);
    }

    /// A lane of that client, whose waiter follows `notify`. `None`: the table is full.
    pub fn add_lane(&mut self, client: ClientId, notify: Notify) -> Option<LaneId> {
        self.clients.add_lane(client, Moderator::new(notify))
    }

    /// Nothing more is taken from this lane or announced to it. Its number is free once its requests left the
    /// devices.
    pub fn close_lane(&mut self, lane: LaneId) {
        self.clients.close_lane(lane);
    }

    /// Changes when the waiter of this lane is woken. Call [`Dispatch::due`] afterwards: it may have to be woken now.
    pub fn set_notify(&mut self, lane: LaneId, notify: Notify) {
        self.clients.lane_mut(lane).moderator.set_policy(notify);
    }

    /// Changes how devices are chosen. For `priced` it allocates.
    pub fn set_balance(&mut self, balance: Balance) {
        self.balancer.set_policy(balance);
        let is_priced = balance == Balance::Priced;
        for device in &mut self.devices {
            let before = device.steady.take().filter(|_| is_priced);
            device.steady = before.or_else(|| is_priced.then(|| SteadyRates::new(&device.rates)));
        }
    }

    /// The policy in force.
    pub fn balance(&self) -> Balance {
        self.balancer.policy()
    }

    /// Brings prices up to date, where the policy has them. Cheap while no update is due: call it often. Returns
    /// whether an update was due.
    #[inline]
    pub fn reprice(&mut self, now: Nanos) -> bool {
        let devices = &self.devices;
        self.balancer.reprice(now, &self.loads, |i, class, size| {
            devices[i].can(class, KeyLocation::LOCAL).then(|| devices[i].learnt(class, size))
        })
    }

    /// A round begins for this client and its user: their shares of the round are added.
    #[inline]
    pub fn refill(&mut self, client: ClientId) {
        let round = self.clients.both_mut(client).1.round() + 1;
        self.begin_turn(client, round);
    }

    /// The client's requests have their turn in this round, counted from 1. The shares of its user and itself get what
    /// the rounds since their last turn add. Returns whether there was any.
    #[inline]
    pub fn begin_turn(&mut self, client: ClientId, round: u64) -> bool {
        self.clients.begin_turn(client, round, self.quantum)
    }

    /// A client with nothing waiting keeps no claim on the past.
    #[inline]
    pub fn idle(&mut self, client: ClientId) {
        let (client, user) = self.clients.both_mut(client);
        client.share.idle();
        if !user.has_several_clients() {
            user.share.idle();
        }
    }

    /// Whether a request may be taken from this client now: its user is within its share, the client within its part of
    /// it and its credit, and the table has room.
    #[inline]
    pub fn may_take(&mut self, client: ClientId) -> bool {
        let full = self.inflight.is_full();
        let (client, user) = self.clients.both_mut(client);
        !full && client.in_flight < client.credit && client.share.may_take() && user.share.may_take()
    }

    /// Why a client with waiting requests [may take](Dispatch::may_take) none. One that used up its part of its user's
    /// share waits for the [next turns](Dispatch::next_turns) from now on.
    pub fn lack(&mut self, client: ClientId) -> Lack {
        let (quantum, id) = (self.quantum, self.clients.client(client).user);
        let (client, user) = self.clients.both_mut(client);
        if !user.share.may_take() {
            return Lack::Share(user.share.rounds_to_credit(quantum));
        }
        if client.share.may_take() {
            return Lack::Room;
        }
        let rounds = client.share.rounds_to_credit(user.quantum(quantum));
        self.clients.users.want(id, rounds);
        Lack::Part
    }

    /// Whether a client waits for the next turns.
    #[inline]
    pub fn is_turn_wanted(&self) -> bool {
        self.clients.users.is_any_wanted()
    }

    /// Where a user is in credit and its clients have used up their parts, they get the next ones. Returns whether there
    /// is such a user: then the present round has work left.
    pub fn next_turns(&mut self) -> bool {
        self.clients.users.next_turns()
    }

    /// Whether only the answer of a device can let this client go on: its credit is used up, or the table is full.
    pub fn waits_for_device(&self, client: ClientId) -> bool {
        let client = self.clients.client(client);
        self.inflight.is_full() || client.in_flight >= client.credit
    }

    /// Requests of this lane in flight.
    #[inline]
    pub fn in_flight(&self, lane: LaneId) -> u32 {
        self.clients.lane(lane).in_flight
    }

    /// Requests of all lanes in flight.
    pub fn total_in_flight(&self) -> usize {
        self.inflight.len()
    }

    /// Whether a device would take some request now.
    pub fn has_room(&self) -> bool {
        self.loads.iter().any(|load| self.balancer.accepts(load))
    }

    /// Whether a device would be given a request of unknown class and size. Under `priced` each device might be the
    /// best one for it.
    pub fn would_place_any(&self) -> bool {
        let mut usable = self.loads.iter().filter(|load| load.usable).peekable();
        let every = self.balancer.policy() == Balance::Priced && usable.peek().is_some();
        if every { usable.all(|load| self.balancer.accepts(load)) } else { self.has_room() }
    }

    /// Whether a device would be given a request of this class, size (bytes) and key location now.
    pub fn would_place(&self, class: Class, size: u32, key_location: KeyLocation) -> bool {
        let (devices, loads) = (&self.devices, &self.loads);
        self.balancer.would_choose(
            loads,
            |i| devices[i].can(class, key_location),
            |i| devices[i].learnt(class, size),
            |i, cost| devices[i].finish(&loads[i], class, size, cost),
        )
    }

    /// Chooses a device for a request and enters it in the table.
    #[inline]
    pub fn place(&mut self, now: Nanos, work: Work) -> Placement {
        self.place_run(now, work, 1, 0).0
    }

    /// As [`Dispatch::place`] for a run of up to `run` requests that differ in their tags only. The second number
    /// counts the requests that an immediate device is to do: limited by the client's share and by `budget`, ns. It
    /// is 1 where the first request goes to another device.
    #[inline]
    pub fn place_run(&mut self, now: Nanos, work: Work, run: u32, budget: Nanos) -> (Placement, u32) {
        let Some(device) = self.choose(work) else {
            return (if self.any_can(&work) { Placement::Full } else { Placement::NoDevice }, 1);
        };
        let cost = self.devices[device].estimate(work.class, work.size);
        if self.devices[device].immediate {
            // Nothing is in flight on an immediate device, so the next request has the same result, unless devices
            // take turns.
            let alike = if self.balancer.takes_turns(self.devices.len()) { 1 } else { run };
            let fitting = budget.div_ceil(cost.max(1)).clamp(1, u64::from(alike)) as u32;
            let count = self.clients.done_at_once(work.lane, work.urgent, cost, fitting);
            self.balancer.placed(work.class, work.size, count);
            return (Placement::Now { device, cost }, count);
        }
        (self.enter(now, device, work, cost).map_or(Placement::Full, Placement::Assigned), 1)
    }

    /// Gives a request to this device, without the policy. `None`: the device cannot take it.
    pub fn place_on(&mut self, now: Nanos, device: usize, work: Work) -> Option<Assignment> {
        if !self.can_take(device, work.class) {
            return None;
        }
        let cost = self.devices[device].estimate(work.class, work.size);
        self.enter(now, device, work, cost)
    }

    #[inline]
    fn enter(&mut self, now: Nanos, device: usize, work: Work, cost: Nanos) -> Option<Assignment> {
        let ticket = self.inflight.insert(Entry::new(work, device as u8, now, cost, 0))?;
        // Prices are found for local work only: remote work is not counted.
        self.balancer.placed(work.class, work.size, u32::from(work.key_location.is_local()));
        self.load(device, &work, cost);
        self.clients.started(work.lane, cost);
        Some(Assignment { device, ticket, begins: self.begins(device, ticket), cost })
    }

    /// A request was answered without a device. It counts for the next announcement, and costs its client a little, so
    /// that a flood of refused requests stays within its share.
    #[inline]
    pub fn refuse(&mut self, lane: LaneId, urgent: bool) {
        self.clients.done_at_once(lane, urgent, REFUSAL_COST, 1);
    }

    /// How long an immediate device took for a request, where it was measured.
    #[inline]
    pub fn observe(&mut self, device: usize, class: Class, size: u32, took: Nanos) {
        self.learn(device, class, size, took);
    }

    #[inline]
    fn learn(&mut self, device: usize, class: Class, size: u32, took: Nanos) {
        let device = &mut self.devices[device];
        device.rates.observe(class, size, took);
        device.last = None;
        if let Some(steady) = &mut device.steady {
            self.balancer.learnt(steady.observe(class, size, took));
        }
    }

    /// A device is done with a request. `took`: time on the device, where it was measured.
    /// `None`: the ticket is void, the request was answered or moved before.
    #[inline]
    pub fn complete(&mut self, ticket: Ticket, took: Option<Nanos>) -> Option<Done> {
        let entry = self.inflight.remove(ticket)?;
        debug_assert!(entry.state.is_on_device(), "no device has it");
        let device = usize::from(entry.device);
        self.unload(&entry);
        if let Some(took) = took {
            self.learn(device, entry.work.class, entry.work.size, took);
        }
        Some(self.finish(entry))
    }

    /// Completions were written since the last call: when is the waiter of this lane woken?
    #[inline]
    pub fn announce(&mut self, now: Nanos, lane: LaneId) -> WakeDecision {
        let Lane { moderator, finished, urgent, .. } = self.clients.lane_mut(lane);
        let ring = moderator.completed(now, core::mem::take(finished), core::mem::take(urgent));
        rung(moderator, ring)
    }

    /// The time of an earlier [`WakeDecision::At`] has come: is the waiter woken now?
    pub fn due(&mut self, now: Nanos, lane: LaneId) -> WakeDecision {
        let moderator = &mut self.clients.lane_mut(lane).moderator;
        let ring = moderator.due(now);
        rung(moderator, ring)
    }

    /// The first request at or after table index `from` that a lost device still has.
    pub fn next_orphan(&self, device: usize, from: usize) -> Option<Ticket> {
        self.inflight.next_on(device as u8, from)
    }

    /// The device that has a request, or had it when it died. `None`: the ticket is void.
    pub fn device_of(&self, ticket: Ticket) -> Option<usize> {
        self.inflight.get(ticket).map(|entry| usize::from(entry.device))
    }

    /// The client's name for a request. `None`: the ticket is void.
    pub fn tag_of(&self, ticket: Ticket) -> Option<u32> {
        self.inflight.get(ticket).map(|entry| entry.work.tag)
    }

    /// A request's class. `None`: the ticket is void.
    pub fn class_of(&self, ticket: Ticket) -> Option<Class> {
        self.inflight.get(ticket).map(|entry| entry.work.class)
    }

    /// Whether the device can do a request of that class, and gets requests or will again.
    pub fn may_do(&self, device: usize, class: Class) -> bool {
        self.devices[device].state == DeviceState::Active && self.devices[device].can(class, KeyLocation::LOCAL)
    }

    /// The name that the request in this ticket's place has now. `None`: there is none.
    pub fn latest(&self, ticket: Ticket) -> Option<Ticket> {
        self.inflight.latest(ticket)
    }

    /// Takes a request from the device that died and gives it to another. The old ticket is void from now on.
    /// `None`: the ticket was void already.
    pub fn reassign(&mut self, now: Nanos, ticket: Ticket) -> Option<Reassigned> {
        let mut entry = self.inflight.remove(ticket)?;
        let Work { lane, class, size, .. } = entry.work;
        // A deferred request has not reached its device, so a second attempt is safe.
        let spent = entry.state.is_on_device() && !class.may_be_replayed();
        if entry.state != RequestState::Orphan {
            self.unload(&entry);
            entry.state = RequestState::Orphan;
            entry.losses += 1;
        }
        if spent || entry.losses > MAX_LOSSES || !self.clients.lane(lane).open || !self.any_can(&entry.work) {
            return Some(Reassigned::Abandoned(self.finish(entry)));
        }
        let Some(device) = self.choose(entry.work) else {
            return self.inflight.insert(entry).map(Reassigned::Wait);
        };
        if self.devices[device].immediate {
            entry.device = device as u8;
            return Some(Reassigned::Now(self.finish(entry)));
        }
        let cost = self.devices[device].rates.estimate(class, size);
        let ticket = self.inflight.insert(Entry::new(entry.work, device as u8, now, cost, entry.losses))?;
        self.load(device, &entry.work, cost);
        Some(Reassigned::Assigned(Assignment { device, ticket, begins: self.begins(device, ticket), cost }))
    }

    #[inline]
    fn choose(&mut self, work: Work) -> Option<usize> {
        let (devices, loads) = (&self.devices, &self.loads);
        self.balancer.choose(
            loads,
            |i| devices[i].can(work.class, work.key_location),
            |i| devices[i].learnt(work.class, work.size),
            |i, cost| devices[i].finish(&loads[i], work.class, work.size, cost),
        )
    }

    fn any_can(&self, work: &Work) -> bool {
        self.devices
            .iter()
            .any(|device| device.state == DeviceState::Active && device.can(work.class, work.key_location))
    }

    #[inline]
    fn load(&mut self, device: usize, work: &Work, cost: Nanos) {
        let load = &mut self.loads[device];
        load.in_flight += 1;
        load.backlog += cost;
        if let Some(fills) = &mut self.devices[device].fills {
            fills.entered(work.class, work.size, cost);
        }
    }

    #[inline]
    fn unload(&mut self, entry: &Entry) {
        let device = usize::from(entry.device);
        let load = &mut self.loads[device];
        load.in_flight -= 1;
        load.backlog -= entry.cost;
        if let Some(fills) = &mut self.devices[device].fills {
            fills.left(entry.work.class, entry.work.size, entry.cost);
        }
    }

    #[inline]
    fn on_device(&self, device: usize) -> u32 {
        self.loads[device].in_flight - self.devices[device].deferred.len()
    }

    #[inline]
    fn finish(&mut self, entry: Entry) -> Done {
        let lane_open = self.clients.finished(entry.work.lane, entry.work.urgent);
        Done { work: entry.work, device: entry.device, handed: entry.handed, lane_open }
    }
}

impl Device {
    #[inline]
    fn estimate(&mut self, class: Class, size: u32) -> Nanos {
        if let Some((last_class, last_size, cost)) = self.last
            && (last_class, last_size) == (class, size)
        {
            return cost;
        }
        let cost = self.rates.estimate(class, size);
        self.last = Some((class, size, cost));
        cost
    }

    /// Expected time for the choice of a device, ns.
    #[inline]
    fn learnt(&self, class: Class, size: u32) -> Nanos {
        match &self.steady {
            None => self.rates.estimate(class, size),
            Some(steady) => steady.estimate(class, size),
        }
    }

    /// Time until a request with this cost on the device would be answered, ns.
    #[inline]
    fn finish(&self, load: &Load, class: Class, size: u32, cost: Nanos) -> Nanos {
        match &self.fills {
            None => load.finish(cost),
            Some(fills) => fills.finish(class, size, load.backlog, cost),
        }
    }

    #[inline]
    fn can(&self, class: Class, key_location: KeyLocation) -> bool {
        self.classes.contains(class)
            && self.remote_keys.as_ref().map_or(key_location.is_local(), |remote_keys| remote_keys.has(key_location))
    }
}

/// The caller carries out a ring immediately, so no wake-up stays pending.
#[inline]
fn rung(moderator: &mut Moderator, ring: WakeDecision) -> WakeDecision {
    if ring == WakeDecision::Now {
        moderator.rung();
    }
    ring
}
