//! Private keys through the OpenSSL provider: what a program that signs with a stored key gets, against OpenSSL's own
//! code in the same process.

mod found;
mod grid;
mod packaged;
mod reach;
pub(super) mod setup;
mod waiting;

use super::crew::BenchError;
use super::{Outcome, Settings};
use crate::baseline::openssl::OpenSsl;
use crate::progress::Progress;

/// What the rows are measured against.
const BASELINE: &str = "openssl";

pub(super) fn steps(settings: &Settings) -> usize {
    reach::steps(settings) + grid::steps(settings) + waiting::steps(settings) + packaged::steps(settings)
}

pub(super) fn measure(settings: &Settings, progress: &Progress) -> Result<Outcome, BenchError> {
    let mut outcome = Outcome::default();
    for part in [reach::measure, grid::measure, waiting::measure, packaged::measure] {
        let part = part(settings, progress)?;
        outcome.rows.extend(part.rows);
        outcome.notes.extend(part.notes);
        outcome.left_out.extend(part.left_out);
    }
    Ok(outcome)
}

/// The baseline's library as it names itself, e.g. `openssl 3.0.19`.
fn library() -> Option<String> {
    let version = OpenSsl::load().ok()?.version();
    Some(format!("openssl {}", version.split(' ').nth(1)?))
}
