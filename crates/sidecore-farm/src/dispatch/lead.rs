//! Who of several dispatchers hands out: no NATS and no clock.
//!
//! The active one says so every 10 ms. One that hears nobody for a while becomes active, under an id above all that it has
//! heard; of two active ones that with the smaller id steps down. Nothing depends on there being only one: results are
//! committed once by the server, whoever brings them.

use sidecore_core::time::Nanos;

/// A dispatcher that hears no other for so long becomes active.
const SILENCE: Nanos = 100_000_000;
/// It waits up to so much longer, so that of several not all do.
const SPREAD: Nanos = 100_000_000;

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    Nothing,
    /// Begin to hand out, under this id. Whoever was cut off goes on under the one it had.
    Begin(u64),
    /// Stop handing out: another one does, or has the queue.
    End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Becomes active then, if nobody is heard before.
    Waits(Nanos),
    Active(u64),
    /// It was active and is cut off, or was: it goes on then, if nobody else does.
    Returns(u64, Nanos),
}

#[derive(Debug)]
pub(super) struct Leadership {
    state: State,
    /// Largest id heard.
    heard: u64,
    /// A part of [`SPREAD`] that is this one's.
    apart: Nanos,
}

impl Leadership {
    /// `random` is no other dispatcher's.
    pub(super) fn new(now: Nanos, random: u64) -> Self {
        let apart = random % SPREAD;
        Self { state: State::Waits(now + SILENCE + apart), heard: 0, apart }
    }

    /// Its id, where it is active.
    pub(super) fn active(&self) -> Option<u64> {
        match self.state {
            State::Active(id) => Some(id),
            State::Waits(_) | State::Returns(..) => None,
        }
    }

    /// A dispatcher says that it is active.
    pub(super) fn hear(&mut self, now: Nanos, id: u64) -> Turn {
        self.heard = self.heard.max(id);
        match self.state {
            State::Active(own) | State::Returns(own, _) if id <= own => Turn::Nothing,
            State::Waits(_) => {
                self.wait(now);
                Turn::Nothing
            }
            State::Active(_) | State::Returns(..) => {
                self.wait(now);
                Turn::End
            }
        }
    }

    /// The time. `fresh`: an id that is larger than those of the past, as far as anybody knows.
    pub(super) fn tick(&mut self, now: Nanos, fresh: u64) -> Turn {
        let id = match self.state {
            State::Waits(until) if until <= now => fresh.max(self.heard.saturating_add(1)),
            State::Returns(own, until) if until <= now => own,
            _ => return Turn::Nothing,
        };
        self.state = State::Active(id);
        Turn::Begin(id)
    }

    /// Nothing can be heard now: what is not heard says nothing about others.
    pub(super) fn cut_off(&mut self, now: Nanos) {
        self.state = match self.state {
            State::Waits(_) => State::Waits(now + SILENCE + self.apart),
            State::Active(own) | State::Returns(own, _) => State::Returns(own, now + SILENCE),
        };
    }

    /// It cannot have the queue: another one took it, or it is gone.
    pub(super) fn lost(&mut self, now: Nanos) {
        self.wait(now);
    }

    fn wait(&mut self, now: Nanos) {
        self.state = State::Waits(now + SILENCE + self.apart);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Nanos = 1_000_000;

    #[test]
    fn who_hears_nobody_begins_and_who_hears_somebody_waits() {
        let mut lead = Leadership::new(0, 5 * MS);
        assert_eq!(lead.tick(104 * MS, 7), Turn::Nothing);
        assert_eq!(lead.hear(104 * MS, 9), Turn::Nothing);
        assert_eq!(lead.tick(208 * MS, 7), Turn::Nothing);
        assert_eq!((lead.tick(209 * MS, 7), lead.active()), (Turn::Begin(10), Some(10)));
        assert_eq!(lead.tick(500 * MS, 7), Turn::Nothing);
    }

    #[test]
    fn of_two_active_ones_the_earlier_steps_down() {
        let mut lead = Leadership::new(0, 0);
        assert_eq!(lead.tick(100 * MS, 7), Turn::Begin(7));
        assert_eq!(lead.hear(101 * MS, 6), Turn::Nothing);
        assert_eq!(lead.hear(101 * MS, 7), Turn::Nothing, "itself");
        assert_eq!((lead.hear(102 * MS, 8), lead.active()), (Turn::End, None));
        assert_eq!(lead.tick(201 * MS, 1), Turn::Nothing);
        assert_eq!(lead.tick(202 * MS, 1), Turn::Begin(9));
    }

    #[test]
    fn who_was_cut_off_goes_on_unless_another_one_did() {
        let mut lead = Leadership::new(0, 50 * MS);
        assert_eq!(lead.tick(150 * MS, 7), Turn::Begin(7));
        lead.cut_off(200 * MS);
        assert_eq!((lead.active(), lead.tick(299 * MS, 1)), (None, Turn::Nothing));
        assert_eq!(lead.tick(300 * MS, 1), Turn::Begin(7));
        lead.cut_off(400 * MS);
        assert_eq!(lead.hear(450 * MS, 8), Turn::End);
        assert_eq!(lead.tick(599 * MS, 1), Turn::Nothing);
        assert_eq!(lead.tick(600 * MS, 1), Turn::Begin(9));
    }
}
