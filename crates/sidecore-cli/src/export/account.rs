//! Sums that only grow, for clients and keys that come and go.
//!
//! Prometheus takes a counter that becomes smaller for one that began anew. The sum over the lanes of a client becomes
//! smaller when a lane closes, so what is added up is what each lane counted since the last scrape. Only so many get
//! metrics of their own; what the others count goes to one account of all of them.

use sidecore::core::stage::Stage;
use sidecore::counters::Histogram;
use std::collections::{BTreeMap, BTreeSet};

/// What one client or key counted.
#[derive(Clone, Debug)]
pub(super) struct Account {
    /// By the number of the counter. A level is what it is now.
    pub(super) counters: Vec<u64>,
    pub(super) stages: [Histogram; Stage::COUNT],
    /// How many lanes or keys are behind it now.
    pub(super) members: u64,
}

/// Accounts by their owners, and one for all that have none.
#[derive(Debug)]
pub(super) struct Accounts<K> {
    own: BTreeMap<K, Account>,
    others: Account,
    limit: usize,
    /// For each counter: it is a level.
    levels: Vec<bool>,
}

impl<K: Ord + Clone> Accounts<K> {
    /// At most `limit` have an account of their own.
    pub(super) fn new(limit: usize, levels: Vec<bool>) -> Self {
        Self { own: BTreeMap::new(), others: Account::new(levels.len()), limit, levels }
    }

    /// Takes what each counted since the last time. Who is not among them is gone.
    pub(super) fn take(&mut self, recent: Vec<(K, Vec<u64>, &[Histogram])>) {
        let here: BTreeSet<&K> = recent.iter().map(|(owner, ..)| owner).collect();
        self.own.retain(|owner, _| here.contains(owner));
        for account in self.own.values_mut().chain([&mut self.others]) {
            account.begin(&self.levels);
        }
        for (owner, counters, stages) in recent {
            self.account(owner).add(&counters, stages);
        }
    }

    /// Those with an account of their own, in order, and the account of all others if there ever was one.
    pub(super) fn all(&self) -> impl Iterator<Item = (Option<&K>, &Account)> {
        let others = (self.others.counters.iter().any(|count| *count > 0) || self.others.members > 0)
            .then_some((None, &self.others));
        self.own.iter().map(|(owner, account)| (Some(owner), account)).chain(others)
    }

    fn account(&mut self, owner: K) -> &mut Account {
        if self.own.len() >= self.limit && !self.own.contains_key(&owner) {
            return &mut self.others;
        }
        self.own.entry(owner).or_insert_with(|| Account::new(self.levels.len()))
    }
}

impl Account {
    fn new(counters: usize) -> Self {
        Self { counters: vec![0; counters], stages: std::array::from_fn(|_| Histogram::default()), members: 0 }
    }

    /// Levels are those of now.
    fn begin(&mut self, levels: &[bool]) {
        self.members = 0;
        self.counters.iter_mut().zip(levels).filter(|(_, level)| **level).for_each(|(counter, _)| *counter = 0);
    }

    fn add(&mut self, counters: &[u64], stages: &[Histogram]) {
        self.members += 1;
        self.counters.iter_mut().zip(counters).for_each(|(sum, more)| *sum = sum.saturating_add(*more));
        self.stages.iter_mut().zip(stages).for_each(|(sum, more)| sum.merge(more));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(accounts: &mut Accounts<&'static str>, recent: &[(&'static str, u64, u64)]) {
        accounts.take(recent.iter().map(|(owner, sum, level)| (*owner, vec![*sum, *level], &[][..])).collect());
    }

    fn seen(accounts: &Accounts<&'static str>) -> Vec<(Option<&'static str>, u64, u64)> {
        accounts.all().map(|(owner, account)| (owner.copied(), account.counters[0], account.counters[1])).collect()
    }

    #[test]
    fn sums_never_shrink_when_lanes_close() {
        let mut accounts = Accounts::new(2, vec![false, true]);
        take(&mut accounts, &[("a", 5, 1), ("a", 7, 2)]);
        assert_eq!(seen(&accounts), [(Some("a"), 12, 3)]);
        take(&mut accounts, &[("a", 1, 1)]);
        assert_eq!(seen(&accounts), [(Some("a"), 13, 1)]);
        take(&mut accounts, &[]);
        assert_eq!(seen(&accounts), []);
    }

    #[test]
    fn who_finds_no_room_counts_with_the_others_until_there_is_some() {
        let mut accounts = Accounts::new(1, vec![false, true]);
        take(&mut accounts, &[("a", 1, 1), ("b", 2, 2), ("c", 4, 4)]);
        assert_eq!(seen(&accounts), [(Some("a"), 1, 1), (None, 6, 6)]);
        take(&mut accounts, &[("b", 2, 2), ("c", 4, 4)]);
        assert_eq!(seen(&accounts), [(Some("b"), 2, 2), (None, 10, 4)]);
    }
}
