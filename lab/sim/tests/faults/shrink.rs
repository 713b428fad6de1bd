//! Makes a failing run smaller, as long as it breaks the same invariant.

use super::mutation::Mutation;
use super::scenario::Scenario;
use super::world::Watch;
use super::{Broken, Failure, Invariant, run_one};

const TRIES: u32 = 400;

pub(super) fn explain(scenario: &Scenario, mutation: Option<Mutation>, broken: Broken) -> Failure {
    let mut search = Search { mutation, invariant: broken.invariant, left: TRIES };
    let smallest = search.smallest(scenario.clone());
    let (_, mut run) = run_one(&smallest, mutation, Watch { words: true, tape: None });
    let what = run.world.broken.take().map_or(broken.what, |broken| broken.what);
    let (seed, invariant) = (scenario.seed, broken.invariant);
    Failure { seed, invariant, what, scenario: smallest.to_string(), trace: run.world.into_words() }
}

struct Search {
    mutation: Option<Mutation>,
    invariant: Invariant,
    left: u32,
}

impl Search {
    fn smallest(&mut self, mut scenario: Scenario) -> Scenario {
        loop {
            let (before, was) = (self.left, size(&scenario));
            self.fewer(&mut scenario, |scenario| &mut scenario.faults, 0);
            let clients = if scenario.backlogged { 2 } else { 1 };
            self.fewer(&mut scenario, |scenario| &mut scenario.clients, clients);
            self.fewer(&mut scenario, |scenario| &mut scenario.devices, 1);
            let smaller = self.halved(&mut scenario) || size(&scenario) < was;
            if self.left == 0 || before == self.left || !smaller {
                return scenario;
            }
        }
    }

    /// Changes the scenario if it can be changed so and breaks the same invariant then.
    fn changed(&mut self, scenario: &mut Scenario, change: impl FnOnce(&mut Scenario) -> bool) -> bool {
        let mut candidate = scenario.clone();
        if self.left == 0 || !change(&mut candidate) {
            return false;
        }
        self.left -= 1;
        let (_, run) = run_one(&candidate, self.mutation, Watch::default());
        let breaks = run.world.broken.is_some_and(|broken| broken.invariant == self.invariant);
        if breaks {
            *scenario = candidate;
        }
        breaks
    }

    /// Removes parts of a list, halves first and single ones last, but keeps `least`. Source: A. Zeller and
    /// R. Hildebrandt, "Simplifying and isolating failure-inducing input", IEEE Transactions on Software Engineering 2002.
    fn fewer<T>(&mut self, scenario: &mut Scenario, list: impl Fn(&mut Scenario) -> &mut Vec<T>, least: usize) {
        let mut part = list(scenario).len().div_ceil(2);
        while part > 0 {
            let mut at = 0;
            while at < list(scenario).len() {
                let removed = self.changed(scenario, |candidate| {
                    let items = list(candidate);
                    items.drain(at..(at + part).min(items.len()));
                    items.len() >= least
                });
                at += if removed { 0 } else { part };
            }
            part /= 2;
        }
    }

    /// Halves the requests of each lane, and leaves each client one lane. Returns whether there was something to halve.
    fn halved(&mut self, scenario: &mut Scenario) -> bool {
        let mut smaller = false;
        // Shares show in long runs only.
        let clients = if scenario.backlogged { 0 } else { scenario.clients.len() };
        for client in 0..clients {
            smaller |= self.changed(scenario, |candidate| {
                let lanes = &mut candidate.clients[client].lanes;
                let many = lanes.len() > 1;
                lanes.truncate(1);
                many
            });
            for lane in 0..scenario.clients[client].lanes.len() {
                smaller |= self.changed(scenario, |candidate| {
                    let requests = &mut candidate.clients[client].lanes[lane].requests;
                    *requests /= 2;
                    *requests > 0
                });
            }
        }
        smaller
    }
}

fn size(scenario: &Scenario) -> usize {
    scenario.faults.len() + scenario.clients.len() + scenario.devices.len()
}
