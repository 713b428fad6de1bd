//! Keys at rest: a directory of sealed files. There is one for each key, and one with the master key that seals them
//! and the list of the valid files.
//!
//! A file of a key is written once and never replaced: a change writes new files under temporary names, and takes
//! effect when the file with the list is renamed into its place. A foreign file, or one that
//! differs from the list, is an error at start: nothing is skipped, nothing is lost.

mod counter;
mod directory;
mod list;
mod seal;

use super::Acl;
use crate::config::KeysConfig;
use crate::spec::Secret;
use counter::Counter;
use directory::{Directory, Disk, System, beside};
use list::{List, Present, file_of};
use seal::{COST, Cost, MAX_FILE, MAX_MASTER, Master, Unsealing};
use std::fmt;
use std::io;
use std::path::Path;

const MASTER: &str = "master";

/// An uncertainty about a change that was made.
pub(super) type VaultWarning = Option<String>;

pub(super) struct Vault {
    /// Open and locked as long as the service runs.
    directory: Directory,
    master: Master,
    /// Present content of the master key's file.
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
    pub(super) acl: Acl,
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
    /// Opens a directory and all keys in it. A missing directory is made.
    pub(super) fn open(path: &Path, config: &KeysConfig, passphrase: &Secret) -> Result<(Self, Vec<Found>), String> {
        Self::open_on(path, config, passphrase, COST, Box::new(System))
    }

    fn open_on(
        path: &Path,
        config: &KeysConfig,
        passphrase: &Secret,
        cost: Cost,
        disk: Box<dyn Disk>,
    ) -> Result<(Self, Vec<Found>), String> {
        let directory = Directory::open_alone(path, disk).map_err(|what| format!("{}: {what}", path.display()))?;
        let counter = config.changes_file.as_deref().map(Counter::at).transpose()?;
        let at = |what: &str| directory.at(MASTER, what);
        let read = directory.read(MASTER, MAX_MASTER).map_err(|what| at(&what))?;
        // Before the other files are checked: in another version they have other names.
        read.as_deref().map_or(Ok(()), Master::check_version).map_err(|why| at(&master_error(&why)))?;
        let present = Present::of(&directory)?;
        let file = match read {
            Some(file) => file,
            None if present.placed.is_empty() => return Self::create(directory, counter, passphrase, cost),
            None => {
                let keys = present.placed.len();
                return Err(at(&format!("it is missing, and without it {keys} keys stay sealed: restore it")));
            }
        };
        let (master, list) = Master::open(passphrase, &file).map_err(|why| at(&master_error(&why)))?;
        counter.as_ref().map_or(Ok(()), |counter| counter.check(list.changes)).map_err(|what| directory.here(&what))?;
        let missing = present.compare(&directory, &list, &config.accept_missing)?;
        let mut vault = Self { directory, master, file, last: list.changes, list, counter, cost };
        present.tidy(&vault.directory, &vault.list)?;
        vault.list.void.clear();
        for name in missing {
            // At start no uncertainty is accepted.
            let forgotten = vault.delete(&name).and_then(|doubt| doubt.map_or(Ok(()), Err));
            forgotten.map_err(|what| vault.directory.here(&what))?;
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
    ) -> Result<(Self, Vec<Found>), String> {
        counter.as_ref().map_or(Ok(()), |counter| counter.check(0)).map_err(|what| directory.here(&what))?;
        let at = |what: &str| directory.at(MASTER, what);
        let list = List::default();
        let made = Master::create(passphrase, cost).and_then(|master| Ok((master.file(&list)?, master)));
        let (file, master) = made.map_err(|why| at(&master_error(&why)))?;
        let written = directory.write_beside(MASTER, &file).and_then(|()| directory.place(MASTER));
        written.and_then(|()| directory.sync()).map_err(|error| at(&error.to_string()))?;
        let vault = Self { directory, master, file, list, last: 0, counter, cost };
        vault.count()?;
        Ok((vault, Vec::new()))
    }

    pub(super) fn changes(&self) -> u64 {
        self.list.changes
    }

    /// Writes a key and replaces an earlier one of this name.
    pub(super) fn write(&mut self, name: &str, acl: &Acl, pkcs8: &Secret) -> Result<VaultWarning, String> {
        let number = self.number();
        let sealed = self.master.seal(name, number, acl, pkcs8).map_err(|_| unsealed())?;
        let file = file_of(name, number);
        self.stage(&file, &sealed)?;
        self.change(None, self.list.with(name, number), &[file])
    }

    pub(super) fn delete(&mut self, name: &str) -> Result<VaultWarning, String> {
        let number = self.number();
        self.change(None, self.list.without(name, number), &[])
    }

    /// Seals all keys again, under a new master key and this passphrase.
    pub(super) fn change_passphrase(&mut self, passphrase: &Secret) -> Result<VaultWarning, String> {
        let number = self.number();
        let master = Master::create(passphrase, self.cost).map_err(|_| unsealed())?;
        let mut staged = Vec::new();
        for name in self.list.keys.keys() {
            let file = file_of(name, number);
            let written = self.read(name).and_then(|Found { acl, pkcs8, .. }| {
                let sealed = master.seal(name, number, &acl, &pkcs8).map_err(|_| unsealed())?;
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

    /// Writes a new file under its temporary name.
    fn stage(&self, file: &str, bytes: &[u8]) -> Result<(), String> {
        self.directory.write_beside(file, bytes).map_err(|error| {
            self.discard(&[file.to_owned()]);
            self.directory.at(file, &unchanged(&error))
        })
    }

    /// Removes files with temporary names. After a failure the next start does it.
    fn discard(&self, staged: &[String]) {
        for file in staged {
            let _ = self.directory.remove(&beside(file));
        }
    }

    /// Makes another list the valid one, and perhaps another master key. The list's new files have temporary names
    /// until then.
    fn change(&mut self, master: Option<Master>, list: List, staged: &[String]) -> Result<VaultWarning, String> {
        let file = master.as_ref().unwrap_or(&self.master).file(&list).ok().filter(|file| file.len() <= MAX_MASTER);
        let Some(file) = file else {
            self.discard(staged);
            return Err(unsealed());
        };
        let failed = match self.switch(&file) {
            Ok(()) => None,
            Err(Failed::Undone(error)) => {
                self.discard(staged);
                self.discard(&[MASTER.to_owned()]);
                return Err(self.directory.at(MASTER, &unchanged(&error)));
            }
            Err(Failed::Unsure(error)) => return Err(self.directory.at(MASTER, &unsure(&error))),
            Err(Failed::Done(error)) => Some(error),
        };
        (self.list, self.file) = (list, file);
        if let Some(master) = master {
            self.master = master;
        }
        if let Some(error) = failed {
            // The files of the old list stay as well: the disk may have either list.
            return Ok(Some(self.directory.at(MASTER, &not_undone(&error))));
        }
        let counted = self.count();
        let settled = self.settle(staged).map_err(|error| self.directory.here(&unsettled(&error)));
        Ok(settled.and(counted).err())
    }

    /// Replaces the list, or restores the old one.
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

    /// Writes the number of the last change to its file outside the directory.
    fn count(&self) -> Result<(), String> {
        let Some(counter) = &self.counter else { return Ok(()) };
        if counter.read() == Ok(Some(self.list.changes)) {
            return Ok(());
        }
        counter.write(self.list.changes).map_err(|what| format!("the number of the change was not noted: {what}"))
    }

    fn read(&self, name: &str) -> Result<Found, String> {
        let number = self.list.keys.get(name).copied().unwrap_or_default();
        let file = file_of(name, number);
        let at = |what: &str| self.directory.at(&file, what);
        let placed = self.directory.read(&file, MAX_FILE).map_err(|what| at(&what))?;
        let sealed = match placed {
            Some(sealed) => sealed,
            // A change could not rename it to its place.
            None => self.directory.read(&beside(&file), MAX_FILE)?.ok_or_else(|| at("it is gone: restore it"))?,
        };
        let opened = self.master.open_key(name, number, &sealed);
        let (acl, pkcs8) = opened.map_err(|why| at(&key_error(&why)))?;
        Ok(Found { name: name.to_owned(), acl, pkcs8 })
    }
}

fn unsealed() -> String {
    "the system gave no random numbers or no memory: nothing was changed; try again".to_owned()
}

fn unchanged(error: &io::Error) -> String {
    format!("{error}: nothing was changed")
}

fn unsure(error: &io::Error) -> String {
    format!(
        "{error}: the change was taken back, but the disk confirms neither: after a power failure it may be there; see \
         to the disk, and look with `sidecore keys list` after the next start"
    )
}

fn not_undone(error: &io::Error) -> String {
    format!(
        "{error}: the change was made and could not be taken back, but the disk does not confirm it: after a power \
         failure the old state may be there; see to the disk, then make the change again"
    )
}

fn unsettled(error: &io::Error) -> String {
    format!("the change was made, but an old file could not be removed ({error}): the next change or start does it")
}

fn master_error(why: &Unsealing) -> String {
    match why {
        Unsealing::Passphrase => "the passphrase is not the one that it was sealed with: give that one",
        Unsealing::Version => {
            "it is of another version of sidecore, which this one does not read: use that one, or name another directory \
             in keys.directory and import the keys there"
        }
        Unsealing::System => "the system gave no random numbers or no memory: try again",
        Unsealing::Foreign | Unsealing::Name(_) | Unsealing::Number(_) => {
            "it is no master key of sidecore: move it away, or restore it"
        }
        Unsealing::Damaged => "it is damaged: restore it from a backup",
    }
    .to_owned()
}

fn key_error(why: &Unsealing) -> String {
    match why {
        Unsealing::Name(name) => format!("it holds the key {name:?}: files of keys must not be renamed; name it back"),
        Unsealing::Number(number) => {
            format!("it is the file of change {number}: files of keys must not be renamed; restore the right one")
        }
        Unsealing::Version => "it is of another version of sidecore: use that one".to_owned(),
        Unsealing::Foreign => "it is no key of sidecore: move it away".to_owned(),
        _ => "it is damaged, or of another master key: restore it from a backup, or move it away".to_owned(),
    }
}

#[cfg(test)]
pub(super) mod tests;
