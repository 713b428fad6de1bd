//! Reasons why a process does not enter its sandbox.

use landlock::RulesetError;
use std::io;
use std::path::PathBuf;

/// A restriction that failed. The process may be changed already and should end.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// The list of this process's threads cannot be read.
    #[error("/proc/self/task: {0}")]
    Threads(io::Error),
    /// The process has this number of threads.
    #[error("the sandbox is for a process of one thread, this one has {0}: enter it first")]
    NotAlone(usize),
    /// There is no such user.
    #[error("there is no user {0:?} (sandbox.user): make it, e.g. useradd --system {0}")]
    NoUser(String),
    /// Only root can become another user.
    #[error("only root can become {0:?} (sandbox.user): start the service as root or as {0}, or leave it out")]
    NotRoot(String),
    /// A directory cannot be made.
    #[error(
        "{}: {error}; start the service as root, or name directories that this user may write, in the configuration; \
         SIDECORE_SOCKET names a socket where the configuration does not",
        path.display()
    )]
    Directory {
        /// The directory.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// A system call failed.
    #[error("cannot {purpose}: {error}")]
    System {
        /// Its purpose.
        purpose: &'static str,
        /// The system's error.
        error: io::Error,
    },
    /// The rules for files failed.
    #[error("cannot restrict files (sandbox.landlock): {0}")]
    Files(RulesetError),
    /// The configuration demands a restriction that this machine lacks.
    #[error(transparent)]
    Lack(Lack),
}

/// A restriction that this machine lacks, and the remedy.
#[derive(Debug, thiserror::Error)]
pub enum Lack {
    /// Rules for files.
    #[error(
        "the kernel has no landlock: files outside the service's directories stay in reach of its user; use Linux 5.13 \
         or later with landlock among its security modules (lsm=), or set sandbox.landlock = false"
    )]
    Landlock,
    /// A filter of system calls.
    #[error(
        "system calls cannot be filtered here ({0}): whoever breaks into the service has all of them; use a kernel with \
         CONFIG_SECCOMP_FILTER, or set sandbox.seccomp = false"
    )]
    Seccomp(seccompiler::Error),
    /// Only this number of KiB can be locked. With all memory of a process locked, allocations fail that would succeed
    /// otherwise.
    #[error(
        "memory is not locked: only {0} KiB may be, and keys may reach swap; lift the limit (LimitMEMLOCK=infinity in \
         the unit, ulimit -l unlimited), switch swap off, or set sandbox.lock_memory = false"
    )]
    LockLimit(u64),
    /// Memory cannot be locked.
    #[error("memory cannot be locked ({0}): keys may reach swap; switch swap off")]
    Lock(io::Error),
}
