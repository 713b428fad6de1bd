//! One side of a lane: a thread on a core of its own that works, and waits as its policy says.

use super::costs::Costs;
use super::{Noise, Wake};
use crate::engine::Engine;
use sidecore_core::policy::notify::{Notify, Step, Waiter};
use sidecore_core::time::Nanos;

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

/// One thread.
#[derive(Debug)]
pub(super) struct Side {
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
    pub(super) fn new(policy: Notify, costs: &Costs, overshoot: f64) -> Self {
        let Costs { wake, noise, .. } = *costs;
        let waiter = Waiter::new(policy, wake.park_cost_ns.get() as Nanos, true);
        Self { wake, noise, overshoot, waiter, state: State::Awake, turn: 0, spun_since: None, cpu: 0.0, worked: 0.0 }
    }

    /// Whether a look was not superseded.
    pub(super) fn is_current(&self, turn: u64) -> bool {
        self.turn == turn
    }

    pub(super) fn is_parked(&self) -> bool {
        matches!(self.state, State::Parked(_))
    }

    pub(super) fn is_asleep(&self) -> bool {
        matches!(self.state, State::Napping(_) | State::Parked(_))
    }

    pub(super) fn next_turn(&mut self) -> u64 {
        self.turn += 1;
        self.turn
    }

    /// It has something to do for so long. When it is done, and the turn of its next look.
    pub(super) fn works<E: Copy>(&mut self, engine: &mut Engine<E>, time: f64) -> (Nanos, u64) {
        let taken = self.interruptions(engine, time);
        self.cpu += time;
        self.worked += time;
        (engine.now() + (time + taken).round() as Nanos, self.next_turn())
    }

    /// There is something: the wait is over. Returns whether there was one.
    pub(super) fn found(&mut self, now: Nanos) -> bool {
        let waited = self.waiter.is_waiting();
        self.stop_spinning(now);
        self.waiter.end(now);
        waited
    }

    /// There is nothing. When it looks again at the latest, and the turn of that look.
    pub(super) fn waits<E: Copy>(&mut self, engine: &mut Engine<E>, deadline: Option<Nanos>) -> (Nanos, u64) {
        let now = engine.now();
        self.waiter.begin(now);
        let turn = self.next_turn();
        let late = self.overshoot as Nanos;
        let at = match self.waiter.step(now) {
            Step::Spin => {
                self.spun_since.get_or_insert(now);
                return (now + POLL, turn);
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
        (at, turn)
    }

    /// The other side rings. If this one sleeps and can be rung: when it runs, and the turn of its look then.
    pub(super) fn rung<E: Copy>(&mut self, engine: &mut Engine<E>) -> Option<(Nanos, u64)> {
        let State::Parked(since) = self.state else { return None };
        let slept = (engine.now() - since) as f64;
        let latency =
            if slept < self.wake.deep_after_ns.get() { self.wake.latency_ns } else { self.wake.deep_latency_ns }.get();
        self.state = State::Waking(since);
        let taken = self.interruptions(engine, latency);
        Some((engine.now() + (latency + taken).round() as Nanos, self.next_turn()))
    }

    /// It looks: if it slept, it does no longer.
    pub(super) fn wakes<E: Copy>(&mut self, engine: &mut Engine<E>) {
        let since = match std::mem::replace(&mut self.state, State::Awake) {
            State::Awake => return,
            State::Napping(since) | State::Parked(since) | State::Waking(since) => since,
        };
        self.waiter.parked(since, engine.now());
        self.cpu += self.wake.sleep_ns.get();
    }

    fn stop_spinning(&mut self, now: Nanos) {
        if let Some(since) = self.spun_since.take() {
            self.cpu += (now - since) as f64;
        }
    }

    /// Time that the host takes away within so much time.
    fn interruptions<E: Copy>(&self, engine: &mut Engine<E>, time: f64) -> f64 {
        let (every, lasts) = (self.noise.every_ns.get(), self.noise.lasts_ns.get());
        if lasts <= 0.0 || engine.random().uniform() >= time / every {
            return 0.0;
        }
        engine.random().exponential(lasts)
    }
}
