//! A lane in simulated time: the work of both sides, and its cost.

use super::host::Host;
use super::{Curve, LaneModel, Spread, Wake};
use crate::engine::{Engine, Random, World};
use sidecore_core::policy::notify::{Moderator, Notify, Step, Waiter, WakeDecision};
use sidecore_core::time::Nanos;
use std::collections::VecDeque;

#[derive(Clone, Copy, Debug)]
pub(super) enum Arrival {
    /// Closed: always this number in flight.
    Closed(u64),
    /// Open: random arrivals with this mean gap, ns.
    Open(f64),
}

#[derive(Clone, Copy, Debug)]
pub(super) enum LaneEvent {
    Look(Role, u64),
    /// A submission arrives at the sidecore; with its due time.
    Submission(Nanos),
    Completions(u32),
    Announce,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Client,
    Sidecore,
}

/// One lane with its two sides. Costs are in ns.
pub(super) struct Lane {
    set: LaneModel,
    /// The sidecore's cost of a request, including the operation.
    serve: f64,
    /// The client's cost of a submission, and of a reception.
    handle: f64,
    /// Each side's wait for payload from the other's cache, if it has no other work.
    transfer: f64,
    arrival: Arrival,
    arrivals: Random,
    pub(super) client: Side,
    pub(super) sidecore: Side,
    submissions: VecDeque<Nanos>,
    completions: VecDeque<Nanos>,
    /// Completions written and on their way to the client, and the arrival of the last one.
    written: VecDeque<Nanos>,
    last_seen: Nanos,
    /// Completed requests not written yet, and their work, ns.
    outbox: (Vec<Nanos>, f64),
    moderator: Moderator,
    next: f64,
    to_submit: u64,
    in_flight: u64,
    /// Time of each request, ns.
    pub(super) times: Vec<Nanos>,
    ended: Nanos,
}

pub(super) fn lane(
    set: &LaneModel,
    arrival: Arrival,
    policy: Notify,
    requests: u64,
    seed: u64,
) -> (Lane, Engine<LaneEvent>) {
    let size = f64::from(set.client.size.get());
    // An operation without work moves no payload.
    let of = |curve: &Curve| set.op().map_or(0.0, |_| curve.at(size));
    let sampling = set.lane.sample_ns.get() / f64::from(set.service.sample_every.get());
    // Each step of an open load costs more: a reading of the clock, a doorbell of its own.
    let open = if matches!(arrival, Arrival::Open(_)) { set.client.open_ns.get() / 2.0 } else { 0.0 };
    let mut lane = Lane {
        set: *set,
        serve: set.lane.request_ns.get() + sampling + of(&set.r#move) + set.op().map_or(0.0, of),
        handle: f64::midpoint(set.lane.client_ns.get() + sampling, of(&set.copy)) + open,
        transfer: of(&set.transfer),
        arrival,
        arrivals: Random::new(arrivals_seed(set, seed)),
        client: Side::new(Role::Client, policy, set, set.client_overshoot),
        sidecore: Side::new(Role::Sidecore, policy, set, set.overshoot),
        submissions: VecDeque::new(),
        completions: VecDeque::new(),
        written: VecDeque::new(),
        last_seen: 0,
        outbox: (Vec::new(), 0.0),
        moderator: Moderator::new(policy),
        next: 0.0,
        to_submit: requests,
        in_flight: 0,
        times: Vec::with_capacity(requests as usize),
        ended: 0,
    };
    let mut engine = Engine::new(seed);
    engine.schedule(0, LaneEvent::Look(Role::Client, 0));
    engine.schedule(0, LaneEvent::Look(Role::Sidecore, 0));
    while lane.times.len() < requests as usize && engine.step(&mut lane, Nanos::MAX - 1) {}
    (lane, engine)
}

/// A bench's own seed, in turn with its repeats, or one derived from the run's.
fn arrivals_seed(set: &LaneModel, seed: u64) -> u64 {
    match u64::from(set.client.arrivals_repeats.get()) {
        0 => !seed,
        repeats => u64::from(set.client.arrivals_seed.get()).wrapping_add(seed % repeats),
    }
}

impl World for Lane {
    type Event = LaneEvent;

    fn handle(&mut self, engine: &mut Engine<LaneEvent>, event: LaneEvent) {
        match event {
            LaneEvent::Look(Role::Client, turn) if self.client.turn == turn => self.client_looks(engine),
            LaneEvent::Look(Role::Sidecore, turn) if self.sidecore.turn == turn => self.sidecore_looks(engine),
            LaneEvent::Look(..) => {}
            LaneEvent::Submission(due) => {
                self.submissions.push_back(due);
                self.sidecore.rung(engine);
            }
            LaneEvent::Completions(count) => {
                self.completions.extend(self.written.drain(..count as usize));
                let ring = self.moderator.completed(engine.now(), count, false);
                self.announce(engine, ring);
            }
            LaneEvent::Announce => {
                let ring = self.moderator.due(engine.now());
                self.announce(engine, ring);
            }
        }
    }
}

impl Lane {
    pub(super) fn rate(&self) -> f64 {
        self.times.len() as f64 * 1e9 / self.ended.max(1) as f64
    }

    fn announce(&mut self, engine: &mut Engine<LaneEvent>, ring: WakeDecision) {
        match ring {
            WakeDecision::Now => {
                self.moderator.rung();
                self.client.rung(engine);
            }
            // A sidecore that sleeps until then wakes late.
            WakeDecision::At(at) => {
                let asleep = matches!(self.sidecore.state, SideState::Napping(_) | SideState::Parked(_));
                let late = if asleep { self.set.overshoot.draw(engine.random()) as Nanos } else { 0 };
                engine.schedule(at + late, LaneEvent::Announce);
            }
            WakeDecision::Nothing => {}
        }
    }

    fn client_looks(&mut self, engine: &mut Engine<LaneEvent>) {
        self.client.wakes(engine);
        let now = engine.now();
        let slots = u64::from(self.set.client.slots.get());
        // Time of the next submission, if a request is left; under closed load any time.
        let (open, due) = match self.arrival {
            Arrival::Closed(depth) => (false, (self.in_flight < depth).then_some(0)),
            Arrival::Open(_) => (true, (self.in_flight < slots).then_some(self.next as Nanos)),
        };
        let due = due.filter(|_| self.to_submit > 0);
        // Under open load, due submissions go before completions, as in the bench.
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
                // The load's own clock, without cost for the policy.
                self.client.found(now);
                self.client.looks_at(engine, due);
            }
            deadline => self.client.waits(engine, deadline),
        }
    }

    fn receive(&mut self, engine: &mut Engine<LaneEvent>, submitted: Nanos, open: bool) {
        let now = engine.now();
        let waited = self.client.found(now);
        self.times.push(now - submitted);
        self.ended = now;
        self.in_flight -= 1;
        // A closed load prefetches results while it has others to take; an open one waits for each.
        let transfer = if waited || open { self.transfer } else { 0.0 };
        self.client.works(engine, self.handle + transfer);
    }

    fn submit(&mut self, engine: &mut Engine<LaneEvent>, due: Nanos) {
        self.client.found(engine.now());
        self.to_submit -= 1;
        self.in_flight += 1;
        if let Arrival::Open(gap) = self.arrival {
            self.next += self.arrivals.exponential(gap);
        }
        let ring = self.sidecore.cost_to_ring(engine);
        let written = self.client.works(engine, self.handle);
        let hop = self.set.hop.draw(engine.random()) as Nanos;
        engine.schedule(written + hop, LaneEvent::Submission(due));
        self.client.rings(engine, written, ring);
    }

    fn sidecore_looks(&mut self, engine: &mut Engine<LaneEvent>) {
        self.sidecore.wakes(engine);
        let Some(due) = self.submissions.pop_front() else { return self.sidecore.waits(engine, None) };
        let waited = self.sidecore.found(engine.now());
        let busy = self.serve + if waited { self.transfer } else { 0.0 };
        self.outbox.0.push(due);
        self.outbox.1 += busy;
        let flush = self.submissions.is_empty() || self.outbox.0.len() == OUTBOX || self.outbox.1 > OUTBOX_WORK;
        let ring = if flush { self.client.cost_to_ring(engine) } else { 0.0 };
        let written = self.sidecore.works(engine, busy);
        if flush {
            let (done, _) = std::mem::take(&mut self.outbox);
            let hop = self.set.hop.draw(engine.random()) as Nanos;
            // Earlier completions become visible earlier.
            self.last_seen = self.last_seen.max(written + hop);
            engine.schedule(self.last_seen, LaneEvent::Completions(done.len() as u32));
            self.written.extend(done);
            self.sidecore.rings(engine, written, ring);
        }
    }
}

/// Limits for writing completions together, in number and in work (ns), as in the service.
const OUTBOX: usize = 16;
const OUTBOX_WORK: f64 = 2_000.0;

/// Interval of a spinning side's looks, ns.
const POLL: Nanos = 100;
/// Own wake-up time of a side that sleeps until it is rung: after the end of any run.
const NEVER: Nanos = 1 << 50;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SideState {
    Awake,
    /// Asleep until its timer; cannot be rung.
    Napping(Nanos),
    /// Asleep; can be rung.
    Parked(Nanos),
    Waking(Nanos),
}

pub(super) struct Side {
    role: Role,
    wake: Wake,
    ring: Spread,
    /// Time until it runs, after a short sleep and after a long one.
    latency: [Spread; 2],
    host: Host,
    overshoot: Spread,
    waiter: Waiter,
    state: SideState,
    /// Looks scheduled before this turn are void.
    turn: u64,
    /// Time since which the present spinning is charged.
    spun_since: Option<Nanos>,
    /// CPU time, ns.
    pub(super) cpu: f64,
    /// CPU time of useful work, ns.
    pub(super) worked: f64,
}

impl Side {
    fn new(role: Role, policy: Notify, set: &LaneModel, overshoot: Spread) -> Self {
        let LaneModel { wake, noise, interruption, ring, wake_after_short, wake_after_long, .. } = *set;
        let (latency, host) = ([wake_after_short, wake_after_long], Host::new(noise.every_ns.get(), interruption));
        let mut waiter = Waiter::new(policy, wake.park_cost_ns.get() as Nanos, true);
        waiter.set_wake_time(wake.time_ns.get() as Nanos);
        let (state, turn, spun_since) = (SideState::Awake, 0, None);
        Self { role, wake, ring, latency, host, overshoot, waiter, state, turn, spun_since, cpu: 0.0, worked: 0.0 }
    }

    fn looks_at(&mut self, engine: &mut Engine<LaneEvent>, at: Nanos) {
        self.turn += 1;
        engine.schedule(at, LaneEvent::Look(self.role, self.turn));
    }

    /// The other side's cost of waking it, if it can be rung, ns.
    fn cost_to_ring(&self, engine: &mut Engine<LaneEvent>) -> f64 {
        if matches!(self.state, SideState::Parked(_)) { self.ring.draw(engine.random()) } else { 0.0 }
    }

    fn works(&mut self, engine: &mut Engine<LaneEvent>, time: f64) -> Nanos {
        self.cpu += time;
        self.worked += time;
        let now = engine.now();
        let at = self.host.run(engine.random(), now, time.round() as Nanos);
        self.looks_at(engine, at);
        at
    }

    fn rings(&mut self, engine: &mut Engine<LaneEvent>, from: Nanos, time: f64) {
        if time > 0.0 {
            self.cpu += time;
            self.worked += time;
            let at = self.host.run(engine.random(), from, time.round() as Nanos);
            self.looks_at(engine, at);
        }
    }

    /// Ends its wait: it has found work. Returns whether it was waiting.
    fn found(&mut self, now: Nanos) -> bool {
        let waited = self.waiter.is_waiting();
        self.stop_spinning(now);
        self.waiter.end(now);
        waited
    }

    fn waits(&mut self, engine: &mut Engine<LaneEvent>, deadline: Option<Nanos>) {
        let now = engine.now();
        self.waiter.begin(now);
        let at = match self.waiter.step(now) {
            Step::Spin => {
                self.spun_since.get_or_insert(now);
                let at = self.host.run(engine.random(), now, POLL);
                return self.looks_at(engine, at);
            }
            Step::Nap { until } => {
                self.state = SideState::Napping(now);
                until.min(deadline.unwrap_or(Nanos::MAX)) + self.late(engine)
            }
            Step::Park => {
                self.state = SideState::Parked(now);
                deadline.map_or(now.saturating_add(NEVER), |deadline| deadline + self.late(engine))
            }
        };
        self.stop_spinning(now);
        self.looks_at(engine, at);
    }

    fn rung(&mut self, engine: &mut Engine<LaneEvent>) {
        let SideState::Parked(since) = self.state else { return };
        let is_long = (engine.now() - since) as f64 >= self.wake.deep_after_ns.get();
        let latency = self.latency[usize::from(is_long)].draw(engine.random());
        self.state = SideState::Waking(since);
        self.looks_at(engine, engine.now() + latency.round() as Nanos);
    }

    fn late(&self, engine: &mut Engine<LaneEvent>) -> Nanos {
        self.overshoot.draw(engine.random()) as Nanos
    }

    fn wakes(&mut self, engine: &mut Engine<LaneEvent>) {
        let state = std::mem::replace(&mut self.state, SideState::Awake);
        if let SideState::Napping(since) | SideState::Parked(since) | SideState::Waking(since) = state {
            self.waiter.parked(since, engine.now());
            self.host.slept(engine.now());
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
    use crate::settings::{Settings, Source};
    use crate::system::find;

    fn spread(settings: &mut Settings, part: &str, times: [&str; 8]) {
        for (point, ns) in ["p0", "p10", "p25", "p50", "p75", "p90", "p99", "p100"].into_iter().zip(times) {
            settings.set(&format!("{part}.{point}_ns"), ns, Source::Plan).unwrap();
        }
    }

    fn machine() -> LaneModel {
        settings().read().unwrap()
    }

    fn settings() -> Settings {
        let mut settings = find("machine").unwrap().settings(&std::collections::BTreeSet::default());
        for (name, ns) in [
            ("hop.p0_ns", "100"),
            ("lane.request_ns", "1000"),
            ("lane.client_ns", "100"),
            ("wake-after-short.p0_ns", "5000"),
            ("wake-after-long.p0_ns", "50000"),
            ("wake.deep_after_ns", "1e6"),
            ("ring.p0_ns", "1000"),
            ("wake.sleep_ns", "2000"),
            ("wake.park_cost_ns", "3000"),
            ("wake.time_ns", "3000"),
            ("client.slots", "256"),
            ("overshoot.p0_ns", "3000"),
            ("client-overshoot.p0_ns", "3000"),
        ] {
            match name.strip_suffix(".p0_ns") {
                Some(part) => spread(&mut settings, part, [ns; 8]),
                None => settings.set(name, ns, Source::Plan).unwrap(),
            }
        }
        settings
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

    #[test]
    fn times_that_vary_are_drawn_as_they_were_measured() {
        let mut settings = settings();
        spread(&mut settings, "interruption", ["1000", "2000", "3000", "10000", "20000", "50000", "100000", "1000000"]);
        settings.set("noise.every_ns", "1e6", Source::Plan).unwrap();
        let machine: LaneModel = settings.read().unwrap();
        let mut random = Random::new(1);
        let mut drawn: Vec<f64> = (0..100_000).map(|_| machine.interruption.draw(&mut random)).collect();
        drawn.sort_by(f64::total_cmp);
        for (part, time) in [(0.1, 2e3), (0.25, 3e3), (0.5, 1e4), (0.75, 2e4), (0.9, 5e4), (0.99, 1e5)] {
            let found = drawn[(part * 1e5) as usize];
            assert!((0.95..1.05).contains(&(found / time)), "{part}: {found} for {time}");
        }
        assert!(drawn[0] >= 1e3 && drawn[99_999] <= 1e6);
        // The core is away for this share of the time, whatever the sides do.
        let mut host = Host::new(1e6, machine.interruption);
        let (mut at, mut ran): (Nanos, Nanos) = (0, 0);
        while ran < 20_000_000_000 {
            at = host.run(&mut random, at, 100_000);
            ran += 100_000;
        }
        let away = drawn.iter().sum::<f64>() / 1e5 / 1e6;
        let found = at as f64 / ran as f64 - 1.0;
        assert!((0.95..1.05).contains(&(found / away)), "{found} for {away}");
    }

    /// A spinning side is interrupted as well while it waits.
    #[test]
    fn interruptions_make_the_tail_of_a_lane_with_little_to_do() {
        let mut settings = settings();
        spread(&mut settings, "interruption", ["200000"; 8]);
        settings.set("noise.every_ns", "4e6", Source::Plan).unwrap();
        let mut lane = lane(&settings.read().unwrap(), Arrival::Open(100_000.0), Notify::Spin, 10_000, 1).0;
        // Two cores, each away for 4.8 % of the time.
        let over = lane.times.iter().filter(|time| **time > 5_000).count() as f64 / 1e4;
        assert!((0.07..0.12).contains(&over), "{over}");
        assert!(crate::system::percentile(&mut lane.times, 0.5) < 2_000.0);
    }

    #[test]
    fn a_bench_with_few_slots_makes_what_comes_wait() {
        let mut settings = settings();
        settings.set("client.slots", "4", Source::Plan).unwrap();
        let run = |settings: &Settings| {
            lane(&settings.read().unwrap(), Arrival::Open(2_000.0), Notify::Timer { period: 100_000 }, 5_000, 1)
                .0
                .rate()
        };
        let few = run(&settings);
        settings.set("client.slots", "4096", Source::Plan).unwrap();
        assert!(few < 1e5 && run(&settings) > 4.5e5, "{few}");
    }

    #[test]
    fn arrivals_of_a_bench_come_again_whatever_else_is_random() {
        let mut settings = settings();
        settings.set("client.arrivals_seed", "7", Source::Plan).unwrap();
        settings.set("client.arrivals_repeats", "2", Source::Plan).unwrap();
        let run = |settings: &Settings, seed| {
            lane(&settings.read().unwrap(), Arrival::Open(5_000.0), Notify::Spin, 1_000, seed).0.times
        };
        // No other influence: runs of one repeat are equal, those of another differ.
        assert_eq!(run(&settings, 2), run(&settings, 4));
        assert_ne!(run(&settings, 2), run(&settings, 3));
        settings.set("client.arrivals_repeats", "0", Source::Plan).unwrap();
        assert_ne!(run(&settings, 2), run(&settings, 4));
    }
}
