//! The few directories that a service works in.

use super::Directories;
use super::error::{Lack, SandboxError};
use super::user::User;
use crate::sys::directory::{make, missing};
use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, PathBeneath, PathFd, Ruleset, RulesetAttr, RulesetCreatedAttr,
    RulesetError, RulesetStatus, Scope,
};
use rustix::fs::fsync;
use std::collections::BTreeMap;
use std::os::unix::fs::chown;
use std::path::PathBuf;

/// Version of the kernel's rules to request. An older kernel applies only known ones.
const KNOWN: ABI = ABI::V6;

pub(super) fn make_directories(directories: &Directories, owner: Option<&User>) -> Result<(), SandboxError> {
    for directory in directories.access().keys() {
        let at = |error| SandboxError::Directory { path: directory.clone(), error };
        for missing in missing(directory) {
            make(&missing, directories.mode(&missing), |around| Ok(fsync(around)?)).map_err(at)?;
            if let Some(user) = owner {
                chown(&missing, Some(user.uid), Some(user.gid)).map_err(at)?;
            }
        }
    }
    Ok(())
}

/// Denies access to all files outside the service's directories, for reading and writing, and with them connections
/// over TCP and signals to other processes.
pub(super) fn restrict(directories: &Directories) -> Result<Option<Lack>, SandboxError> {
    let enforced = enforce(directories.access()).map_err(SandboxError::Files)?;
    Ok((enforced == RulesetStatus::NotEnforced).then_some(Lack::Landlock))
}

fn enforce(directories: &BTreeMap<PathBuf, BitFlags<AccessFs>>) -> Result<RulesetStatus, RulesetError> {
    let mut rules = Ruleset::default()
        .handle_access(AccessFs::from_all(KNOWN))?
        .handle_access(AccessNet::from_all(KNOWN))?
        .scope(Scope::from_all(KNOWN))?
        .create()?;
    for (directory, access) in directories {
        // A directory that cannot be opened is skipped: its later use reports the error.
        if let Ok(parent) = PathFd::new(directory) {
            rules = rules.add_rule(PathBeneath::new(parent, *access))?;
        }
    }
    Ok(rules.restrict_self()?.ruleset)
}
