//! The list of the valid key files, which the master key authenticates. It exposes old, missing and restored files.
//! Also the comparison of the directory with the list at start.

use super::directory::{BESIDE, Directory, beside};
use super::error::{VaultError, VaultErrorKind};
use serde::{Deserialize, Serialize};
use sidecore_client::keys::check_name;
use std::collections::{BTreeMap, BTreeSet};

pub(super) const MASTER: &str = "master";
const SUFFIX: &str = ".key";
/// Separates a key's name and the number of the change that wrote its file. Names do not contain it.
const NUMBER: char = '@';

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct List {
    pub(super) changes: u64,
    /// The keys, each with the number of the change that wrote its file.
    pub(super) keys: BTreeMap<String, u64>,
    /// Files that are no longer valid, until they are removed.
    pub(super) void: BTreeSet<String>,
}

impl List {
    pub(super) fn files(&self) -> impl Iterator<Item = String> {
        self.keys.iter().map(|(name, number)| file_of(name, *number))
    }

    pub(super) fn with(&self, name: &str, number: u64) -> Self {
        let mut next = self.without(name, number);
        next.keys.insert(name.to_owned(), number);
        next
    }

    pub(super) fn without(&self, name: &str, number: u64) -> Self {
        let mut next = Self { changes: number, ..self.clone() };
        if let Some(old) = next.keys.remove(name) {
            next.void.insert(file_of(name, old));
        }
        next
    }

    pub(super) fn renewed(&self, number: u64) -> Self {
        let keys = self.keys.keys().map(|name| (name.clone(), number)).collect();
        Self { changes: number, keys, void: self.void.iter().cloned().chain(self.files()).collect() }
    }
}

pub(super) fn file_of(name: &str, number: u64) -> String {
    format!("{name}{NUMBER}{number}{SUFFIX}")
}

pub(super) fn key_of(file: &str) -> Option<(&str, u64)> {
    let (name, number) = file.strip_suffix(SUFFIX)?.split_once(NUMBER)?;
    // The first change has number 1.
    let number = number.parse().ok().filter(|number| *number > 0)?;
    (check_name(name).is_ok() && file_of(name, number) == file).then_some((name, number))
}

#[derive(Debug, Default)]
pub(super) struct Present {
    pub(super) placed: BTreeSet<String>,
    beside: BTreeSet<String>,
}

impl Present {
    pub(super) fn of(directory: &Directory) -> Result<Self, VaultError> {
        let mut present = Self::default();
        for file in directory.files()? {
            let stem = file.strip_suffix(BESIDE);
            if key_of(&file).is_some() {
                present.placed.insert(file);
            } else if let Some(stem) = stem.filter(|stem| *stem == MASTER || key_of(stem).is_some()) {
                present.beside.insert(stem.to_owned());
            } else if file != MASTER {
                return Err(directory.here(VaultErrorKind::Foreign(file)));
            }
        }
        Ok(present)
    }

    pub(super) fn compare(
        &self,
        directory: &Directory,
        list: &List,
        accepted: &[String],
    ) -> Result<Vec<String>, VaultError> {
        let listed: BTreeSet<String> = list.files().collect();
        let unknown = self.placed.iter().find(|file| !listed.contains(*file) && !list.void.contains(*file));
        if let Some(file) = unknown {
            return Err(directory.at(file, unlisted(file, list.changes)));
        }
        let is_there = |file: &String| self.placed.contains(file) || self.beside.contains(file);
        let missing = list.keys.iter().filter(|(name, number)| !is_there(&file_of(name, **number)));
        let missing: Vec<(&String, &u64)> = missing.collect();
        if let Some((name, number)) = missing.iter().find(|(name, _)| !accepted.contains(name)) {
            return Err(directory.at(&file_of(name, **number), VaultErrorKind::Missing((*name).clone())));
        }
        Ok(missing.into_iter().map(|(name, _)| name.clone()).collect())
    }

    /// Completes an interrupted change.
    pub(super) fn tidy(&self, directory: &Directory, list: &List) -> Result<(), VaultError> {
        let listed: BTreeSet<String> = list.files().collect();
        for file in &self.beside {
            let counts = listed.contains(file) && !self.placed.contains(file);
            let done = if counts { directory.place(file) } else { directory.remove(&beside(file)) };
            done.map_err(|error| directory.at(&beside(file), error))?;
        }
        let void = list.void.iter().filter(|file| self.placed.contains(*file));
        for file in void.clone() {
            directory.remove(file).map_err(|error| directory.at(file, error))?;
        }
        if self.beside.is_empty() && void.count() == 0 {
            return Ok(());
        }
        directory.sync().map_err(|error| directory.here(error))
    }
}

fn unlisted(file: &str, changes: u64) -> VaultErrorKind {
    if key_of(file).is_some_and(|(_, number)| number > changes) {
        VaultErrorKind::Newer(changes)
    } else {
        VaultErrorKind::Older(changes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_have_one_spelling() {
        for (name, number) in [("www", 1), ("a.key", 7), ("a.b", u64::MAX)] {
            assert_eq!(key_of(&file_of(name, number)), Some((name, number)));
        }
        for file in
            ["www", "www.key", "www@.key", "www@0.key", "www@01.key", "www@+1.key", "www@1@2.key", "@1.key", "-w@1.key"]
        {
            assert_eq!(key_of(file), None, "{file}");
        }
    }
}
