//! Monotonic sums for clients and keys that appear and disappear.
//!
//! Prometheus takes a falling counter for a reset. The sum over a client's lanes falls when a lane closes, so an
//! account adds up each lane's increase since the last scrape. The number of accounts is limited. All further clients
//! or keys share one account.

use super::family::Labels;
use sidecore_counters::{Counter, Stats};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Debug)]
pub(super) struct Account<C: Counter> {
    /// Counters add up; levels hold the current value.
    pub(super) sum: Stats<C>,
    pub(super) members: u64,
}

#[derive(Debug)]
pub(super) struct Accounts<C: Counter> {
    own: BTreeMap<Labels, Account<C>>,
    others: (Labels, Account<C>),
    limit: usize,
}

impl<C: Counter<About: Default>> Accounts<C> {
    /// At most `limit` owners have an account of their own. The account of all others has the labels `others`.
    pub(super) fn new(limit: usize, others: Labels) -> Self {
        Self { own: BTreeMap::new(), others: (others, Account::new()), limit }
    }

    /// Adds the increase of each owner since the last call. Owners that are missing in `recent` are removed.
    pub(super) fn take(&mut self, recent: Vec<(Labels, &Stats<C>)>) {
        let here: BTreeSet<&Labels> = recent.iter().map(|(owner, _)| owner).collect();
        self.own.retain(|owner, _| here.contains(owner));
        for account in self.own.values_mut().chain([&mut self.others.1]) {
            account.members = 0;
            account.sum.clear_levels();
        }
        for (owner, stats) in recent {
            let account = self.account(owner);
            account.members += 1;
            account.sum.merge(stats);
        }
    }

    pub(super) fn all(&self) -> impl Iterator<Item = (&Labels, &Account<C>)> {
        let (labels, others) = &self.others;
        let seen = others.sum.counters().iter().any(|count| *count > 0) || others.members > 0;
        self.own.iter().chain(seen.then_some((labels, others)))
    }

    fn account(&mut self, owner: Labels) -> &mut Account<C> {
        if self.own.len() >= self.limit && !self.own.contains_key(&owner) {
            return &mut self.others.1;
        }
        self.own.entry(owner).or_insert_with(Account::new)
    }
}

impl<C: Counter<About: Default>> Account<C> {
    fn new() -> Self {
        Self { sum: Stats::new(0, C::About::default()), members: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sidecore_counters::{Counters, KeyCounter, Shape, Snapshot, Start};

    fn take(accounts: &mut Accounts<KeyCounter>, recent: &[(&str, u64, u64)]) {
        let folder = tempfile::tempdir().unwrap();
        let (path, start) = (folder.path().join("counters"), Start { pid: 1, sample_every: 1, now: 1 });
        let shape = Shape { sidecores: 1, lanes: 0, devices: 0, keys: 8 };
        let counters = Counters::create(&path, shape, start).unwrap();
        for (place, (name, sum, level)) in recent.iter().enumerate() {
            counters.open_key(place, name).unwrap();
            counters.key(0, place).set(KeyCounter::Done, *sum);
            counters.key(0, place).set(KeyCounter::InFlight, *level);
        }
        let seen = Snapshot::read(&path).unwrap();
        accounts.take(seen.keys.iter().map(|key| (vec![("key", key.name.clone())], key)).collect());
    }

    fn accounts(limit: usize) -> Accounts<KeyCounter> {
        Accounts::new(limit, vec![("key", "-".to_owned())])
    }

    fn seen(accounts: &Accounts<KeyCounter>) -> Vec<(&str, u64, u64)> {
        let numbers = |sum: &Stats<KeyCounter>| (sum.get(KeyCounter::Done), sum.get(KeyCounter::InFlight));
        let all = accounts.all().map(|(labels, account)| (&*labels[0].1, numbers(&account.sum)));
        all.map(|(owner, (sum, level))| (owner, sum, level)).collect()
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
