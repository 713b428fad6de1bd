//! Which files are the keys: what the master key vouches for, so that an old file, a missing one and one that was brought
//! back are told from the present ones.

use super::super::check_name;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

const SUFFIX: &str = ".key";
/// Between a key's name and the number of the change that wrote its file. No name has it.
const NUMBER: char = '@';

/// The list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct List {
    /// The number of the last change of the directory.
    pub(super) changes: u64,
    /// The keys, each with the number of the change that wrote its file.
    pub(super) keys: BTreeMap<String, u64>,
    /// Files that are no longer those of keys, until they are removed.
    pub(super) void: BTreeSet<String>,
}

impl List {
    /// The files of the keys.
    pub(super) fn files(&self) -> impl Iterator<Item = String> {
        self.keys.iter().map(|(name, number)| file_of(name, *number))
    }

    /// The list after the change of this number wrote a file of the key.
    pub(super) fn with(&self, name: &str, number: u64) -> Self {
        let mut next = self.without(name, number);
        next.keys.insert(name.to_owned(), number);
        next
    }

    /// The list after the change of this number took the key away.
    pub(super) fn without(&self, name: &str, number: u64) -> Self {
        let mut next = Self { changes: number, ..self.clone() };
        if let Some(old) = next.keys.remove(name) {
            next.void.insert(file_of(name, old));
        }
        next
    }

    /// The list after the change of this number wrote files of all keys.
    pub(super) fn renewed(&self, number: u64) -> Self {
        let keys = self.keys.keys().map(|name| (name.clone(), number)).collect();
        Self { changes: number, keys, void: self.void.iter().cloned().chain(self.files()).collect() }
    }
}

/// The file of a key that the change of this number wrote.
pub(super) fn file_of(name: &str, number: u64) -> String {
    format!("{name}{NUMBER}{number}{SUFFIX}")
}

/// Name and number of a key's file; `None`: it is none.
pub(super) fn key_of(file: &str) -> Option<(&str, u64)> {
    let (name, number) = file.strip_suffix(SUFFIX)?.split_once(NUMBER)?;
    let number = number.parse().ok()?;
    (check_name(name).is_ok() && file_of(name, number) == file).then_some((name, number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_have_one_spelling() {
        for (name, number) in [("www", 1), ("a.key", 7), ("a.b", u64::MAX)] {
            assert_eq!(key_of(&file_of(name, number)), Some((name, number)));
        }
        for file in ["www", "www.key", "www@.key", "www@01.key", "www@+1.key", "www@1@2.key", "@1.key", "-w@1.key"] {
            assert_eq!(key_of(file), None, "{file}");
        }
    }
}
