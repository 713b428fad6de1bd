//! A pool in simulated time.

use super::capability::{capability, tell};
use super::device::{Device, Kind, Task};
use super::model::{Pool, pick};
use super::tape::{Arrival, Tape};
use crate::engine::{Engine, World};
use crate::part::pipe::Pipe;
use crate::part::tables;
use crate::system::{Outcome, fullest, percentile};
use sidecore_core::dispatch::{Assignment, Dispatch, KeyLocation, LaneId, Limits, Placement, Reassigned, Work};
use sidecore_core::inflight::Ticket;
use sidecore_core::policy::notify::{Notify, WakeDecision};
use sidecore_core::time::Nanos;
use slab::Slab;
use std::collections::VecDeque;

/// Most requests in flight, as in the service.
const TABLE: u32 = 16_384;
/// Most lanes; further clients share them.
const MAX_LANES: u32 = 1_024;
/// Least interval of price updates by dispatch, ns.
const REPRICE: Nanos = 100_000;
/// Growth that counts as instability, as a part of the arrivals. A policy that loses a part p of the capacity lets
/// p + load - 1 of the arrivals pile up.
const GROWTH: f64 = 0.002;

#[derive(Clone, Copy, Debug)]
pub(super) enum PoolEvent {
    Arrival,
    /// A client's request.
    Client(u32),
    Submitted(u32),
    AtDevice {
        device: usize,
        life: u32,
        task: Task,
    },
    Bus,
    Look {
        device: usize,
        life: u32,
    },
    Worked {
        device: usize,
        engine: usize,
        life: u32,
        time: Nanos,
        fill: usize,
    },
    Back {
        device: usize,
        life: u32,
        task: Task,
        took: Nanos,
    },
    Completed {
        ticket: Ticket,
        device: usize,
        took: Nanos,
    },
    Due(u32),
    Answered(u32),
    /// A device, by number.
    Dies(usize),
    /// A kind, by number: its first device.
    Returns(usize),
}

#[derive(Clone, Copy, Debug)]
struct Request {
    arrived: Nanos,
    operation: usize,
    bytes: u32,
    client: Option<u32>,
}

struct State<'a> {
    set: &'a Pool,
    dispatch: Dispatch,
    devices: Vec<Device>,
    bus: Option<Pipe<PoolEvent>>,
    /// Transfers by key: device, its life, task.
    transfers: Slab<(usize, u32, Task)>,
    /// Time at that each core of a sidecore is free, ns.
    cores: Vec<Nanos>,
    cores_busy: f64,
    /// Answers that wait for a core.
    answers: u32,
    requests: Slab<Request>,
    /// Requests without a device, by operation.
    waiting: Vec<VecDeque<u32>>,
    /// Operations without room, by number: of one [`State::place`].
    blocked: Vec<bool>,
    /// Time of the next price update, ns. An event of its own would keep a pool without work going.
    reprice_at: Nanos,
    orphans: Vec<Ticket>,
    /// Completions that are not announced, by lane.
    unannounced: Vec<Vec<u32>>,
    arrivals: u32,
    ended: u32,
    abandoned: u32,
    /// Batches of devices that do several requests in one, and requests in them.
    batches: (u64, u64),
    /// Requests in the pool at each counted arrival, summed by thirds of the arrivals.
    thirds: [u64; 3],
    /// Times of requests that are counted, ns.
    times: Vec<Nanos>,
    /// Whether measurement has begun.
    measures: bool,
    /// Begin of measurement, ns, and what was used until then.
    since: Nanos,
    used: Vec<f64>,
}

/// Runs once.
pub(super) fn run(set: &Pool, seed: u64) -> Outcome {
    let mut engine = Engine::new(seed);
    let mut state = State::new(set);
    state.start(&mut engine);
    while !state.is_over() && engine.step(&mut state, Nanos::MAX - 1) {}
    state.outcome(&engine)
}

impl<'a> State<'a> {
    fn new(set: &'a Pool) -> Self {
        let lanes = set.clients.clamp(1, MAX_LANES);
        let limits =
            Limits { lanes, clients: lanes, in_flight: TABLE, quantum: 1, deferred: Limits::usually_deferred(TABLE) };
        let numbered = || {
            set.kinds.iter().enumerate().flat_map(|(number, kind)| (0..kind.count).map(move |of| (number, of, kind)))
        };
        let capabilities = numbered().map(|(_, _, kind)| capability(set, kind));
        let mut dispatch = tables(limits, set.balance, set.notify, u32::MAX, capabilities);
        for (device, (.., kind)) in numbered().enumerate() {
            tell(set, kind, &mut dispatch, device);
        }
        Self {
            set,
            dispatch,
            devices: numbered().map(|(number, of, kind)| Device::new(number, of == 0, kind)).collect(),
            bus: set.bus.map(|capacity| Pipe::new(capacity, PoolEvent::Bus)),
            transfers: Slab::new(),
            cores: vec![0; set.cores],
            cores_busy: 0.0,
            answers: 0,
            requests: Slab::new(),
            waiting: vec![VecDeque::new(); set.operations.len()],
            blocked: vec![false; set.operations.len()],
            reprice_at: REPRICE,
            orphans: Vec::new(),
            unannounced: vec![Vec::new(); lanes as usize],
            arrivals: 0,
            ended: 0,
            abandoned: 0,
            batches: (0, 0),
            thirds: [0; 3],
            times: Vec::with_capacity(set.count as usize),
            measures: set.warm_up == 0 && set.measure_from == 0,
            since: 0,
            used: Vec::new(),
        }
    }

    fn start(&mut self, engine: &mut Engine<PoolEvent>) {
        if self.set.rate_per_s > 0.0 || self.set.tape.is_some() {
            engine.schedule(0, PoolEvent::Arrival);
        }
        for client in 0..self.set.clients {
            for _ in 0..self.set.in_flight {
                engine.schedule(0, PoolEvent::Client(client));
            }
        }
        for (number, device) in self.devices.iter().enumerate().filter(|(_, device)| device.is_first) {
            let (at, back) = self.set.kinds[device.kind].fails;
            if at > 0 {
                engine.schedule(at, PoolEvent::Dies(number));
            }
            if at > 0 && back > at {
                engine.schedule(back, PoolEvent::Returns(device.kind));
            }
        }
    }

    fn is_over(&self) -> bool {
        self.ended >= self.set.count || self.requests.len() >= self.set.overflow
    }

    fn kind(&self, device: usize) -> &'a Kind {
        &self.set.kinds[self.devices[device].kind]
    }

    /// Gives a core of a sidecore this work, first come, first served. Returns its end.
    fn on_core(&mut self, now: Nanos, cost: Nanos) -> Nanos {
        if cost == 0 {
            return now;
        }
        let Some(core) = self.cores.iter_mut().min() else { return now };
        *core = now.max(*core) + cost;
        self.cores_busy += cost as f64;
        *core
    }

    fn arrive(&mut self, engine: &mut Engine<PoolEvent>) {
        if let Some(tape) = &self.set.tape {
            return self.arrive_of(tape, engine);
        }
        let gap = engine.random().exponential(1e9 * f64::from(self.set.burst) / self.set.rate_per_s);
        engine.after(gap.round() as Nanos, PoolEvent::Arrival);
        for _ in 0..self.set.burst {
            self.enter(engine, None);
        }
    }

    fn arrive_of(&mut self, tape: &Tape, engine: &mut Engine<PoolEvent>) {
        let Some(&Arrival { operation, bytes, .. }) = tape.arrivals.get(self.arrivals as usize) else { return };
        self.count_arrival();
        if let Some(next) = tape.arrivals.get(self.arrivals as usize) {
            engine.schedule(next.at, PoolEvent::Arrival);
        }
        self.accept(engine, Request { arrived: engine.now(), operation, bytes, client: None });
    }

    fn count_arrival(&mut self) {
        if (self.set.warm_up..self.set.count).contains(&self.arrivals) {
            let (of, all) = (self.arrivals - self.set.warm_up, self.set.count - self.set.warm_up);
            self.thirds[(u64::from(of) * 3 / u64::from(all)) as usize] += self.requests.len() as u64;
        }
        self.arrivals += 1;
    }

    fn enter(&mut self, engine: &mut Engine<PoolEvent>, client: Option<u32>) {
        self.count_arrival();
        let operation = self.draw(engine.random().uniform());
        let bytes = self.set.operations[operation].draw(engine.random());
        self.accept(engine, Request { arrived: engine.now(), operation, bytes, client });
        if self.arrivals == self.set.warm_up.max(1) {
            (0..self.set.surge).for_each(|_| self.enter(engine, None));
        }
    }

    fn accept(&mut self, engine: &mut Engine<PoolEvent>, request: Request) {
        let number = self.requests.insert(request) as u32;
        let at = self.on_core(engine.now(), self.set.submit);
        if at > engine.now() {
            engine.schedule(at, PoolEvent::Submitted(number));
        } else {
            self.submitted(engine, number);
        }
    }

    fn submitted(&mut self, engine: &mut Engine<PoolEvent>, number: u32) {
        self.waiting[self.requests[number as usize].operation].push_back(number);
        self.place(engine);
    }

    fn draw(&self, uniform: f64) -> usize {
        let changes_at = self.set.change_at * f64::from(self.set.count);
        let is_after = self.set.is_changing() && f64::from(self.arrivals) > changes_at;
        let shares = self.set.operations.iter().map(|it| if is_after { it.share_after } else { it.share });
        pick(&shares, uniform)
    }

    fn work(&self, number: u32) -> Work {
        let Request { operation, bytes, client, .. } = self.requests[number as usize];
        Work {
            lane: LaneId(client.unwrap_or(0) % self.unannounced.len() as u32),
            tag: number,
            class: self.set.operations[operation].class,
            size: bytes,
            urgent: false,
            key_location: KeyLocation::LOCAL,
            submitted: None,
        }
    }

    /// Places requests that wait, the oldest first. One without room blocks its operation only.
    fn place(&mut self, engine: &mut Engine<PoolEvent>) {
        let now = engine.now();
        if now >= self.reprice_at {
            self.dispatch.reprice(now);
            self.reprice_at = now.saturating_add(REPRICE);
        }
        self.blocked.fill(false);
        while let Some((operation, number)) = self.oldest() {
            if let Placement::Assigned(given) = self.dispatch.place(now, self.work(number)) {
                self.waiting[operation].pop_front();
                self.hand(engine, given);
            } else {
                self.blocked[operation] = true;
            }
        }
    }

    /// Operation and number of the oldest request that waits, of operations with room.
    fn oldest(&self) -> Option<(usize, u32)> {
        let first = |(operation, waiting): (usize, &VecDeque<u32>)| {
            let number = *waiting.front().filter(|_| !self.blocked[operation])?;
            Some((self.requests[number as usize].arrived, operation, number))
        };
        let (_, operation, number) = self.waiting.iter().enumerate().filter_map(first).min()?;
        Some((operation, number))
    }

    fn hand(&mut self, engine: &mut Engine<PoolEvent>, Assignment { device, ticket, begins, .. }: Assignment) {
        if begins {
            self.send(engine, device, ticket);
        }
    }

    /// On the way to the device: half of its latency, and the bus.
    fn send(&mut self, engine: &mut Engine<PoolEvent>, device: usize, ticket: Ticket) {
        let Some(number) = self.dispatch.tag_of(ticket) else { return };
        let Request { operation, bytes, .. } = self.requests[number as usize];
        let life = self.devices[device].life;
        let task = Task { ticket, operation, bytes };
        match &mut self.bus {
            Some(bus) if self.set.kinds[self.devices[device].kind].on_bus && bytes > 0 => {
                let key = self.transfers.insert((device, life, task));
                bus.start(engine, key as u32, f64::from(bytes), f64::INFINITY);
            }
            _ => self.approach(engine, device, life, task),
        }
    }

    fn approach(&mut self, engine: &mut Engine<PoolEvent>, device: usize, life: u32, task: Task) {
        let way = self.kind(device).latency / 2;
        if way == 0 {
            return self.at_device(engine, device, life, task);
        }
        engine.after(way, PoolEvent::AtDevice { device, life, task });
    }

    fn at_device(&mut self, engine: &mut Engine<PoolEvent>, device: usize, life: u32, task: Task) {
        if self.devices[device].life == life {
            self.devices[device].submit(engine.now(), task);
            self.look(engine, device);
        }
    }

    fn look(&mut self, engine: &mut Engine<PoolEvent>, number: usize) {
        let kind = self.kind(number);
        loop {
            let device = &mut self.devices[number];
            let life = device.life;
            match device.begin(engine.now(), kind, engine.random()) {
                Ok(begun) => {
                    if kind.batch.1 > 1 {
                        self.batches = (self.batches.0 + 1, self.batches.1 + begun.fill as u64);
                    }
                    let event = PoolEvent::Worked {
                        device: number,
                        engine: begun.engine,
                        life,
                        time: begun.time,
                        fill: begun.fill,
                    };
                    engine.after(begun.time, event);
                }
                Err(Some(at)) if device.due.is_none_or(|due| due > at || due <= engine.now()) => {
                    device.due = Some(at);
                    engine.schedule(at, PoolEvent::Look { device: number, life });
                    return;
                }
                Err(_) => return,
            }
        }
    }

    /// An engine has ended: its requests go back.
    fn worked(&mut self, engine: &mut Engine<PoolEvent>, device: usize, of: usize, time: Nanos, fill: usize) {
        let kind = self.kind(device);
        let life = self.devices[device].life;
        let took = kind.reported(fill, time);
        for task in self.devices[device].end(of) {
            let way = kind.latency - kind.latency / 2;
            if way == 0 {
                self.back(engine, device, task, took);
            } else {
                engine.after(way, PoolEvent::Back { device, life, task, took });
            }
        }
        self.look(engine, device);
    }

    /// An answer is at the host. The first waiting one brings an interrupt.
    fn back(&mut self, engine: &mut Engine<PoolEvent>, device: usize, task: Task, took: Nanos) {
        let interrupt = if self.answers == 0 { self.set.interrupt } else { 0 };
        self.answers += 1;
        let at = self.on_core(engine.now(), self.set.complete + interrupt);
        engine.schedule(at, PoolEvent::Completed { ticket: task.ticket, device, took });
    }

    fn completed(&mut self, engine: &mut Engine<PoolEvent>, ticket: Ticket, device: usize, took: Nanos) {
        self.answers -= 1;
        let now = engine.now();
        if let Some(done) = self.dispatch.complete(ticket, Some(took)) {
            let lane = done.work.lane;
            self.unannounced[lane.0 as usize].push(done.work.tag);
            let decision = self.dispatch.announce(now, lane);
            self.announce(engine, lane.0, decision);
        }
        while let Some(ticket) = self.dispatch.release(now, device) {
            self.send(engine, device, ticket);
        }
        self.recover(engine);
        self.place(engine);
    }

    fn announce(&mut self, engine: &mut Engine<PoolEvent>, lane: u32, decision: WakeDecision) {
        match decision {
            WakeDecision::Nothing => {}
            WakeDecision::At(at) => _ = engine.schedule(at, PoolEvent::Due(lane)),
            WakeDecision::Now => {
                for number in std::mem::take(&mut self.unannounced[lane as usize]) {
                    let at = self.seen(engine.now(), self.requests[number as usize].arrived);
                    if at > engine.now() {
                        engine.schedule(at, PoolEvent::Answered(number));
                    } else {
                        self.answered(engine, number);
                    }
                }
            }
        }
    }

    /// Time at which a client sees an announced completion. `sent`: the time of its request.
    fn seen(&self, now: Nanos, sent: Nanos) -> Nanos {
        let wake = self.set.wake;
        match self.set.notify {
            Notify::Spin => now,
            Notify::Timer { period } => now.div_ceil(period.max(1)) * period.max(1),
            // It polls for as long as a wake-up takes.
            Notify::BreakEven | Notify::Learn if now.saturating_sub(sent) <= wake => now,
            Notify::Park | Notify::Coalesce { .. } | Notify::BreakEven | Notify::Learn => now + wake,
        }
    }

    fn answered(&mut self, engine: &mut Engine<PoolEvent>, number: u32) {
        let arrived = self.requests[number as usize].arrived;
        if arrived >= self.set.measure_from {
            self.times.push(engine.now() - arrived);
        }
        self.end(engine, number);
    }

    fn end(&mut self, engine: &mut Engine<PoolEvent>, number: u32) {
        self.ended += 1;
        let is_warm = self.ended >= self.set.warm_up && engine.now() >= self.set.measure_from;
        if is_warm && !self.measures {
            self.measures = true;
            self.times.clear();
            self.since = engine.now();
            self.used = self.use_of().into_iter().map(|(_, used, _)| used).collect();
        }
        let Request { client, .. } = self.requests.remove(number as usize);
        if let Some(client) = client {
            engine.after(self.set.think, PoolEvent::Client(client));
        }
    }

    fn dies(&mut self, engine: &mut Engine<PoolEvent>, device: usize) {
        self.devices[device].die();
        self.dispatch.lose(device);
        let mut from = 0;
        while let Some(ticket) = self.dispatch.next_orphan(device, from) {
            from = ticket.index() + 1;
            self.orphans.push(ticket);
        }
        self.recover(engine);
    }

    /// Gives requests of dead devices to others, as far as these have room.
    fn recover(&mut self, engine: &mut Engine<PoolEvent>) {
        for ticket in std::mem::take(&mut self.orphans) {
            match self.dispatch.reassign(engine.now(), ticket) {
                Some(Reassigned::Assigned(given)) => self.hand(engine, given),
                Some(Reassigned::Wait(ticket)) => self.orphans.push(ticket),
                Some(Reassigned::Abandoned(done) | Reassigned::Now(done)) => {
                    self.abandoned += 1;
                    self.end(engine, done.work.tag);
                }
                None => {}
            }
        }
    }

    /// The device joins again, with a number that may be another device's former one.
    fn returns(&mut self, engine: &mut Engine<PoolEvent>, kind: usize) {
        let of = &self.set.kinds[kind];
        let Some(number) = self.dispatch.add_device(capability(self.set, of)) else { return };
        tell(self.set, of, &mut self.dispatch, number);
        let mut joined = Device::new(kind, true, of);
        match self.devices.get_mut(number) {
            Some(dead) => {
                (joined.life, joined.busy) = (dead.life + 1, dead.busy);
                *dead = joined;
            }
            None => self.devices.push(joined),
        }
        self.recover(engine);
        self.place(engine);
    }

    /// Name, time used and capacity of each part.
    fn use_of(&self) -> Vec<(&'a str, f64, f64)> {
        let mut all = vec![("host", self.cores_busy, self.cores.len() as f64)];
        for (number, kind) in self.set.kinds.iter().enumerate() {
            let busy = self.devices.iter().filter(|device| device.kind == number).map(|device| device.busy).sum();
            all.push((&kind.name, busy, f64::from(kind.count * kind.engines)));
        }
        if let (Some(bus), Some(capacity)) = (&self.bus, self.set.bus) {
            all.push(("bus", bus.carried / capacity, 1.0));
        }
        all
    }

    fn is_stable(&self) -> bool {
        let third = f64::from(self.set.count - self.set.warm_up) / 3.0;
        let [_, second, last] = self.thirds.map(|sum| sum as f64 / third);
        self.ended >= self.set.count && last - second < GROWTH * third
    }

    fn outcome(mut self, engine: &Engine<PoolEvent>) -> Outcome {
        let elapsed = (engine.now() - self.since).max(1) as f64;
        let uses = self.use_of();
        let before = |part: usize| self.used.get(part).copied().unwrap_or(0.0);
        let part = |(number, (name, used, of)): (usize, &(&'a str, f64, f64))| {
            (*name, ((used - before(number)) / (of * elapsed)).min(1.0))
        };
        let parts: Vec<(&str, f64)> = uses.iter().enumerate().filter(|(_, (.., of))| *of > 0.0).map(part).collect();
        let kinds = self.set.kinds.iter().filter(|kind| kind.count > 0).count();
        let device_use = parts[1..=kinds].iter().map(|(_, used)| *used).fold(0.0, f64::max);
        let (part, most) = fullest(&parts);
        let count = self.times.len() as f64;
        let mean = self.times.iter().sum::<Nanos>() as f64 / count / 1e3;
        let [p50, p99] = [0.5, 0.99].map(|part| percentile(&mut self.times, part) / 1e3);
        let fill = if self.batches.0 > 0 { self.batches.1 as f64 / self.batches.0 as f64 } else { 1.0 };
        let [abandoned, stable] = [f64::from(self.abandoned), f64::from(u8::from(self.is_stable()))];
        let values = vec![count * 1e9 / elapsed, mean, p50, p99, parts[0].1, device_use, abandoned, fill, stable];
        Outcome { values, limit: format!("{part} {:.0} %", most * 100.0), trace: engine.trace() }
    }
}

impl World for State<'_> {
    type Event = PoolEvent;

    fn handle(&mut self, engine: &mut Engine<PoolEvent>, event: PoolEvent) {
        let lives = |state: &Self, device: usize, life: u32| state.devices[device].life == life;
        match event {
            PoolEvent::Arrival => self.arrive(engine),
            PoolEvent::Client(client) => self.enter(engine, Some(client)),
            PoolEvent::Submitted(number) => self.submitted(engine, number),
            PoolEvent::AtDevice { device, life, task } => self.at_device(engine, device, life, task),
            PoolEvent::Bus => {
                while let Some(key) = self.bus.as_mut().and_then(|bus| bus.finish(engine)) {
                    if let Some((device, life, task)) = self.transfers.try_remove(key as usize) {
                        self.approach(engine, device, life, task);
                    }
                }
            }
            PoolEvent::Look { device, life } if lives(self, device, life) => {
                self.devices[device].due = None;
                self.look(engine, device);
            }
            PoolEvent::Worked { device, engine: of, life, time, fill } if lives(self, device, life) => {
                self.worked(engine, device, of, time, fill);
            }
            PoolEvent::Back { device, life, task, took } if lives(self, device, life) => {
                self.back(engine, device, task, took);
            }
            PoolEvent::Look { .. } | PoolEvent::Worked { .. } | PoolEvent::Back { .. } => {}
            PoolEvent::Completed { ticket, device, took } => self.completed(engine, ticket, device, took),
            PoolEvent::Due(lane) => {
                let decision = self.dispatch.due(engine.now(), LaneId(lane));
                self.announce(engine, lane, decision);
            }
            PoolEvent::Answered(number) => self.answered(engine, number),
            PoolEvent::Dies(device) => self.dies(engine, device),
            PoolEvent::Returns(kind) => self.returns(engine, kind),
        }
    }
}
