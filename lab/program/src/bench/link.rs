//! A link of the network laboratory compared with its settings.

use super::error::BenchError;
use super::scenario::{NO_SERVICE, Scenario, Settings};
use crate::net;
use crate::report::Outcome;
use sidecore_measure::progress::Progress;
use std::thread;

pub(super) static SCENARIO: Scenario = Scenario::new(
    "link",
    "Throughput of `sidecore net link`, and its moderation against the simulated policy; not among all",
    measure,
    &[net::LINK],
)
.alone(NO_SERVICE);

/// In a thread of its own: the measurement's namespaces and cores belong to that thread only.
fn measure(settings: &Settings, progress: &Progress) -> Result<Outcome, BenchError> {
    let check = || net::check_link(settings.quick, settings.seed, progress);
    let measured = thread::scope(|scope| scope.spawn(check).join());
    measured.map_err(|_| BenchError::State("the measurement of the link failed"))
}
