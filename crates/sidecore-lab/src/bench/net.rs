//! The network laboratory itself: compared with other tools, and its link compared with its settings.

use super::{BenchError, Outcome, Settings};
use crate::net;
use crate::progress::Progress;
use std::thread;

pub(super) fn paths() -> Vec<&'static str> {
    net::COMPARED_PATHS.to_vec()
}

pub(super) fn against_tools(settings: &Settings, progress: &Progress) -> Result<Outcome, BenchError> {
    // Only these parts of the progress can be shared with another thread.
    let (bar, interrupt) = (&progress.bar, &progress.interrupt);
    aside(|| net::compare_tools(settings.quick, &|path| settings.wants(path), (bar, interrupt)))
}

pub(super) fn link(settings: &Settings, progress: &Progress) -> Result<Outcome, BenchError> {
    let (bar, interrupt) = (&progress.bar, &progress.interrupt);
    aside(|| net::check_link(settings.quick, settings.seed, (bar, interrupt)))
}

/// Runs `measure` on its own thread: the measurement's namespaces and cores then belong to that thread only.
fn aside(measure: impl FnOnce() -> Outcome + Send) -> Result<Outcome, BenchError> {
    let measured = thread::scope(|scope| scope.spawn(measure).join());
    measured.map_err(|_| "the measurement of the network failed".into())
}
