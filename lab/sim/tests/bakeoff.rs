//! Which balance policy carries what: the judge's verdicts. Its table is docs/results/simulated/bakeoff.md.

use sidecore_core::policy::balance::Balance;
use sidecore_sim::bakeoff::{Bakeoff, LOADS, Line, NEAR, Run, Setup, random_pool, run};
use std::ops::ControlFlow;
use std::sync::OnceLock;
use std::thread;

const SEEDS: u64 = 2;
const POOLS: u64 = 60;

fn small() -> &'static Bakeoff {
    static SMALL: OnceLock<Bakeoff> = OnceLock::new();
    SMALL.get_or_init(|| run(&Setup::of(SEEDS), &mut |_, _| ControlFlow::Continue(())))
}

fn line(scenario: &str, load: Option<f64>, balance: Balance) -> &'static Line {
    let case = (scenario, load, balance);
    let found = small().lines.iter().find(|line| (line.scenario, line.load, line.balance) == case);
    found.unwrap()
}

#[test]
fn in_the_regression_case_priced_is_stable_and_eft_is_not() {
    for load in LOADS {
        let line = |balance| line("regression", Some(load), balance);
        assert!(!line(Balance::Eft).found.stable && line(Balance::Priced).found.stable, "{load}");
    }
    let carried = |balance| line("regression", None, balance).found.carried;
    assert!(carried(Balance::Eft) < 0.8 && carried(Balance::Priced) > 0.93);
}

#[test]
fn devices_that_change_or_mislead_do_not_upset_priced() {
    for (scenario, load) in [("slowed", 0.6), ("misled", 0.9), ("heavy tail", 0.8)] {
        let line = line(scenario, Some(load), Balance::Priced);
        assert!(line.found.stable && line.ratio.unwrap().1 < 1.01, "{line:?}");
    }
}

#[test]
fn a_break_leaves_whole_cases() {
    let mut told = Vec::new();
    let part = run(&Setup::of(1), &mut |done, total| {
        told.push((done, total));
        if done < 7 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    assert_eq!(part.lines.len(), 5);
    assert!(told.iter().enumerate().all(|(number, (done, total))| *done == number && *total > 30));
}

fn verdict(seed: u64) -> (bool, bool) {
    let found = Balance::ALL.map(|balance| Run { balance, ..random_pool(seed, 0.95) }.go(seed));
    let best = found.iter().filter(|found| found.stable).map(|found| found.p99).fold(f64::MAX, f64::min);
    let priced = found[Balance::Priced as usize];
    (priced.stable, priced.stable && priced.p99 <= NEAR * best)
}

fn of_pools<T: Send>(find: impl Fn(u64) -> T + Sync) -> Vec<T> {
    const PARTS: u64 = 4;
    thread::scope(|scope| {
        let find = &find;
        let part = |part| scope.spawn(move || (part..POOLS).step_by(PARTS as usize).map(find).collect::<Vec<_>>());
        let parts: Vec<_> = (0..PARTS).map(part).collect();
        parts.into_iter().flat_map(|part| part.join().unwrap()).collect()
    })
}

#[test]
fn priced_is_stable_in_all_pools_and_near_the_best_in_most() {
    let verdicts = of_pools(verdict);
    let stable = verdicts.iter().filter(|verdict| verdict.0).count();
    let near = verdicts.iter().filter(|verdict| verdict.1).count();
    println!("of {POOLS} pools at 0.95 stable in {stable}, near the best in {near}");
    assert!(stable == POOLS as usize && near >= 55, "{stable} {near}");
}

#[test]
fn priced_recovers_from_a_burst_however_few_requests_a_device_holds() {
    for depth in [8, 16, 64] {
        let run = |seed| Run { balance: Balance::Priced, depth: Some(depth), burst: 1_000, ..random_pool(seed, 0.95) };
        let stable = of_pools(|seed| run(seed).go(seed).stable);
        let count = stable.iter().filter(|stable| **stable).count();
        assert_eq!(count, POOLS as usize, "depth {depth}: {stable:?}");
    }
}
