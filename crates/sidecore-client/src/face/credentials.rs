//! Under whose authority a thread acts, as the service sees it: what the kernel says of a connection that it makes now.

use rustix::process::{Gid, Uid, getegid, geteuid, getgroups};

/// A thread's effective user and groups. Threads can differ: these are asked of the kernel, which keeps them by thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credentials {
    user: Uid,
    group: Gid,
    /// `None`: the kernel does not say, e.g. under a filter of system calls.
    others: Option<Vec<Gid>>,
}

impl Credentials {
    /// Those of the calling thread at this moment.
    pub fn present() -> Self {
        Self { user: geteuid(), group: getegid(), others: getgroups().ok() }
    }

    /// Whether the calling thread still has this user and group. Further groups are not asked for, which takes longer than
    /// both: only those may change them who may take them back.
    pub fn are_present(&self) -> bool {
        self.user == geteuid() && self.group == getegid()
    }
}
