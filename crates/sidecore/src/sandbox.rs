//! The sandbox of a service process: what it cannot do any more once it serves.
//!
//! Two steps, for some of it must come before the first thread and some after the socket listens:
//!
//! 1. [`enter`], in a process of one thread: limits are raised, directories made, the user changed, capabilities dropped;
//!    no debugger, no core dump, no new privileges; memory is locked; files outside its directories are out of reach.
//! 2. [`Sandbox::filter_calls`], when the service runs: all threads, and those to come, keep the system calls that serving
//!    takes. There is no `socket` among them, so there is no network.
//!
//! Nothing of it can be taken back. That is why [`crate::service::Service::start`] does none of it: it runs inside other
//! programs as well.

mod calls;
mod error;
mod files;
mod memory;
mod user;

use crate::config::Config;
use crate::service::Service;
pub use error::SandboxError;
use rustix::thread::CapabilitySet;
use std::fs;

/// What the process has denied itself so far.
#[derive(Debug)]
#[must_use = "the system calls are still all allowed"]
pub struct Sandbox {
    seccomp: Option<bool>,
    warnings: Vec<String>,
}

/// The first step, to be made before any thread is started. The service is started next.
///
/// # Errors
/// The process has several threads, the user does not exist or cannot be changed, a directory cannot be made, or this
/// machine cannot do what the configuration demands. The process may then be changed already and should end.
pub fn enter(config: &Config) -> Result<Sandbox, SandboxError> {
    one_thread()?;
    let mut warnings = Vec::new();
    let sandbox = &config.sandbox;
    let user = sandbox.user.as_deref().map(user::find).transpose()?;
    memory::raise_limit();
    files::make_directories(config, user.as_ref())?;
    if let Some(user) = &user {
        user.become_it()?;
    }
    user::drop_capabilities(if sandbox.lock_memory == Some(false) {
        CapabilitySet::empty()
    } else {
        memory::capability()
    })?;
    memory::deny_inspection()?;
    judge(sandbox.lock_memory, memory::lock, &mut warnings)?;
    judge(sandbox.landlock, || files::restrict(config), &mut warnings)?;
    Ok(Sandbox { seccomp: sandbox.seccomp, warnings })
}

impl Sandbox {
    /// The second step, when the service runs.
    ///
    /// # Errors
    /// This machine cannot filter system calls, and the configuration demands it.
    pub fn filter_calls(&mut self, _running: &Service) -> Result<(), SandboxError> {
        judge(self.seccomp, calls::filter, &mut self.warnings)
    }

    /// What this machine could not do and the configuration does not demand, each with what to do about it.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }
}

/// Carries out what is wanted. Where the machine cannot: an error if it was demanded, else a warning.
fn judge(
    wanted: Option<bool>,
    carry_out: impl FnOnce() -> Result<(), SandboxError>,
    warnings: &mut Vec<String>,
) -> Result<(), SandboxError> {
    if wanted == Some(false) {
        return Ok(());
    }
    match carry_out() {
        Err(SandboxError::Unavailable(what)) if wanted.is_none() => {
            warnings.push(what);
            Ok(())
        }
        result => result,
    }
}

/// User, capabilities and rules for files belong to a thread each: others would keep what they have.
fn one_thread() -> Result<(), SandboxError> {
    let tasks = fs::read_dir("/proc/self/task").map_err(|error| SandboxError::Path("/proc/self/task".into(), error))?;
    match tasks.count() {
        1 => Ok(()),
        threads => Err(SandboxError::Threads(threads)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unavailable() -> Result<(), SandboxError> {
        Err(SandboxError::Unavailable("not here".to_owned()))
    }

    #[test]
    fn what_is_demanded_is_done_or_an_error_and_what_is_not_is_a_warning() {
        let mut warnings = Vec::new();
        assert!(judge(Some(true), unavailable, &mut warnings).is_err());
        assert!(judge(Some(false), unavailable, &mut warnings).is_ok());
        assert!(warnings.is_empty());
        assert!(judge(None, unavailable, &mut warnings).is_ok());
        assert_eq!(warnings, ["not here"]);
        let broken = || Err(SandboxError::Threads(2));
        assert!(judge(None, broken, &mut warnings).is_err(), "only what the machine lacks is a warning");
    }

    #[test]
    fn a_process_with_threads_is_refused_and_left_as_it_was() {
        // The test harness runs each test on a thread of its own.
        let error = enter(&Config::default()).unwrap_err();
        assert!(matches!(error, SandboxError::Threads(2..)), "{error}");
        assert!(!rustix::thread::no_new_privs().unwrap());
    }
}
