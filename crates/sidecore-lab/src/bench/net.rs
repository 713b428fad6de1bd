//! The network laboratory itself: against other tools for the same, and its link against how it is set.

use super::{BenchError, Outcome, Settings};
use crate::net;
use crate::progress::Progress;
use std::thread;

/// Names of the paths that other tools are compared on.
pub(super) fn paths() -> Vec<&'static str> {
    net::COMPARED_PATHS.to_vec()
}

/// Beside other tools.
pub(super) fn against_tools(settings: &Settings, progress: &Progress) -> Result<Outcome, BenchError> {
    // Of the progress only these can be had by another thread.
    let (bar, interrupt) = (&progress.bar, &progress.interrupt);
    aside(|| net::compare_tools(settings.quick, &|path| settings.wants(path), (bar, interrupt)))
}

/// A link, beside what it is set to.
pub(super) fn link(settings: &Settings, progress: &Progress) -> Result<Outcome, BenchError> {
    let (bar, interrupt) = (&progress.bar, &progress.interrupt);
    aside(|| net::check_link(settings.quick, settings.seed, (bar, interrupt)))
}

/// By a thread of its own: namespaces and cores of the measurement are those of that thread, and no other one has them
/// afterwards.
fn aside(measure: impl FnOnce() -> Outcome + Send) -> Result<Outcome, BenchError> {
    let measured = thread::scope(|scope| scope.spawn(measure).join());
    measured.map_err(|_| "the measurement of the network failed".into())
}
