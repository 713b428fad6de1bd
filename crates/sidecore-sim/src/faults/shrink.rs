//! From a run that breaks an invariant to a small one that still does.

use super::sabotage::Sabotage;
use super::scenario::Scenario;
use super::world::Watch;
use super::{Broken, Failure, Invariant, run_one};

/// Most runs that the search makes.
const TRIES: u32 = 400;

/// Makes the run smaller for as long as the same invariant breaks, and tells its last events in words.
pub(super) fn explain(scenario: &Scenario, sabotage: Option<Sabotage>, broken: Broken) -> Failure {
    let mut search = Search { sabotage, invariant: broken.invariant, left: TRIES };
    let smallest = search.smallest(scenario.clone());
    let outcome = run_one(&smallest, sabotage, Watch { words: true, tape: None });
    let what = outcome.broken.map_or(broken.what, |broken| broken.what);
    let (seed, invariant) = (scenario.seed, broken.invariant);
    Failure { seed, invariant, what, scenario: smallest.to_string(), trace: outcome.words }
}

struct Search {
    sabotage: Option<Sabotage>,
    invariant: Invariant,
    left: u32,
}

impl Search {
    /// Removes and halves until nothing more can be removed or halved.
    fn smallest(&mut self, mut scenario: Scenario) -> Scenario {
        loop {
            let before = self.left;
            let mut smaller = self.fewer(scenario.clone(), |scenario| &mut scenario.faults, 0);
            let clients = if scenario.backlogged { 2 } else { 1 };
            smaller = self.fewer(smaller, |scenario| &mut scenario.clients, clients);
            smaller = self.fewer(smaller, |scenario| &mut scenario.devices, 1);
            let (found, halved) = self.halved(smaller);
            let fewer = size(&found) < size(&scenario);
            scenario = found;
            if self.left == 0 || before == self.left || !(halved || fewer) {
                return scenario;
            }
        }
    }

    fn still_breaks(&mut self, scenario: &Scenario) -> bool {
        if self.left == 0 {
            return false;
        }
        self.left -= 1;
        run_one(scenario, self.sabotage, Watch::default())
            .broken
            .is_some_and(|broken| broken.invariant == self.invariant)
    }

    /// Removes parts of a list, halves first and single ones last, but keeps `least`. Source: A. Zeller and
    /// R. Hildebrandt, "Simplifying and isolating failure-inducing input", IEEE Transactions on Software Engineering 2002.
    fn fewer<T: Clone>(
        &mut self,
        mut scenario: Scenario,
        list: impl Fn(&mut Scenario) -> &mut Vec<T>,
        least: usize,
    ) -> Scenario {
        let mut part = list(&mut scenario).len().div_ceil(2);
        while part > 0 {
            let mut at = 0;
            while at < list(&mut scenario).len() {
                let mut candidate = scenario.clone();
                let items = list(&mut candidate);
                items.drain(at..(at + part).min(items.len()));
                if items.len() >= least && self.still_breaks(&candidate) {
                    scenario = candidate;
                } else {
                    at += part;
                }
            }
            part /= 2;
        }
        scenario
    }

    /// Halves the requests of each lane, and leaves each client one lane.
    fn halved(&mut self, mut scenario: Scenario) -> (Scenario, bool) {
        let mut smaller = false;
        if scenario.backlogged {
            // Shares show in long runs only.
            return (scenario, smaller);
        }
        for client in 0..scenario.clients.len() {
            let mut candidate = scenario.clone();
            let lanes = &mut candidate.clients[client].lanes;
            let many = lanes.len() > 1;
            lanes.truncate(1);
            if many && self.still_breaks(&candidate) {
                (scenario, smaller) = (candidate, true);
            }
            for lane in 0..scenario.clients[client].lanes.len() {
                let mut candidate = scenario.clone();
                let requests = &mut candidate.clients[client].lanes[lane].requests;
                let half = *requests / 2;
                let many = half > 0;
                *requests = half;
                if many && self.still_breaks(&candidate) {
                    (scenario, smaller) = (candidate, true);
                }
            }
        }
        (scenario, smaller)
    }
}

fn size(scenario: &Scenario) -> usize {
    scenario.faults.len() + scenario.clients.len() + scenario.devices.len()
}
