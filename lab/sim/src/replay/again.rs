//! Runs the requests of a record again, at their times of arrival, on other devices and under other policies.
//!
//! Core's [`Dispatch`] decides. A device works on one request at a time. It takes the recorded time of the request; on
//! a device of another kind, that time is scaled by the ratio of both devices' rates. The sidecore's own cost of a
//! request is omitted, and so are shares between clients: all requests belong to one client, in one lane.

use super::traffic::{Request, Traffic};
use crate::engine::{Engine, World};
use crate::part::tables;
use sidecore_core::dispatch::{Assignment, Capability, Dispatch, KeyLocation, LaneId, Limits, Placement, Work};
use sidecore_core::inflight::Ticket;
use sidecore_core::policy::balance::Balance;
use sidecore_core::policy::notify::Notify;
use sidecore_core::time::Nanos;
use std::collections::VecDeque;

const LANE: LaneId = LaneId(0);

/// The devices for the requests, and their policies.
#[derive(Clone, Debug, PartialEq)]
pub struct Pool {
    /// For each device, the number of the recorded device that it copies.
    pub devices: Vec<usize>,
    /// Limit of requests on a device; `None`: as recorded.
    pub depth: Option<u32>,
    /// Policy for choosing devices.
    pub balance: Balance,
}

/// Result of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Again {
    /// Time of each request, ns, in ascending order.
    pub times: Vec<Nanos>,
    /// Time from the first request to the last completion, ns.
    pub span: Nanos,
    /// Working time of each device, ns.
    pub busy: Vec<Nanos>,
    /// Number of requests that no device could do.
    pub refused: u64,
}

impl Again {
    /// The record's own result.
    pub fn recorded(traffic: &Traffic) -> Self {
        let mut times: Vec<Nanos> = traffic.requests.iter().map(|request| request.done - request.came).collect();
        times.sort_unstable();
        let first = traffic.requests.first().map_or(0, |request| request.came);
        let last = traffic.requests.iter().map(|request| request.done).max().unwrap_or(0);
        let mut busy: Vec<Nanos> = vec![0; traffic.devices.len()];
        for Request { device, took, .. } in &traffic.requests {
            busy[*device] = busy[*device].saturating_add(*took);
        }
        Self { times, span: last - first, busy, refused: 0 }
    }

    /// The quantile of the times for this fraction, ns.
    pub fn at(&self, part: f64) -> Option<Nanos> {
        self.times.get((self.times.len() as f64 * part) as usize).copied()
    }

    /// Mean time, ns.
    pub fn mean(&self) -> f64 {
        self.times.iter().map(|time| *time as f64).sum::<f64>() / self.times.len() as f64
    }
}

/// Runs the requests on this pool. `None`: it copies a device that the record does not have.
pub fn again(traffic: &Traffic, pool: &Pool) -> Option<Again> {
    if pool.devices.is_empty() || pool.devices.iter().any(|like| *like >= traffic.devices.len()) {
        return None;
    }
    let first = traffic.requests.first().map_or(0, |request| request.came);
    let mut engine = Engine::new(0);
    let mut world = Devices::new(traffic, pool, first);
    if !traffic.requests.is_empty() {
        engine.schedule(0, ReplayEvent::Arrival);
    }
    while world.left > 0 && engine.step(&mut world, Nanos::MAX) {}
    let Devices { mut times, busy, refused, .. } = world;
    times.sort_unstable();
    Some(Again { times, span: engine.now(), busy, refused })
}

#[derive(Clone, Copy, Debug)]
enum ReplayEvent {
    Arrival,
    Done(usize),
}

struct Devices<'a> {
    traffic: &'a Traffic,
    pool: &'a Pool,
    first: Nanos,
    dispatch: Dispatch,
    /// Number of the next request to arrive, and number of unanswered requests.
    next: usize,
    left: usize,
    waiting: VecDeque<usize>,
    requests: Vec<usize>,
    queues: Vec<VecDeque<Ticket>>,
    working: Vec<Option<(Ticket, Nanos)>>,
    times: Vec<Nanos>,
    busy: Vec<Nanos>,
    refused: u64,
}

impl<'a> Devices<'a> {
    fn new(traffic: &'a Traffic, pool: &'a Pool, first: Nanos) -> Self {
        let in_flight = traffic.limits.in_flight;
        let deferred = Limits::usually_deferred(in_flight);
        let limits = Limits { lanes: 1, clients: 1, in_flight, quantum: traffic.limits.quantum, deferred };
        let like = |number: usize| {
            let known = &traffic.devices[number];
            // The sidecore's own work is a device here, so that requests can wait for it.
            let depth = pool.depth.unwrap_or(known.depth.max(1));
            Capability { immediate: false, remote_keys: false, depth, ..known.clone() }
        };
        let devices = pool.devices.iter().map(|number| like(*number));
        let dispatch = tables(limits, pool.balance, Notify::Park, u32::MAX, devices);
        let (count, left) = (pool.devices.len(), traffic.requests.len());
        Self {
            traffic,
            pool,
            first,
            dispatch,
            next: 0,
            left,
            waiting: VecDeque::new(),
            requests: vec![0; in_flight as usize],
            queues: vec![VecDeque::new(); count],
            working: vec![None; count],
            times: Vec::with_capacity(left),
            busy: vec![0; count],
            refused: 0,
        }
    }

    fn came(&self, request: usize) -> Nanos {
        self.traffic.requests[request].came - self.first
    }

    /// Time of a request on a device, ns.
    fn time(&self, device: usize, request: usize) -> Nanos {
        let Request { work, device: own, took, .. } = self.traffic.requests[request];
        let like = self.pool.devices[device];
        let takes = |device: usize| self.traffic.rates[device].estimate(work.class, work.size).max(1) as f64;
        if like == own { took } else { (took as f64 * takes(like) / takes(own)).round() as Nanos }
    }

    fn arrive(&mut self, engine: &mut Engine<ReplayEvent>) {
        let request = self.next;
        self.next += 1;
        if self.next < self.traffic.requests.len() {
            engine.schedule(self.came(self.next), ReplayEvent::Arrival);
        }
        if !self.waiting.is_empty() || !self.place(engine, request) {
            self.waiting.push_back(request);
        }
    }

    /// `false`: every device is full.
    fn place(&mut self, engine: &mut Engine<ReplayEvent>, request: usize) -> bool {
        let Work { class, size, urgent, .. } = self.traffic.requests[request].work;
        let work = Work { lane: LANE, tag: 0, class, size, urgent, key_location: KeyLocation::LOCAL, submitted: None };
        match self.dispatch.place(engine.now(), work) {
            Placement::Assigned(Assignment { device, ticket, begins, .. }) => {
                self.requests[ticket.index()] = request;
                if begins {
                    self.hand(engine, device, ticket);
                }
            }
            Placement::Full => return false,
            Placement::Now { .. } | Placement::NoDevice => {
                self.refused += 1;
                self.left -= 1;
            }
        }
        true
    }

    fn hand(&mut self, engine: &mut Engine<ReplayEvent>, device: usize, ticket: Ticket) {
        self.queues[device].push_back(ticket);
        self.work(engine, device);
    }

    /// Begins the request of the lowest rank, the first among equals, unless the device is working.
    fn work(&mut self, engine: &mut Engine<ReplayEvent>, device: usize) {
        if self.working[device].is_some() {
            return;
        }
        let Some(ticket) = self.queues[device].pop_front() else { return };
        let time = self.time(device, self.requests[ticket.index()]);
        self.working[device] = Some((ticket, time));
        engine.after(time, ReplayEvent::Done(device));
    }

    fn done(&mut self, engine: &mut Engine<ReplayEvent>, device: usize) {
        let Some((ticket, took)) = self.working[device].take() else { return };
        self.busy[device] = self.busy[device].saturating_add(took);
        self.left -= 1;
        self.times.push(engine.now() - self.came(self.requests[ticket.index()]));
        self.dispatch.complete(ticket, Some(took));
        self.dispatch.announce(engine.now(), LANE);
        while let Some(ticket) = self.dispatch.release(engine.now(), device) {
            self.hand(engine, device, ticket);
        }
        while let Some(request) = self.waiting.front().copied() {
            if !self.place(engine, request) {
                break;
            }
            self.waiting.pop_front();
        }
        self.work(engine, device);
    }
}

impl World for Devices<'_> {
    type Event = ReplayEvent;

    fn handle(&mut self, engine: &mut Engine<ReplayEvent>, event: ReplayEvent) {
        // As in the service: called often, mostly without an effect.
        self.dispatch.reprice(engine.now());
        match event {
            ReplayEvent::Arrival => self.arrive(engine),
            ReplayEvent::Done(device) => self.done(engine, device),
        }
    }
}
