//! Events in the order of their time.
//!
//! A [`World`] says what an event does; the [`Engine`] keeps the simulated time, the pending events, the random numbers
//! and a hash of everything that happened. Events of the same instant are handled in the order in which they were
//! scheduled, so a run depends on its plan and its seed and on nothing else.

mod queue;
mod random;

pub use queue::Timer;
pub use random::Random;

use queue::Queue;
use sidecore_core::time::Nanos;

/// What happens at events.
pub trait World {
    /// One kind of value for all that can happen.
    type Event: Copy;

    /// An event's time has come.
    fn handle(&mut self, engine: &mut Engine<Self::Event>, event: Self::Event);
}

/// Simulated time and what is pending in it.
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

    /// Hash of the times of all events handled and of all words [noted](Self::note). Two runs that differ in one event
    /// differ here.
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

    /// The event happens at that instant, or now if the instant is past.
    #[inline]
    pub fn schedule(&mut self, at: Nanos, event: E) -> Timer {
        self.queue.push(at.max(self.now), event)
    }

    /// The event happens so many ns from now.
    #[inline]
    pub fn after(&mut self, delay: Nanos, event: E) -> Timer {
        self.queue.push(self.now.saturating_add(delay), event)
    }

    /// Takes a pending event back. `None`: it happened, or was taken back before.
    pub fn cancel(&mut self, timer: Timer) -> Option<E> {
        self.queue.cancel(timer)
    }

    /// Handles the next event, if there is one up to that instant.
    #[inline]
    pub fn step<W: World<Event = E>>(&mut self, world: &mut W, until: Nanos) -> bool {
        let Some((at, event)) = self.queue.pop(until) else { return false };
        self.now = at;
        self.events += 1;
        self.note(at);
        world.handle(self, event);
        true
    }

    /// Handles events up to and including that instant, which is the time afterwards.
    pub fn run<W: World<Event = E>>(&mut self, world: &mut W, until: Nanos) {
        while self.step(world, until) {}
        self.now = self.now.max(until);
    }
}

/// Start and factor of the trace's hash: those of `FxHash` with a start that is not 0.
const TRACE_START: u64 = 0x9e37_79b9_7f4a_7c15;
const TRACE_FACTOR: u64 = 0x517c_c1b7_2722_0a95;

#[cfg(test)]
mod tests {
    use super::*;

    /// Each event schedules two more, up to a limit, and one is taken back.
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
