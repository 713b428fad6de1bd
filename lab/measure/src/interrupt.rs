//! Ends a long run by an interrupt from the keyboard and keeps its results.

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Note of a run that an interrupt ended.
pub const STOPPED: &str = "Stopped before its end: what is missing was not run.";

/// Exit code of an interrupted run, the same as in shells.
pub const INTERRUPTED: u8 = 130;

/// Signals cannot be handled.
#[derive(Debug, thiserror::Error)]
#[error("cannot handle signals: {0}")]
pub struct SignalError(#[from] io::Error);

/// Makes this process ignore interrupts and termination requests: its parent ends it.
///
/// # Errors
/// Signals cannot be handled.
pub fn leave_to_parent() -> io::Result<()> {
    let unread = Arc::new(AtomicBool::new(false));
    [SIGINT, SIGTERM].into_iter().try_for_each(|signal| flag::register(signal, unread.clone()).map(drop))
}

/// Whether an interrupt came. Clones share it.
#[derive(Clone, Debug)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// The first interrupt sets the flag; a second one ends the process.
    ///
    /// # Errors
    /// Signals cannot be handled.
    pub fn new() -> Result<Self, SignalError> {
        Self::of(&[SIGINT])
    }

    /// The same, also for SIGTERM as systemd and `timeout` send it.
    ///
    /// # Errors
    /// As for [`Interrupt::new`].
    pub fn or_end() -> Result<Self, SignalError> {
        Self::of(&[SIGINT, SIGTERM])
    }

    fn of(signals: &[i32]) -> Result<Self, SignalError> {
        let stop = Arc::new(AtomicBool::new(false));
        for signal in signals {
            flag::register_conditional_shutdown(*signal, i32::from(INTERRUPTED), stop.clone())
                .and_then(|_| flag::register(*signal, stop.clone()))
                .map_err(SignalError)?;
        }
        Ok(Self(stop))
    }

    /// One that never comes.
    pub fn never() -> Self {
        Self(Arc::default())
    }

    /// Also set by a lost terminal and by SIGTERM, for runs that must restore settings.
    ///
    /// # Errors
    /// As for [`Interrupt::new`].
    pub fn of_all_kinds() -> Result<Self, SignalError> {
        let own = Self::new()?;
        for signal in [SIGHUP, SIGTERM] {
            flag::register(signal, own.0.clone()).map_err(SignalError)?;
        }
        Ok(own)
    }

    #[cfg(test)]
    /// One for tests, and the flag that sets it.
    pub fn by_hand() -> (Self, Arc<AtomicBool>) {
        let stop = Arc::default();
        (Self(Arc::clone(&stop)), stop)
    }

    /// One that came before, for tests.
    pub fn that_came() -> Self {
        Self(Arc::new(AtomicBool::new(true)))
    }

    /// Whether it came.
    pub fn came(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
