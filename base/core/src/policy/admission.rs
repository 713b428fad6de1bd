//! Fair admission of requests: deficit round robin by time.
//!
//! Each user has a [`Share`], and so has each of its clients. In each round every user's share is refilled by a quantum
//! times its weight, and a client with requests waiting is served while both shares are in credit. The last request may
//! overdraw, which is carried into the next round, so no request needs an exact cost before it runs and none is too
//! large to run. Users that always have work waiting get time in proportion to their weights, within one request each.
//! Source: Shreedhar and Varghese, "Efficient fair queueing using deficit round robin", SIGCOMM 1995; their algorithm
//! saves up where this one overdraws.

use crate::time::Nanos;

/// Most that a share can be in credit or in debt, ns: a longer request is charged as one of this length.
const LIMIT: Nanos = 1_000_000_000;

/// A user's share of the sidecore's time, or a client's share of its user's.
#[derive(Clone, Debug)]
pub struct Share {
    weight: u32,
    /// Time in credit; below 0 in debt, ns.
    balance: i64,
}

impl Share {
    /// Largest weight.
    pub const MAX_WEIGHT: u32 = 1000;

    /// A share with nothing in credit. The weight is brought to 1..=1000.
    pub fn new(weight: u32) -> Self {
        Self { weight: weight.clamp(1, Self::MAX_WEIGHT), balance: 0 }
    }

    /// Its weight, 1 to [`Share::MAX_WEIGHT`].
    pub fn weight(&self) -> u32 {
        self.weight
    }

    /// From the next round on it has this weight, brought to 1..=1000.
    pub fn set_weight(&mut self, weight: u32) {
        self.weight = weight.clamp(1, Self::MAX_WEIGHT);
    }

    /// A round begins: adds the quantum (ns) times the weight. Credit left from the round before is not kept
    /// beyond it. Keep their product below 1 s, where credit ends.
    #[inline]
    pub fn refill(&mut self, quantum: Nanos) {
        self.refill_rounds(quantum, 1);
    }

    /// Makes up for this number of rounds since the last refill. Each of them pays off debt; the credit is that of one.
    #[inline]
    pub fn refill_rounds(&mut self, quantum: Nanos, rounds: u64) {
        let round = self.round(quantum);
        // The most that can be owed, and one round beyond it.
        let all = round.saturating_mul(rounds).min(2 * LIMIT);
        self.balance = (self.balance + all.cast_signed()).min(round.cast_signed());
    }

    /// The number of refills after which it is in credit; 0 if it is.
    pub fn rounds_to_credit(&self, quantum: Nanos) -> u64 {
        if self.may_take() { 0 } else { self.balance.unsigned_abs() / self.round(quantum).max(1) + 1 }
    }

    #[inline]
    fn round(&self, quantum: Nanos) -> Nanos {
        quantum.saturating_mul(u64::from(self.weight)).min(LIMIT)
    }

    /// Whether one more request may be taken in this round.
    #[inline]
    pub fn may_take(&self) -> bool {
        self.balance > 0
    }

    /// A request of this estimated cost (ns) was taken.
    #[inline]
    pub fn charge(&mut self, cost: Nanos) {
        let cost = cost.min(LIMIT).cast_signed();
        self.balance = (self.balance - cost).max(-LIMIT.cast_signed());
    }

    /// Takes up to `count` requests of this estimated cost (ns) each, one after the other, while this share and the
    /// user's are in credit, but at least one. Returns their number.
    #[inline]
    pub fn charge_run(&mut self, user: &mut Self, cost: Nanos, count: u32) -> u32 {
        let cost = cost.clamp(1, LIMIT);
        let credit = u64::try_from(self.balance.min(user.balance)).unwrap_or(0);
        let taken = u64::from(count).min(credit.div_ceil(cost)).max(1);
        let all = cost.saturating_mul(taken);
        self.charge(all);
        user.charge(all);
        taken as u32
    }

    /// Nothing waits: credit is forfeit, so that none is hoarded. A debt stays and is paid by the refills that follow;
    /// otherwise large requests with pauses between them would be free.
    #[inline]
    pub fn idle(&mut self) {
        self.balance = self.balance.min(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_charged_as_its_requests_would_be() {
        for (cost, count) in [(30, 3), (30, 4), (30, 9), (100, 2), (150, 2), (0, 1)] {
            let [mut one, mut run, mut user] = [(); 3].map(|()| Share::new(1));
            one.refill(100);
            run.refill(100);
            user.refill(100);
            let mut taken = 0;
            while taken < count && one.may_take() {
                one.charge(cost);
                taken += 1;
            }
            assert_eq!(run.charge_run(&mut user, cost, count), taken, "{count} of {cost}");
            assert!(one.balance - run.balance <= i64::from(cost == 0));
            assert_eq!(run.balance, user.balance);
        }
        let [mut run, mut user] = [Share::new(1), Share::new(1)];
        run.refill(100);
        user.refill(40);
        assert_eq!(run.charge_run(&mut user, 30, 9), 2, "the smaller credit of both decides");
    }

    #[test]
    fn rounds_that_passed_pay_debt_and_leave_the_credit_of_one() {
        for debt in [0, 1, 99, 100, 101, 1_000] {
            let mut share = Share::new(2);
            share.charge(debt);
            let rounds = share.rounds_to_credit(50);
            let mut late = share.clone();
            late.refill_rounds(50, rounds - 1);
            assert!(!late.may_take(), "{debt}");
            share.refill_rounds(50, rounds);
            assert!(share.may_take() && share.rounds_to_credit(50) == 0, "{debt}");
            share.refill_rounds(50, u64::MAX);
            assert_eq!(share.balance, 100);
        }
    }

    #[test]
    fn a_share_is_spent_and_overdrawn_once() {
        let mut share = Share::new(2);
        assert!(!share.may_take());
        share.refill(100);
        share.charge(150);
        assert!(share.may_take());
        share.charge(150);
        assert!(!share.may_take(), "100 in debt");
        share.refill(50);
        assert!(!share.may_take(), "just paid");
        share.refill(50);
        assert!(share.may_take());
    }

    #[test]
    fn the_idle_hoard_nothing_and_forget_no_debt() {
        let mut share = Share::new(1);
        share.refill(100);
        share.refill(100);
        share.charge(100);
        assert!(!share.may_take(), "one round's credit at most");
        share.refill(100);
        share.idle();
        assert!(!share.may_take());
        share.charge(150);
        share.idle();
        share.refill(100);
        assert!(!share.may_take());
    }

    #[test]
    fn weights_and_costs_have_limits() {
        let mut share = Share::new(0);
        share.refill(1);
        assert!(share.may_take());
        let mut share = Share::new(u32::MAX);
        share.charge(u64::MAX);
        share.charge(u64::MAX);
        share.refill(u64::MAX);
        assert!(!share.may_take());
        share.refill(1);
        assert!(share.may_take());
    }
}
