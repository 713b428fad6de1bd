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
    // Of the progress only the bar can be told from another thread.
    let bar = &progress.bar;
    aside("net-tools", || net::compare_tools(settings.quick, &|path| settings.wants(path), bar))
}

/// A link, beside what it is set to.
pub(super) fn link(settings: &Settings, progress: &Progress) -> Result<Outcome, BenchError> {
    let bar = &progress.bar;
    aside("link", || net::check_link(settings.quick, settings.seed, bar))
}

/// By a thread of its own: namespaces and cores of the measurement are those of that thread, and no other one has them
/// afterwards.
fn aside(name: &str, measure: impl FnOnce() -> Result<Outcome, String> + Send) -> Result<Outcome, BenchError> {
    let measured = thread::scope(|scope| {
        let thread = scope.spawn(measure);
        thread.join().map_err(|_| "the measurement of the network failed".to_owned())
    })?;
    Ok(measured.unwrap_or_else(|why| Outcome::left_out(format!("{name}: {why}"))))
}
