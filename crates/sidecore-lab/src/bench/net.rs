//! The network laboratory itself, against other tools for the same.

use super::{BenchError, Outcome, Settings};
use crate::net;
use crate::progress::Progress;
use std::thread;

pub(super) fn measure(settings: &Settings, progress: &Progress) -> Result<Outcome, BenchError> {
    // Of the progress only the bar can be told from another thread.
    let bar = &progress.bar;
    // The namespaces and cores of this measurement are those of a thread: no other one has them afterwards.
    let measured = thread::scope(|scope| {
        let thread = scope.spawn(|| net::compare_tools(settings.quick, bar));
        thread.join().map_err(|_| "the measurement of the network failed".to_owned())
    })?;
    Ok(measured.unwrap_or_else(|why| Outcome::left_out(format!("net-tools: {why}"))))
}
