//! An interrupt from the keyboard ends a long run, with what it has.

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What is said under a table that was stopped.
pub(crate) const STOPPED: &str = "Stopped before its end: what is missing was not run.";

/// Whether to end.
#[derive(Clone, Debug)]
pub(crate) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// The first interrupt asks for the end from now on, a second one ends the process.
    ///
    /// # Errors
    /// The system takes no handler.
    pub(crate) fn new() -> Result<Self, String> {
        let stop = Arc::new(AtomicBool::new(false));
        flag::register_conditional_shutdown(SIGINT, 130, stop.clone())
            .and_then(|_| flag::register(SIGINT, stop.clone()))
            .map_err(|error| format!("cannot handle signals: {error}"))?;
        Ok(Self(stop))
    }

    /// So do a terminal that is lost and a request to end, for whoever has something to put back.
    ///
    /// # Errors
    /// The system takes no handler.
    pub(crate) fn of_all_kinds() -> Result<Self, String> {
        let own = Self::new()?;
        for signal in [SIGHUP, SIGTERM] {
            flag::register(signal, own.0.clone()).map_err(|error| format!("cannot handle signals: {error}"))?;
        }
        Ok(own)
    }

    /// One that has come.
    #[cfg(test)]
    pub(crate) fn that_came() -> Self {
        Self(Arc::new(AtomicBool::new(true)))
    }

    /// Whether one came.
    pub(crate) fn came(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
