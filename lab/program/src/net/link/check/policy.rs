//! Decisions of core's policy for arrivals at given instants.

use sidecore::core::policy::notify::{Moderator, Notify, WakeDecision};
use sidecore::core::time::Nanos;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Announced {
    pub(super) per_interrupt: f64,
    /// Mean time from an arrival to its interrupt, us.
    pub(super) held_us: f64,
}

impl Announced {
    /// The instants increase.
    pub(super) fn of(policy: Notify, instants: &[Nanos]) -> Self {
        let mut moderator = Moderator::new(policy);
        let (mut interrupts, mut held, mut pending) = (0_u64, 0_u128, Vec::new());
        let mut ring = |moderator: &mut Moderator, pending: &mut Vec<Nanos>, at: Nanos| {
            interrupts += 1;
            held += pending.drain(..).map(|arrived| u128::from(at - arrived)).sum::<u128>();
            moderator.rung();
        };
        let mut due = None;
        for instant in instants {
            if let Some(at) = due.take_if(|at| *at <= *instant) {
                ring(&mut moderator, &mut pending, at);
            }
            pending.push(*instant);
            match moderator.completed(*instant, 1, false) {
                WakeDecision::Now => {
                    ring(&mut moderator, &mut pending, *instant);
                    due = None;
                }
                WakeDecision::At(at) => due = Some(at),
                WakeDecision::Nothing => {}
            }
        }
        if let Some(at) = due {
            ring(&mut moderator, &mut pending, at);
        }
        let count = instants.len().max(1) as f64;
        Self { per_interrupt: count / interrupts.max(1) as f64, held_us: held as f64 / count / 1e3 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of arrivals at these instants, us: packets an interrupt, and the sum of held times, us.
    fn announced(policy: Notify, micros: &[u64]) -> (f64, f64) {
        let instants: Vec<_> = micros.iter().map(|at| at * 1_000).collect();
        let Announced { per_interrupt, held_us } = Announced::of(policy, &instants);
        (per_interrupt, (held_us * micros.len() as f64).round())
    }

    #[test]
    fn by_count_and_by_time_as_counted_by_hand() {
        let policy = Notify::Coalesce { count: 3, delay: 10_000 };
        // Three by count at 4 us: held 4, 2 and 0. One by time at 30 us: held 10. Two by time at 50 us: 10 and 1.
        assert_eq!(announced(policy, &[0, 2, 4, 20, 40, 49]), (2.0, 27.0));
    }

    #[test]
    fn an_arrival_at_the_instant_of_an_interrupt_waits_for_the_next() {
        let policy = Notify::Coalesce { count: 8, delay: 10_000 };
        assert_eq!(announced(policy, &[0, 10]), (1.0, 20.0));
    }

    #[test]
    fn without_moderation_each_is_announced_at_once() {
        assert_eq!(announced(Notify::Park, &[1, 2, 3]), (1.0, 0.0));
    }
}
