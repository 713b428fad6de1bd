//! Processes of one run: started, killed and ended by process id. The kernel ends all of them with this program.

use sidecore_terminal::programs;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::time::Duration;

/// The program of the farm's own commands.
const FARM: &str = "sidecore-farm";

#[derive(Clone, Debug)]
pub(crate) struct Role {
    pub(crate) name: String,
    pub(crate) program: PathBuf,
    pub(crate) arguments: Vec<OsString>,
    pub(crate) log: PathBuf,
    pub(crate) reads: bool,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum ProcessError {
    #[error("cannot find this program: {0}")]
    OwnPath(io::Error),
    #[error("no {FARM} beside this program: apt-get install {FARM}, or `cargo build --release -p {FARM}` builds it")]
    NoFarm,
    #[error("cannot write {}: {source}", log.display())]
    Log { log: PathBuf, source: io::Error },
    #[error("cannot start {} for {name}: {source}", program.display())]
    Start { program: PathBuf, name: String, source: io::Error },
    /// By itself. `said`: the last line of its log.
    #[error("{name} ended with {status}{}", said.as_ref().map_or_else(String::new, |line| format!("; it said: {line}")))]
    Ended { name: String, status: ExitStatus, said: Option<String> },
}

#[derive(Debug)]
pub(crate) struct Process {
    role: Role,
    child: Child,
    before: Duration,
    killed: bool,
}

impl Role {
    pub(crate) fn of_this_program<I: Into<OsString>>(
        name: String,
        arguments: impl IntoIterator<Item = I>,
        logs: &Path,
    ) -> Result<Self, ProcessError> {
        let program = std::env::current_exe().map_err(ProcessError::OwnPath)?;
        Ok(Self::of(program, name, arguments, logs))
    }

    pub(crate) fn of_the_farm<I: Into<OsString>>(
        name: String,
        arguments: impl IntoIterator<Item = I>,
        logs: &Path,
    ) -> Result<Self, ProcessError> {
        let program = programs::find(&[FARM], &["."]).ok_or(ProcessError::NoFarm)?;
        Ok(Self::of(program, name, arguments, logs))
    }

    fn of<I: Into<OsString>>(
        program: PathBuf,
        name: String,
        arguments: impl IntoIterator<Item = I>,
        logs: &Path,
    ) -> Self {
        let log = logs.join(format!("{}.log", name.replace(' ', "-")));
        let arguments = arguments.into_iter().map(Into::into).collect();
        Self { name, program, arguments, log, reads: false }
    }

    pub(crate) fn start(self) -> Result<Process, ProcessError> {
        let child = self.spawn()?;
        Ok(Process { role: self, child, before: Duration::ZERO, killed: false })
    }

    fn spawn(&self) -> Result<Child, ProcessError> {
        let log = File::options().append(true).create(true).open(&self.log);
        let log = log.map_err(|source| ProcessError::Log { log: self.log.clone(), source })?;
        let input = if self.reads { Stdio::piped() } else { Stdio::null() };
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).stdin(input).stdout(Stdio::null()).stderr(log);
        sidecore_farm::alone(&mut command).spawn().map_err(|source| ProcessError::Start {
            program: self.program.clone(),
            name: self.name.clone(),
            source,
        })
    }
}

impl Process {
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn input(&mut self) -> Option<ChildStdin> {
        self.child.stdin.take()
    }

    pub(crate) fn kill(&mut self) {
        if self.killed {
            return;
        }
        self.before += cpu_time(self.id());
        self.killed = true;
        // The process may have ended already; `wait` still returns its status.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    pub(crate) fn start_again(&mut self) -> Result<(), ProcessError> {
        self.kill();
        self.child = self.role.spawn()?;
        self.killed = false;
        Ok(())
    }

    pub(crate) fn be_again_as(&mut self, role: Role) {
        self.role = role;
    }

    /// `None`: it runs, or was killed.
    pub(crate) fn ended(&mut self) -> Option<ProcessError> {
        if self.killed {
            return None;
        }
        let status = self.child.try_wait().ok()??;
        Some(ProcessError::Ended { name: self.role.name.clone(), status, said: last_line(&self.role.log) })
    }

    pub(crate) fn is_done(&mut self) -> bool {
        !self.killed && self.child.try_wait().is_ok_and(|status| status.is_some_and(|status| status.success()))
    }

    pub(crate) fn cpu_time(&self) -> Duration {
        self.before + if self.killed { Duration::ZERO } else { cpu_time(self.id()) }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

pub(crate) fn last_line(file: &Path) -> Option<String> {
    let text = fs::read(file).ok()?;
    let text = String::from_utf8_lossy(&text);
    text.lines().rev().map(str::trim).find(|line| !line.is_empty()).map(str::to_owned)
}

pub(crate) fn cpu_time(id: u32) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    let ticks = ticks(&stat).unwrap_or(0);
    Duration::from_secs_f64(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}

/// Fields 14 and 15 of `/proc/ID/stat`. The second field is a name in parentheses and may hold any character.
fn ticks(stat: &str) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_ascii_whitespace().skip(11);
    Some(fields.next()?.parse::<u64>().ok()? + fields.next()?.parse::<u64>().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, logs: &Path) -> Role {
        let arguments = ["-c".into(), script.into()].to_vec();
        Role { name: "a shell".into(), program: "/bin/sh".into(), arguments, log: logs.join("log"), reads: false }
    }

    fn until(mut is_so: impl FnMut() -> bool) {
        for _ in 0..3_000 {
            if is_so() {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("it did not happen in 30 s");
    }

    #[test]
    fn a_killed_process_is_gone_and_can_be_started_again() {
        let logs = tempfile::tempdir().unwrap();
        let mut process = shell("exec sleep 1000", logs.path()).start().unwrap();
        let first = process.id();
        process.kill();
        assert!(!Path::new(&format!("/proc/{first}/stat")).exists());
        assert!(process.ended().is_none());
        process.start_again().unwrap();
        let second = process.id();
        assert!(Path::new(&format!("/proc/{second}/stat")).exists());
        drop(process);
        assert!(!Path::new(&format!("/proc/{second}/stat")).exists());
    }

    #[test]
    fn one_that_ends_by_itself_says_why() {
        let logs = tempfile::tempdir().unwrap();
        let mut process = shell("echo it is too late >&2; echo >&2; exit 3", logs.path()).start().unwrap();
        until(|| process.ended().is_some());
        let why = process.ended().unwrap().to_string();
        assert!(why.contains("a shell ended with exit status: 3; it said: it is too late"), "{why}");
        assert!(!process.is_done());
    }

    #[test]
    fn what_cannot_be_started_is_named() {
        let logs = tempfile::tempdir().unwrap();
        let role = Role { program: "/nowhere/at/all".into(), ..shell("", logs.path()) };
        let error = role.start().unwrap_err().to_string();
        assert!(error.contains("cannot start /nowhere/at/all for a shell"), "{error}");
    }

    #[test]
    fn cpu_time_is_read_past_any_name() {
        let stat = "7 (a) b (c) S 1 7 7 0 -1 4194560 9 0 0 0 30 12 0 0 20 0 1 0 5 0 0";
        assert_eq!(ticks(stat), Some(42));
        assert_eq!(ticks(""), None);
        assert_eq!(cpu_time(u32::MAX), Duration::ZERO);
    }
}
