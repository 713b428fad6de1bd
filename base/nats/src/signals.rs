//! Signals to end: after the first, open work is completed; the second ends it.

use std::{fs, io};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The process cannot be told of signals.
#[derive(Debug, thiserror::Error)]
#[error("cannot take signals: {0}")]
pub struct SignalError(#[from] io::Error);

/// SIGINT, SIGTERM and SIGHUP.
#[derive(Debug)]
pub struct Signals {
    interrupt: Signal,
    terminate: Signal,
    /// A terminal that is closed. `None`: the process was started with `nohup`.
    hangup: Option<Signal>,
}

impl Signals {
    /// From now on these signals do not end the process. SIGHUP does nothing where it was ignored at the start, as under
    /// `nohup`.
    ///
    /// # Errors
    /// The system does not permit it.
    ///
    /// # Panics
    /// Outside of a runtime of tokio.
    pub fn new() -> Result<Self, SignalError> {
        let ignored = fs::read_to_string("/proc/self/status").is_ok_and(|status| ignores_hangup(&status));
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: if ignored { None } else { Some(signal(SignalKind::hangup())?) },
        })
    }

    /// Waits for the next one.
    pub async fn next(&mut self) {
        let hangup = async {
            match &mut self.hangup {
                Some(hangup) => drop(hangup.recv().await),
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            () = hangup => {}
        }
    }
}

/// Of the text of `/proc/PID/status`: the first bit of its mask is signal 1.
fn ignores_hangup(status: &str) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_knows_whether_it_was_started_to_outlive_its_terminal() {
        assert!(ignores_hangup("Name:\tx\nSigIgn:\t0000000000001001\nSigCgt:\t0000000000000000\n"));
        for other in ["SigIgn:\t0000000000001000\nSigCgt:\t0000000000000001\n", "", "SigIgn:\tx\n"] {
            assert!(!ignores_hangup(other), "{other:?}");
        }
    }
}
