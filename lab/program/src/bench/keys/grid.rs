//! Operations, processes and asynchronous jobs, with the service's default policies.

use super::{BASELINE, case, own};
use crate::bench::error::BenchError;
use crate::bench::experiment::{By, Case, Turn, Variant, measure_all};
use crate::bench::scenario::Settings;
use crate::bench::testbed::{Plan, Testbed};
use crate::report::figures::by_operation;
use crate::report::{Outcome, Section, column, section};
use sidecore_measure::progress::Progress;

pub(super) const SECTION: Section = section(
    "keys",
    "Keys: processes and asynchronous jobs",
    "Signatures a second through the OpenSSL provider, against OpenSSL's own code in the same \
     processes. Up is better.",
)
.plots(|rows| vec![by_operation(rows)]);

pub(super) const OPS: [&str; 6] =
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

pub(super) fn measure(settings: &Settings, progress: &Progress) -> Result<Outcome, BenchError> {
    let ops = ops(settings);
    if ops.is_empty() {
        return Ok(Outcome::default());
    }
    let processes: &[usize] = settings.pick(&QUICK_PROCESSES, &PROCESSES);
    let most = processes.iter().copied().max().unwrap_or(1);
    let mut testbed = match &settings.socket {
        Some(socket) => Testbed::that_imports(socket, most)?,
        None => Testbed::with_keys(&Plan::inline(most), &ops)?,
    };
    let (repeats, ns) = settings.pick((2, 60_000_000), (5, 200_000_000));
    let jobs: &[u32] = settings.pick(&QUICK_JOBS, &JOBS);
    let points = ops.into_iter().flat_map(|op| processes.iter().map(move |processes| (op, *processes)));
    let cases = points.map(|(op, processes)| one(&testbed, op, processes, jobs, ns)).collect();
    let mut outcome = measure_all(&mut testbed, cases, repeats, progress)?;
    if testbed.is_beside() {
        outcome.note(
            "keys: the service ran already and waits as it is set. No key is stored in it: each client imports the key that it \
             signs with, and ends it with its lane.",
        );
    }
    Ok(outcome.noted(
        "keys: every client is a process with OpenSSL and the provider, and signs again as soon as it has a signature; \
         jobs are asynchronous operations in flight in each of them, 1 is none. openssl is the same by OpenSSL's own \
         code; where there are several processes it may use the sidecore's core as well. RSA-1024 is no stored kind: its \
         key is imported by the client.",
    ))
}

fn one(testbed: &Testbed, op: &'static str, processes: usize, jobs: &[u32], ns: u64) -> Case<'static, Testbed> {
    let baseline = case("keys", testbed, op, processes).variant(own(op, processes, ns));
    jobs.iter().fold(baseline, |case, jobs| {
        let jobs = *jobs;
        let run = move |testbed: &mut Testbed, _: &Turn<'_>| testbed.provided(op, processes, jobs, ns);
        let sidecore = Variant::new("sidecore", run).with(column::JOBS, jobs);
        let sidecore = if testbed.is_beside() { sidecore } else { sidecore.with(column::NOTIFY, "break-even") };
        case.variant(sidecore.against(By::Rate, BASELINE))
    })
}
