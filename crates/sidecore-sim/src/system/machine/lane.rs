//! A lane in simulated time: what both sides do, and what it takes them.

use super::Time;
use super::costs::Costs;
use super::side::Side;
use crate::engine::{Engine, World};
use sidecore_core::policy::notify::{Moderator, Notify, Ring};
use sidecore_core::time::Nanos;
use std::collections::VecDeque;

/// How requests come.
#[derive(Clone, Copy, Debug)]
pub(super) enum Arrival {
    /// Always so many in flight.
    Closed(u64),
    /// At random times, in the mean so far apart, ns.
    Open { gap: f64 },
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

/// One lane with its two sides.
#[derive(Debug)]
pub(super) struct Lane {
    costs: Costs,
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
pub(super) fn lane(costs: &Costs, arrival: Arrival, policy: Notify, requests: u64, seed: u64) -> (Lane, Engine<Event>) {
    let side = |overshoot: Time| Side::new(policy, costs, overshoot.get());
    let mut lane = Lane {
        costs: *costs,
        arrival,
        client: side(costs.timer.client_overshoot_ns),
        sidecore: side(costs.timer.overshoot_ns),
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
            Event::Look(Who::Client, turn) if self.client.is_current(turn) => self.client_looks(engine),
            Event::Look(Who::Sidecore, turn) if self.sidecore.is_current(turn) => self.sidecore_looks(engine),
            Event::Look(..) => {}
            Event::Submission(due) => {
                self.submissions.push_back(due);
                if let Some((at, turn)) = self.sidecore.rung(engine) {
                    engine.schedule(at, Event::Look(Who::Sidecore, turn));
                }
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
                if let Some((at, turn)) = self.client.rung(engine) {
                    engine.schedule(at, Event::Look(Who::Client, turn));
                }
            }
            // A sidecore that sleeps until then wakes late.
            Ring::At(at) => {
                let late = if self.sidecore.is_asleep() { self.costs.timer.overshoot_ns.get() as Nanos } else { 0 };
                engine.schedule(at + late, Event::Announce);
            }
            Ring::Nothing => {}
        }
    }

    fn client_looks(&mut self, engine: &mut Engine<Event>) {
        self.client.wakes(engine);
        let now = engine.now();
        // Under open load what is due goes before what is there, as in the bench.
        let due = self.due();
        if let (Some(due), Arrival::Open { .. }) = (due.filter(|due| *due <= now), self.arrival) {
            return self.submit(engine, due);
        }
        if let Some(submitted) = self.completions.pop_front() {
            return self.receive(engine, submitted);
        }
        match due {
            Some(_) if matches!(self.arrival, Arrival::Closed(_)) => self.submit(engine, now),
            Some(due) if self.in_flight == 0 => {
                // The load's own clock, at no cost of the policy's.
                self.client.found(now);
                let turn = self.client.next_turn();
                engine.schedule(due, Event::Look(Who::Client, turn));
            }
            deadline => {
                let (at, turn) = self.client.waits(engine, deadline);
                engine.schedule(at, Event::Look(Who::Client, turn));
            }
        }
    }

    /// When the next request is to be submitted, if one is left; under closed load any time.
    fn due(&self) -> Option<Nanos> {
        let due = match self.arrival {
            Arrival::Closed(depth) => (self.in_flight < depth).then_some(0),
            Arrival::Open { .. } => Some(self.next as Nanos),
        };
        due.filter(|_| self.to_submit > 0)
    }

    fn receive(&mut self, engine: &mut Engine<Event>, submitted: Nanos) {
        let now = engine.now();
        let waited = self.client.found(now);
        self.times.push(now - submitted);
        self.ended = now;
        self.in_flight -= 1;
        // A closed load fetches results ahead while it has others to take; an open one waits for each.
        let fetched = !waited && matches!(self.arrival, Arrival::Closed(_));
        let transfer = if fetched { 0.0 } else { self.costs.transfer };
        self.client_works(engine, self.costs.receive + self.step() + transfer);
    }

    /// What each step of an open load takes more: a look at the clock, a doorbell of its own.
    fn step(&self) -> f64 {
        if matches!(self.arrival, Arrival::Open { .. }) { self.costs.open / 2.0 } else { 0.0 }
    }

    fn submit(&mut self, engine: &mut Engine<Event>, due: Nanos) {
        self.client.found(engine.now());
        self.to_submit -= 1;
        self.in_flight += 1;
        if let Arrival::Open { gap } = self.arrival {
            self.next += engine.random().exponential(gap);
        }
        let ring = if self.sidecore.is_parked() { self.costs.wake.send_ns.get() } else { 0.0 };
        let at = self.client_works(engine, self.costs.submit + self.step() + ring);
        engine.schedule(at - ring as Nanos + self.costs.hop as Nanos, Event::Submission(due));
    }

    fn client_works(&mut self, engine: &mut Engine<Event>, busy: f64) -> Nanos {
        let (at, turn) = self.client.works(engine, busy);
        engine.schedule(at, Event::Look(Who::Client, turn));
        at
    }

    fn sidecore_looks(&mut self, engine: &mut Engine<Event>) {
        self.sidecore.wakes(engine);
        if let Some(due) = self.submissions.pop_front() {
            let waited = self.sidecore.found(engine.now());
            let busy = self.costs.serve + if waited { self.costs.transfer } else { 0.0 };
            self.outbox.0.push(due);
            self.outbox.1 += busy;
            let flush = self.submissions.is_empty() || self.outbox.0.len() == OUTBOX || self.outbox.1 > OUTBOX_WORK;
            let ring = if flush && self.client.is_parked() { self.costs.wake.send_ns.get() } else { 0.0 };
            let (at, turn) = self.sidecore.works(engine, busy + ring);
            if flush {
                let (done, _) = std::mem::take(&mut self.outbox);
                let written = at - ring as Nanos + self.costs.hop as Nanos;
                engine.schedule(written, Event::Completions(done.len() as u32));
                self.written.extend(done);
            }
            engine.schedule(at, Event::Look(Who::Sidecore, turn));
        } else {
            let (at, turn) = self.sidecore.waits(engine, None);
            engine.schedule(at, Event::Look(Who::Sidecore, turn));
        }
    }
}

/// Completions are written together up to so many, or so much work, ns, as the service does.
const OUTBOX: usize = 16;
const OUTBOX_WORK: f64 = 2_000.0;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Source;
    use crate::system::find;

    fn costs() -> Costs {
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
        Costs::of(&settings.read().unwrap())
    }

    #[test]
    fn alone_a_spinning_lane_takes_the_sum_of_its_parts() {
        let lane = lane(&costs(), Arrival::Closed(1), Notify::Spin, 1_000, 1).0;
        let mean = lane.times.iter().sum::<u64>() as f64 / 1e3;
        assert!((1_250.0..1_400.0).contains(&mean), "{mean}");
    }

    #[test]
    fn many_in_flight_keep_the_sidecore_busy() {
        let (lane, engine) = lane(&costs(), Arrival::Closed(32), Notify::Spin, 10_000, 1);
        assert!((0.99e6..1.01e6).contains(&lane.rate()), "{}", lane.rate());
        assert!(lane.sidecore.worked / engine.now() as f64 > 0.99);
    }

    #[test]
    fn parking_costs_latency_and_saves_time() {
        let open = Arrival::Open { gap: 200_000.0 };
        let found = |policy| {
            let lane = lane(&costs(), open, policy, 2_000, 1).0;
            (lane.times.iter().sum::<u64>() as f64 / 2e3, lane.sidecore.cpu / 2e3)
        };
        let (spin, park, even) = (found(Notify::Spin), found(Notify::Park), found(Notify::BreakEven));
        assert!(spin.0 < 1_500.0 && spin.1 > 150_000.0, "{spin:?}");
        assert!(park.0 > 10_000.0 && park.1 < 10_000.0, "{park:?}");
        assert!(even.0 > 5_000.0 && even.1 < 12_000.0, "{even:?}");
    }
}
