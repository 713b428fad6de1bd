//! Keys at rest: a directory of sealed files. There is one for each key, and one with the master key that seals them
//! and the list of the valid files.
//!
//! A file of a key is written once and never replaced: a change writes new files under temporary names, and takes
//! effect when the file with the list is renamed into its place. A foreign file, or one that
//! differs from the list, is an error at start: nothing is skipped, nothing is lost.

mod counter;
mod directory;
mod error;
mod list;
mod seal;

use crate::config::KeysConfig;
use crate::keys::Attributes;
use crate::keys::sealed::Transfer;
use crate::spec::Secret;
use counter::Counter;
use directory::{Directory, Disk, System, beside};
pub use error::{Unsealing, VaultError, VaultErrorKind};
use list::{List, MASTER, Present, file_of};
pub(crate) use seal::Stretched;
use seal::{COST, Cost, MAX_FILE, MAX_MASTER, Master};
use sidecore_core::policy::succession;
use std::fmt;
use std::io;
use std::path::Path;

/// An uncertainty about a change that was made.
pub(super) type VaultWarning = Option<VaultError>;

pub(super) struct Vault {
    /// Open and locked as long as the service runs.
    directory: Directory,
    master: Master,
    file: Vec<u8>,
    list: List,
    /// The last number assigned to a change, including failed ones: none is assigned twice.
    last: u64,
    counter: Option<Counter>,
    cost: Cost,
}

#[derive(Debug)]
pub(super) struct Found {
    pub(super) name: String,
    pub(super) attributes: Attributes,
    pub(super) pkcs8: Secret,
}

enum Failed {
    /// The old one is valid.
    Undone(io::Error),
    /// The old one is valid, but the disk may have the new one.
    Unsure(io::Error),
    /// The new one is valid, but the disk may have the old one.
    Done(io::Error),
}

impl fmt::Debug for Vault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Vault").field("directory", &self.directory).finish_non_exhaustive()
    }
}

impl Vault {
    pub(super) fn open(
        path: &Path,
        config: &KeysConfig,
        passphrase: &Secret,
        ahead: Option<&Stretched>,
    ) -> Result<(Self, Vec<Found>), VaultError> {
        Self::open_on(path, config, passphrase, ahead, COST, Box::new(System))
    }

    /// What takes longest when it is opened, and needs no lock: another service may have the directory. `None`: it
    /// cannot be read yet, which opening it says.
    pub(super) fn stretch(path: &Path, passphrase: &Secret) -> Option<Stretched> {
        let file = Directory::open(path, Box::new(System)).ok()?.read(MASTER, MAX_MASTER).ok()??;
        Stretched::of(passphrase, &file)
    }

    /// Lets another service have the directory. Nothing may be written until [`Vault::regain`] has returned `Same`.
    pub(super) fn release(&self) -> Result<(), VaultError> {
        self.directory.unlock().map_err(|error| self.directory.here(error))
    }

    /// Locks the directory again, and looks whether it is as this service left it.
    pub(super) fn regain(&self) -> succession::Found {
        match self.directory.lock() {
            Ok(true) => {}
            Ok(false) | Err(_) => return succession::Found::Locked,
        }
        match self.directory.read(MASTER, MAX_MASTER) {
            Ok(Some(file)) if file == self.file => succession::Found::Same,
            _ => succession::Found::Changed,
        }
    }

    fn open_on(
        path: &Path,
        config: &KeysConfig,
        passphrase: &Secret,
        ahead: Option<&Stretched>,
        cost: Cost,
        disk: Box<dyn Disk>,
    ) -> Result<(Self, Vec<Found>), VaultError> {
        let directory =
            Directory::open_alone(path, disk).map_err(|what| VaultError::At { path: path.to_owned(), what })?;
        let counter = config.changes_file.as_deref().map(Counter::at).transpose()?;
        let at = |what| directory.at(MASTER, what);
        let sealed = |why| directory.at(MASTER, VaultErrorKind::Master(why));
        let read = directory.read(MASTER, MAX_MASTER).map_err(at)?;
        // Before the other files are checked: in another version they have other names.
        read.as_deref().map_or(Ok(()), Master::check_version).map_err(sealed)?;
        let present = Present::of(&directory)?;
        let file = match read {
            Some(file) => file,
            None if present.placed.is_empty() => return Self::create(directory, counter, passphrase, cost),
            None => return Err(at(VaultErrorKind::NoMaster(present.placed.len()))),
        };
        let (master, list) = Master::open(passphrase, &file, ahead).map_err(sealed)?;
        let checked = counter.as_ref().map_or(Ok(()), |counter| counter.check(list.changes));
        checked.map_err(|what| directory.here(what))?;
        let missing = present.compare(&directory, &list, &config.accept_missing)?;
        let mut vault = Self { directory, master, file, last: list.changes, list, counter, cost };
        present.tidy(&vault.directory, &vault.list)?;
        vault.list.void.clear();
        for name in missing {
            // At start no uncertainty is accepted.
            let forgotten = vault.delete(&name).and_then(|doubt| doubt.map_or(Ok(()), Err));
            forgotten.map_err(|error| vault.directory.here(VaultErrorKind::Nested(Box::new(error))))?;
        }
        let found = vault.list.keys.keys().map(|name| vault.read(name)).collect::<Result<_, _>>()?;
        vault.count()?;
        Ok((vault, found))
    }

    fn create(
        directory: Directory,
        counter: Option<Counter>,
        passphrase: &Secret,
        cost: Cost,
    ) -> Result<(Self, Vec<Found>), VaultError> {
        counter.as_ref().map_or(Ok(()), |counter| counter.check(0)).map_err(|what| directory.here(what))?;
        let list = List::default();
        let made = Master::create(passphrase, cost).and_then(|master| Ok((master.file(&list)?, master)));
        let (file, master) = made.map_err(|why| directory.at(MASTER, VaultErrorKind::Master(why)))?;
        let written = directory.write_beside(MASTER, &file).and_then(|()| directory.place(MASTER));
        written.and_then(|()| directory.sync()).map_err(|error| directory.at(MASTER, error))?;
        let vault = Self { directory, master, file, list, last: 0, counter, cost };
        vault.count()?;
        Ok((vault, Vec::new()))
    }

    pub(super) fn transfer(&self) -> &Transfer {
        &self.master.transfer
    }

    pub(super) fn changes(&self) -> u64 {
        self.list.changes
    }

    pub(super) fn write(
        &mut self,
        name: &str,
        attributes: &Attributes,
        pkcs8: &Secret,
    ) -> Result<VaultWarning, VaultError> {
        let number = self.number();
        let sealed = self.master.seal(name, number, attributes, pkcs8).map_err(|_| VaultError::NotSealed)?;
        let file = file_of(name, number);
        self.stage(&file, &sealed)?;
        self.change(None, self.list.with(name, number), &[file])
    }

    /// The key's file under its new name and the end of the old one take effect with the same list.
    pub(super) fn rename(
        &mut self,
        name: &str,
        new: &str,
        attributes: &Attributes,
        pkcs8: &Secret,
    ) -> Result<VaultWarning, VaultError> {
        let number = self.number();
        let sealed = self.master.seal(new, number, attributes, pkcs8).map_err(|_| VaultError::NotSealed)?;
        let file = file_of(new, number);
        self.stage(&file, &sealed)?;
        self.change(None, self.list.without(name, number).with(new, number), &[file])
    }

    pub(super) fn delete(&mut self, name: &str) -> Result<VaultWarning, VaultError> {
        let number = self.number();
        self.change(None, self.list.without(name, number), &[])
    }

    pub(super) fn change_passphrase(&mut self, passphrase: &Secret) -> Result<VaultWarning, VaultError> {
        let number = self.number();
        let master = Master::create(passphrase, self.cost).map_err(|_| VaultError::NotSealed)?;
        let mut staged = Vec::new();
        for name in self.list.keys.keys() {
            let file = file_of(name, number);
            let written = self.read(name).and_then(|Found { attributes, pkcs8, .. }| {
                let sealed = master.seal(name, number, &attributes, &pkcs8).map_err(|_| VaultError::NotSealed)?;
                self.stage(&file, &sealed)
            });
            if let Err(what) = written {
                self.discard(&staged);
                return Err(what);
            }
            staged.push(file);
        }
        self.change(Some(master), self.list.renewed(number), &staged)
    }

    fn number(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    fn stage(&self, file: &str, bytes: &[u8]) -> Result<(), VaultError> {
        self.directory.write_beside(file, bytes).map_err(|error| {
            self.discard(&[file.to_owned()]);
            self.directory.at(file, VaultErrorKind::Unchanged(error))
        })
    }

    /// After a failure the next start does it.
    fn discard(&self, staged: &[String]) {
        for file in staged {
            let _ = self.directory.remove(&beside(file));
        }
    }

    /// Makes another list the valid one, and perhaps another master key. The list's new files have temporary names
    /// until then.
    fn change(&mut self, master: Option<Master>, list: List, staged: &[String]) -> Result<VaultWarning, VaultError> {
        let file = master.as_ref().unwrap_or(&self.master).file(&list).ok().filter(|file| file.len() <= MAX_MASTER);
        let Some(file) = file else {
            self.discard(staged);
            return Err(VaultError::NotSealed);
        };
        let failed = match self.switch(&file) {
            Ok(()) => None,
            Err(Failed::Undone(error)) => {
                self.discard(staged);
                self.discard(&[MASTER.to_owned()]);
                return Err(self.directory.at(MASTER, VaultErrorKind::Unchanged(error)));
            }
            Err(Failed::Unsure(error)) => return Err(self.directory.at(MASTER, VaultErrorKind::Unsure(error))),
            Err(Failed::Done(error)) => Some(error),
        };
        (self.list, self.file) = (list, file);
        if let Some(master) = master {
            self.master = master;
        }
        if let Some(error) = failed {
            // The files of the old list stay as well: the disk may have either list.
            return Ok(Some(self.directory.at(MASTER, VaultErrorKind::NotUndone(error))));
        }
        let counted = self.count();
        let settled = self.settle(staged).map_err(|error| self.directory.here(VaultErrorKind::Unsettled(error)));
        Ok(settled.and(counted).err())
    }

    fn switch(&self, file: &[u8]) -> Result<(), Failed> {
        // All files of the new list are on the disk before the list is.
        let prepared = self.directory.write_beside(MASTER, file).and_then(|()| self.directory.sync());
        prepared.map_err(Failed::Undone)?;
        let placed = self.directory.place(MASTER).and_then(|()| self.directory.sync());
        placed.map_err(|error| self.switch_back(error))
    }

    fn switch_back(&self, error: io::Error) -> Failed {
        let is_back = || self.directory.read(MASTER, MAX_MASTER).is_ok_and(|found| found.as_ref() == Some(&self.file));
        if !is_back() {
            let written = self.directory.write_beside(MASTER, &self.file);
            // The result is checked below by reading the file.
            let _ = written.and_then(|()| self.directory.place(MASTER));
        }
        match (is_back(), self.directory.sync()) {
            (true, Ok(())) => Failed::Undone(error),
            (true, Err(_)) => Failed::Unsure(error),
            // Once the disk has failed to confirm the change, a later confirmation proves nothing.
            (false, _) => Failed::Done(error),
        }
    }

    /// Renames new files to their places and removes void ones. After a failure the next change or start does it.
    fn settle(&mut self, staged: &[String]) -> io::Result<()> {
        let mut settled = Ok(());
        for file in staged {
            settled = settled.and(self.directory.place(file));
        }
        let removed = |file: &String| self.directory.remove(file).and_then(|()| self.directory.remove(&beside(file)));
        self.list.void.retain(|file| {
            let removed = removed(file);
            let is_left = removed.is_err();
            if settled.is_ok() {
                settled = removed;
            }
            is_left
        });
        settled.and(self.directory.sync())
    }

    fn count(&self) -> Result<(), VaultError> {
        let Some(counter) = &self.counter else { return Ok(()) };
        if counter.read().is_ok_and(|number| number == Some(self.list.changes)) {
            return Ok(());
        }
        counter.write(self.list.changes).map_err(|error| VaultError::NotNoted(Box::new(error)))
    }

    fn read(&self, name: &str) -> Result<Found, VaultError> {
        let number = self.list.keys.get(name).copied().unwrap_or_default();
        let file = file_of(name, number);
        let at = |what| self.directory.at(&file, what);
        let placed = self.directory.read(&file, MAX_FILE).map_err(at)?;
        let sealed = if let Some(placed) = placed {
            placed
        } else {
            // A change could not rename it to its place.
            let beside = beside(&file);
            let sealed = self.directory.read(&beside, MAX_FILE).map_err(|what| self.directory.at(&beside, what))?;
            sealed.ok_or_else(|| at(VaultErrorKind::Gone))?
        };
        let opened = self.master.open_key(name, number, &sealed);
        let (attributes, pkcs8) = opened.map_err(|why| at(VaultErrorKind::Key(why)))?;
        Ok(Found { name: name.to_owned(), attributes, pkcs8 })
    }
}

#[cfg(test)]
pub(super) mod tests;
