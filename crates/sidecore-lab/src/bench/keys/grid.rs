//! Operations, processes and asynchronous jobs, as the service waits by default.

use super::found::Found;
use super::setup::Setup;
use super::{BASELINE, library};
use crate::bench::crew::BenchError;
use crate::bench::series::ratio;
use crate::bench::{Outcome, Settings};
use crate::progress::Progress;
use crate::report::Row;
use sidecore::config::DeviceConfig;

const OPS: [&str; 6] =
    ["rsa-1024-sign", "rsa-2048-sign", "rsa-3072-sign", "rsa-4096-sign", "p-256-sign", "ed25519-sign"];
const QUICK_OPS: [&str; 2] = ["rsa-2048-sign", "p-256-sign"];
const PROCESSES: [usize; 5] = [1, 2, 4, 8, 16];
const QUICK_PROCESSES: [usize; 2] = [1, 4];
const JOBS: [u32; 3] = [1, 8, 32];
const QUICK_JOBS: [u32; 2] = [1, 8];

fn ops(settings: &Settings) -> Vec<&'static str> {
    let all: &[&str] = if settings.quick && settings.ops.is_empty() { &QUICK_OPS } else { &OPS };
    all.iter().copied().filter(|op| settings.wants(op)).collect()
}

fn processes(settings: &Settings) -> &'static [usize] {
    if settings.quick { &QUICK_PROCESSES } else { &PROCESSES }
}

fn jobs(settings: &Settings) -> &'static [u32] {
    if settings.quick { &QUICK_JOBS } else { &JOBS }
}

/// How often, and for how long, ns.
fn effort(settings: &Settings) -> (usize, u64) {
    if settings.quick { (2, 60_000_000) } else { (5, 200_000_000) }
}

pub(super) fn steps(settings: &Settings) -> usize {
    ops(settings).len() * processes(settings).len()
}

pub(super) fn measure(settings: &Settings, progress: &Progress) -> Result<Outcome, BenchError> {
    let most = processes(settings).iter().copied().max().unwrap_or(1);
    let ops = ops(settings);
    let mut outcome = Outcome::default();
    if ops.is_empty() {
        return Ok(outcome);
    }
    let mut setup = Setup::start(most, vec![DeviceConfig::inline("inline")], &ops)?;
    for op in ops {
        for &processes in processes(settings) {
            progress.begin(&format!("{op}, {processes} processes"));
            outcome.rows.extend(one(&mut setup, op, processes, settings)?);
            progress.advance();
        }
    }
    outcome.notes.push(
        "keys: every client is a process with OpenSSL and the provider, and signs again as soon as it has a signature; \
         jobs are asynchronous operations in flight in each of them, 1 is none. openssl is the same by OpenSSL's own \
         code; where there are several processes it may use the sidecore's core as well. RSA-1024 is no stored kind: its \
         key is imported by the client."
            .to_owned(),
    );
    Ok(outcome)
}

/// The baseline and each number of jobs, in turn.
fn one(setup: &mut Setup, op: &str, processes: usize, settings: &Settings) -> Result<Vec<Row>, BenchError> {
    let (repeats, ns) = effort(settings);
    let mut own = Found::default();
    let mut found: Vec<Found> = jobs(settings).iter().map(|_| Found::default()).collect();
    for _ in 0..repeats {
        own.add_own(setup.own(op, processes, ns)?);
        for (jobs, found) in jobs(settings).iter().zip(&mut found) {
            found.add(setup.provided(op, processes, *jobs, ns)?);
        }
    }
    let row = |variant: &str| Row {
        op: Some(op.to_owned()),
        clients: Some(processes as u32),
        pinned: Some(setup.pinning.describe(processes)),
        ..Row::new("keys", variant)
    };
    let mut rows = vec![own.row(Row { library: library(), ..row(BASELINE) })];
    for (jobs, found) in jobs(settings).iter().zip(&found) {
        rows.push(found.row(Row {
            jobs: Some(*jobs),
            notify: Some("break-even".to_owned()),
            ratio: ratio(&found.rates, &own.rates),
            baseline: Some(BASELINE.to_owned()),
            ..row("sidecore")
        }));
    }
    Ok(rows)
}
