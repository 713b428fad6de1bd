//! The sandbox of a service process: restrictions that hold once it serves.
//!
//! There are two steps: some restrictions must come before the first thread and some after the socket listens.
//!
//! 1. [`enter`], in a process of one thread: limits are raised, directories made, the user changed, capabilities
//!    dropped; no debugger, no core dump, no new privileges; memory is locked; files outside its directories are out
//!    of reach.
//! 2. [`Sandbox::filter_calls`], when the service runs: all present and future threads keep only the system calls
//!    that its [`Duty`] needs. There is no `socket` among them, so there is no network.
//!
//! No step can be undone. So a service's own `start` does neither: it runs inside other programs as well.

mod calls;
mod duty;
mod error;
mod files;
mod memory;
mod user;

use crate::config::SandboxConfig;
pub use duty::{Directories, Duty};
pub use error::{Lack, SandboxError};
use rustix::thread::CapabilitySet;
use std::fs;
use std::io;
use std::os::fd::RawFd;

/// The restrictions of the process so far.
#[derive(Debug)]
#[must_use = "the system calls are still all allowed"]
pub struct Sandbox {
    duty: Duty,
    seccomp: Option<bool>,
    warnings: Vec<String>,
}

/// The first step, before any thread is started. A service of this duty is started next, which works in these
/// directories.
///
/// # Errors
/// The process has several threads, the user does not exist or cannot be changed, a directory cannot be
/// made, or this machine lacks a demanded restriction. The process may then be changed already and should end.
pub fn enter(sandbox: &SandboxConfig, duty: Duty, directories: &Directories) -> Result<Sandbox, SandboxError> {
    one_thread()?;
    let mut warnings = Vec::new();
    let user = sandbox.user.as_deref().map(user::find).transpose()?;
    memory::raise_limit();
    files::make_directories(directories, user.as_ref())?;
    if let Some(user) = &user {
        user.become_it()?;
    }
    let lock = sandbox.lock_memory.or((!duty.secrets).then_some(false));
    user::drop_capabilities(if lock == Some(false) { CapabilitySet::empty() } else { memory::capability() })?;
    memory::deny_inspection()?;
    judge(lock, || Ok(memory::lock()), &mut warnings)?;
    judge(sandbox.landlock, || files::restrict(directories), &mut warnings)?;
    Ok(Sandbox { duty, seccomp: sandbox.seccomp, warnings })
}

impl Sandbox {
    /// The second step, when the service runs. `door` is the number of its listening socket.
    ///
    /// # Errors
    /// This machine cannot filter system calls, and the configuration demands it.
    pub fn filter_calls(&mut self, door: RawFd) -> Result<(), SandboxError> {
        judge(self.seccomp, || Ok(calls::filter(self.duty, door)), &mut self.warnings)
    }

    /// Restrictions that this machine lacks and the configuration does not demand, each with the remedy.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }
}

/// Whether there is a user of this name here.
pub fn is_user(name: &str) -> bool {
    user::find(name).is_ok()
}

/// Applies a restriction. Without support of the machine: an error if it was demanded, else a warning.
fn judge(
    wanted: Option<bool>,
    carry_out: impl FnOnce() -> Result<Option<Lack>, SandboxError>,
    warnings: &mut Vec<String>,
) -> Result<(), SandboxError> {
    let lack = if wanted == Some(false) { None } else { carry_out()? };
    match lack {
        Some(lack) if wanted == Some(true) => return Err(SandboxError::Lack(lack)),
        lack => warnings.extend(lack.map(|lack| lack.to_string())),
    }
    Ok(())
}

/// User, capabilities and rules for files belong to single threads: other threads would keep theirs.
fn one_thread() -> Result<(), SandboxError> {
    match fs::read_dir("/proc/self/task").map_err(SandboxError::Threads)?.count() {
        1 => Ok(()),
        threads => Err(SandboxError::NotAlone(threads)),
    }
}

fn cannot<E: Into<io::Error>>(purpose: &'static str) -> impl Fn(E) -> SandboxError {
    move |error| SandboxError::System { purpose, error: error.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[expect(clippy::unnecessary_wraps, reason = "as what is carried out")]
    fn unavailable() -> Result<Option<Lack>, SandboxError> {
        Ok(Some(Lack::LockLimit(8)))
    }

    #[test]
    fn what_is_demanded_is_done_or_an_error_and_what_is_not_is_a_warning() {
        let mut warnings = Vec::new();
        assert!(judge(Some(true), unavailable, &mut warnings).is_err());
        assert!(judge(Some(false), unavailable, &mut warnings).is_ok());
        assert!(warnings.is_empty());
        assert!(judge(None, unavailable, &mut warnings).is_ok());
        assert_eq!(warnings, [Lack::LockLimit(8).to_string()]);
        let broken = || Err(SandboxError::NotAlone(2));
        assert!(judge(None, broken, &mut warnings).is_err(), "only what the machine lacks is a warning");
    }

    #[test]
    fn a_process_with_threads_is_refused_and_left_as_it_was() {
        // The test harness runs each test on a thread of its own.
        let error = enter(&SandboxConfig::default(), Duty::NONE, &Directories::default()).unwrap_err().to_string();
        assert!(error.contains("of one thread") && !error.contains("has 1:"), "{error}");
        assert!(!rustix::thread::no_new_privs().unwrap());
    }
}
