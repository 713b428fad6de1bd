//! A client of another program that measures, which runs here, and the port of its server at the far end.

use super::super::pair::FAR;
use super::tool::{Tool, start};
use crate::net::error::{ClientError, ToolError};
use nix::time::ClockId;
use nix::unistd::Pid;
use procfs::process::Process;
use std::fs::File;
use std::io::{Read, Seek};
use std::net::SocketAddrV4;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

const ARRIVAL: Duration = Duration::from_secs(5);
const SAMPLE_INTERVAL: Duration = Duration::from_millis(50);
const EXIT_TIMEOUT: Duration = Duration::from_secs(20);
/// Linux assigns process numbers below this one.
const MAX_PROCESSES: u32 = 1 << 22;
const MAX_OUTPUT_BYTES: u64 = 1 << 20;

#[derive(Debug)]
pub(super) struct ToolOutput {
    pub(super) output: String,
    /// CPU time of client and server in a second of the measurement, s. `None`: it was too short.
    pub(super) cpu: Option<[f64; 2]>,
}

/// An instant, and the CPU time of both programs until then, s.
type Sample = (f64, [f64; 2]);

impl Tool {
    pub(super) fn run(self, arguments: &[String], time: Duration, server: u32) -> Result<ToolOutput, ToolError> {
        let failed = |source: ClientError| ToolError::Client { tool: self.name(), source };
        let wrong = |error: std::io::Error| failed(error.into());
        let mut output = tempfile::tempfile().map_err(wrong)?;
        let copy = || output.try_clone().map(Stdio::from).map_err(wrong);
        // iperf3 reports errors in its JSON. Other text would make the JSON invalid.
        let errors = if self == Self::Iperf3 { Stdio::null() } else { copy()? };
        let mut child = start(self.name(), arguments, copy()?, errors)?;
        let samples = attend(&mut child, server, time + EXIT_TIMEOUT).map_err(failed)?;
        Ok(ToolOutput { output: all(&mut output).map_err(wrong)?, cpu: steady(&samples, time) })
    }
}

fn all(file: &mut File) -> std::io::Result<String> {
    file.rewind()?;
    let mut bytes = Vec::new();
    file.take(MAX_OUTPUT_BYTES).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn attend(child: &mut Child, server: u32, patience: Duration) -> Result<Vec<Sample>, ClientError> {
    let began = Instant::now();
    let mut samples = Vec::new();
    loop {
        let cpu = cpu(child.id()).and_then(|own| Some([own, cpu(server)?]));
        let ended = child.try_wait()?;
        let now = began.elapsed();
        if let Some(status) = ended {
            return status.signal().map_or(Ok(samples), |signal| Err(ClientError::Killed(signal)));
        }
        if now > patience {
            // The number is still valid: the process was not waited for yet.
            let _ = child.kill();
            let _ = child.wait();
            return Err(ClientError::TimedOut(patience));
        }
        samples.extend(cpu.map(|cpu| (now.as_secs_f64(), cpu)));
        thread::sleep(SAMPLE_INTERVAL);
    }
}

/// CPU time of a process with its ended threads, s. `None`: the process has ended.
fn cpu(process: u32) -> Option<f64> {
    // The bits of a clock's number are limited: a larger number would be the clock of another process.
    let process = Some(process).filter(|process| *process < MAX_PROCESSES)?;
    let clock = ClockId::pid_cpu_clock_id(Pid::from_raw(process.cast_signed())).ok()?;
    Some(Duration::from(clock.now().ok()?).as_secs_f64())
}

/// CPU time of a second of a measurement of this length, s. The measurement ended with the last sample, or up to a fifth of
/// its length earlier. Preparation and clean-up of a program do not count.
fn steady(samples: &[Sample], time: Duration) -> Option<[f64; 2]> {
    let (end, _) = samples.last()?;
    let time = time.as_secs_f64();
    let [before, after] = [0.8, 0.2].map(|part| spent(samples, end - time * part));
    let (before, after) = before.zip(after)?;
    Some([0, 1].map(|end| (after[end] - before[end]) / (time * 0.6)))
}

/// CPU time of both until then, interpolated between two samples.
fn spent(samples: &[Sample], at: f64) -> Option<[f64; 2]> {
    let pair = samples.windows(2).find(|pair| (pair[0].0..=pair[1].0).contains(&at))?;
    let ((began, before), (ended, after)) = (pair[0], pair[1]);
    let part = (at - began) / (ended - began);
    Some([0, 1].map(|end| before[end] + (after[end] - before[end]) * part))
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Port(pub(super) u16);

impl Port {
    pub(super) fn wait_for(self, tool: Tool, server: u32, is_tcp: bool) -> Result<(), ToolError> {
        let until = Instant::now() + ARRIVAL;
        // The files of an ended process are not readable.
        while !self.is_taken(server, is_tcp).map_err(|_| ToolError::ServerEnded(tool.name()))? {
            if Instant::now() > until {
                return Err(ToolError::NoServer { tool: tool.name(), at: SocketAddrV4::new(FAR, self.0) });
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
        // Above the limit of every kernel.
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
        assert_eq!(attend(&mut killed, own, EXIT_TIMEOUT).unwrap_err().to_string(), "signal 9 ended it");
        let mut slow = start("sleep", &["60".to_owned()], Stdio::null(), Stdio::null()).unwrap();
        assert!(attend(&mut slow, own, SAMPLE_INTERVAL).is_err_and(|why| why.to_string().contains("did not end")));
    }

    #[test]
    fn a_server_that_ended_is_not_waited_for() {
        let mut gone = start("true", &[], Stdio::null(), Stdio::null()).unwrap();
        let waited = Port(1).wait_for(Tool::Sockperf, gone.id(), true);
        assert_eq!(waited.unwrap_err().to_string(), "the server of sockperf ended at once");
        gone.wait().unwrap();
    }
}
