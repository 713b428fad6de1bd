//! Processes that stand still for a while.

use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::thread;
use std::time::{Duration, Instant};

const MAX_WAIT: Duration = Duration::from_secs(60);

/// Sends SIGSTOP, and returns once no thread of the process runs: on a busy machine they run on for a while.
///
/// # Panics
/// No such process, or it runs on.
pub fn stop(process: u32) {
    send(process, Signal::STOP);
    let begun = Instant::now();
    while fs::read_dir(format!("/proc/{process}/task")).unwrap().flatten().any(|thread| runs(&thread)) {
        assert!(begun.elapsed() < MAX_WAIT, "process {process} is not stopped");
        thread::sleep(Duration::from_millis(1));
    }
}

/// Sends SIGCONT.
///
/// # Panics
/// No such process.
pub fn go_on(process: u32) {
    send(process, Signal::CONT);
}

fn send(process: u32, signal: Signal) {
    kill_process(Pid::from_raw(process.cast_signed()).unwrap(), signal).unwrap();
}

/// A thread that has ended meanwhile does not.
fn runs(thread: &fs::DirEntry) -> bool {
    let stat = fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, state)| !state.starts_with(['T', 'Z']))
}
