//! An interrupt from the keyboard ends a long run, with what it has.

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What is said under a table that was stopped.
pub(crate) const STOPPED: &str = "Stopped before its end: what is missing was not run.";

/// Exit code of what was interrupted, as shells have it.
pub(crate) const INTERRUPTED: u8 = 130;

/// Lets this process live through interrupts and requests to end: whoever started it ends it.
///
/// # Errors
/// The system takes no handler.
pub(crate) fn leave_to_parent() -> io::Result<()> {
    let unread = Arc::new(AtomicBool::new(false));
    [SIGINT, SIGTERM].into_iter().try_for_each(|signal| flag::register(signal, unread.clone()).map(drop))
}

/// Whether to end.
#[derive(Clone, Debug)]
pub(crate) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// The first interrupt asks for the end from now on, a second one ends the process.
    ///
    /// # Errors
    /// The system takes no handler.
    pub(crate) fn new() -> Result<Self, String> {
        Self::of(&[SIGINT])
    }

    /// The same for requests to end, as systemd and `timeout` send them.
    ///
    /// # Errors
    /// The system takes no handler.
    pub(crate) fn or_end() -> Result<Self, String> {
        Self::of(&[SIGINT, SIGTERM])
    }

    fn of(signals: &[i32]) -> Result<Self, String> {
        let stop = Arc::new(AtomicBool::new(false));
        for signal in signals {
            flag::register_conditional_shutdown(*signal, i32::from(INTERRUPTED), stop.clone())
                .and_then(|_| flag::register(*signal, stop.clone()))
                .map_err(|error| format!("cannot handle signals: {error}"))?;
        }
        Ok(Self(stop))
    }

    /// One that never comes.
    pub(crate) fn never() -> Self {
        Self(Arc::default())
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

    /// One that comes when it is told to.
    #[cfg(test)]
    pub(crate) fn by_hand() -> (Self, Arc<AtomicBool>) {
        let stop = Arc::default();
        (Self(Arc::clone(&stop)), stop)
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
