//! Properties of admission: time in proportion to weight, without starvation.

use proptest::prelude::*;
use sidecore_core::policy::admission::Share;
use sidecore_core::time::Nanos;

struct Client {
    share: Share,
    weight: u64,
    costs: Vec<Nanos>,
    taken: usize,
    served: Nanos,
}

impl Client {
    fn new((weight, costs): (u32, Vec<Nanos>)) -> Self {
        Self { share: Share::new(weight), weight: u64::from(weight), costs, taken: 0, served: 0 }
    }

    fn largest(&self) -> Nanos {
        *self.costs.iter().max().unwrap()
    }

    fn take_turn(&mut self, quantum: Nanos) {
        self.share.refill(quantum);
        while self.share.may_take() {
            let cost = self.costs[self.taken % self.costs.len()];
            self.share.charge(cost);
            self.taken += 1;
            self.served += cost;
        }
    }
}

fn client() -> impl Strategy<Value = (u32, Vec<Nanos>)> {
    (1..=20_u32, prop::collection::vec(1..100_000_u64, 1..8))
}

proptest! {
    #[test]
    fn time_is_in_proportion_within_one_request(one in client(), two in client(), quantum in 100..50_000_u64) {
        let (mut one, mut two) = (Client::new(one), Client::new(two));
        for _ in 0..200 {
            one.take_turn(quantum);
            two.take_turn(quantum);
            // Each time divided by its weight, compared without dividing.
            let apart = (one.served * two.weight).abs_diff(two.served * one.weight);
            prop_assert!(apart <= (one.largest() * two.weight).max(two.largest() * one.weight));
        }
        prop_assert!(one.taken > 0 && two.taken > 0);
    }

    #[test]
    fn who_arrives_is_served_in_the_next_round(old in client(), new in client(), rounds in 0..100_u32) {
        let quantum = 1_000;
        let (mut old, mut new) = (Client::new(old), Client::new(new));
        for _ in 0..rounds {
            old.take_turn(quantum);
            new.share.refill(quantum);
            new.share.idle();
        }
        let before = old.served;
        old.take_turn(quantum);
        new.take_turn(quantum);
        prop_assert!(new.taken > 0);
        prop_assert!(new.served < quantum * new.weight + new.largest(), "nothing was hoarded");
        prop_assert!(old.served - before <= quantum * old.weight + old.largest());
    }

    #[test]
    fn a_debt_is_paid_in_time(weight in 1..=Share::MAX_WEIGHT, cost: u64, quantum in 100_000..1_000_000_u64) {
        let mut share = Share::new(weight);
        share.charge(cost);
        let rounds = cost.min(1_000_000_000) / (quantum * u64::from(weight)).min(1_000_000_000) + 1;
        for _ in 0..rounds {
            share.idle();
            share.refill(quantum);
        }
        prop_assert!(share.may_take());
    }
}
