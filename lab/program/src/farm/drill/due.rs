//! The schedule of kills.

use super::targets::Who;
use crate::args::farm::Victim;
use crate::farm::load::{Dice, NODES};
use std::time::{Duration, Instant};

#[derive(Debug)]
pub(super) struct Dues {
    all: Vec<Due>,
    dice: Dice,
}

#[derive(Debug)]
struct Due {
    victim: Victim,
    every: Duration,
    next: Instant,
    times: u64,
}

impl Dues {
    /// Begins at `from`, with the interval of each kind. The kinds start at different times.
    pub(super) fn new(kills: &[(Victim, Duration)], from: Instant, seed: u64) -> Self {
        let part = |place: usize| (place + 1) as f64 / kills.len() as f64;
        let due = |(place, &(victim, every)): (usize, &(Victim, Duration))| Due {
            victim,
            every,
            next: from + every.mul_f64(part(place)),
            times: 0,
        };
        Self { all: kills.iter().enumerate().map(due).collect(), dice: Dice::new(seed) }
    }

    pub(super) fn next(&mut self, now: Instant) -> Option<Who> {
        let due = self.all.iter_mut().find(|due| due.next <= now)?;
        due.next += due.every;
        Some(match due.victim {
            Victim::Node => Who::Node(self.dice.below(NODES as u32) as usize),
            // The standby dispatcher has become active after the last kill.
            Victim::Dispatcher => Who::Dispatcher(usize::from(!due.times.is_multiple_of(2))),
            Victim::Feeder => Who::Feeder,
            Victim::Server => Who::Server,
        })
    }

    pub(super) fn killed(&mut self, who: Who) {
        let victim = match who {
            Who::Node(_) => Victim::Node,
            Who::Dispatcher(_) => Victim::Dispatcher,
            Who::Feeder => Victim::Feeder,
            Who::Server => Victim::Server,
        };
        self.all.iter_mut().filter(|due| due.victim == victim).for_each(|due| due.times += 1);
    }

    pub(super) fn times(&self) -> Vec<(Victim, u64)> {
        self.all.iter().map(|due| (due.victim, due.times)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_have_their_turns_at_different_times_and_dispatchers_take_turns() {
        let (begin, second) = (Instant::now(), Duration::from_secs(1));
        let mut dues = Dues::new(&[(Victim::Node, second), (Victim::Dispatcher, 4 * second)], begin, 1);
        assert_eq!(dues.next(begin), None);
        assert!(matches!(dues.next(begin + second / 2), Some(Who::Node(0..16))));
        assert_eq!(dues.next(begin + second), None);
        let mut seen = Vec::new();
        for tenth in 0..130 {
            while let Some(who) = dues.next(begin + second * tenth / 10) {
                dues.killed(who);
                seen.push(who);
            }
        }
        let dispatchers: Vec<_> = seen.iter().filter(|who| matches!(who, Who::Dispatcher(_))).collect();
        assert_eq!(dispatchers, [&Who::Dispatcher(0), &Who::Dispatcher(1), &Who::Dispatcher(0)]);
        assert_eq!(dues.times(), [(Victim::Node, 12), (Victim::Dispatcher, 3)]);
    }
}
