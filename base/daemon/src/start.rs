//! Reasons why a service does not start, and what it looks at before.

use crate::sys::cpu;
use std::io;
use std::path::PathBuf;

/// Why a service did not start: reasons that all services share.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// This process may not use a core of the configuration.
    #[error("core {cpu} is not here: name one of those that this process may use, {}", listed(allowed))]
    NoSuchCpu {
        /// The core in the configuration.
        cpu: usize,
        /// The cores that the process may use.
        allowed: Vec<usize>,
    },
    /// Another service answers at this socket, or is about to.
    #[error(
        "a service answers at {0} already, or is about to (it has {0}.lock): stop it, or name another socket in the \
         configuration"
    )]
    AlreadyRunning(PathBuf),
    /// A path cannot be used.
    #[error(
        "{0}: {1}; name a socket in a directory that this user may write, in the configuration or in SIDECORE_SOCKET"
    )]
    Path(PathBuf, io::Error),
    /// A system call failed.
    #[error(transparent)]
    System(#[from] io::Error),
}

fn listed(cores: &[usize]) -> String {
    cores.iter().map(usize::to_string).collect::<Vec<_>>().join(", ")
}

/// Checks that this process may use the cores.
///
/// # Errors
/// The first core that it may not use, and all permitted ones.
pub fn check_cpus(cpus: impl IntoIterator<Item = usize>) -> Result<(), StartError> {
    match cpus.into_iter().find(|cpu| !cpu::is_usable(*cpu)) {
        Some(cpu) => Err(StartError::NoSuchCpu { cpu, allowed: cpu::allowed() }),
        None => Ok(()),
    }
}

/// Raises the limit of descriptors as far as the system permits: each lane and each socket takes a few.
pub fn raise_file_limit() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // With the old limit fewer fit; each further one is refused with the reason.
    let _ = setrlimit(Resource::Nofile, limit);
}
