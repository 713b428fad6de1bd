//! A real service process.

use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::thread;
use std::time::Duration;

/// Number of polls, 10 ms apart, for steps that take milliseconds.
const MAX_POLLS: u32 = 3000;

/// A service process, which ends with this value.
#[derive(Debug)]
pub struct Running {
    child: Child,
    log: PathBuf,
}

impl Running {
    /// Starts it by this command, and waits until its log says that it serves.
    pub fn start(mut command: Command, log: PathBuf) -> Self {
        let stderr = fs::File::create(&log).unwrap();
        let mut running = Self { child: command.stderr(stderr).spawn().unwrap(), log };
        running.await_serving();
        running
    }

    fn await_serving(&mut self) {
        for _ in 0..MAX_POLLS {
            if self.said().contains("serving at") {
                return;
            }
            assert_eq!(self.child.try_wait().unwrap(), None, "{}", self.said());
            thread::sleep(Duration::from_millis(10));
        }
        panic!("it does not serve: {}", self.said());
    }

    /// Its log so far.
    pub fn said(&self) -> String {
        fs::read_to_string(&self.log).unwrap()
    }

    /// Its process.
    pub fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// A row of its status in `/proc`.
    pub fn status(&self, key: &str) -> String {
        value(&format!("/proc/{}/status", self.child.id()), key)
    }

    /// The same row of each thread.
    pub fn status_of_threads(&self, key: &str) -> Vec<String> {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.child.id())).unwrap();
        // A thread that closes a client's lane may end meanwhile.
        let files = tasks.map(|task| task.unwrap().path().join("status"));
        let values: Vec<_> = files.filter_map(|file| Some(value_in(&of_thread(&file)?, key))).collect();
        assert!(!values.is_empty(), "it has no threads");
        values
    }

    /// Sends a signal that ends it.
    pub fn end(mut self, signal: Signal) -> ExitStatus {
        kill_process(self.pid(), signal).unwrap();
        for _ in 0..MAX_POLLS {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            thread::sleep(Duration::from_millis(10));
        }
        panic!("{signal:?} does not end it");
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// `None`: the thread has ended.
fn of_thread(status: &Path) -> Option<String> {
    match fs::read_to_string(status) {
        // The thread ended before or after the file was opened.
        Err(error) if matches!(Errno::from_io_error(&error), Some(Errno::NOENT | Errno::SRCH)) => None,
        other => Some(other.unwrap()),
    }
}

fn value(file: &str, key: &str) -> String {
    value_in(&fs::read_to_string(file).unwrap(), key)
}

fn value_in(status: &str, key: &str) -> String {
    let line = status.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
    line.unwrap_or_else(|| panic!("no {key} in {status}")).trim().to_owned()
}
