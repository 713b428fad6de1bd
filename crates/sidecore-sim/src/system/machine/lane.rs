//! A lane in simulated time: what both sides do, and what it takes them.

use super::{Curve, Machine, Noise, Wake};
use crate::engine::{Engine, World};
use sidecore_core::policy::notify::{Moderator, Notify, Ring, Step, Waiter};
use sidecore_core::time::Nanos;
use std::collections::VecDeque;

/// How requests come.
#[derive(Clone, Copy, Debug)]
pub(super) enum Arrival {
    /// Always so many in flight.
    Closed(u64),
    /// At random times, in the mean so far apart, ns.
    Open(f64),
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Event {
    /// A side looks whether there is something to do.
    Look(Who, u64),
    /// A submission reaches the sidecore; when it was due.
    Submission(Nanos),
    /// So many completions reach the client together.
    Completions(u32),
    /// It is time to announce what was put off.
    Announce,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Who {
    Client,
    Sidecore,
}

/// One lane with its two sides. Costs are in ns.
pub(super) struct Lane {
    set: Machine,
    /// The sidecore's part of a request, with the operation.
    serve: f64,
    /// The client's part of a submission, and of a reception.
    handle: f64,
    /// What each side waits for payload from the other's cache where nothing else is to be done meanwhile.
    transfer: f64,
    hop: Nanos,
    arrival: Arrival,
    pub(super) client: Side,
    pub(super) sidecore: Side,
    submissions: VecDeque<Nanos>,
    completions: VecDeque<Nanos>,
    /// Written and on their way to the client.
    written: VecDeque<Nanos>,
    /// Done and not written yet, and the work in them, ns.
    outbox: (Vec<Nanos>, f64),
    moderator: Moderator,
    /// When the next request is due, under open load.
    next: f64,
    to_submit: u64,
    in_flight: u64,
    /// Time of each request, ns.
    pub(super) times: Vec<Nanos>,
    ended: Nanos,
}

/// Runs a lane until all requests are answered.
pub(super) fn lane(set: &Machine, arrival: Arrival, policy: Notify, requests: u64, seed: u64) -> (Lane, Engine<Event>) {
    let size = f64::from(set.client.size.get());
    // Nothing is moved where nothing is done.
    let of = |curve: &Curve| set.op().map_or(0.0, |_| curve.at(size));
    let sampling = set.lane.sample_ns.get() / f64::from(set.service.sample_every.get());
    // Each step of an open load takes more: a look at the clock, a doorbell of its own.
    let open = if matches!(arrival, Arrival::Open(_)) { set.client.open_ns.get() / 2.0 } else { 0.0 };
    let mut lane = Lane {
        set: *set,
        serve: set.lane.request_ns.get() + sampling + of(&set.r#move) + set.op().map_or(0.0, of),
        handle: f64::midpoint(set.lane.client_ns.get() + sampling, of(&set.copy)) + open,
        transfer: of(&set.transfer),
        hop: set.lane.hop_ns.get() as Nanos,
        arrival,
        client: Side::new(Who::Client, policy, set, set.timer.client_overshoot_ns.get()),
        sidecore: Side::new(Who::Sidecore, policy, set, set.timer.overshoot_ns.get()),
        submissions: VecDeque::new(),
        completions: VecDeque::new(),
        written: VecDeque::new(),
        outbox: (Vec::new(), 0.0),
        moderator: Moderator::new(policy),
        next: 0.0,
        to_submit: requests,
        in_flight: 0,
        times: Vec::with_capacity(requests as usize),
        ended: 0,
    };
    let mut engine = Engine::new(seed);
    engine.schedule(0, Event::Look(Who::Client, 0));
    engine.schedule(0, Event::Look(Who::Sidecore, 0));
    while lane.times.len() < requests as usize && engine.step(&mut lane, Nanos::MAX - 1) {}
    (lane, engine)
}

impl World for Lane {
    type Event = Event;

    fn handle(&mut self, engine: &mut Engine<Event>, event: Event) {
        match event {
            Event::Look(Who::Client, turn) if self.client.turn == turn => self.client_looks(engine),
            Event::Look(Who::Sidecore, turn) if self.sidecore.turn == turn => self.sidecore_looks(engine),
            Event::Look(..) => {}
            Event::Submission(due) => {
                self.submissions.push_back(due);
                self.sidecore.rung(engine);
            }
            Event::Completions(count) => {
                self.completions.extend(self.written.drain(..count as usize));
                let ring = self.moderator.completed(engine.now(), count, false);
                self.announce(engine, ring);
            }
            Event::Announce => {
                let ring = self.moderator.due(engine.now());
                self.announce(engine, ring);
            }
        }
    }
}

impl Lane {
    /// Requests done in a second.
    pub(super) fn rate(&self) -> f64 {
        self.times.len() as f64 * 1e9 / self.ended.max(1) as f64
    }

    /// Wakes the client now, later or not at all.
    fn announce(&mut self, engine: &mut Engine<Event>, ring: Ring) {
        match ring {
            Ring::Now => {
                self.moderator.rung();
                self.client.rung(engine);
            }
            // A sidecore that sleeps until then wakes late.
            Ring::At(at) => {
                let asleep = matches!(self.sidecore.state, State::Napping(_) | State::Parked(_));
                let late = if asleep { self.set.timer.overshoot_ns.get() as Nanos } else { 0 };
                engine.schedule(at + late, Event::Announce);
            }
            Ring::Nothing => {}
        }
    }

    fn client_looks(&mut self, engine: &mut Engine<Event>) {
        self.client.wakes(engine);
        let now = engine.now();
        // When the next request is to be submitted, if one is left; under closed load any time.
        let (open, due) = match self.arrival {
            Arrival::Closed(depth) => (false, (self.in_flight < depth).then_some(0)),
            Arrival::Open(_) => (true, Some(self.next as Nanos)),
        };
        let due = due.filter(|_| self.to_submit > 0);
        // Under open load what is due goes before what is there, as in the bench.
        if let Some(due) = due
            && open
            && due <= now
        {
            return self.submit(engine, due);
        }
        if let Some(submitted) = self.completions.pop_front() {
            return self.receive(engine, submitted, open);
        }
        match due {
            Some(_) if !open => self.submit(engine, now),
            Some(due) if self.in_flight == 0 => {
                // The load's own clock, at no cost of the policy's.
                self.client.found(now);
                self.client.looks_at(engine, due);
            }
            deadline => self.client.waits(engine, deadline),
        }
    }

    fn receive(&mut self, engine: &mut Engine<Event>, submitted: Nanos, open: bool) {
        let now = engine.now();
        let waited = self.client.found(now);
        self.times.push(now - submitted);
        self.ended = now;
        self.in_flight -= 1;
        // A closed load fetches results ahead while it has others to take; an open one waits for each.
        let transfer = if waited || open { self.transfer } else { 0.0 };
        self.client.works(engine, self.handle + transfer);
    }

    fn submit(&mut self, engine: &mut Engine<Event>, due: Nanos) {
        self.client.found(engine.now());
        self.to_submit -= 1;
        self.in_flight += 1;
        if let Arrival::Open(gap) = self.arrival {
            self.next += engine.random().exponential(gap);
        }
        let ring = self.sidecore.cost_to_ring();
        let at = self.client.works(engine, self.handle + ring);
        engine.schedule(at - ring as Nanos + self.hop, Event::Submission(due));
    }

    fn sidecore_looks(&mut self, engine: &mut Engine<Event>) {
        self.sidecore.wakes(engine);
        let Some(due) = self.submissions.pop_front() else { return self.sidecore.waits(engine, None) };
        let waited = self.sidecore.found(engine.now());
        let busy = self.serve + if waited { self.transfer } else { 0.0 };
        self.outbox.0.push(due);
        self.outbox.1 += busy;
        let flush = self.submissions.is_empty() || self.outbox.0.len() == OUTBOX || self.outbox.1 > OUTBOX_WORK;
        let ring = if flush { self.client.cost_to_ring() } else { 0.0 };
        let at = self.sidecore.works(engine, busy + ring);
        if flush {
            let (done, _) = std::mem::take(&mut self.outbox);
            engine.schedule(at - ring as Nanos + self.hop, Event::Completions(done.len() as u32));
            self.written.extend(done);
        }
    }
}

/// Completions are written together up to so many, or so much work, ns, as the service does.
const OUTBOX: usize = 16;
const OUTBOX_WORK: f64 = 2_000.0;

/// From one look of a spinning side to the next, ns.
const POLL: Nanos = 100;
/// A side that sleeps until it is rung looks by itself after so long: never, as far as a run is concerned.
const NEVER: Nanos = 1 << 50;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Awake,
    /// Looks again by itself only.
    Napping(Nanos),
    /// Can be rung.
    Parked(Nanos),
    /// Rung, not yet running.
    Waking(Nanos),
}

/// One side of a lane: a thread on a core of its own that works, and waits as its policy says.
pub(super) struct Side {
    who: Who,
    wake: Wake,
    noise: Noise,
    /// How much later than asked it wakes by itself, ns.
    overshoot: f64,
    waiter: Waiter,
    state: State,
    /// Looks that were asked for before this one are void.
    turn: u64,
    /// When the spinning under way began to be paid for.
    spun_since: Option<Nanos>,
    /// CPU time, ns.
    pub(super) cpu: f64,
    /// CPU time in which it did what it is for, ns.
    pub(super) worked: f64,
}

impl Side {
    fn new(who: Who, policy: Notify, set: &Machine, overshoot: f64) -> Self {
        let Machine { wake, noise, .. } = *set;
        let waiter = Waiter::new(policy, wake.park_cost_ns.get() as Nanos, true);
        let (state, turn, spun_since) = (State::Awake, 0, None);
        Self { who, wake, noise, overshoot, waiter, state, turn, spun_since, cpu: 0.0, worked: 0.0 }
    }

    /// Its next look is at that instant.
    fn looks_at(&mut self, engine: &mut Engine<Event>, at: Nanos) {
        self.turn += 1;
        engine.schedule(at, Event::Look(self.who, self.turn));
    }

    /// What it costs the other side to wake it, if it can be rung, ns.
    fn cost_to_ring(&self) -> f64 {
        if matches!(self.state, State::Parked(_)) { self.wake.send_ns.get() } else { 0.0 }
    }

    /// It has something to do for so long. When it is done.
    fn works(&mut self, engine: &mut Engine<Event>, time: f64) -> Nanos {
        self.cpu += time;
        self.worked += time;
        self.takes(engine, time)
    }

    /// It looks after so long, and what the host takes away meanwhile.
    fn takes(&mut self, engine: &mut Engine<Event>, time: f64) -> Nanos {
        let (every, lasts) = (self.noise.every_ns.get(), self.noise.lasts_ns.get());
        let interrupted = lasts > 0.0 && engine.random().uniform() < time / every;
        let taken = if interrupted { engine.random().exponential(lasts) } else { 0.0 };
        let at = engine.now() + (time + taken).round() as Nanos;
        self.looks_at(engine, at);
        at
    }

    /// There is something: the wait is over. Returns whether there was one.
    fn found(&mut self, now: Nanos) -> bool {
        let waited = self.waiter.is_waiting();
        self.stop_spinning(now);
        self.waiter.end(now);
        waited
    }

    /// There is nothing. It looks again at that instant at the latest.
    fn waits(&mut self, engine: &mut Engine<Event>, deadline: Option<Nanos>) {
        let now = engine.now();
        self.waiter.begin(now);
        let late = self.overshoot as Nanos;
        let at = match self.waiter.step(now) {
            Step::Spin => {
                self.spun_since.get_or_insert(now);
                return self.looks_at(engine, now + POLL);
            }
            Step::Nap { until } => {
                self.state = State::Napping(now);
                until.min(deadline.unwrap_or(Nanos::MAX)) + late
            }
            Step::Park => {
                self.state = State::Parked(now);
                deadline.map_or(now.saturating_add(NEVER), |deadline| deadline + late)
            }
        };
        self.stop_spinning(now);
        self.looks_at(engine, at);
    }

    /// The other side rings: it runs soon if it sleeps and can be rung.
    fn rung(&mut self, engine: &mut Engine<Event>) {
        let State::Parked(since) = self.state else { return };
        let shallow = ((engine.now() - since) as f64) < self.wake.deep_after_ns.get();
        let latency = if shallow { self.wake.latency_ns } else { self.wake.deep_latency_ns };
        self.state = State::Waking(since);
        self.takes(engine, latency.get());
    }

    /// It looks: if it slept, it does no longer.
    fn wakes(&mut self, engine: &mut Engine<Event>) {
        let state = std::mem::replace(&mut self.state, State::Awake);
        if let State::Napping(since) | State::Parked(since) | State::Waking(since) = state {
            self.waiter.parked(since, engine.now());
            self.cpu += self.wake.sleep_ns.get();
        }
    }

    fn stop_spinning(&mut self, now: Nanos) {
        self.cpu += self.spun_since.take().map_or(0.0, |since| (now - since) as f64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Source;
    use crate::system::find;

    fn machine() -> Machine {
        let mut settings = find("machine").unwrap().settings();
        for (name, ns) in [
            ("lane.hop_ns", "100"),
            ("lane.request_ns", "1000"),
            ("lane.client_ns", "100"),
            ("wake.latency_ns", "5000"),
            ("wake.deep_latency_ns", "50000"),
            ("wake.deep_after_ns", "1e6"),
            ("wake.send_ns", "1000"),
            ("wake.sleep_ns", "2000"),
            ("wake.park_cost_ns", "3000"),
            ("timer.overshoot_ns", "3000"),
            ("timer.client_overshoot_ns", "3000"),
        ] {
            settings.set(name, ns, Source::Plan).unwrap();
        }
        settings.read().unwrap()
    }

    #[test]
    fn alone_a_spinning_lane_takes_the_sum_of_its_parts() {
        let lane = lane(&machine(), Arrival::Closed(1), Notify::Spin, 1_000, 1).0;
        let mean = lane.times.iter().sum::<u64>() as f64 / 1e3;
        assert!((1_250.0..1_400.0).contains(&mean), "{mean}");
    }

    #[test]
    fn many_in_flight_keep_the_sidecore_busy() {
        let (lane, engine) = lane(&machine(), Arrival::Closed(32), Notify::Spin, 10_000, 1);
        assert!((0.99e6..1.01e6).contains(&lane.rate()), "{}", lane.rate());
        assert!(lane.sidecore.worked / engine.now() as f64 > 0.99);
    }

    #[test]
    fn parking_costs_latency_and_saves_time() {
        let open = Arrival::Open(200_000.0);
        let found = |policy| {
            let lane = lane(&machine(), open, policy, 2_000, 1).0;
            (lane.times.iter().sum::<u64>() as f64 / 2e3, lane.sidecore.cpu / 2e3)
        };
        let (spin, park, even) = (found(Notify::Spin), found(Notify::Park), found(Notify::BreakEven));
        assert!(spin.0 < 1_500.0 && spin.1 > 150_000.0, "{spin:?}");
        assert!(park.0 > 10_000.0 && park.1 < 10_000.0, "{park:?}");
        assert!(even.0 > 5_000.0 && even.1 < 12_000.0, "{even:?}");
    }
}
