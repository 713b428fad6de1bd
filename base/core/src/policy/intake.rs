//! How many connections the kernel may keep for a service before it accepts them.
//!
//! The kernel serves that queue first come, first served, for all users alike. One user could fill it with
//! connections that it drops, and another would wait until all are accepted. So each *wasted* connection, one without
//! any use, is counted. Above a rate the queue is narrow, and further connections wait in `connect`. The system wakes
//! them in turn, by process. Below it the queue is wide: programs that start together fit in.
//!
//! The count is kept as the time of its next zero: the virtual scheduling of the generic cell rate algorithm (ITU-T
//! I.371).

use crate::time::Nanos;

/// Length of the kernel's queue, as a rule.
pub const WIDE: u32 = 1024;
/// Length of the kernel's queue while most connections are wasted.
pub const NARROW: u32 = 1;
/// Mean time between two wasted connections that leaves the queue wide, ns.
const EVERY: Nanos = 1_000_000;
/// Further wasted connections in a burst: the most that one process may have waiting.
const BURST: u64 = 64;
/// Longest time that the queue stays narrow after the last of them, ns.
const MEMORY: Nanos = 500_000_000;

/// Wasted connections.
#[derive(Debug, Default)]
pub struct Intake {
    forgotten_at: Nanos,
    narrow: bool,
}

impl Intake {
    /// Counts `connections` wasted ones.
    pub fn wasted(&mut self, now: Nanos, connections: u32) {
        let weight = EVERY.saturating_mul(connections.into());
        self.forgotten_at = self.forgotten_at.max(now).saturating_add(weight).min(now.saturating_add(MEMORY));
        self.narrow |= self.forgotten_at > now.saturating_add(EVERY * BURST);
    }

    /// Length of the kernel's queue from now on.
    pub fn backlog(&mut self, now: Nanos) -> u32 {
        self.narrow &= now < self.forgotten_at;
        if self.narrow { NARROW } else { WIDE }
    }

    /// The time when the queue is wide again, unless more are wasted; `None`: it is wide.
    pub fn wide_at(&self) -> Option<Nanos> {
        self.narrow.then_some(self.forgotten_at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Nanos = 1_000_000_000;

    #[test]
    fn what_comes_to_nothing_now_and_then_leaves_the_queue_wide() {
        let mut intake = Intake::default();
        for now in (0..10 * SECOND).step_by(EVERY as usize) {
            intake.wasted(now, 1);
            assert_eq!(intake.backlog(now), WIDE);
        }
        assert_eq!(intake.wide_at(), None);
        let mut intake = Intake::default();
        intake.wasted(SECOND, BURST as u32);
        assert_eq!(intake.backlog(SECOND), WIDE, "a process that is killed");
    }

    #[test]
    fn a_user_that_throws_away_more_narrows_it_until_that_is_forgotten() {
        let mut intake = Intake::default();
        for now in (SECOND..2 * SECOND).step_by(EVERY as usize / 2) {
            intake.wasted(now, 1);
        }
        let last = 2 * SECOND - EVERY / 2;
        assert_eq!(intake.backlog(last), NARROW);
        let wide_at = intake.wide_at().unwrap();
        assert!((last..=last + MEMORY).contains(&wide_at));
        assert_eq!(intake.backlog(wide_at - 1), NARROW);
        assert_eq!(intake.backlog(wide_at), WIDE);
        assert_eq!(intake.wide_at(), None);
    }

    #[test]
    fn however_many_they_were_they_are_forgotten_soon() {
        let mut intake = Intake::default();
        (0..1000).for_each(|_| intake.wasted(SECOND, u32::MAX));
        assert_eq!(intake.wide_at(), Some(SECOND + MEMORY));
        intake.wasted(u64::MAX - 1, u32::MAX);
        assert_eq!(intake.backlog(u64::MAX - 1), NARROW);
    }
}
