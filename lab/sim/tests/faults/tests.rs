//! No invariant is broken; each deliberate defect is found; a seed is a run.

use super::*;
use scenario::{ClientPlan, DevicePlan, Kind, LanePlan, Load};
use sidecore_core::policy::notify::Notify;
use sidecore_core::sidecore::WaitPolicies;

const VARIABLE: &str = "SIDECORE_FAULT_SEEDS";
const SEEDS: u64 = 500;

fn seeds() -> u64 {
    let Ok(text) = std::env::var(VARIABLE) else { return SEEDS };
    text.parse().unwrap_or_else(|_| panic!("{VARIABLE} is a whole number, not {text:?}"))
}

fn told(failure: &Failure) -> String {
    let Failure { seed, invariant, what, scenario, trace } = failure;
    format!(
        "broken by seed {seed}: {invariant}: {what}\n\nA smaller run that breaks it too:\n{scenario}\n\nIts last events:\n{}",
        trace.join("\n")
    )
}

#[test]
fn nothing_is_broken() {
    let seeds = seeds();
    let Report { seeds: made, events, requests, rested, faults, broken, .. } = run(0, seeds, None);
    if let Some(failure) = broken {
        panic!("{}\n\nAgain: cargo xtask faults --seeds {made}", told(&failure));
    }
    println!("{made} runs, {events} events with all invariants checked after each, {requests} requests");
    FAULTS.iter().zip(faults).for_each(|(fault, struck)| println!("{fault}: {struck}"));
    assert_eq!(made, seeds);
    if seeds >= SEEDS {
        assert!(faults.iter().all(|struck| *struck > 20), "{faults:?}");
        assert!(rested > 500, "{rested} lanes were dormant");
        assert!(requests > 40_000 && events > 1_000_000, "{requests} of {events}");
    }
}

#[test]
fn each_deliberate_defect_is_found() {
    for mutation in Mutation::ALL.iter().copied() {
        let report = run(0, 250, Some(mutation));
        let failure = report.broken.unwrap_or_else(|| panic!("{mutation} is not found in {} runs", report.seeds));
        println!("{mutation}: run {}: {}", report.seeds, failure.what);
        assert_eq!(failure.invariant, mutation.breaks(), "{mutation}: {}", told(&failure));
        let last = failure.trace.last().unwrap();
        assert!(last.ends_with(&format!("broken: {}", failure.what)), "{last}");
    }
}

#[test]
fn a_seed_is_a_run() {
    let of = |report: &Report| (report.trace, report.events, report.requests, report.faults);
    assert_eq!(of(&run(70, 20, None)), of(&run(70, 20, None)));
    assert_ne!(run(70, 20, None).trace, run(71, 20, None).trace);
    let again = |_| run(10, 100, Some(Mutation::ArmAfterLook)).broken.unwrap();
    let [first, second] = [0, 1].map(again);
    assert_eq!(told(&first), told(&second));
}

#[test]
fn a_failing_run_is_made_smaller() {
    let failure = run(400, 200, Some(Mutation::ForgetOrphans)).broken.unwrap();
    let parts = |scenario: &str| scenario.lines().filter(|line| !line.starts_with("  ")).count();
    assert!(parts(&failure.scenario) < parts(&Scenario::new(failure.seed).to_string()), "{}", failure.scenario);
    assert_eq!(failure.scenario.matches("\nat ").count(), 1, "one fault is left: {}", failure.scenario);
}

/// Time of a request of a client with one at a time, ns. Its device notifies no thread: it is known when
/// the answer will be there, after the sidecore went to sleep.
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
        clients: vec![ClientPlan { user: 0, weight: 1, credit: 1, owned: false, lanes: vec![lane] }],
        devices: vec![device],
        hops: WaitPolicies { client: Notify::Park, service: Notify::Park, to_device: Notify::Park, from_device },
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
