//! The network laboratory itself: compared with other tools, and its link compared with its settings.

use super::error::BenchError;
use super::scenario::{NO_SERVICE, Scenario, Settings};
use crate::net;
use crate::progress::Progress;
use crate::report::Outcome;
use std::thread;

pub(super) static TOOLS: Scenario = Scenario::new(
    "net",
    "The network laboratory against iperf3 and sockperf on the same path; not among all",
    against_tools,
    &[net::TOOLS, net::TOOLS_LINE],
)
.named("net-tools")
.ops(paths)
.alone(NO_SERVICE);

pub(super) static LINK: Scenario = Scenario::new(
    "link",
    "Throughput of `sidecore net link`, and its moderation against the simulated policy; not among all",
    link,
    &[net::LINK],
)
.alone(NO_SERVICE);

fn paths() -> Vec<&'static str> {
    net::COMPARED_PATHS.to_vec()
}

fn against_tools(settings: &Settings, progress: &Progress) -> Result<Outcome, BenchError> {
    // Only these parts of the progress can be shared with another thread.
    let (bar, interrupt) = (&progress.bar, &progress.interrupt);
    aside(|| net::compare_tools(settings.quick, &|path| settings.wants(path), (bar, interrupt)))
}

fn link(settings: &Settings, progress: &Progress) -> Result<Outcome, BenchError> {
    let (bar, interrupt) = (&progress.bar, &progress.interrupt);
    aside(|| net::check_link(settings.quick, settings.seed, (bar, interrupt)))
}

/// The measurement's namespaces and cores belong to that thread only.
fn aside(measure: impl FnOnce() -> Outcome + Send) -> Result<Outcome, BenchError> {
    let measured = thread::scope(|scope| scope.spawn(measure).join());
    measured.map_err(|_| BenchError::State("the measurement of the network failed"))
}
