//! Private keys through the OpenSSL provider: what a program that signs with a stored key gets, against OpenSSL's own
//! code in the same process.

mod grid;
mod packaged;
mod reach;
pub(super) mod setup;
mod waiting;

use super::crew::Crew;
use super::experiment::{Case, Turn, Variant};
use super::{BenchError, Outcome, Settings, openssl_library};
use crate::progress::Progress;
use crate::report::Key;

/// What the rows are measured against.
const BASELINE: &str = "openssl";

/// What is signed with: the other tables have some of these.
pub(super) fn ops() -> Vec<&'static str> {
    grid::OPS.into()
}

pub(super) fn measure(settings: &Settings, progress: &Progress) -> Result<Outcome, BenchError> {
    let mut outcome = Outcome::default();
    for part in [reach::measure, grid::measure, waiting::measure, packaged::measure] {
        outcome.add(part(settings, progress)?);
    }
    Ok(outcome)
}

/// One operation in that many processes.
fn case<L>(scenario: &str, crew: &Crew, op: &str, processes: usize) -> Case<'static, L> {
    let pinned = crew.pinning.describe(processes);
    Case::new(scenario).with(Key::Op, op).with(Key::Clients, processes).with(Key::Pinned, pinned)
}

/// OpenSSL's own code in the same processes.
fn own(op: &'static str, processes: usize, ns: u64) -> Variant<'static, Crew> {
    let run = move |crew: &mut Crew, _: &Turn<'_>| crew.own(op, processes, ns);
    Variant::new(BASELINE, run).with(Key::Library, openssl_library())
}
