//! A limit on how long a program runs.

use rustix::process::{Pid, Signal, kill_process};
use std::process::Child;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

/// Longest run of a program.
const MAX_RUN: Duration = Duration::from_secs(300);

/// Kills a program that has not ended after five minutes, so that whoever waits for it fails. Dropped before its end.
#[derive(Debug)]
pub struct Limit(#[expect(dead_code, reason = "its drop ends the thread")] Sender<()>);

impl Limit {
    /// Begins now.
    pub fn of(child: &Child) -> Self {
        let pid = Pid::from_child(child);
        let (until, dropped) = channel();
        thread::spawn(move || {
            if dropped.recv_timeout(MAX_RUN) == Err(RecvTimeoutError::Timeout) {
                let _ = kill_process(pid, Signal::KILL);
            }
        });
        Self(until)
    }
}
