//! The ratios that signing through the provider is to reach, all in one run.

use super::found::Found;
use super::setup::Setup;
use super::{BASELINE, library};
use crate::bench::crew::BenchError;
use crate::bench::series::ratio;
use crate::bench::{Outcome, Settings};
use crate::progress::Progress;
use crate::report::{Reach, Row};
use sidecore::config::DeviceConfig;

/// One process that signs.
struct Case {
    op: &'static str,
    jobs: u32,
    /// How all hops wait.
    notify: &'static str,
    /// Least ratio to OpenSSL's own code.
    reach: f64,
}

const CASES: [Case; 6] = [
    Case { op: "rsa-4096-sign", jobs: 8, notify: "break-even", reach: 1.9 },
    Case { op: "rsa-3072-sign", jobs: 8, notify: "break-even", reach: 1.8 },
    Case { op: "rsa-2048-sign", jobs: 8, notify: "break-even", reach: 0.97 },
    Case { op: "p-256-sign", jobs: 1, notify: "spin", reach: 1.2 },
    Case { op: "p-256-sign", jobs: 1, notify: "park", reach: 0.75 },
    Case { op: "ed25519-sign", jobs: 8, notify: "break-even", reach: 2.0 },
];

/// How often, and for how long, ns.
fn effort(settings: &Settings) -> (usize, u64) {
    if settings.quick { (3, 100_000_000) } else { (9, 300_000_000) }
}

fn cases(settings: &Settings) -> impl Iterator<Item = &'static Case> {
    CASES.iter().filter(|case| settings.wants(case.op))
}

pub(super) fn steps(settings: &Settings) -> usize {
    cases(settings).count()
}

pub(super) fn measure(settings: &Settings, progress: &Progress) -> Result<Outcome, BenchError> {
    let mut ops: Vec<&str> = cases(settings).map(|case| case.op).collect();
    ops.dedup();
    let mut outcome = Outcome::default();
    if ops.is_empty() {
        return Ok(outcome);
    }
    let mut setup = Setup::start(1, vec![DeviceConfig::inline("inline")], &ops)?;
    for case in cases(settings) {
        progress.begin(&format!("{}, {} jobs, {}", case.op, case.jobs, case.notify));
        outcome.rows.extend(one(&mut setup, case, settings)?);
        progress.advance();
    }
    Ok(outcome)
}

fn one(setup: &mut Setup, case: &Case, settings: &Settings) -> Result<[Row; 2], BenchError> {
    let (repeats, ns) = effort(settings);
    let (mut own, mut found) = (Found::default(), Found::default());
    for _ in 0..repeats {
        own.add_own(setup.own(case.op, 1, ns)?);
        setup.set(&format!("notify={}", case.notify))?;
        found.add(setup.provided(case.op, 1, case.jobs, ns)?);
    }
    let row = |variant: &str| Row {
        op: Some(case.op.to_owned()),
        clients: Some(1),
        pinned: Some(setup.pinning.describe(1)),
        ..Row::new("keys-reach", variant)
    };
    let sidecore = found.row(Row {
        jobs: Some(case.jobs),
        notify: Some(case.notify.to_owned()),
        ratio: ratio(&found.rates, &own.rates),
        baseline: Some(BASELINE.to_owned()),
        reach: Some(Reach::at_least(case.reach)),
        ..row("sidecore")
    });
    Ok([own.row(Row { library: library(), ..row(BASELINE) }), sidecore])
}
