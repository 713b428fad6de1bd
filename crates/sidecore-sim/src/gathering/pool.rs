//! A worker and a batch device in one sidecore: the service's own dispatch chooses between them.
//!
//! On the worker each request takes the time of a single one. Dispatch begins with that time only. A batch device may
//! report its measured times at the start, as the service's does; otherwise it reports for each request only its share
//! of the batch's time.

use super::device::Device;
use super::{MAX_BATCH, Unit};
use crate::engine::{Engine, World};
use crate::part::tables;
use sidecore_core::dispatch::{Assignment, Capability, Dispatch, KeyLocation, LaneId, Limits, Placement, Work};
use sidecore_core::inflight::Ticket;
use sidecore_core::policy::balance::{Balance, Measured, Rates};
use sidecore_core::policy::gather::BatchPolicy;
use sidecore_core::policy::notify::Notify;
use sidecore_core::session::{Class, Classes};
use sidecore_core::time::Nanos;
use std::collections::VecDeque;

/// Rule for choosing a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// The service's policy, with the batch device's measured times.
    Told(Balance),
    /// The service's policy, with shares of batches' times only.
    Untold(Balance),
    /// The device that answers first if no other request arrives: not computable in practice.
    First,
}

impl Rule {
    /// The compared rules.
    pub const ALL: [Self; 5] = [
        Self::Untold(Balance::Eft),
        Self::Told(Balance::Eft),
        Self::Untold(Balance::Priced),
        Self::Told(Balance::Priced),
        Self::First,
    ];
}

/// Arrival process.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Requests {
    /// Open: random arrivals at this fraction of the devices' capacity, in groups of this size.
    Open(f64, u32),
    /// Closed: this number of clients; each sends its next request after its answer.
    Clients(u32),
}

impl Requests {
    /// The compared arrival processes.
    pub const ALL: [Self; 12] = [
        Self::Open(0.05, 1),
        Self::Open(0.2, 1),
        Self::Open(0.35, 1),
        Self::Open(0.5, 1),
        Self::Open(0.65, 1),
        Self::Open(0.8, 1),
        Self::Open(0.95, 1),
        Self::Open(0.2, 8),
        Self::Open(0.5, 8),
        Self::Clients(2),
        Self::Clients(6),
        Self::Clients(16),
    ];
}

/// One pool under one rule.
#[derive(Clone, Debug, PartialEq)]
pub struct PoolLine {
    /// The batch device.
    pub unit: String,
    /// Arrival process.
    pub requests: Requests,
    /// Rule for choosing a device.
    pub rule: Rule,
    /// Answers per second.
    pub per_s: f64,
    /// Fraction of answers from the batch device.
    pub batched: f64,
    /// Mean time from arrival to answer, ns.
    pub mean: f64,
    /// Its 99th percentile, ns.
    pub p99: Nanos,
    /// The mean relative to the time of one request alone.
    pub mean_to_single: f64,
    /// The 99th percentile relative to the time of one request alone.
    pub p99_to_single: f64,
}

/// Requests of each line; the first tenth is not counted.
const COUNT: usize = 50_000;
const WARM_UP: usize = COUNT / 10;
const DEPTH: u32 = 64;
const TABLE: u32 = 16_384;
/// Interval of price updates by dispatch, ns.
const REPRICE: Nanos = 100_000;
const LANE: LaneId = LaneId(0);
const BATCH: usize = 1;

/// Each of these devices next to a worker, with all arrival processes and rules.
pub fn table(units: &[Unit], seed: u64) -> Vec<PoolLine> {
    let cases = units.iter().flat_map(|unit| Requests::ALL.map(|requests| (unit, requests)));
    cases.flat_map(|(unit, requests)| Rule::ALL.map(|rule| run(unit, requests, rule, seed))).collect()
}

#[derive(Clone, Copy)]
enum PoolEvent {
    Arrival,
    Due(usize),
    Done(usize),
    Reprice,
}

struct Pool {
    rule: Rule,
    requests: Requests,
    /// Mean time between arrivals, ns.
    gap: f64,
    dispatch: Dispatch,
    devices: [Device<Ticket>; 2],
    /// Time of arrival of the request at each ticket's place, ns.
    arrived: Vec<Nanos>,
    waiting: VecDeque<Nanos>,
    left: usize,
    batched: u64,
    took: Vec<Nanos>,
    /// Time of the last answer, ns.
    ended: Nanos,
}

impl World for Pool {
    type Event = PoolEvent;

    fn handle(&mut self, engine: &mut Engine<PoolEvent>, event: PoolEvent) {
        match event {
            PoolEvent::Arrival => self.arrive(engine),
            PoolEvent::Due(device) => {
                self.devices[device].due();
                self.look(engine, device);
            }
            PoolEvent::Done(device) => self.done(engine, device),
            PoolEvent::Reprice => {
                self.dispatch.reprice(engine.now());
                if self.left > 0 {
                    engine.after(REPRICE, PoolEvent::Reprice);
                }
            }
        }
    }
}

impl Pool {
    fn new(unit: &Unit, requests: Requests, rule: Rule) -> Self {
        let balance = if let Rule::Told(balance) | Rule::Untold(balance) = rule { balance } else { Balance::Eft };
        let mut rates = Rates::new();
        rates.observe(Class::NOOP, 0, unit.single);
        let classes = Classes::all();
        let device = Capability { classes, immediate: false, remote_keys: false, depth: DEPTH, weight: 1, rates };
        let limits =
            Limits { lanes: 1, clients: 1, in_flight: TABLE, quantum: 1, deferred: Limits::usually_deferred(TABLE) };
        let mut dispatch = tables(limits, balance, Notify::Park, u32::MAX, [device.clone(), device].into_iter());
        let gather = unit.gather();
        if let Rule::Told(_) = rule {
            let (part, ends) = (gather.part(), gather.ends());
            dispatch.measured(BATCH, &Measured { class: Class::NOOP, size: 0, from: 0, part, ends });
        }
        let gap = match requests {
            Requests::Open(load, at_once) => 1e9 * f64::from(at_once) / (load * capacity(unit)),
            Requests::Clients(_) => 0.0,
        };
        let worker = BatchPolicy::new([Nanos::MAX / 16; MAX_BATCH], unit.single);
        Self {
            rule,
            requests,
            gap,
            dispatch,
            devices: [worker, gather].map(Device::new),
            arrived: vec![0; TABLE as usize],
            waiting: VecDeque::new(),
            left: COUNT,
            batched: 0,
            took: Vec::with_capacity(COUNT),
            ended: 0,
        }
    }

    fn arrive(&mut self, engine: &mut Engine<PoolEvent>) {
        let at_once = if let Requests::Open(_, at_once) = self.requests { at_once as usize } else { 1 };
        let come = at_once.min(self.left);
        self.left -= come;
        if let Requests::Open(..) = self.requests
            && self.left > 0
        {
            let gap = engine.random().exponential(self.gap);
            engine.after(gap.round() as Nanos, PoolEvent::Arrival);
        }
        for _ in 0..come {
            self.waiting.push_back(engine.now());
        }
        self.place(engine);
    }

    /// As in a lane, a request waits behind earlier ones.
    fn place(&mut self, engine: &mut Engine<PoolEvent>) {
        while let Some(arrived) = self.waiting.front().copied()
            && let Some(Assignment { device, ticket, begins, .. }) = self.choose(engine.now())
        {
            self.waiting.pop_front();
            self.arrived[ticket.index()] = arrived;
            if begins {
                self.devices[device].submit(ticket);
                self.look(engine, device);
            }
        }
    }

    fn choose(&mut self, now: Nanos) -> Option<Assignment> {
        let class = Class::NOOP;
        let work = Work {
            lane: LANE,
            tag: 0,
            class,
            size: 0,
            urgent: false,
            key_location: KeyLocation::LOCAL,
            submitted: None,
        };
        if self.rule != Rule::First {
            let placed = self.dispatch.place(now, work);
            return if let Placement::Assigned(given) = placed { Some(given) } else { None };
        }
        let open = (0..self.devices.len()).filter(|device| self.dispatch.can_take(*device, class));
        let first = open.min_by_key(|device| self.devices[*device].finish(now))?;
        self.dispatch.place_on(now, first, work)
    }

    fn look(&mut self, engine: &mut Engine<PoolEvent>, device: usize) {
        self.devices[device].look(engine, PoolEvent::Due(device), PoolEvent::Done(device));
    }

    fn done(&mut self, engine: &mut Engine<PoolEvent>, number: usize) {
        let device = &mut self.devices[number];
        let done: Vec<Ticket> = device.done(engine.now()).collect();
        let (fill, took) = (done.len(), device.gather.time(done.len()));
        let share =
            if let Rule::Told(_) = self.rule { device.gather.part_of(fill, took) } else { took / fill as Nanos };
        for ticket in done {
            self.dispatch.complete(ticket, Some(share));
            self.dispatch.announce(engine.now(), LANE);
            self.took.push(engine.now() - self.arrived[ticket.index()]);
            if let Requests::Clients(_) = self.requests {
                engine.after(0, PoolEvent::Arrival);
            }
        }
        self.ended = engine.now();
        self.batched += if number == BATCH { fill as u64 } else { 0 };
        while let Some(ticket) = self.dispatch.release(engine.now(), number) {
            self.devices[number].submit(ticket);
        }
        self.look(engine, number);
        self.place(engine);
    }
}

/// Highest rate of both together, requests per second.
fn capacity(unit: &Unit) -> f64 {
    1e9 / unit.single as f64 + unit.capacity()
}

fn run(unit: &Unit, requests: Requests, rule: Rule, seed: u64) -> PoolLine {
    let mut pool = Pool::new(unit, requests, rule);
    let mut engine = Engine::new(seed);
    let clients = if let Requests::Clients(clients) = requests { clients } else { 1 };
    (0..clients).for_each(|_| _ = engine.schedule(0, PoolEvent::Arrival));
    engine.schedule(REPRICE, PoolEvent::Reprice);
    while engine.step(&mut pool, Nanos::MAX) {}
    let per_s = COUNT as f64 * 1e9 / pool.ended as f64;
    let mut took = pool.took.split_off(WARM_UP);
    let mean = took.iter().sum::<Nanos>() as f64 / took.len() as f64;
    let last = took.len() * 99 / 100;
    let p99 = *took.select_nth_unstable(last).1;
    let [mean_to_single, p99_to_single] = [mean, p99 as f64].map(|time| time / unit.single as f64);
    let (unit, batched) = (unit.name.clone(), pool.batched as f64 / COUNT as f64);
    PoolLine { unit, requests, rule, per_s, batched, mean, p99, mean_to_single, p99_to_single }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zen() -> Unit {
        Unit::known().swap_remove(1)
    }

    #[test]
    fn every_request_is_answered_and_a_full_pool_does_what_its_devices_do() {
        for rule in Rule::ALL {
            let [few, many] = [2, 64].map(|clients| run(&zen(), Requests::Clients(clients), rule, 1));
            assert!(few.per_s > 1e9 / zen().single as f64, "two are served at once: {few:?}");
            assert!((many.per_s / capacity(&zen()) - 1.0).abs() < 0.02, "{many:?}");
        }
    }

    #[test]
    fn two_clients_do_not_wait_for_each_other_at_a_device_that_does_both_at_once() {
        // Batches of one are faster here than the worker, and the second request would miss the batch of the first.
        let unit = &Unit::known()[2];
        let line = run(unit, Requests::Clients(2), Rule::Told(Balance::Eft), 1);
        assert!(line.mean_to_single < 0.9 && line.batched > 0.5, "{line:?}");
    }

    #[test]
    fn priced_finds_no_reason_for_a_detour_where_there_is_one_kind() {
        for unit in Unit::known() {
            let [eft, priced] = [Balance::Eft, Balance::Priced]
                .map(|balance| run(&unit, Requests::Open(0.8, 1), Rule::Told(balance), 1));
            assert!((priced.mean / eft.mean - 1.0).abs() < 0.01, "{eft:?} {priced:?}");
        }
    }

    #[test]
    fn what_the_batch_device_measured_is_worth_a_part_of_the_tail() {
        for unit in &Unit::known()[..2] {
            for requests in [Requests::Open(0.5, 1), Requests::Open(0.65, 1), Requests::Open(0.2, 8)] {
                let [untold, told, first] = [Rule::Untold(Balance::Eft), Rule::Told(Balance::Eft), Rule::First]
                    .map(|rule| run(unit, requests, rule, 1));
                assert!(
                    told.p99_to_single < 0.99 * untold.p99_to_single && told.mean < untold.mean,
                    "{told:?} {untold:?}"
                );
                assert!(told.p99_to_single < 1.15 * first.p99_to_single, "{told:?} {first:?}");
            }
        }
    }
}
