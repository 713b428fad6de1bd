//! Monotonic sums for owners that appear and disappear, such as clients, keys or programs.
//!
//! Prometheus takes a falling counter for a reset. The sum over a client's lanes falls when a lane closes, so an account
//! adds up each lane's increase since the last scrape. The number of accounts is limited. All further owners share one
//! account.

use super::family::Labels;
use std::collections::{BTreeMap, BTreeSet};

/// Label of all owners without an account of their own.
pub const OTHERS: &str = "(other)";

/// What is known of an owner: sums that only grow, and levels that hold the current value.
pub trait Account: Default {
    /// Drops the levels and keeps the sums.
    fn clear_levels(&mut self);

    /// Whether nothing was counted yet and nobody is here.
    fn is_empty(&self) -> bool;
}

/// The accounts of all owners.
#[derive(Debug)]
pub struct Accounts<A> {
    own: BTreeMap<Labels, A>,
    others: (Labels, A),
    limit: usize,
}

impl<A: Account> Accounts<A> {
    /// At most `limit` owners have an account of their own. The account of all others has the labels `others`.
    pub fn new(limit: usize, others: Labels) -> Self {
        Self { own: BTreeMap::new(), others: (others, A::default()), limit }
    }

    /// Has `add` add the increase of each owner since the last call. Owners that are missing in `recent` are removed.
    pub fn take<R>(&mut self, recent: Vec<(Labels, R)>, add: impl Fn(&mut A, R)) {
        let here: BTreeSet<&Labels> = recent.iter().map(|(owner, _)| owner).collect();
        self.own.retain(|owner, _| here.contains(owner));
        self.own.values_mut().chain([&mut self.others.1]).for_each(A::clear_levels);
        for (owner, increase) in recent {
            add(self.account(owner), increase);
        }
    }

    /// The accounts with their labels. That of the others is left out while it is empty.
    pub fn all(&self) -> impl Iterator<Item = (&Labels, &A)> {
        let (labels, others) = &self.others;
        self.own.iter().chain((!others.is_empty()).then_some((labels, others)))
    }

    fn account(&mut self, owner: Labels) -> &mut A {
        if self.own.len() >= self.limit && !self.own.contains_key(&owner) {
            return &mut self.others.1;
        }
        self.own.entry(owner).or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Numbers {
        sum: u64,
        level: u64,
    }

    impl Account for Numbers {
        fn clear_levels(&mut self) {
            self.level = 0;
        }

        fn is_empty(&self) -> bool {
            self.sum == 0 && self.level == 0
        }
    }

    fn take(accounts: &mut Accounts<Numbers>, recent: &[(&str, u64, u64)]) {
        let labelled = recent.iter().map(|(name, sum, level)| (vec![("key", (*name).to_owned())], (sum, level)));
        accounts.take(labelled.collect(), |account, (sum, level)| {
            account.sum += sum;
            account.level += level;
        });
    }

    fn accounts(limit: usize) -> Accounts<Numbers> {
        Accounts::new(limit, vec![("key", "-".to_owned())])
    }

    fn seen(accounts: &Accounts<Numbers>) -> Vec<(&str, u64, u64)> {
        accounts.all().map(|(labels, Numbers { sum, level })| (&*labels[0].1, *sum, *level)).collect()
    }

    #[test]
    fn sums_never_shrink_when_lanes_close() {
        let mut accounts = accounts(2);
        take(&mut accounts, &[("a", 5, 1), ("a", 7, 2)]);
        assert_eq!(seen(&accounts), [("a", 12, 3)]);
        take(&mut accounts, &[("a", 1, 1)]);
        assert_eq!(seen(&accounts), [("a", 13, 1)]);
        take(&mut accounts, &[]);
        assert_eq!(seen(&accounts), []);
    }

    #[test]
    fn who_finds_no_room_counts_with_the_others_until_there_is_some() {
        let mut accounts = accounts(1);
        take(&mut accounts, &[("a", 1, 1), ("b", 2, 2), ("c", 4, 4)]);
        assert_eq!(seen(&accounts), [("a", 1, 1), ("-", 6, 6)]);
        take(&mut accounts, &[("b", 2, 2), ("c", 4, 4)]);
        assert_eq!(seen(&accounts), [("b", 2, 2), ("-", 10, 4)]);
    }
}
