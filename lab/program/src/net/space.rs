//! Network namespaces of a run. They have no names and end with their processes, however those end.

use crate::error::LabError;
use nix::sched::{CloneFlags, unshare};
use nix::unistd::{getgid, getuid};
use std::fs;
use std::io;

/// Moves the calling thread, and threads that it starts from now on, to a new network namespace.
///
/// Without privileges it first makes a user namespace that grants them; the process must have only one thread then.
pub(super) fn enter_own() -> Result<(), LabError> {
    if unshare(CloneFlags::CLONE_NEWNET).is_ok() {
        return Ok(());
    }
    let (user, group) = (getuid(), getgid());
    let system = |error: io::Error| {
        let remedy = "run it as root, or allow user namespaces (sysctl kernel.unprivileged_userns_clone=1 or \
                      kernel.apparmor_restrict_unprivileged_userns=0)";
        LabError::missing("cannot make a network namespace", error, remedy)
    };
    unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNET).map_err(|error| system(error.into()))?;
    let map = |file: &str, content: String| fs::write(format!("/proc/self/{file}"), content).map_err(system);
    map("setgroups", "deny".to_owned())?;
    map("uid_map", format!("0 {user} 1"))?;
    map("gid_map", format!("0 {group} 1"))
}
