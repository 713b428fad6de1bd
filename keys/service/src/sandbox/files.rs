//! The few directories that a service works in.

use super::Duty;
use super::error::{Lack, SandboxError};
use super::user::User;
use crate::config::Config;
use crate::sys::directory::{make, missing, parent};
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

pub(super) fn make_directories(config: &Config, duty: Duty, owner: Option<&User>) -> Result<(), SandboxError> {
    for directory in directories(config, duty).into_keys() {
        let at = |error| SandboxError::Directory { path: directory.clone(), error };
        for missing in missing(&directory) {
            let mode = if config.keys.directory.as_deref() == Some(&missing) { 0o700 } else { 0o755 };
            make(&missing, mode, |around| Ok(fsync(around)?)).map_err(at)?;
            if let Some(user) = owner {
                chown(&missing, Some(user.uid), Some(user.gid)).map_err(at)?;
            }
        }
    }
    Ok(())
}

/// Denies access to all files outside the service's directories, for reading and writing, and with them connections
/// over TCP and signals to other processes.
pub(super) fn restrict(config: &Config, duty: Duty) -> Result<Option<Lack>, SandboxError> {
    let enforced = enforce(&directories(config, duty)).map_err(SandboxError::Files)?;
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

fn directories(config: &Config, duty: Duty) -> BTreeMap<PathBuf, BitFlags<AccessFs>> {
    let files =
        AccessFs::MakeReg | AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::Truncate | AccessFs::RemoveFile;
    let mut directories = BTreeMap::new();
    let mut add = |directory: PathBuf, access: BitFlags<AccessFs>| {
        *directories.entry(directory).or_default() |= access;
    };
    // The socket's directory also holds the file whose lock makes it this service's alone.
    let lock = AccessFs::MakeReg | AccessFs::ReadFile;
    add(parent(&config.socket), lock | AccessFs::MakeSock | AccessFs::RemoveFile);
    if !duty.files {
        return directories;
    }
    add(parent(&config.counters_path()), files);
    if let Some(record) = &config.record {
        add(parent(record), files);
    }
    if let Some(keys) = &config.keys.directory {
        add(keys.clone(), files | AccessFs::ReadDir);
    }
    if let Some(counter) = &config.keys.changes_file {
        add(parent(counter), files | AccessFs::ReadDir);
    }
    directories
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::KeysConfig;
    use std::path::Path;

    #[test]
    fn each_directory_gives_what_is_done_there() {
        let config = Config {
            socket: "/run/a/socket".into(),
            counters: Some("/run/b/counters".into()),
            record: Some("record".into()),
            keys: KeysConfig {
                directory: Some("/var/keys".into()),
                changes_file: Some("/var/count/number".into()),
                ..KeysConfig::default()
            },
            ..Config::default()
        };
        let socket_alone = directories(&config, Duty::NONE);
        assert_eq!(socket_alone.keys().collect::<Vec<_>>(), [Path::new("/run/a")]);
        let directories = directories(&config, Duty::KEYS);
        let names: Vec<&Path> = directories.keys().map(PathBuf::as_path).collect();
        assert_eq!(names, ["/run/a", "/run/b", "/var/count", "/var/keys", "."].map(Path::new));
        assert!(!directories[Path::new("/run/a")].contains(AccessFs::WriteFile));
        assert!(directories[Path::new("/run/a")].contains(AccessFs::MakeReg | AccessFs::ReadFile), "the lock");
        assert!(!directories[Path::new("/run/b")].intersects(AccessFs::MakeSock | AccessFs::Execute));
    }
}
