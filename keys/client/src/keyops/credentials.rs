//! The credentials of a thread, as the kernel would report them to the service for a new connection.

use rustix::process::{Gid, Uid, getegid, geteuid, getgroups};

/// A thread's effective user and groups. They can differ between threads, so the kernel is asked, which stores them by
/// thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credentials {
    user: Uid,
    group: Gid,
    /// `None`: the kernel does not answer, e.g. under a filter of system calls.
    others: Option<Vec<Gid>>,
}

impl Credentials {
    /// The present credentials of the calling thread.
    pub fn present() -> Self {
        Self { user: geteuid(), group: getegid(), others: getgroups().ok() }
    }

    /// The effective user.
    pub fn uid(&self) -> u32 {
        self.user.as_raw()
    }

    /// Whether the calling thread still has this user and group. Supplementary groups are not compared, because
    /// reading them takes longer: only a thread that may also restore them may change them.
    pub fn are_present(&self) -> bool {
        self.user == geteuid() && self.group == getegid()
    }
}
