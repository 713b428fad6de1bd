//! Other programs that measure a network: one end runs here, one in the far end.

use super::super::pair::FAR;
use procfs::process::Process;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{Read, Seek};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// How long a server may take to listen.
const ARRIVAL: Duration = Duration::from_secs(5);
/// How often a program's CPU time is read while it runs.
const LOOK: Duration = Duration::from_millis(100);
/// The longest run of a client, beside the time that it was told to take.
const PATIENCE: Duration = Duration::from_secs(20);
/// Most of what a client says that is read, bytes.
const MOST: u64 = 1 << 20;

/// The programs that an end runs when it is told to, and no others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::net) enum Tool {
    Iperf3,
    Sockperf,
}

/// What a client said, and what it cost while it measured.
#[derive(Debug)]
pub(super) struct Said {
    pub(super) output: String,
    /// CPU time of the client, and of the server, in a second of its measurement, seconds. `None`: it was too short.
    pub(super) cpu: Option<[f64; 2]>,
}

/// When, and the CPU time of both programs until then, s.
type Sample = (f64, [f64; 2]);

impl Tool {
    /// Its name, which is that of its Debian package as well.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Iperf3 => "iperf3",
            Self::Sockperf => "sockperf",
        }
    }

    /// Starts it. It ends when the thread that started it does, at the latest.
    ///
    /// # Errors
    /// It is not there.
    pub(in crate::net) fn start(self, arguments: &[String], output: Stdio, errors: Stdio) -> Result<Child, String> {
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "--", self.name()]).args(arguments);
        // An interrupt from the keyboard is for whoever started it.
        command.stdin(Stdio::null()).stdout(output).stderr(errors).process_group(0);
        command
            .spawn()
            .map_err(|error| format!("cannot start {} by setpriv (package util-linux): {error}", self.name()))
    }

    /// Runs a client that was told to measure for so long, beside its server, which is that process.
    ///
    /// # Errors
    /// It cannot be started, or does not end in time.
    pub(super) fn run(self, arguments: &[String], time: Duration, server: u32) -> Result<Said, String> {
        let wrong = |error: std::io::Error| format!("{}: {error}", self.name());
        let mut output = tempfile::tempfile().map_err(wrong)?;
        let copy = || output.try_clone().map(Stdio::from).map_err(wrong);
        // iperf3 says what is wrong in its report: other words would spoil that.
        let errors = if self == Self::Iperf3 { Stdio::null() } else { copy()? };
        let mut child = self.start(arguments, copy()?, errors)?;
        let samples =
            attend(&mut child, server, time + PATIENCE).map_err(|error| format!("{}: {error}", self.name()))?;
        Ok(Said { output: all(&mut output).map_err(wrong)?, cpu: steady(&samples, time) })
    }
}

/// What was written to that file.
fn all(file: &mut File) -> std::io::Result<String> {
    file.rewind()?;
    let mut bytes = Vec::new();
    file.take(MOST).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Waits for a client, and looks at it and its server meanwhile.
fn attend(child: &mut Child, server: u32, patience: Duration) -> Result<Vec<Sample>, String> {
    let began = Instant::now();
    let mut samples = Vec::new();
    loop {
        let cpu = cpu(child.id()).and_then(|own| Some([own, cpu(server)?]));
        let ended = child.try_wait().map_err(|error| error.to_string())?.is_some();
        let now = began.elapsed();
        if ended {
            return Ok(samples);
        }
        if now > patience {
            // It is ours: nobody has waited for it yet.
            let _ = child.kill();
            let _ = child.wait();
            return Err(format!("it did not end in {patience:?}"));
        }
        samples.extend(cpu.map(|cpu| (now.as_secs_f64(), cpu)));
        thread::sleep(LOOK);
    }
}

/// CPU time of a process, s. `None`: it is gone.
fn cpu(process: u32) -> Option<f64> {
    let tasks = Process::new(process.cast_signed()).ok()?.tasks().ok()?;
    let ran = tasks.flatten().filter_map(|task| Some(task.schedstat().ok()?.sum_exec_runtime));
    Some(ran.sum::<u64>() as f64 / 1e9)
}

/// CPU time in each second of the last three quarters of a measurement of that length, which ended with the last sample:
/// what a program does to get ready is not its measurement.
fn steady(samples: &[Sample], time: Duration) -> Option<[f64; 2]> {
    let (end, after) = samples.last()?;
    let since = end - time.as_secs_f64() * 0.75;
    let (began, before) = samples.iter().find(|(at, _)| *at >= since).filter(|(at, _)| at < end)?;
    Some([0, 1].map(|at| (after[at] - before[at]) / (end - began)))
}

/// Where servers of the tools wait: of iperf3, and of sockperf for each protocol.
#[derive(Clone, Copy, Debug)]
pub(super) struct Port(pub(super) u16);

impl Port {
    /// Waits until that process, or another one of its namespace, has it.
    ///
    /// # Errors
    /// It takes too long.
    pub(super) fn wait_for(self, server: u32, is_tcp: bool) -> Result<(), String> {
        let until = Instant::now() + ARRIVAL;
        while !self.is_taken(server, is_tcp).unwrap_or(false) {
            if Instant::now() > until {
                return Err(format!("no server came to {FAR}:{}", self.0));
            }
            thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    fn is_taken(self, server: u32, is_tcp: bool) -> procfs::ProcResult<bool> {
        let process = Process::new(server.cast_signed())?;
        let is_own = |at: &std::net::SocketAddr| at.port() == self.0;
        Ok(if is_tcp {
            process.tcp()?.iter().chain(&process.tcp6()?).any(|socket| is_own(&socket.local_address))
        } else {
            process.udp()?.iter().any(|socket| is_own(&socket.local_address))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_program_does_to_get_ready_does_not_count() {
        let samples = [(0.0, [0.0, 0.0]), (2.0, [1.9, 0.1]), (2.5, [2.0, 0.2]), (3.0, [2.1, 0.4])];
        let [client, server] = steady(&samples, Duration::from_secs(1)).unwrap();
        assert!((client - 0.2).abs() < 1e-9 && (server - 0.4).abs() < 1e-9, "{client} {server}");
        assert!(steady(&samples[..1], Duration::from_secs(1)).is_none(), "one look says nothing");
        assert!(steady(&[], Duration::from_secs(1)).is_none());
    }

    #[test]
    fn a_processs_time_is_known_until_it_is_gone() {
        assert!(cpu(std::process::id()).is_some_and(|time| time > 0.0));
        assert_eq!(cpu(u32::MAX >> 1), None);
    }
}
