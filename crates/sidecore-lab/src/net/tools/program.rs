//! Other programs that measure a network: one end runs here, one in the far end.

use super::super::pair::FAR;
use nix::time::ClockId;
use nix::unistd::Pid;
use procfs::process::Process;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{Read, Seek};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// How long a server may take to listen.
const ARRIVAL: Duration = Duration::from_secs(5);
/// How often a program's CPU time is read while it runs.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(50);
/// The longest run of a client, beside the time that it was told to take.
const EXIT_TIMEOUT: Duration = Duration::from_secs(20);
/// The kernel has no larger number of a process.
const MAX_PROCESSES: u32 = 1 << 22;
/// Most of what a client says that is read, bytes.
const MAX_OUTPUT_BYTES: u64 = 1 << 20;

/// What an end runs when it is told to, and nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::net) enum Tool {
    Iperf3,
    Sockperf,
}

/// What a client said, and what it cost while it measured.
#[derive(Debug)]
pub(super) struct ToolOutput {
    pub(super) output: String,
    /// CPU time of the client, and of the server, in a second of its measurement, seconds. `None`: it was too short.
    pub(super) cpu: Option<[f64; 2]>,
}

/// When, and the CPU time of both programs until then, s.
type Sample = (f64, [f64; 2]);

impl Tool {
    /// Its name, which is that of its program at both ends and of its package.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Iperf3 => "iperf3",
            Self::Sockperf => "sockperf",
        }
    }

    /// Whether its program is in a directory of PATH.
    pub(super) fn is_there(self) -> bool {
        std::env::var_os("PATH")
            .is_some_and(|all| std::env::split_paths(&all).any(|own| own.join(self.name()).is_file()))
    }

    /// Starts its server.
    ///
    /// # Errors
    /// It is not there.
    pub(in crate::net) fn serve(self, arguments: &[String]) -> Result<Child, String> {
        start(self.name(), arguments, Stdio::null(), Stdio::null())
    }

    /// Runs a client that was told to measure for so long, beside its server, which is that process.
    ///
    /// # Errors
    /// It cannot be started, does not end in time, or is ended by somebody else.
    pub(super) fn run(self, arguments: &[String], time: Duration, server: u32) -> Result<ToolOutput, String> {
        let wrong = |error: std::io::Error| format!("{}: {error}", self.name());
        let mut output = tempfile::tempfile().map_err(wrong)?;
        let copy = || output.try_clone().map(Stdio::from).map_err(wrong);
        // iperf3 says what is wrong in its report: other words would spoil that.
        let errors = if self == Self::Iperf3 { Stdio::null() } else { copy()? };
        let mut child = start(self.name(), arguments, copy()?, errors)?;
        let samples =
            attend(&mut child, server, time + EXIT_TIMEOUT).map_err(|error| format!("{}: {error}", self.name()))?;
        Ok(ToolOutput { output: all(&mut output).map_err(wrong)?, cpu: steady(&samples, time) })
    }
}

/// Starts a program. It ends when the thread that started it does, at the latest.
fn start(program: &str, arguments: &[String], output: Stdio, errors: Stdio) -> Result<Child, String> {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--", program]).args(arguments);
    // An interrupt from the keyboard is for whoever started it.
    command.stdin(Stdio::null()).stdout(output).stderr(errors).process_group(0);
    command.spawn().map_err(|error| format!("cannot start {program} by setpriv (package util-linux): {error}"))
}

/// What was written to that file.
fn all(file: &mut File) -> std::io::Result<String> {
    file.rewind()?;
    let mut bytes = Vec::new();
    file.take(MAX_OUTPUT_BYTES).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Waits for a client, and looks at it and its server meanwhile.
fn attend(child: &mut Child, server: u32, patience: Duration) -> Result<Vec<Sample>, String> {
    let began = Instant::now();
    let mut samples = Vec::new();
    loop {
        let cpu = cpu(child.id()).and_then(|own| Some([own, cpu(server)?]));
        let ended = child.try_wait().map_err(|error| error.to_string())?;
        let now = began.elapsed();
        if let Some(status) = ended {
            let by_signal = status.signal().map(|signal| format!("signal {signal} ended it"));
            return by_signal.map_or(Ok(samples), Err);
        }
        if now > patience {
            // It is ours: nobody has waited for it yet.
            let _ = child.kill();
            let _ = child.wait();
            return Err(format!("it did not end in {patience:?}"));
        }
        samples.extend(cpu.map(|cpu| (now.as_secs_f64(), cpu)));
        thread::sleep(SAMPLE_INTERVAL);
    }
}

/// CPU time of a process, s, with that of its threads that have ended. `None`: it is gone.
fn cpu(process: u32) -> Option<f64> {
    // The clock's number has only so many bits for it: that of a larger one is another process's.
    let process = Some(process).filter(|process| *process < MAX_PROCESSES)?;
    let clock = ClockId::pid_cpu_clock_id(Pid::from_raw(process.cast_signed())).ok()?;
    Some(Duration::from(clock.now().ok()?).as_secs_f64())
}

/// CPU time in each second of a measurement of that length, which ended with the last sample or up to a fifth of its length
/// before: what a program does to get ready, or waits for after it, is not its measurement.
fn steady(samples: &[Sample], time: Duration) -> Option<[f64; 2]> {
    let (end, _) = samples.last()?;
    let time = time.as_secs_f64();
    let [before, after] = [0.8, 0.2].map(|part| spent(samples, end - time * part));
    let (before, after) = before.zip(after)?;
    Some([0, 1].map(|end| (after[end] - before[end]) / (time * 0.6)))
}

/// CPU time of both until then, on the line between the two looks around it.
fn spent(samples: &[Sample], at: f64) -> Option<[f64; 2]> {
    let pair = samples.windows(2).find(|pair| (pair[0].0..=pair[1].0).contains(&at))?;
    let ((began, before), (ended, after)) = (pair[0], pair[1]);
    let part = (at - began) / (ended - began);
    Some([0, 1].map(|end| before[end] + (after[end] - before[end]) * part))
}

/// A port of the far end that a server takes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Port(pub(super) u16);

impl Port {
    /// Waits until that process, or another one of its namespace, has it.
    ///
    /// # Errors
    /// It takes too long, or ends.
    pub(super) fn wait_for(self, tool: Tool, server: u32, is_tcp: bool) -> Result<(), String> {
        let until = Instant::now() + ARRIVAL;
        // Of a process that has ended nothing can be read.
        while !self.is_taken(server, is_tcp).map_err(|_| format!("the server of {} ended at once", tool.name()))? {
            if Instant::now() > until {
                return Err(format!("no server of {} came to {FAR}:{}", tool.name(), self.0));
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
    fn what_a_program_does_before_and_after_it_measures_does_not_count() {
        let samples = [(0.0, [0.0, 0.0]), (2.0, [1.9, 0.1]), (2.3, [2.2, 0.1]), (2.7, [2.4, 0.4]), (3.0, [2.7, 0.4])];
        let [client, server] = steady(&samples, Duration::from_secs(1)).unwrap();
        // From 2.2 to 2.8.
        assert!((client - 0.4 / 0.6).abs() < 1e-9 && (server - 0.3 / 0.6).abs() < 1e-9, "{client} {server}");
        assert!(steady(&samples[2..], Duration::from_secs(1)).is_none(), "nobody looked so early");
        assert!(steady(&samples[..1], Duration::from_secs(1)).is_none(), "one look says nothing");
        assert!(steady(&[], Duration::from_secs(1)).is_none());
    }

    #[test]
    fn a_processs_time_is_known_until_it_is_gone() {
        assert!(cpu(std::process::id()).is_some_and(|time| time > 0.0));
        let mut gone = start("true", &[], Stdio::null(), Stdio::null()).unwrap();
        gone.wait().unwrap();
        assert_eq!(cpu(gone.id()), None);
        // No kernel has so many.
        assert_eq!(cpu(1 << 23), None);
    }

    #[test]
    fn the_time_of_a_thread_that_has_ended_still_counts() {
        let own = || cpu(std::process::id()).unwrap();
        let before = own();
        let spent = thread::spawn(move || while own() < before + 0.02 {});
        spent.join().unwrap();
        assert!(own() >= before + 0.02);
    }

    #[test]
    fn a_client_that_somebody_ends_has_measured_nothing() {
        let own = std::process::id();
        let mut killed =
            start("sh", &["-c".to_owned(), "kill -9 $$".to_owned()], Stdio::null(), Stdio::null()).unwrap();
        assert_eq!(attend(&mut killed, own, EXIT_TIMEOUT), Err("signal 9 ended it".to_owned()));
        let mut slow = start("sleep", &["60".to_owned()], Stdio::null(), Stdio::null()).unwrap();
        assert!(attend(&mut slow, own, SAMPLE_INTERVAL).is_err_and(|why| why.contains("did not end")));
    }

    #[test]
    fn a_server_that_ended_is_not_waited_for() {
        let mut gone = start("true", &[], Stdio::null(), Stdio::null()).unwrap();
        let waited = Port(1).wait_for(Tool::Sockperf, gone.id(), true);
        assert_eq!(waited, Err("the server of sockperf ended at once".to_owned()));
        gone.wait().unwrap();
    }
}
