//! The sandbox of a service process: restrictions that hold once it serves.
//!
//! There are two steps: some restrictions must come before the first thread and some after the socket listens.
//!
//! 1. [`enter`], in a process of one thread: limits are raised, directories made, the user changed, capabilities
//!    dropped; no debugger, no core dump, no new privileges; memory is locked; files outside its directories are out
//!    of reach.
//! 2. [`Sandbox::filter_calls`], when the service runs: all present and future threads keep only the system calls
//!    that the service needs. There is no `socket` among them, so there is no network.
//!
//! No step can be undone. So [`Service::start`] and [`Sockets::start`] do neither: they run inside other programs as
//! well.

mod calls;
mod files;
mod memory;
mod user;

use crate::config::Config;
use crate::service::Service;
use crate::sockets::Sockets;
use calls::Duty;
use rustix::thread::CapabilitySet;
use std::fmt::Display;
use std::fs;
use std::os::fd::RawFd;

/// The restrictions of the process so far.
#[derive(Debug)]
#[must_use = "the system calls are still all allowed"]
pub struct Sandbox {
    seccomp: Option<bool>,
    warnings: Vec<String>,
}

/// The first step, before any thread is started. The service is started next.
///
/// # Errors
/// In words: the process has several threads, the user does not exist or cannot be changed, a directory cannot be
/// made, or this machine lacks a demanded restriction. The process may then be changed already and should end.
pub fn enter(config: &Config) -> Result<Sandbox, String> {
    one_thread()?;
    let mut warnings = Vec::new();
    let sandbox = &config.sandbox;
    let user = sandbox.user.as_deref().map(user::find).transpose()?;
    memory::raise_limit();
    files::make_directories(config, user.as_ref())?;
    if let Some(user) = &user {
        user.become_it()?;
    }
    // A service of sockets has no keys to keep out of swap.
    let lock = sandbox.lock_memory.or(config.sockets.is_some().then_some(false));
    user::drop_capabilities(if lock == Some(false) { CapabilitySet::empty() } else { memory::capability() })?;
    memory::deny_inspection()?;
    judge(lock, || Ok(memory::lock()), &mut warnings)?;
    judge(sandbox.landlock, || files::restrict(config), &mut warnings)?;
    Ok(Sandbox { seccomp: sandbox.seccomp, warnings })
}

impl Sandbox {
    /// The second step, when the service runs.
    ///
    /// # Errors
    /// This machine cannot filter system calls, and the configuration demands it.
    pub fn filter_calls(&mut self, running: &Service) -> Result<(), String> {
        self.filter(Duty::Keys, running.door())
    }

    /// The second step, when the service of sockets runs. Its list is another one: it opens no file.
    ///
    /// # Errors
    /// As for [`Sandbox::filter_calls`].
    pub fn filter_calls_of_sockets(&mut self, running: &Sockets) -> Result<(), String> {
        self.filter(Duty::Sockets, running.door())
    }

    fn filter(&mut self, duty: Duty, door: RawFd) -> Result<(), String> {
        judge(self.seccomp, || Ok(calls::filter(duty, door)), &mut self.warnings)
    }

    /// Restrictions that this machine lacks and the configuration does not demand, each with the remedy.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }
}

/// A restriction that this machine lacks, and the remedy.
type Lack = Option<String>;

/// Applies a restriction. Without support of the machine: an error if it was demanded, else a warning.
fn judge(
    wanted: Option<bool>,
    carry_out: impl FnOnce() -> Result<Lack, String>,
    warnings: &mut Vec<String>,
) -> Result<(), String> {
    let lack = if wanted == Some(false) { None } else { carry_out()? };
    match lack {
        Some(what) if wanted == Some(true) => return Err(what),
        lack => warnings.extend(lack),
    }
    Ok(())
}

/// User, capabilities and rules for files belong to single threads: other threads would keep theirs.
fn one_thread() -> Result<(), String> {
    match fs::read_dir("/proc/self/task").map_err(|error| format!("/proc/self/task: {error}"))?.count() {
        1 => Ok(()),
        threads => Err(format!("the sandbox is for a process of one thread, this one has {threads}: enter it first")),
    }
}

fn cannot<E: Display>(purpose: &str) -> impl Fn(E) -> String {
    move |error| format!("cannot {purpose}: {error}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[expect(clippy::unnecessary_wraps, reason = "as what is carried out")]
    fn unavailable() -> Result<Lack, String> {
        Ok(Some("not here".to_owned()))
    }

    #[test]
    fn what_is_demanded_is_done_or_an_error_and_what_is_not_is_a_warning() {
        let mut warnings = Vec::new();
        assert!(judge(Some(true), unavailable, &mut warnings).is_err());
        assert!(judge(Some(false), unavailable, &mut warnings).is_ok());
        assert!(warnings.is_empty());
        assert!(judge(None, unavailable, &mut warnings).is_ok());
        assert_eq!(warnings, ["not here"]);
        let broken = || Err("broken".to_owned());
        assert!(judge(None, broken, &mut warnings).is_err(), "only what the machine lacks is a warning");
    }

    #[test]
    fn a_process_with_threads_is_refused_and_left_as_it_was() {
        // The test harness runs each test on a thread of its own.
        let error = enter(&Config::default()).unwrap_err();
        assert!(error.contains("of one thread") && !error.contains("has 1:"), "{error}");
        assert!(!rustix::thread::no_new_privs().unwrap());
    }
}
