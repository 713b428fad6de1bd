//! Guests, host and adapters together.

use super::guest::{Effect, Guest, Reply, Step};
use super::host::{self, Doing, Task};
use super::parameters::{CP, GUEST, Zvm};
use super::totals::Totals;
use crate::engine::{Engine, World};
use crate::part::cpu::{Cpu, Level, Section};
use crate::part::tables;
use sidecore_core::dispatch::{Assignment, Capability, Dispatch, KeyLocation, LaneId, Limits, Placement, Work};
use sidecore_core::inflight::Ticket;
use sidecore_core::policy::balance::Rates;
use sidecore_core::policy::notify::{Notify, Step as Waiting, Waiter, WakeDecision};
use sidecore_core::session::{Algorithm, Class, Classes, Op};
use sidecore_core::time::Nanos;
use std::collections::VecDeque;

/// Indices of the host's tasks; their owner numbers follow those of the guests.
const ENQUEUE: usize = 0;
const DEQUEUE: usize = 1;
/// Owner number of adapters' interrupts, after the tasks.
const INTERRUPT: u32 = 2;

/// Size of a request with a modulus of 1024 bits, bytes.
const SIZE: u32 = 128;
/// Time on adapters that a guest may use in a round of the dispatcher, ns; unused here.
const QUANTUM: Nanos = 1_000_000;

#[derive(Clone, Copy, Debug)]
pub(super) enum ZvmEvent {
    Done(u32),
    Tick(u32),
    Request(u32),
    Announce(u32),
    Poll(usize),
    Due(usize),
    /// An adapter has finished a request, with its time on the adapter.
    Reply(Ticket, Nanos),
}

#[derive(Clone, Copy)]
struct Request {
    guest: u32,
    came: Nanos,
    sent: Nanos,
}

struct Pending {
    /// Class of its requests in this block, and their time on an adapter's engine.
    asks: (Class, Nanos),
    offset: Nanos,
    ticking: bool,
    waiter: Option<Waiter>,
    /// Asleep since this time, to be woken by an interrupt.
    armed: Option<Nanos>,
}

pub(super) struct Zone {
    set: Zvm,
    cpu: Cpu<ZvmEvent>,
    guests: Vec<Guest>,
    pickup: Vec<Pending>,
    tasks: [Task; 2],
    submitted: VecDeque<Request>,
    replied: VecDeque<(Ticket, Nanos)>,
    to_tell: VecDeque<u32>,
    dispatch: Dispatch,
    /// Time that each engine of each adapter is free.
    adapters: Vec<Vec<Nanos>>,
    found: Totals,
    /// Time from each request's arrival until its guest has the reply, ns.
    times: Vec<Nanos>,
}

impl Zone {
    /// Guests begin at random times within their timer's first tick, and every other one signs. The tasks' timers
    /// begin with these intervals.
    pub(super) fn new(engine: &mut Engine<ZvmEvent>, set: &Zvm, block: u64, intervals: [Nanos; 2]) -> Self {
        let class = |op| Class::of(Algorithm::Rsa1024, op).unwrap_or(Class::NOOP);
        let (sign, verify) = (set.adapter.sign_us.nanos(), set.adapter.verify_us.nanos());
        let kinds = [(class(Op::Sign), sign), (class(Op::Verify), verify)];
        let (enqueue, dequeue, look) = set.looks();
        let (guests, poll) = (set.guest.count.get(), set.poll());
        let cost = set.host.dispatch_us.nanos() + set.guest.wake_us.nanos();
        let mut pickup = Vec::with_capacity(guests as usize);
        for guest in 0..guests {
            let offset = engine.random().below(set.tick());
            let asks = kinds[(block as usize + guest as usize) % 2];
            // A guest does not own its CPU and never spins.
            let waiter = look.map(|policy| Waiter::new(policy, cost, false));
            pickup.push(Pending { asks, offset, ticking: false, waiter, armed: None });
            let first = set.gap().map_or(ZvmEvent::Tick(guest), |_| ZvmEvent::Request(guest));
            engine.schedule(offset, first);
        }
        for task in [ENQUEUE, DEQUEUE] {
            let at = engine.random().below(poll.least);
            engine.schedule(at, ZvmEvent::Poll(task));
        }
        let (depth, in_flight) = (set.adapter.depth.get(), set.adapter.count.get() * set.adapter.depth.get());
        // All adapters are equal: a request waits for any of them.
        let limits = Limits { lanes: guests, clients: guests, in_flight, quantum: QUANTUM, deferred: 0 };
        let adapter = || Capability {
            classes: Classes::all(),
            immediate: false,
            remote_keys: false,
            depth,
            weight: 1,
            rates: Rates::new(),
        };
        let adapters = (0..set.adapter.count.get()).map(|_| adapter());
        Self {
            cpu: Cpu::new(set.cpu(), ZvmEvent::Done),
            guests: (0..guests)
                .map(|_| Guest::new(set.guest.queue_depth.get(), set.guest.threads.get(), set.gap().is_some()))
                .collect(),
            pickup,
            tasks: [
                Task::new(enqueue, poll, intervals[ENQUEUE], set.host.post_us.nanos()),
                Task::new(dequeue, poll, intervals[DEQUEUE], set.host.interrupt_us.nanos()),
            ],
            submitted: VecDeque::new(),
            replied: VecDeque::new(),
            to_tell: VecDeque::new(),
            // A client with a lane for each guest, a device for each adapter.
            dispatch: tables(limits, set.service.balance, look.unwrap_or(Notify::Park), u32::MAX, adapters),
            adapters: vec![vec![0; set.adapter.engines.get() as usize]; set.adapter.count.get() as usize],
            found: Totals::default(),
            times: Vec::new(),
            set: *set,
        }
    }

    pub(super) fn measure(&mut self, totals: Totals) {
        self.found = totals;
        self.times.clear();
        (self.cpu.booked[GUEST], self.cpu.booked[CP]) = (totals.guest, totals.cp);
    }

    /// The totals with the measurement of this time, ns, the time of each request, and the intervals of the tasks'
    /// timers.
    pub(super) fn measured(self, time: Nanos) -> (Totals, Vec<Nanos>, [Nanos; 2]) {
        let (guest, cp) = (self.cpu.booked[GUEST], self.cpu.booked[CP]);
        let found = Totals { time: self.found.time + time as f64, guest, cp, ..self.found };
        (found, self.times, self.tasks.map(|task| task.interval))
    }

    fn step(&mut self, engine: &mut Engine<ZvmEvent>, guest: u32, step: Step) {
        let Zvm { guest: own, host, .. } = &self.set;
        let (account, time) = match step {
            Step::Idle => return self.guest_sleeps(engine, guest),
            Step::Dispatch => (CP, host.dispatch_us.nanos()),
            Step::Wake => (GUEST, own.wake_us.nanos()),
            Step::Request => (GUEST, own.request_us.nanos()),
            Step::Receive | Step::Send => (CP, host.instruction_us.nanos()),
        };
        self.cpu.run(engine, Section { owner: guest, level: Level::User, account, time });
    }

    fn guest_done(&mut self, engine: &mut Engine<ZvmEvent>, guest: u32) {
        let (effect, next) = self.guests[guest as usize].finish(engine.now());
        match effect {
            Effect::None => {}
            Effect::Took(reply) => {
                self.found.taken += 1;
                self.found.rested += (engine.now() - reply.ready) as f64;
                self.times.push(engine.now() - reply.came);
                if let Some(waiter) = &mut self.pickup[guest as usize].waiter {
                    waiter.end(engine.now());
                }
            }
            Effect::Sent(came) => {
                self.submitted.push_back(Request { guest, came, sent: engine.now() });
                self.ring(engine, ENQUEUE);
            }
        }
        self.step(engine, guest, next);
    }

    fn guest_sleeps(&mut self, engine: &mut Engine<ZvmEvent>, guest: u32) {
        let index = guest as usize;
        if self.guests[index].in_flight == 0 {
            return;
        }
        let now = engine.now();
        let pickup = &mut self.pickup[index];
        let wait = pickup.waiter.as_mut().map(|waiter| waiter.step(now));
        match wait {
            None if std::mem::replace(&mut pickup.ticking, true) => {}
            // The kernel's poll timer: one at a time, on its grid.
            None => {
                let tick = self.set.tick();
                let at = pickup.offset + ((now - pickup.offset) / tick + 1) * tick;
                engine.schedule(at, ZvmEvent::Tick(guest));
            }
            Some(Waiting::Nap { until }) => _ = engine.schedule(until, ZvmEvent::Tick(guest)),
            Some(Waiting::Park | Waiting::Spin) if !self.guests[index].replies.is_empty() => {
                let look = self.guests[index].receive();
                self.step(engine, guest, look);
            }
            Some(Waiting::Park | Waiting::Spin) => pickup.armed = Some(now),
        }
    }

    fn tell(&mut self, engine: &mut Engine<ZvmEvent>, guest: u32) {
        let step = self.guests[guest as usize].tell();
        if step != Step::Idle {
            self.step(engine, guest, step);
        }
    }

    fn ring(&mut self, engine: &mut Engine<ZvmEvent>, task: usize) {
        match self.tasks[task].ring(engine.now()) {
            WakeDecision::Now => self.wake(engine, task),
            WakeDecision::At(at) => _ = engine.schedule(at, ZvmEvent::Due(task)),
            WakeDecision::Nothing => {}
        }
    }

    fn wake(&mut self, engine: &mut Engine<ZvmEvent>, task: usize) {
        if self.tasks[task].doing != Doing::Parked {
            return;
        }
        if self.tasks[task].is_told {
            self.task_goes_on(engine, task);
        } else {
            let (level, time) = match task {
                ENQUEUE => (Level::Kernel, self.set.host.post_us),
                _ => (Level::Interrupt, self.set.host.interrupt_us),
            };
            self.work(engine, task, Doing::Looking, level, time.nanos());
        }
    }

    fn work(&mut self, engine: &mut Engine<ZvmEvent>, task: usize, doing: Doing, level: Level, time: Nanos) {
        self.tasks[task].doing = doing;
        self.found.tasks[task] += time as f64;
        let owner = self.guests.len() as u32 + task as u32;
        self.cpu.run(engine, Section { owner, level, account: CP, time });
    }

    fn task_goes_on(&mut self, engine: &mut Engine<ZvmEvent>, task: usize) {
        let host = &self.set.host;
        let (there, time) = match task {
            ENQUEUE => {
                let post = if self.tasks[task].is_told { host.post_us.nanos() } else { 0 };
                (!self.submitted.is_empty() && self.dispatch.has_room(), post + host.enqueue_us.nanos())
            }
            _ => (!self.replied.is_empty(), host.dequeue_us.nanos()),
        };
        if task == DEQUEUE
            && let Some(guest) = self.to_tell.pop_front()
        {
            let time = self.set.notify.inject_us.nanos();
            return self.work(engine, task, Doing::Injecting(guest), Level::Kernel, time);
        }
        if there {
            self.tasks[task].found(engine.now());
            return self.work(engine, task, Doing::Moving, Level::Kernel, time);
        }
        match self.tasks[task].rest(engine.now()) {
            Waiting::Spin => self.work(engine, task, Doing::Looking, Level::Kernel, host.poll_cost_us.nanos().max(1)),
            Waiting::Nap { until } => self.tasks[task].timer = Some(engine.schedule(until, ZvmEvent::Poll(task))),
            Waiting::Park => {}
        }
        // The adapters are full: the dequeue task looks before its timer ends.
        if task == ENQUEUE
            && self.tasks[task].is_told
            && !self.submitted.is_empty()
            && let Some(timer) = self.tasks[DEQUEUE].timer.take()
        {
            engine.cancel(timer);
            self.poll(engine, DEQUEUE);
        }
    }

    fn poll(&mut self, engine: &mut Engine<ZvmEvent>, task: usize) {
        self.tasks[task].timer = None;
        self.work(engine, task, Doing::Looking, Level::Kernel, self.set.host.poll_cost_us.nanos());
    }

    fn hand_over(&mut self, engine: &mut Engine<ZvmEvent>) {
        let now = engine.now();
        let Some(request @ Request { guest, came, sent }) = self.submitted.pop_front() else { return };
        let (class, service) = self.pickup[guest as usize].asks;
        let work = Work {
            lane: LaneId(guest),
            tag: 0,
            class,
            size: SIZE,
            urgent: false,
            key_location: KeyLocation::LOCAL,
            submitted: Some(came),
        };
        let Placement::Assigned(Assignment { device, ticket, begins: true, .. }) = self.dispatch.place(now, work)
        else {
            return self.submitted.push_front(request);
        };
        self.found.handed += 1;
        self.found.waited += (now - sent) as f64;
        self.found.engines += service as f64;
        let done = host::begin(&mut self.adapters[device], now, service);
        engine.schedule(done, ZvmEvent::Reply(ticket, done - now));
    }

    fn take_back(&mut self, engine: &mut Engine<ZvmEvent>) {
        let now = engine.now();
        let Some((ticket, took)) = self.replied.pop_front() else { return };
        let Some(done) = self.dispatch.complete(ticket, Some(took)) else { return };
        let guest = done.work.lane.0;
        self.found.returned += 1;
        self.found.served += (now - done.handed) as f64;
        let came = done.work.submitted.unwrap_or(now);
        self.guests[guest as usize].replies.push_back(Reply { came, ready: now });
        if self.pickup[guest as usize].waiter.is_some() {
            let ring = self.dispatch.announce(now, done.work.lane);
            self.announce(engine, guest, ring);
        }
        if !self.submitted.is_empty() && self.tasks[ENQUEUE].doing == Doing::Parked {
            self.ring(engine, ENQUEUE);
        }
    }

    fn announce(&mut self, engine: &mut Engine<ZvmEvent>, guest: u32, ring: WakeDecision) {
        let pickup = &mut self.pickup[guest as usize];
        match ring {
            WakeDecision::Now => {
                if let (Some(since), Some(waiter)) = (pickup.armed.take(), &mut pickup.waiter) {
                    waiter.parked(since, engine.now());
                    self.to_tell.push_back(guest);
                }
            }
            WakeDecision::At(at) => _ = engine.schedule(at, ZvmEvent::Announce(guest)),
            WakeDecision::Nothing => {}
        }
    }
}

impl World for Zone {
    type Event = ZvmEvent;

    fn handle(&mut self, engine: &mut Engine<ZvmEvent>, event: ZvmEvent) {
        match event {
            ZvmEvent::Done(processor) => {
                let owner = self.cpu.finish(engine, processor, None, &[]).owner;
                match owner.checked_sub(self.guests.len() as u32) {
                    Some(INTERRUPT) => self.ring(engine, DEQUEUE),
                    Some(task) => {
                        let task = task as usize;
                        match self.tasks[task].doing {
                            Doing::Moving if task == ENQUEUE => self.hand_over(engine),
                            Doing::Moving => self.take_back(engine),
                            Doing::Injecting(guest) => self.tell(engine, guest),
                            Doing::Parked | Doing::Napping | Doing::Looking => {}
                        }
                        self.task_goes_on(engine, task);
                    }
                    None => self.guest_done(engine, owner),
                }
            }
            ZvmEvent::Tick(guest) => {
                self.pickup[guest as usize].ticking = false;
                self.tell(engine, guest);
            }
            ZvmEvent::Request(guest) => {
                if let Some(gap) = self.set.gap() {
                    let gap = engine.random().exponential(gap).round() as Nanos;
                    engine.after(gap, event);
                }
                let step = self.guests[guest as usize].came(engine.now());
                if step != Step::Idle {
                    self.step(engine, guest, step);
                }
            }
            ZvmEvent::Announce(guest) => {
                let ring = self.dispatch.due(engine.now(), LaneId(guest));
                self.announce(engine, guest, ring);
                if self.tasks[DEQUEUE].doing == Doing::Parked && !self.to_tell.is_empty() {
                    self.task_goes_on(engine, DEQUEUE);
                }
            }
            ZvmEvent::Poll(task) => self.poll(engine, task),
            ZvmEvent::Due(task) => {
                if self.tasks[task].due(engine.now()) == WakeDecision::Now {
                    self.wake(engine, task);
                }
            }
            ZvmEvent::Reply(ticket, took) => {
                self.replied.push_back((ticket, took));
                if self.tasks[DEQUEUE].is_told {
                    let (owner, time) = (self.guests.len() as u32 + INTERRUPT, self.set.host.interrupt_us.nanos());
                    self.cpu.run(engine, Section { owner, level: Level::Interrupt, account: CP, time });
                } else {
                    self.ring(engine, DEQUEUE);
                }
            }
        }
    }
}
