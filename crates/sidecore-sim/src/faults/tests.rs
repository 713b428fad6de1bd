//! Nothing is broken in some hundred runs; each deliberate defect is found; a seed is a run.

use super::*;

fn quietly(first: u64, seeds: u64, sabotage: Option<Sabotage>) -> Report {
    run(first, seeds, sabotage, &mut |_, _| ControlFlow::Continue(()))
}

fn told(failure: &Failure) -> String {
    format!(
        "seed {}: {}: {}\n{}{}",
        failure.seed,
        failure.invariant,
        failure.what,
        failure.scenario,
        failure.trace.join("\n")
    )
}

#[test]
fn nothing_is_broken() {
    let report = quietly(0, 400, None);
    assert!(report.broken.is_none(), "{}", told(&report.broken.unwrap()));
    assert_eq!(report.seeds, 400);
    assert!(report.faults.iter().all(|struck| *struck > 0), "{:?}", report.faults);
    assert!(report.requests > 20_000 && report.events > 400_000, "{} of {}", report.requests, report.events);
}

#[test]
fn survey() {
    for sabotage in Sabotage::ALL {
        let report = quietly(1_000, 600, Some(sabotage));
        match report.broken {
            None => println!("{sabotage}: NOT FOUND in {}", report.seeds),
            Some(f) => println!(
                "{sabotage}: {} seeds, {:?} (expected {:?}): {}",
                report.seeds,
                f.invariant,
                sabotage.breaks(),
                f.what
            ),
        }
    }
}
