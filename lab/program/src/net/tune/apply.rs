//! Applies settings reversibly. They are reverted immediately if the peer is lost, after a time unless the user
//! confirms them, and later by `--revert`, after any kind of failure.
//!
//! The old values are in a file on disk before the first change. The file exists as long as there are settings to
//! revert. It serves a later process; the process that wrote it remembers the values itself. Only one process changes
//! settings at a time.

use super::identity::{Fate, Identity};
use super::setting::{REQUESTED, Setting, by_name};
use crate::error::LabError;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

/// Passes over all settings: two for dependencies between them, and one without any change.
const PASSES: usize = 3;
const LOCK: &str = ".lock";
/// Tries to lock, because the other process may be about to end, and the pause between them.
const TRIES: usize = 10;
const PAUSE: Duration = Duration::from_millis(100);

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct SavedSettings {
    interface: String,
    identity: Identity,
    /// In the order of the changes.
    values: Vec<(String, String)>,
    /// Values that the run may leave, by setting. Other values are not the run's. None: any.
    #[serde(default)]
    set: BTreeMap<String, Vec<String>>,
    /// The run has ended with the values in `set`.
    #[serde(default)]
    applied: bool,
}

#[derive(Debug, PartialEq)]
pub(super) struct Reverted {
    pub(super) count: usize,
    pub(super) fate: Fate,
    /// Settings that others changed meanwhile, in words. They stay.
    pub(super) others: Vec<String>,
}

pub(super) trait Settings {
    fn read(&mut self, name: &str) -> Result<String, LabError>;
    fn write(&mut self, name: &str, value: &str) -> Result<(), LabError>;
    fn identity(&self) -> Result<Identity, LabError>;
    fn fate(&self, saved: &Identity) -> Result<Fate, LabError>;
}

/// The directory of old settings, locked. No other process changes settings until drop.
#[derive(Debug)]
pub(super) struct SettingsStore {
    directory: PathBuf,
    interface: String,
    /// Saved by this process and not reverted.
    saved: Option<SavedSettings>,
    /// The system releases the lock at every kind of end of the process.
    _lock: File,
}

impl SettingsStore {
    /// Creates the directory if necessary. After an error nothing may be changed.
    pub(super) fn new(directory: &Path, interface: &str) -> Result<Self, LabError> {
        let made = fs::create_dir_all(directory);
        made.map_err(|error| {
            LabError::failed(format!("cannot keep the old settings in {}", directory.display()), error)
        })?;
        Self::locked(directory, interface)
    }

    pub(super) fn saved_in(directory: &Path, interface: &str) -> Result<Self, LabError> {
        if directory.exists() { Self::locked(directory, interface) } else { Err(nothing(directory)) }
    }

    fn locked(directory: &Path, interface: &str) -> Result<Self, LabError> {
        if interface.contains('/') {
            return Err(LabError::Usage(format!("no interface is called {interface}")));
        }
        let lock = lock(&directory.join(LOCK))?;
        Ok(Self { directory: directory.to_owned(), interface: interface.to_owned(), saved: None, _lock: lock })
    }

    fn file(&self) -> PathBuf {
        self.directory.join(format!("{}.json", self.interface))
    }

    pub(super) fn is_saved(&self) -> bool {
        self.saved.is_some()
    }

    /// Saves the current values of settings with the values to try. Afterwards each may be changed to those. After an
    /// error nothing may be changed.
    pub(super) fn keep(&mut self, settings: &mut impl Settings, tried: &[(&str, &[String])]) -> Result<(), LabError> {
        let identity = settings.identity()?;
        self.are_free(&identity, &tried.iter().map(|(name, _)| *name).collect::<Vec<_>>())?;
        let values = tried.iter().map(|(name, _)| Ok(((*name).to_owned(), settings.read(name)?)));
        let values = values.collect::<Result<Vec<_>, LabError>>()?;
        let set = tried.iter().map(|(name, values)| ((*name).to_owned(), values.to_vec())).collect();
        let saved = SavedSettings { interface: self.interface.clone(), identity, values, set, applied: false };
        let put = self.write(&saved).and_then(|new| Ok(new.persist_noclobber(self.file())?)).and_then(|_| self.sync());
        put.map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => LabError::Usage(format!(
                "settings that were changed before are kept in {}: take them back with --revert, or remove the file to keep \
                 them as they are now",
                self.file().display()
            )),
            _ => self.unkept(error).then("nothing is changed"),
        })?;
        self.saved = Some(saved);
        Ok(())
    }

    /// A shared setting must not be saved with two interfaces, because the original value would be ambiguous.
    fn are_free(&self, identity: &Identity, names: &[&str]) -> Result<(), LabError> {
        let wrong = |error: io::Error| LabError::failed(format!("cannot read {}", self.directory.display()), error);
        for entry in fs::read_dir(&self.directory).map_err(wrong)? {
            let file = entry.map_err(wrong)?.path();
            if file == self.file() || file.extension().is_none_or(|extension| extension != "json") {
                continue;
            }
            let other = read(&file)?;
            if other.identity.boot != identity.boot {
                continue;
            }
            let is_taken = |name: &str| is_shared(name) && names.contains(&name);
            if let Some((name, _)) = other.values.iter().find(|(name, _)| is_taken(name)) {
                return Err(LabError::Usage(format!(
                    "{name} is not of {} alone, and was changed with {}: take that back before (net tune --revert --interface \
                     {}), or name others with --setting",
                    self.interface, other.interface, other.interface
                )));
            }
        }
        Ok(())
    }

    /// Applies the changes and calls `is_well`. If that or a change fails, all saved values are restored.
    pub(super) fn apply(
        &mut self,
        settings: &mut impl Settings,
        changes: &[(String, String)],
        is_well: impl FnOnce() -> Result<(), LabError>,
    ) -> Result<(), LabError> {
        let set = set_all(settings, changes).and_then(|()| is_well()).and_then(|()| self.keep_set(settings));
        set.map_err(|why| match self.revert(settings) {
            Ok(Reverted { others, .. }) if !others.is_empty() => why.then(others.join("; ")),
            Ok(_) => why.then("all is as it was before"),
            Err(wrong) => why.then(format!("and then {wrong}")),
        })
    }

    /// Saves the values that stay, also those that changed with another setting. Frees unchanged shared settings for
    /// other interfaces.
    fn keep_set(&mut self, settings: &mut impl Settings) -> Result<(), LabError> {
        let Some(mut saved) = self.saved.take() else { return Ok(()) };
        let all = saved.clone();
        let mut now = |name: &str| settings.read(name).ok();
        saved.values.retain(|(name, value)| !is_shared(name) || now(name).as_ref() != Some(value));
        let set = saved.values.iter().filter_map(|(name, _)| Some((name.clone(), vec![now(name)?])));
        (saved.set, saved.applied) = (set.collect(), true);
        let put = self.write(&saved).and_then(|new| Ok(new.persist(self.file())?)).and_then(|_| self.sync());
        // Until the new file is on disk, a revert must restore all.
        self.saved = Some(if put.is_ok() { saved } else { all });
        put.map_err(|error| self.unkept(error))
    }

    fn unkept(&self, error: io::Error) -> LabError {
        LabError::failed(format!("cannot keep the old settings in {}", self.file().display()), error)
    }

    /// Restores the saved values, except where others set another one meanwhile, and removes the file. If a value cannot be
    /// restored, the file stays.
    pub(super) fn revert(&mut self, settings: &mut impl Settings) -> Result<Reverted, LabError> {
        let file = self.file();
        let name = file.display();
        let saved = match &self.saved {
            Some(saved) => saved.clone(),
            None if file.exists() => read(&file)?,
            None => return Err(nothing(&file)),
        };
        if saved.interface != self.interface {
            return Err(LabError::Usage(format!("{name} is of the interface {}", saved.interface)));
        }
        let fate = settings.fate(&saved.identity);
        let fate = fate.map_err(|why| why.then(format!("then try again with --revert, or remove {name}")))?;
        let mut values: Vec<_> = saved.values.iter().rev().cloned().collect();
        values.retain(|(name, _)| match fate {
            Fate::Same => true,
            Fate::Gone => is_shared(name),
            Fate::Restarted => false,
        });
        let resets_queues = saved.resets_queues(settings, &values);
        let mut others = Vec::new();
        values.retain(|(name, before)| {
            if resets_queues && by_name(name).is_ok_and(Setting::is_reset_with_queues) {
                return true;
            }
            let Some(now) = settings.read(name).ok().filter(|now| !saved.may_leave(name, before, now)) else {
                return true;
            };
            others.push(format!("{name} was set to {now} meanwhile, and stays so; it was {before} before"));
            false
        });
        set_all(settings, &values)
            .map_err(|why| LabError::missing("not all was set back", why, "try again with --revert"))?;
        self.saved = None;
        let removed = fs::remove_file(&file).or_else(|error| match error.kind() {
            io::ErrorKind::NotFound => Ok(()),
            _ => Err(error),
        });
        let removed = removed.and_then(|()| self.sync());
        removed.map_err(|error| LabError::failed(format!("all is set back, but {name} cannot be removed"), error))?;
        Ok(Reverted { count: values.len(), fate, others })
    }

    /// Writes the complete content to disk before the file has a name.
    fn write(&self, saved: &SavedSettings) -> io::Result<tempfile::NamedTempFile> {
        let mut new = tempfile::NamedTempFile::new_in(&self.directory)?;
        serde_json::to_writer(&mut new, saved)?;
        new.flush()?;
        new.as_file().sync_all()?;
        Ok(new)
    }

    fn sync(&self) -> io::Result<()> {
        File::open(&self.directory)?.sync_all()
    }
}

impl SavedSettings {
    /// Whether the run or its revert makes new queues. They have first settings, and not those of another user.
    fn resets_queues(&self, settings: &mut impl Settings, values: &[(String, String)]) -> bool {
        let resets = |name: &str| by_name(name).is_ok_and(Setting::resets_queues);
        values.iter().filter(|(name, _)| resets(name)).any(|(name, before)| {
            let now = settings.read(name).ok();
            // A run without an end may have tried any value, and set the old one again.
            !self.applied && self.set.contains_key(name)
                || now.is_some_and(|now| now != *before && self.may_leave(name, before, &now))
        })
    }

    /// Queues and members of a feature have a word each, and may have values of different runs.
    fn may_leave(&self, name: &str, before: &str, now: &str) -> bool {
        let Some(set) = self.set.get(name).filter(|set| !set.is_empty()) else { return true };
        let own: Vec<_> = set.iter().map(String::as_str).chain([before, REQUESTED]).collect();
        now.split(' ').all(|word| own.iter().any(|value| value.split(' ').any(|own| own == word)))
    }
}

/// Mode 0600: with a readable lock file any user could block all changes.
fn lock(path: &Path) -> Result<File, LabError> {
    let name = path.display();
    let opened = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(path);
    let file = opened
        .map_err(|error| LabError::missing(format!("cannot lock {name}"), error, "it takes root, or --state DIR"))?;
    for _ in 0..TRIES {
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(file),
            Err(Errno::WOULDBLOCK) => thread::sleep(PAUSE),
            Err(error) => return Err(LabError::failed(format!("cannot lock {name}"), error)),
        }
    }
    Err(LabError::Usage(format!(
        "another net tune changes settings, or waits for somebody to confirm them: let it end, or end it (fuser -v {name} says \
         which it is); nothing is changed"
    )))
}

fn read(file: &Path) -> Result<SavedSettings, LabError> {
    let name = file.display();
    let text = fs::read_to_string(file).map_err(|error| LabError::failed(format!("cannot read {name}"), error))?;
    serde_json::from_str(&text).map_err(|error| LabError::failed(format!("{name} is damaged"), error))
}

fn nothing(file: &Path) -> LabError {
    let name = file.display();
    LabError::Usage(format!("there is nothing to take back: there is no {name}; --state names where settings are kept"))
}

fn is_shared(name: &str) -> bool {
    by_name(name).is_ok_and(Setting::is_shared)
}

/// Sets all values that differ. A value may be refused until another one is set, and new queues lose their settings: so
/// passes repeat until no value differs. An error is a value that stays refused; the others are set.
fn set_all(settings: &mut impl Settings, values: &[(String, String)]) -> Result<(), LabError> {
    let mut refused = Ok(());
    for _ in 0..PASSES {
        refused = Ok(());
        let mut is_all_set = true;
        for (name, value) in values {
            if settings.read(name).ok().as_ref() == Some(value) {
                continue;
            }
            is_all_set = false;
            if let Err(why) = settings.write(name, value) {
                refused = refused.and(Err(LabError::failed(format!("{name} {value}"), why)));
            }
        }
        if is_all_set {
            break;
        }
    }
    refused
}

#[cfg(test)]
mod tests;
