//! A discrete-event simulator: handles events in the order of time.
//!
//! A [`World`] defines the effect of an event. The [`Engine`] has the simulated time, the pending events, the random
//! numbers and a hash of all handled events. Events at the same time are handled in the order of scheduling, so a run
//! depends only on its plan and its seed.

mod queue;
mod random;

pub use queue::Timer;
pub use random::Random;

use queue::Queue;
use sidecore_core::time::Nanos;

/// The effects of events.
pub trait World {
    /// Type of all events of the world.
    type Event: Copy;

    /// Handles an event when its time comes.
    fn handle(&mut self, engine: &mut Engine<Self::Event>, event: Self::Event);
}

/// Simulated time and pending events.
#[derive(Debug)]
pub struct Engine<E> {
    now: Nanos,
    queue: Queue<E>,
    random: Random,
    events: u64,
    trace: u64,
}

impl<E: Copy> Engine<E> {
    /// Time 0, with nothing pending.
    pub fn new(seed: u64) -> Self {
        Self { now: 0, queue: Queue::new(), random: Random::new(seed), events: 0, trace: TRACE_START }
    }

    /// Simulated time, ns.
    #[inline]
    pub fn now(&self) -> Nanos {
        self.now
    }

    /// Events handled so far.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// Hash of the times of all handled events and of all [noted](Self::note) words. Two runs that differ in one event
    /// have different hashes.
    pub fn trace(&self) -> u64 {
        self.trace
    }

    /// Mixes a word into the trace.
    #[inline]
    pub fn note(&mut self, word: u64) {
        self.trace = (self.trace.rotate_left(5) ^ word).wrapping_mul(TRACE_FACTOR);
    }

    /// The run's random numbers.
    #[inline]
    pub fn random(&mut self) -> &mut Random {
        &mut self.random
    }

    /// Schedules an event at this time, or now if it is past.
    #[inline]
    pub fn schedule(&mut self, at: Nanos, event: E) -> Timer {
        self.queue.push(at.max(self.now), event)
    }

    /// Schedules an event `delay` ns from now.
    #[inline]
    pub fn after(&mut self, delay: Nanos, event: E) -> Timer {
        self.queue.push(self.now.saturating_add(delay), event)
    }

    /// Cancels a pending event. `None`: it was handled or cancelled before.
    pub fn cancel(&mut self, timer: Timer) -> Option<E> {
        self.queue.cancel(timer)
    }

    /// Handles the next event, if its time is at most `until`.
    #[inline]
    pub fn step<W: World<Event = E>>(&mut self, world: &mut W, until: Nanos) -> bool {
        let Some((at, event)) = self.queue.pop(until) else { return false };
        self.now = at;
        self.events += 1;
        self.note(at);
        world.handle(self, event);
        true
    }

    /// Handles all events up to and including `until`, and sets the time to `until`.
    pub fn run<W: World<Event = E>>(&mut self, world: &mut W, until: Nanos) {
        while self.step(world, until) {}
        self.now = self.now.max(until);
    }
}

/// Start and factor of the trace's hash: those of `FxHash`, with a start other than 0.
const TRACE_START: u64 = 0x9e37_79b9_7f4a_7c15;
const TRACE_FACTOR: u64 = 0x517c_c1b7_2722_0a95;

#[cfg(test)]
mod tests {
    use super::*;

    struct Splitting(Vec<(Nanos, u32)>);

    impl World for Splitting {
        type Event = u32;

        fn handle(&mut self, engine: &mut Engine<u32>, event: u32) {
            self.0.push((engine.now(), event));
            if event < 20 {
                let delay = engine.random().below(100);
                engine.after(delay, event * 2 + 1);
                engine.after(delay, event * 2 + 2);
                let taken = engine.after(5, 1_000);
                assert_eq!((engine.cancel(taken), engine.cancel(taken)), (Some(1_000), None));
            }
        }
    }

    fn run(seed: u64) -> (u64, Vec<(Nanos, u32)>) {
        let mut engine = Engine::new(seed);
        engine.schedule(10, 0);
        let mut world = Splitting(Vec::new());
        engine.run(&mut world, 10_000);
        assert!(engine.now() == 10_000 && !engine.step(&mut world, Nanos::MAX), "none is pending");
        (engine.trace(), world.0)
    }

    #[test]
    fn a_seed_is_a_run() {
        assert_eq!(run(7), run(7));
        assert_ne!(run(7).0, run(8).0);
        let seen = run(7).1;
        assert!(seen.is_sorted_by_key(|(at, _)| *at) && seen.len() == 41);
    }

    #[test]
    fn events_of_one_instant_keep_their_order() {
        let mut engine = Engine::new(1);
        for event in 100..150 {
            engine.schedule(5, event);
        }
        let mut world = Splitting(Vec::new());
        engine.run(&mut world, 4);
        assert!(world.0.is_empty());
        engine.run(&mut world, 5);
        assert!(world.0.iter().map(|(_, event)| *event).eq(100..150));
    }
}
