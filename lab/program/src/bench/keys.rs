//! Private keys through the OpenSSL provider: performance of a program that signs with a stored key, compared with
//! OpenSSL's own code in the same process.

mod grid;
mod reach;
pub(super) mod setup;
mod waiting;

use super::error::BenchError;
use super::experiment::{Case, Turn, Variant};
use super::scenario::{Scenario, Settings};
use super::testbed::Testbed;
use crate::baseline::openssl_library;
use crate::report::{Outcome, column};
use sidecore_measure::progress::Progress;
#[cfg(test)]
pub(super) use waiting::COLUMNS;

pub(super) static SCENARIO: Scenario = Scenario::new(
    "keys",
    "Private keys through the OpenSSL provider; not among all",
    measure,
    &[reach::SECTION, grid::SECTION, waiting::WAITING, waiting::INTERRUPTS],
)
.ops(ops);

const BASELINE: &str = "openssl";

fn ops() -> Vec<&'static str> {
    grid::OPS.into()
}

fn measure(settings: &Settings, progress: &Progress) -> Result<Outcome, BenchError> {
    let mut outcome = Outcome::default();
    if settings.socket.is_some() {
        outcome
            .lacks("keys: but for processes and jobs, its tables change how their service waits: leave out --socket");
        outcome.add(grid::measure(settings, progress)?);
        return Ok(outcome);
    }
    for part in [reach::measure, grid::measure, waiting::measure] {
        if !progress.is_stopped() {
            outcome.add(part(settings, progress)?);
        }
    }
    Ok(outcome)
}

fn case<L>(scenario: &str, testbed: &Testbed, op: &str, processes: usize) -> Case<'static, L> {
    Case::new(scenario).with(column::OP, op).with(column::CLIENTS, processes).pinned(&testbed.pinning, processes)
}

fn own(op: &'static str, processes: usize, ns: u64) -> Variant<'static, Testbed> {
    let run = move |testbed: &mut Testbed, _: &Turn<'_>| testbed.own(op, processes, ns);
    Variant::new(BASELINE, run).with(column::LIBRARY, openssl_library())
}
