//! Progress of a long run that can be stopped with what it has.

use crate::progress::Progress;
use signal_hook::consts::SIGINT;
use signal_hook::flag;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What is said under a table that was stopped.
pub(super) const STOPPED: &str = "Stopped before its end: what is missing was not run.";

/// Shows progress; the first interrupt from the keyboard asks for the end, a second one ends the process.
pub(super) struct Steps {
    progress: Progress,
    stop: Arc<AtomicBool>,
    shown: usize,
}

impl Steps {
    /// Progress over so many steps.
    pub(super) fn new(name: &str, steps: usize) -> Result<Self, String> {
        let stop = Arc::new(AtomicBool::new(false));
        flag::register_conditional_shutdown(SIGINT, 130, stop.clone())
            .and_then(|_| flag::register(SIGINT, stop.clone()))
            .map_err(|error| format!("cannot handle signals: {error}"))?;
        let mut progress = Progress::new(steps);
        progress.scenario(name);
        Ok(Self { progress, stop, shown: 0 })
    }

    /// So many steps are done.
    pub(super) fn done(&mut self, done: usize) -> ControlFlow<()> {
        for _ in self.shown..done {
            self.progress.advance();
        }
        self.shown = self.shown.max(done);
        if self.stop.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}
