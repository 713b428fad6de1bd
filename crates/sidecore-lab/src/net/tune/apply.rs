//! Sets what was found so that it can be taken back: at once if the peer is lost by it, unless somebody confirms it, and
//! later by `--revert`, whatever happened in between.
//!
//! What a setting was is in a file, on the disk, before the first one is changed. The file is there as long as there is
//! something to take back.

use super::place::Here;
use super::setting::{Place, by_name};
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// How often all settings are looked at: two for what depends on another, and one that finds nothing to do.
const PASSES: usize = 3;

/// The settings of one interface before they were changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Kept {
    interface: String,
    /// Names and values, in the order in which they are changed.
    values: Vec<(String, String)>,
}

/// What changes settings: an interface, or what stands for one in tests.
pub(super) trait Settings {
    /// The value of that setting.
    ///
    /// # Errors
    /// It cannot be read.
    fn read(&mut self, name: &str) -> Result<String, String>;
    /// Sets it.
    ///
    /// # Errors
    /// It is refused.
    fn write(&mut self, name: &str, value: &str) -> Result<(), String>;
    /// Whether what has that setting is still there.
    fn is_there(&self, name: &str) -> bool;
}

impl Settings for Here {
    fn read(&mut self, name: &str) -> Result<String, String> {
        Self::read(self, by_name(name)?)
    }

    fn write(&mut self, name: &str, value: &str) -> Result<(), String> {
        Self::write(self, by_name(name)?, value)
    }

    fn is_there(&self, name: &str) -> bool {
        self.is_present() || by_name(name).is_ok_and(|setting| matches!(setting.place, Place::Sysctl(_)))
    }
}

/// Where the old settings of an interface are kept.
pub(super) struct State {
    directory: PathBuf,
    interface: String,
}

impl State {
    /// In that directory, which is made where it is not there.
    pub(super) fn new(directory: &Path, interface: &str) -> Self {
        Self { directory: directory.to_owned(), interface: interface.to_owned() }
    }

    fn file(&self) -> PathBuf {
        self.directory.join(format!("{}.json", self.interface))
    }

    /// Whether there is something to take back.
    pub(super) fn is_kept(&self) -> bool {
        self.file().exists()
    }

    /// Keeps these settings as they are now. From here on each may be changed.
    ///
    /// # Errors
    /// They cannot be kept: nothing may be changed.
    pub(super) fn keep(&self, settings: &mut impl Settings, names: &[&str]) -> Result<(), String> {
        let values = names.iter().map(|name| Ok(((*name).to_owned(), settings.read(name)?)));
        let values = values.collect::<Result<Vec<_>, String>>()?;
        self.write(&Kept { interface: self.interface.clone(), values }).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => format!(
                "settings that were changed before are kept in {}: take them back with --revert, or remove the file to keep \
                 them as they are now",
                self.file().display()
            ),
            _ => format!("cannot keep the old settings in {}: {error}; nothing is changed", self.file().display()),
        })
    }

    /// Sets these, and asks whether all is well. If not, or if one is refused, all is as it was kept.
    ///
    /// # Errors
    /// Why it was taken back; or what could not be.
    pub(super) fn apply(
        &self,
        settings: &mut impl Settings,
        changes: &[(String, String)],
        is_well: impl FnOnce() -> Result<(), String>,
    ) -> Result<(), String> {
        let set = set_all(settings, changes).and_then(|()| is_well());
        set.map_err(|why| match self.revert(settings) {
            Ok(_) => format!("{why}; all is as it was before"),
            Err(wrong) => format!("{why}; and then {wrong}"),
        })
    }

    /// Sets what was before, and forgets it. How many settings that were: those of an interface that is gone went with it.
    ///
    /// # Errors
    /// Nothing is kept, or what cannot be set back: the file stays then.
    pub(super) fn revert(&self, settings: &mut impl Settings) -> Result<usize, String> {
        let file = self.file();
        let name = file.display();
        let text = fs::read_to_string(&file).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => format!("there is nothing to take back: no file {name}"),
            _ => format!("cannot read {name}: {error}"),
        })?;
        let kept: Kept = serde_json::from_str(&text).map_err(|error| format!("{name} is damaged: {error}"))?;
        if kept.interface != self.interface {
            return Err(format!("{name} is of the interface {}", kept.interface));
        }
        let mut values: Vec<_> = kept.values.into_iter().rev().collect();
        values.retain(|(name, _)| settings.is_there(name));
        set_all(settings, &values).map_err(|why| format!("not all was set back: {why}; try again with --revert"))?;
        let removed = fs::remove_file(&file).and_then(|()| File::open(&self.directory)?.sync_all());
        removed.map_err(|error| format!("all is set back, but {name} cannot be removed: {error}"))?;
        Ok(values.len())
    }

    /// On the disk under its own name only when it is whole; never over another.
    fn write(&self, kept: &Kept) -> io::Result<()> {
        fs::create_dir_all(&self.directory)?;
        let mut new = tempfile::NamedTempFile::new_in(&self.directory)?;
        serde_json::to_writer(&mut new, kept)?;
        new.flush()?;
        new.as_file().sync_all()?;
        new.persist_noclobber(self.file())?;
        File::open(&self.directory)?.sync_all()
    }
}

/// All that are not so already. What depends on another may be refused before that is set, and what made queues anew has
/// forgotten what was set of them: so all are looked at again until none is set any more.
///
/// # Errors
/// What stays refused; the others are set.
fn set_all(settings: &mut impl Settings, values: &[(String, String)]) -> Result<(), String> {
    let mut refused = Ok(());
    for _ in 0..PASSES {
        refused = Ok(());
        let mut is_all_set = true;
        for (name, value) in values {
            if settings.read(name).as_ref() == Ok(value) {
                continue;
            }
            is_all_set = false;
            if let Err(why) = settings.write(name, value) {
                refused = refused.and(Err(format!("{name} {value}: {why}")));
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
