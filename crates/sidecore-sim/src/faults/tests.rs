//! Some hundred runs break no invariant; each deliberate defect is found; a seed determines its run.

use super::*;
use scenario::{ClientPlan, DevicePlan, Kind, LanePlan, Load};
use sidecore_core::policy::notify::Notify;
use sidecore_core::sidecore::Hops;

fn runs(first: u64, seeds: u64, sabotage: Option<Sabotage>) -> Report {
    run(first, seeds, sabotage, &mut |_, _| ControlFlow::Continue(()))
}

fn told(failure: &Failure) -> String {
    let Failure { seed, invariant, what, scenario, trace } = failure;
    format!("seed {seed}: {invariant}: {what}\n{scenario}{}", trace.join("\n"))
}

#[test]
fn nothing_is_broken() {
    let report = runs(0, 500, None);
    assert!(report.broken.is_none(), "{}", told(&report.broken.unwrap()));
    assert_eq!(report.seeds, 500);
    assert!(report.faults.iter().all(|struck| *struck > 20), "{:?}", report.faults);
    assert!(report.rested > 500, "{} lanes were dormant", report.rested);
    assert!(report.requests > 40_000 && report.events > 1_000_000, "{} of {}", report.requests, report.events);
}

#[test]
fn each_deliberate_defect_is_found() {
    for sabotage in Sabotage::ALL.iter().copied() {
        let report = runs(0, 250, Some(sabotage));
        let failure = report.broken.unwrap_or_else(|| panic!("{sabotage} is not found in {} runs", report.seeds));
        println!("{sabotage}: run {}: {}", report.seeds, failure.what);
        assert_eq!(failure.invariant, sabotage.breaks(), "{sabotage}: {}", told(&failure));
        let last = failure.trace.last().unwrap();
        assert!(last.ends_with(&format!("broken: {}", failure.what)), "{last}");
        assert_eq!(sabotage.to_string().parse(), Ok(sabotage));
    }
    assert_eq!(Sabotage::DropClientRing.to_string(), "drop-client-ring");
    assert!("none".parse::<Sabotage>().is_err());
}

#[test]
fn a_seed_is_a_run() {
    let of = |report: &Report| (report.trace, report.events, report.requests, report.faults);
    assert_eq!(of(&runs(70, 20, None)), of(&runs(70, 20, None)));
    assert_ne!(runs(70, 20, None).trace, runs(71, 20, None).trace);
    let again = |_| runs(10, 100, Some(Sabotage::ArmAfterLook)).broken.unwrap();
    let [first, second] = [0, 1].map(again);
    assert_eq!(told(&first), told(&second));
}

#[test]
fn a_failing_run_is_made_smaller() {
    let failure = runs(300, 200, Some(Sabotage::ForgetOrphans)).broken.unwrap();
    let parts = |scenario: &str| scenario.lines().filter(|line| !line.starts_with("  ")).count();
    assert!(parts(&failure.scenario) < parts(&Scenario::new(failure.seed).to_string()), "{}", failure.scenario);
    assert_eq!(failure.scenario.matches("\nat ").count(), 1, "one fault is left: {}", failure.scenario);
}

#[test]
fn whoever_watches_can_end_it() {
    let mut seen = Vec::new();
    let report = run(0, 9, None, &mut |done, total| {
        seen.push((done, total));
        if done == 3 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    assert_eq!((report.seeds, seen), (3, vec![(1, 9), (2, 9), (3, 9)]));
}

/// Time of a request for a client with one at a time, ns. Its device sends no wake-up: the answer's time is known
/// after the sidecore went to sleep.
fn time_of_one(from_device: Notify) -> Nanos {
    const REQUESTS: u32 = 50;
    let lane = LanePlan { load: Load::Closed(1), slots: 2, requests: REQUESTS };
    let device = DevicePlan {
        kind: Kind::Emulated,
        can: 7,
        depth: 1,
        weight: 1,
        owned: false,
        fixed: 4_000,
        bytes_per_ns: 1_000_000,
    };
    let scenario = Scenario {
        clients: vec![ClientPlan { weight: 1, credit: 1, owned: false, lanes: vec![lane] }],
        devices: vec![device],
        hops: Hops { client: Notify::Park, service: Notify::Park, to_device: Notify::Park, from_device },
        faults: Vec::new(),
        ..Scenario::new(1)
    };
    let mut clock = Engine::new(scenario.seed);
    let mut run = Run::new(&scenario, None, Watch::default(), &mut clock);
    while !run.is_finished() && clock.step(&mut run, HORIZON) {}
    assert!(run.world.broken.is_none() && run.world.requests == u64::from(REQUESTS));
    clock.now() / u64::from(REQUESTS)
}

#[test]
fn under_a_timer_nothing_but_a_look_finds_the_answer_of_a_device() {
    let (timer, park) = (time_of_one(Notify::Timer { period: 25_000 }), time_of_one(Notify::Park));
    assert!(timer > park + park / 2, "{timer} ns, {park} ns");
}
