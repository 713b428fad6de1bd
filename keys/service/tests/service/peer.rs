//! Other processes: `tests/peer` plays the role given by its arguments.

use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Far longer than any step, so that a hang is found and a slow machine is not.
const TIMEOUT: Duration = Duration::from_secs(60);

pub(crate) struct Peer {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl Peer {
    pub(crate) fn start(arguments: &[&str]) -> Self {
        Self::started_by(&mut Command::new(env!("CARGO_BIN_EXE_sidecore-peer")), arguments)
    }

    /// In a PID namespace of its own.
    pub(crate) fn apart(arguments: &[&str]) -> Self {
        let mut command = Command::new("unshare");
        command.args(["--pid", "--fork", "--kill-child", env!("CARGO_BIN_EXE_sidecore-peer")]);
        Self::started_by(&mut command, arguments)
    }

    /// Where there is no `/proc`.
    pub(crate) fn without_proc(arguments: &[&str]) -> Self {
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", "umount --lazy /proc && exec \"$0\" \"$@\""]);
        Self::started_by(command.arg(env!("CARGO_BIN_EXE_sidecore-peer")), arguments)
    }

    fn started_by(command: &mut Command, arguments: &[&str]) -> Self {
        let mut child = command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        Self { stdin: child.stdin.take(), stdout, child }
    }

    pub(crate) fn serve(socket: &Path, config: &str) -> Self {
        let mut peer = Self::start(&["serve", socket.to_str().unwrap(), config]);
        peer.expect("serving");
        peer
    }

    /// The next line of its output; empty when it ended.
    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    pub(crate) fn expect(&mut self, line: &str) {
        assert_eq!(self.line(), line);
    }

    pub(crate) fn say(&mut self, line: &str) {
        writeln!(self.stdin.as_mut().unwrap(), "{line}").unwrap();
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub(crate) fn finish(mut self) -> Vec<String> {
        self.stdin = None;
        let lines = (&mut self.stdout).lines().map(Result::unwrap).collect();
        assert!(self.child.wait().unwrap().success(), "{lines:?}");
        lines
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // It may have ended long ago.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn kill(pid: u32) {
    kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), Signal::KILL).unwrap();
}

pub(crate) fn until(what: &str, holds: impl FnMut() -> bool) {
    let mut holds = holds;
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < TIMEOUT, "{what}: not after {TIMEOUT:?}");
        thread::sleep(Duration::from_millis(2));
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) descriptors: usize,
    pub(crate) lanes: usize,
}

impl Held {
    pub(crate) fn by(pid: u32) -> Self {
        let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count();
        let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
        Self { descriptors, lanes: maps.lines().filter(|line| line.contains("memfd:sidecore-lane")).count() }
    }
}
