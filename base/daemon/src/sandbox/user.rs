//! The change to an unprivileged user without capabilities.

use super::cannot;
use super::error::SandboxError;
use rustix::fs::{Gid, Uid};
use rustix::io::Errno;
use rustix::process::{geteuid, getuid};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, clear_ambient_capability_set, remove_capability_from_bounding_set,
    set_capabilities, set_keep_capabilities, set_thread_groups, set_thread_res_gid, set_thread_res_uid,
};

#[derive(Debug)]
pub(super) struct User {
    name: String,
    pub(super) uid: u32,
    pub(super) gid: u32,
}

pub(super) fn find(name: &str) -> Result<User, SandboxError> {
    let found = nix::unistd::User::from_name(name).map_err(cannot("look up sandbox.user"))?;
    let found = found.ok_or_else(|| SandboxError::NoUser(name.to_owned()))?;
    Ok(User { name: name.to_owned(), uid: found.uid.as_raw(), gid: found.gid.as_raw() })
}

impl User {
    /// Changes to this user, in its own group only. Capabilities stay permitted until they are dropped.
    pub(super) fn become_it(&self) -> Result<(), SandboxError> {
        let uid = Uid::from_raw(self.uid);
        if (getuid(), geteuid()) == (uid, uid) {
            return Ok(());
        }
        if !geteuid().is_root() {
            return Err(SandboxError::NotRoot(self.name.clone()));
        }
        let gid = Gid::from_raw(self.gid);
        // Groups first: without root's rights they cannot be left any more.
        let system = cannot("become sandbox.user");
        set_thread_groups(&[]).map_err(&system)?;
        set_keep_capabilities(true).map_err(&system)?;
        set_thread_res_gid(gid, gid, gid).map_err(&system)?;
        set_thread_res_uid(uid, uid, uid).map_err(&system)?;
        set_keep_capabilities(false).map_err(system)
    }
}

pub(super) fn permitted() -> CapabilitySet {
    // Without a readable set no capability is assumed.
    capabilities(None).map_or(CapabilitySet::empty(), |sets| sets.permitted)
}

/// Drops all capabilities but `keep`. Root without capabilities has access to its own files only.
pub(super) fn drop_capabilities(keep: CapabilitySet) -> Result<(), SandboxError> {
    let system = cannot("drop capabilities");
    let held = permitted();
    if held.contains(CapabilitySet::SETPCAP) {
        // The change of user cleared the effective ones.
        set_capabilities(None, sets(held)).map_err(&system)?;
        for capability in CapabilitySet::all().iter() {
            match remove_capability_from_bounding_set(capability) {
                // An older kernel does not know it.
                Ok(()) | Err(Errno::INVAL) => {}
                Err(error) => return Err(system(error)),
            }
        }
    }
    clear_ambient_capability_set().map_err(&system)?;
    set_capabilities(None, sets(held & keep)).map_err(system)
}

fn sets(permitted: CapabilitySet) -> CapabilitySets {
    CapabilitySets { effective: permitted, permitted, inheritable: CapabilitySet::empty() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_found_by_name() {
        assert_eq!(find("root").unwrap().uid, 0);
        let error = find("no-such-user-here").unwrap_err().to_string();
        assert!(error.contains("no-such-user-here") && error.contains("useradd"), "{error}");
    }
}
