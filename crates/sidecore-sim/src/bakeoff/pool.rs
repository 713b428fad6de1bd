//! A sidecore in simulated time: requests arrive, the real [`Dispatch`] chooses a device for each, devices serve them.
//!
//! A device is one server with a queue; a request takes a fixed time plus a time per byte. Dispatch learns these
//! times: from a few observations at the start, as the service makes them, and then from each request.

use crate::engine::{Engine, Random, World};
use crate::part::tables;
use sidecore_core::dispatch::{Assignment, Capability, Dispatch, KeyLocation, LaneId, Limits, Placement, Work};
use sidecore_core::inflight::Ticket;
use sidecore_core::policy::balance::{Balance, Program, Rates};
use sidecore_core::policy::notify::Notify;
use sidecore_core::session::{Class, Classes};
use sidecore_core::time::Nanos;
use std::collections::VecDeque;

/// Number of requests in the system that ends a run: no policy that carries the load reaches it.
const OVERFLOW: usize = 8_000;
const TABLE: u32 = 16_384;
const LANE: LaneId = LaneId(0);
/// Interval of price updates by dispatch, ns.
const REPRICE: Nanos = 100_000;
/// Sizes of the service's measurements of devices at its start, bytes.
const MEASURED: [u32; 3] = [64, 1_024, 16_384];
/// Weight of a device for `sed`: this over its time for the largest measured size, as in the service.
const WEIGHT: Nanos = 1_000_000;

/// The real time of a device, and its reported time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Card {
    /// Fixed time, ns.
    pub fixed: f64,
    /// Time per byte, ns.
    pub per_byte: f64,
    /// Reported time as a multiple of the true time: 1, unless it misleads.
    pub reports: f64,
}

impl Card {
    /// A device that reports its true time.
    pub fn new(fixed: f64, per_byte: f64) -> Self {
        Self { fixed, per_byte, reports: 1.0 }
    }

    /// Time for this number of bytes, ns.
    fn time(&self, size: f64) -> f64 {
        (self.fixed + self.per_byte * size).max(1.0)
    }

    fn reported(&self, took: f64) -> Nanos {
        (took * self.reports).round() as Nanos
    }
}

/// Sizes of requests.
#[derive(Clone, Debug, PartialEq)]
pub enum Sizes {
    /// Probability and size in bytes of each kind; probabilities sum to 1.
    Mix(Vec<(f64, u32)>),
    /// Pareto with shape 1 between two sizes, bytes: half the number of requests at double the size, so each octave
    /// has the same share of the bytes.
    Pareto(u32, u32),
}

impl Sizes {
    fn draw(&self, random: &mut Random) -> u32 {
        let uniform = random.uniform();
        match self {
            Self::Mix(parts) => {
                let mut sum = 0.0;
                let found = parts.iter().find(|(part, _)| {
                    sum += part;
                    uniform < sum
                });
                found.or(parts.last()).map_or(0, |(_, size)| *size)
            }
            Self::Pareto(least, most) => {
                let (least, most) = (f64::from(*least), f64::from(*most));
                (least / (1.0 - uniform * (1.0 - least / most))) as u32
            }
        }
    }

    /// Probability and mean size of each kind: the sizes themselves, or quarters of octaves.
    fn kinds(&self) -> Vec<(f64, f64)> {
        match self {
            Self::Mix(parts) => parts.iter().map(|(part, size)| (*part, f64::from(*size))).collect(),
            Self::Pareto(least, most) => pareto_kinds(f64::from(*least), f64::from(*most)),
        }
    }
}

/// Arrival process.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Traffic {
    /// Open: Poisson arrivals at this fraction of the fluid capacity.
    Open(f64),
    /// Closed: this number of requests; a completed one makes room for the next.
    Closed(u32),
}

/// A change in the middle of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Change {
    /// Fraction of the run before it.
    pub after: f64,
    /// The device that changes.
    pub device: usize,
    /// Factor on the device's time after it.
    pub slower: f64,
}

/// Parameters of one run.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// The devices.
    pub cards: Vec<Card>,
    /// Sizes of requests.
    pub sizes: Sizes,
    /// Arrival process.
    pub traffic: Traffic,
    /// Total of requests.
    pub requests: u32,
    /// Policy for choosing devices.
    pub balance: Balance,
    /// A device that changes.
    pub change: Option<Change>,
    /// Limit of requests on a device.
    pub depth: u32,
    /// Number of extra requests that arrive simultaneously at the end of the warm-up.
    pub burst: u32,
}

/// Result of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Judged {
    /// Whether the devices carried the load: see [`Run::go`].
    pub stable: bool,
    /// Mean time in the system, ns.
    pub mean: f64,
    /// 99th percentile of the time in the system, ns.
    pub p99: f64,
    /// Rate of completions as a fraction of the fluid capacity: without the warm-up, if the run was longer.
    pub carried: f64,
}

/// Growth that counts as instability, as a fraction of the arrivals. A policy that loses a fraction p of the capacity
/// lets p + load - 1 of the arrivals pile up.
const GROWTH: f64 = 0.002;
/// Fraction of the requests that is not counted, while prices and rates are learnt.
const WARM_UP: f64 = 0.2;

impl Run {
    /// The highest rate of these sizes that the devices can carry, by the linear program, requests per ns.
    pub fn capacity(&self) -> f64 {
        let kinds = self.sizes.kinds();
        let mix: Vec<f64> = kinds.iter().map(|(part, _)| *part).collect();
        let time = |kind: usize, device: usize| Some(self.cards[device].time(kinds[kind].1));
        Program::new(self.cards.len(), kinds.len()).solve(self.cards.len(), &mix, time).unwrap_or(0.0)
    }

    /// Simulates the run.
    ///
    /// A run is stable if it did not reach [`OVERFLOW`] and if its mean number of requests in the system grew, from
    /// the second third to the last, by at most 0.2 % of the arrivals between their middles.
    pub fn go(&self, seed: u64) -> Judged {
        let capacity = self.capacity();
        let mut engine = Engine::new(seed);
        let mut pool = Pool::new(self, capacity);
        let first = if let Traffic::Closed(clients) = self.traffic { clients } else { 1 };
        (0..first).for_each(|_| _ = engine.schedule(0, PoolEvent::Arrival));
        engine.schedule(REPRICE, PoolEvent::Reprice);
        while !pool.over && engine.step(&mut pool, Nanos::MAX) {}
        pool.result(engine.now(), capacity)
    }
}

#[derive(Clone, Copy, Debug)]
enum PoolEvent {
    Arrival,
    Served(usize),
    Reprice,
}

#[derive(Clone, Copy, Debug)]
struct Task {
    ticket: Ticket,
    size: u32,
    /// Time that the device spent on it, ns.
    spent: f64,
}

struct Server {
    card: Card,
    queue: VecDeque<Task>,
    serving: Option<Task>,
}

impl Server {
    fn begin(&mut self) -> Option<f64> {
        let task = self.queue.pop_front()?;
        let spent = self.card.time(task.size.into());
        self.serving = Some(Task { spent, ..task });
        Some(spent)
    }
}

struct Pool<'a> {
    run: &'a Run,
    dispatch: Dispatch,
    servers: Vec<Server>,
    /// Time of arrival and size of each request in flight, by ticket number.
    requests: Vec<(Nanos, u32)>,
    /// Requests without a device yet: time of arrival and size.
    waiting: VecDeque<(Nanos, u32)>,
    /// Mean time between two arrivals, ns.
    gap: f64,
    warm_up: u32,
    arrivals: u32,
    in_system: u32,
    over: bool,
    /// Times in the system, ns.
    times: Vec<Nanos>,
    /// Requests in the system at each third's arrivals, summed.
    thirds: [u64; 3],
    /// End of the warm-up (or the start), and completions since.
    since: Nanos,
    done: u64,
}

impl<'a> Pool<'a> {
    fn new(run: &'a Run, capacity: f64) -> Self {
        let limits =
            Limits { lanes: 1, clients: 1, in_flight: TABLE, quantum: 1, deferred: Limits::usually_deferred(TABLE) };
        let dispatch = tables(
            limits,
            run.balance,
            Notify::Park,
            u32::MAX,
            run.cards.iter().map(|card| capability(card, run.depth)),
        );
        let load = if let Traffic::Open(load) = run.traffic { load } else { 1.0 };
        Self {
            run,
            dispatch,
            servers: run.cards.iter().map(|&card| Server { card, queue: VecDeque::new(), serving: None }).collect(),
            requests: vec![(0, 0); limits.in_flight as usize],
            waiting: VecDeque::new(),
            gap: 1.0 / (capacity * load),
            warm_up: (f64::from(run.requests) * WARM_UP) as u32,
            arrivals: 0,
            in_system: 0,
            over: false,
            times: Vec::with_capacity(run.requests as usize),
            thirds: [0; 3],
            since: 0,
            done: 0,
        }
    }

    fn arrive(&mut self, engine: &mut Engine<PoolEvent>) {
        let part = f64::from(self.arrivals) / f64::from(self.run.requests);
        self.thirds[((part * 3.0) as usize).min(2)] += u64::from(self.in_system);
        self.arrivals += 1;
        self.in_system += 1;
        if let Some(change) = self.run.change
            && part >= change.after
        {
            let (from, card) = (self.run.cards[change.device], &mut self.servers[change.device].card);
            (card.fixed, card.per_byte) = (from.fixed * change.slower, from.per_byte * change.slower);
        }
        if let Traffic::Open(_) = self.run.traffic {
            let gap = engine.random().exponential(self.gap);
            engine.after(gap.round() as Nanos, PoolEvent::Arrival);
        }
        self.enter(engine);
        if self.arrivals == self.warm_up {
            (self.since, self.done) = (engine.now(), 0);
            self.in_system += self.run.burst;
            (0..self.run.burst).for_each(|_| self.enter(engine));
        }
        self.over = self.arrivals == self.run.requests || self.in_system as usize >= OVERFLOW;
    }

    /// A new request of random size. As in a lane, it waits behind earlier ones.
    fn enter(&mut self, engine: &mut Engine<PoolEvent>) {
        let size = self.run.sizes.draw(engine.random());
        if !self.waiting.is_empty() || !self.place(engine, engine.now(), size) {
            self.waiting.push_back((engine.now(), size));
        }
    }

    /// `false`: no device accepts it now.
    fn place(&mut self, engine: &mut Engine<PoolEvent>, arrived: Nanos, size: u32) -> bool {
        let work = Work {
            lane: LANE,
            tag: 0,
            class: Class::NOOP,
            size,
            urgent: false,
            key_location: KeyLocation::LOCAL,
            submitted: None,
        };
        let Placement::Assigned(Assignment { device, ticket, begins, .. }) = self.dispatch.place(engine.now(), work)
        else {
            return false;
        };
        self.requests[ticket.index()] = (arrived, size);
        if begins {
            self.hand(engine, device, ticket);
        }
        true
    }

    fn hand(&mut self, engine: &mut Engine<PoolEvent>, device: usize, ticket: Ticket) {
        let size = self.requests[ticket.index()].1;
        self.servers[device].queue.push_back(Task { ticket, size, spent: 0.0 });
        self.serve(engine, device);
    }

    fn serve(&mut self, engine: &mut Engine<PoolEvent>, device: usize) {
        let server = &mut self.servers[device];
        if server.serving.is_none()
            && let Some(time) = server.begin()
        {
            engine.after(time.round() as Nanos, PoolEvent::Served(device));
        }
    }

    fn complete(&mut self, engine: &mut Engine<PoolEvent>, device: usize, task: &Task) {
        let took = self.servers[device].card.reported(task.spent);
        self.dispatch.complete(task.ticket, Some(took));
        self.dispatch.announce(engine.now(), LANE);
        self.in_system -= 1;
        self.done += 1;
        if self.arrivals >= self.warm_up {
            self.times.push(engine.now() - self.requests[task.ticket.index()].0);
        }
        while let Some(ticket) = self.dispatch.release(engine.now(), device) {
            self.hand(engine, device, ticket);
        }
        while let Some((arrived, size)) = self.waiting.front().copied() {
            if !self.place(engine, arrived, size) {
                break;
            }
            self.waiting.pop_front();
        }
        if let Traffic::Closed(_) = self.run.traffic {
            engine.after(0, PoolEvent::Arrival);
        }
    }

    fn result(mut self, now: Nanos, capacity: f64) -> Judged {
        let third = f64::from(self.run.requests) / 3.0;
        let [_, second, last] = self.thirds.map(|sum| sum as f64 / third);
        let growth = (last - second) / third;
        let times = &mut self.times;
        let mean = times.iter().sum::<Nanos>() as f64 / times.len().max(1) as f64;
        let rank = (times.len() * 99 / 100).min(times.len().saturating_sub(1));
        let p99 = if times.is_empty() { 0.0 } else { *times.select_nth_unstable(rank).1 as f64 };
        let elapsed = (now - self.since).max(1) as f64;
        let stable = self.in_system < OVERFLOW as u32 && growth < GROWTH;
        Judged { stable, mean, p99, carried: self.done as f64 / elapsed / capacity }
    }
}

impl World for Pool<'_> {
    type Event = PoolEvent;

    fn handle(&mut self, engine: &mut Engine<PoolEvent>, event: PoolEvent) {
        match event {
            PoolEvent::Arrival => self.arrive(engine),
            PoolEvent::Served(device) => {
                if let Some(task) = self.servers[device].serving.take() {
                    self.complete(engine, device, &task);
                }
                self.serve(engine, device);
            }
            PoolEvent::Reprice => {
                self.dispatch.reprice(engine.now());
                engine.after(REPRICE, PoolEvent::Reprice);
            }
        }
    }
}

fn capability(card: &Card, depth: u32) -> Capability {
    let mut rates = Rates::new();
    for size in MEASURED {
        rates.observe(Class::NOOP, size, card.reported(card.time(size.into())));
    }
    let reference = rates.estimate(Class::NOOP, MEASURED[2]).max(1);
    let weight = (WEIGHT / reference).clamp(1, 1_000) as u32;
    Capability { classes: Classes::all(), immediate: false, remote_keys: false, depth, weight, rates }
}

fn pareto_kinds(least: f64, most: f64) -> Vec<(f64, f64)> {
    let step = 2.0_f64.sqrt().sqrt();
    let norm = 1.0 - least / most;
    let mut kinds = Vec::new();
    let mut from = least;
    while from < most {
        let to = (from * step).min(most);
        let part = (least / from - least / to) / norm;
        // The density falls with the square of the size, so the mean is near the geometric one.
        kinds.push((part, (from * to).sqrt()));
        from = to;
    }
    kinds
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mean(sizes: &Sizes) -> f64 {
        let mut random = Random::new(3);
        (0..1_000_000).map(|_| f64::from(sizes.draw(&mut random))).sum::<f64>() / 1e6
    }

    #[test]
    fn what_is_drawn_is_what_the_program_is_told() {
        for sizes in [Sizes::Mix(vec![(0.95, 256), (0.05, 16_384)]), Sizes::Pareto(64, 65_536)] {
            let kinds = sizes.kinds();
            let total: f64 = kinds.iter().map(|(part, _)| part).sum();
            let expected: f64 = kinds.iter().map(|(part, size)| part * size).sum();
            let drawn = mean(&sizes);
            assert!((total - 1.0).abs() < 1e-9 && (drawn / expected - 1.0).abs() < 0.02, "{drawn} {expected}");
        }
    }
}
