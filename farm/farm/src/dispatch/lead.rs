//! The choice of one active dispatcher: a lease without NATS and without a clock.
//!
//! The active dispatcher announces its term every 10 ms. Without announcements for a while a dispatcher begins a term
//! above all it has heard. Of two leaders, the one with the smaller term steps down. Safety depends on none of this:
//! the queue's consumer belongs to one term, and the server commits each result once.

use sidecore_core::time::Nanos;

/// Time without an announcement after which a dispatcher begins a term, ns.
const LEADER_TIMEOUT: Nanos = 100_000_000;
/// Who was overtaken several times in this time, ns, waits twice as long after each further time, up to 2^5 times as long.
/// On a machine or a network that is so slow, two living dispatchers would take the queue from each other for ever.
const CONTEST: Nanos = 60_000_000_000;
const MAX_DOUBLINGS: u32 = 5;
/// Most extra wait, ns: dispatchers begin at different times.
const SPREAD: Nanos = 100_000_000;
/// A beat with this delay may have cost the lead, ns: others wait for [`LEADER_TIMEOUT`].
const LATE: Nanos = 60_000_000;
/// Time that a late leader listens before it goes on, ns.
const LISTENS: Nanos = 50_000_000;
/// Low bits of a term, which differ between dispatchers; those above count nanoseconds / 2^20.
const RANDOM_BITS: u32 = 20;
const MAX_TIME: u64 = u64::MAX >> RANDOM_BITS;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    Nothing,
    /// Take the queue over for this term, then call [`Leadership::has_begun`].
    Begin(u64),
    End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LeadState {
    Waits(Nanos),
    Begins(u64),
    Active(u64),
    /// Did not run for a while: active again then, unless a later term is announced first.
    Late(u64, Nanos),
    /// Lost its connection: begins the same term again then, unless a later one is announced first.
    Returns(u64, Nanos),
}

#[derive(Debug)]
pub(super) struct Leadership {
    state: LeadState,
    heard: u64,
    apart: Nanos,
    random: u64,
    /// How often it was overtaken while it led, and when it was last.
    overtaken: (u32, Nanos),
}

impl Leadership {
    pub(super) fn new(now: Nanos, random: u64) -> Self {
        let (apart, random) = (random % SPREAD, random & !(u64::MAX << RANDOM_BITS));
        Self { state: LeadState::Waits(now + LEADER_TIMEOUT + apart), heard: 0, apart, random, overtaken: (0, 0) }
    }

    pub(super) fn active(&self) -> Option<u64> {
        match self.state {
            LeadState::Active(term) => Some(term),
            _ => None,
        }
    }

    pub(super) fn announced(&self) -> Option<u64> {
        match self.state {
            LeadState::Begins(term) | LeadState::Active(term) | LeadState::Late(term, _) => Some(term),
            LeadState::Waits(_) | LeadState::Returns(..) => None,
        }
    }

    pub(super) fn hear(&mut self, now: Nanos, term: u64) -> Turn {
        self.heard = self.heard.max(term);
        match self.state {
            LeadState::Waits(_) => {
                self.wait(now);
                Turn::Nothing
            }
            LeadState::Begins(own) | LeadState::Active(own) | LeadState::Late(own, _) | LeadState::Returns(own, _)
                if term <= own =>
            {
                Turn::Nothing
            }
            // Silence is to be expected of who has no connection.
            LeadState::Returns(..) => {
                self.wait(now);
                Turn::End
            }
            _ => {
                self.overtaken = (self.recently_overtaken(now).saturating_add(1), now);
                self.wait(now);
                Turn::End
            }
        }
    }

    fn recently_overtaken(&self, now: Nanos) -> u32 {
        let (times, last) = self.overtaken;
        if now.saturating_sub(last) < CONTEST { times } else { 0 }
    }

    /// `now` counts from the start, `since_1970` is the machine's clock, both ns. The second decides only the order of
    /// terms.
    pub(super) fn tick(&mut self, now: Nanos, since_1970: Nanos) -> Turn {
        let term = match self.state {
            LeadState::Waits(until) if until <= now => self.next_term(since_1970),
            LeadState::Returns(own, until) if until <= now => own,
            LeadState::Late(own, until) if until <= now => {
                self.state = LeadState::Active(own);
                return Turn::Nothing;
            }
            _ => return Turn::Nothing,
        };
        self.state = LeadState::Begins(term);
        Turn::Begin(term)
    }

    /// The takeover for that term is complete. `false`: the term has ended meanwhile.
    #[must_use]
    pub(super) fn has_begun(&mut self, term: u64) -> bool {
        let begins = self.state == LeadState::Begins(term);
        if begins {
            self.state = LeadState::Active(term);
        }
        begins
    }

    /// This process did not run for `away` ns, and cannot have heard announcements meanwhile.
    pub(super) fn was_away(&mut self, now: Nanos, away: Nanos) {
        self.state = match self.state {
            LeadState::Waits(until) => LeadState::Waits(until.saturating_add(away)),
            LeadState::Active(own) if away >= LATE => LeadState::Late(own, now + LISTENS),
            state => state,
        };
    }

    /// The connection to the servers is or was lost: silence does not show that others are gone.
    pub(super) fn cut_off(&mut self, now: Nanos) {
        self.state = match self.state {
            LeadState::Waits(_) => LeadState::Waits(now + LEADER_TIMEOUT + self.apart),
            LeadState::Begins(own) | LeadState::Active(own) | LeadState::Late(own, _) | LeadState::Returns(own, _) => {
                LeadState::Returns(own, now + LEADER_TIMEOUT)
            }
        };
    }

    /// The active dispatcher takes the queue over again for its own term, which it goes on announcing: no standby begins.
    pub(super) fn begin_again(&mut self) -> Option<u64> {
        let term = self.active()?;
        self.state = LeadState::Begins(term);
        Some(term)
    }

    pub(super) fn lost(&mut self, now: Nanos) {
        self.wait(now);
    }

    /// Above all terms heard; if clocks agree, above all earlier terms.
    fn next_term(&self, since_1970: Nanos) -> u64 {
        let above = (self.heard >> RANDOM_BITS).saturating_add(1);
        let time = (since_1970 >> RANDOM_BITS).max(above).min(MAX_TIME);
        (time << RANDOM_BITS) | self.random
    }

    fn wait(&mut self, now: Nanos) {
        let doublings = self.recently_overtaken(now).saturating_sub(1).min(MAX_DOUBLINGS);
        self.state = LeadState::Waits(now + (LEADER_TIMEOUT << doublings) + self.apart);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Nanos = 1_000_000;

    fn term(time: u64) -> u64 {
        time << RANDOM_BITS
    }

    fn active(time: u64) -> Leadership {
        let mut lead = Leadership::new(0, 0);
        assert_eq!(lead.tick(100 * MS, term(time)), Turn::Begin(term(time)));
        assert!(lead.has_begun(term(time)));
        lead
    }

    #[test]
    fn a_dispatcher_begins_after_silence_and_waits_after_an_announcement() {
        let mut lead = Leadership::new(0, 5 * MS);
        let own = term(10) | ((5 * MS) & !(u64::MAX << RANDOM_BITS));
        assert_eq!(lead.tick(104 * MS, term(7)), Turn::Nothing);
        assert_eq!(lead.hear(104 * MS, term(9)), Turn::Nothing);
        assert_eq!(lead.tick(208 * MS, term(7)), Turn::Nothing);
        assert_eq!(lead.tick(209 * MS, term(7)), Turn::Begin(own), "above what was heard");
        assert_eq!((lead.announced(), lead.active()), (Some(own), None), "announced before it has the queue");
        assert!(!lead.has_begun(own + 1) && lead.has_begun(own));
        assert_eq!((lead.active(), lead.tick(500 * MS, term(7))), (Some(own), Turn::Nothing));
    }

    #[test]
    fn of_two_that_lead_the_earlier_term_ends() {
        let mut lead = active(7);
        assert_eq!(lead.hear(101 * MS, term(6)), Turn::Nothing);
        assert_eq!(lead.hear(101 * MS, term(7)), Turn::Nothing, "itself");
        assert_eq!((lead.hear(102 * MS, term(8)), lead.active()), (Turn::End, None));
        assert_eq!(lead.tick(201 * MS, term(1)), Turn::Nothing);
        assert_eq!(lead.tick(202 * MS, term(1)), Turn::Begin(term(9)));
        assert_eq!(lead.hear(203 * MS, term(10)), Turn::End);
        assert!(!lead.has_begun(term(9)), "what it took over meanwhile is not its own");
    }

    #[test]
    fn a_dispatcher_that_was_cut_off_begins_its_term_again_unless_a_later_one_began() {
        let mut lead = active(7);
        lead.cut_off(200 * MS);
        assert_eq!((lead.announced(), lead.tick(299 * MS, 1)), (None, Turn::Nothing));
        assert_eq!((lead.tick(300 * MS, 1), lead.has_begun(term(7))), (Turn::Begin(term(7)), true));
        lead.cut_off(400 * MS);
        assert_eq!(lead.hear(450 * MS, term(8)), Turn::End);
        assert_eq!(lead.tick(549 * MS, 1), Turn::Nothing);
        assert_eq!(lead.tick(550 * MS, 1), Turn::Begin(term(9)));
    }

    #[test]
    fn a_leader_that_begins_its_term_again_is_announced_meanwhile() {
        let mut lead = active(7);
        assert_eq!(lead.begin_again(), Some(term(7)));
        assert_eq!((lead.announced(), lead.active(), lead.begin_again()), (Some(term(7)), None, None));
        assert!(lead.has_begun(term(7)) && lead.active() == Some(term(7)));
    }

    #[test]
    fn two_that_overtake_each_other_wait_longer_each_time_until_all_is_calm() {
        let mut lead = active(7);
        let mut now = 200 * MS;
        let later = |lead: &Leadership| lead.announced().unwrap() + term(1);
        for wait in [100, 200, 400, 800, 1_600, 3_200, 3_200] {
            assert_eq!(lead.hear(now, later(&lead)), Turn::End);
            assert_eq!(lead.tick(now + (wait - 1) * MS, 1), Turn::Nothing, "{wait} ms");
            now += wait * MS;
            assert!(matches!(lead.tick(now, 1), Turn::Begin(_)), "{wait} ms");
        }
        now += CONTEST;
        assert_eq!(lead.hear(now, later(&lead)), Turn::End);
        assert!(matches!(lead.tick(now + 100 * MS, 1), Turn::Begin(_)));
        // One that follows a living leader for long is not slower to replace it.
        assert_eq!(lead.hear(now + 101 * MS, later(&lead)), Turn::End);
        let now = now + 102 * MS + CONTEST;
        assert_eq!(lead.hear(now, term(1)), Turn::Nothing);
        assert!(matches!(lead.tick(now + 100 * MS, 1), Turn::Begin(_)));
    }

    #[test]
    fn a_leader_that_did_not_run_listens_before_it_goes_on() {
        let mut lead = active(7);
        lead.was_away(200 * MS, 59 * MS);
        assert_eq!(lead.active(), Some(term(7)));
        lead.was_away(300 * MS, 60 * MS);
        assert_eq!((lead.active(), lead.announced()), (None, Some(term(7))));
        // A leader that is late several times goes on.
        lead.was_away(349 * MS, 60 * MS);
        assert_eq!((lead.tick(350 * MS, 1), lead.active()), (Turn::Nothing, Some(term(7))));
        lead.was_away(400 * MS, 300 * MS);
        assert_eq!((lead.hear(401 * MS, term(8)), lead.announced()), (Turn::End, None));
    }

    #[test]
    fn a_standby_that_did_not_run_does_not_take_over_from_a_leader_that_did() {
        let mut lead = Leadership::new(0, 0);
        lead.hear(10 * MS, term(7));
        // Paused for 300 ms; the announcements of that time are not read yet.
        lead.was_away(320 * MS, 300 * MS);
        assert_eq!(lead.tick(320 * MS, term(20)), Turn::Nothing);
        lead.hear(321 * MS, term(7));
        assert_eq!(lead.tick(420 * MS, term(20)), Turn::Nothing);
        assert_eq!(lead.tick(421 * MS, term(20)), Turn::Begin(term(20)), "silence does");
    }

    #[test]
    fn terms_differ_between_dispatchers_and_have_an_end() {
        let (mut one, mut two) = (Leadership::new(0, 1), Leadership::new(0, 2));
        assert_ne!(one.tick(200 * MS, term(7)), two.tick(200 * MS, term(7)));
        let mut last = Leadership::new(0, 3);
        last.hear(0, u64::MAX);
        assert_eq!(last.tick(200 * MS, 0), Turn::Begin((u64::MAX << RANDOM_BITS) | 3));
    }
}
