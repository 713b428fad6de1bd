//! The number of the last change of a directory of keys, in a file outside it. A restored old copy of the directory
//! does not restore this number.

use super::directory::{Directory, System};
use super::error::{VaultError, VaultErrorKind};
use std::path::{Path, PathBuf};

/// Longest file, bytes: a number and a line end.
const MAX_FILE_BYTES: usize = 32;

#[derive(Debug)]
pub(super) struct Counter {
    directory: Directory,
    file: String,
}

impl Counter {
    pub(super) fn at(path: &Path) -> Result<Self, VaultError> {
        let wrong = |what| VaultError::ChangesFile { path: path.to_owned(), what };
        let file = path.file_name().and_then(|name| name.to_str());
        let file = file.ok_or_else(|| wrong(VaultErrorKind::NoName))?.to_owned();
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let parent = parent.map_or_else(|| PathBuf::from("."), Path::to_owned);
        let directory = Directory::open(&parent, Box::new(System));
        Ok(Self { directory: directory.map_err(|error| wrong(VaultErrorKind::Around(error)))?, file })
    }

    pub(super) fn read(&self) -> Result<Option<u64>, VaultError> {
        let wrong = |what| self.directory.at(&self.file, what);
        let Some(bytes) = self.directory.read(&self.file, MAX_FILE_BYTES).map_err(wrong)? else { return Ok(None) };
        let number = std::str::from_utf8(&bytes).ok().and_then(|text| text.trim_end().parse().ok());
        number.map(Some).ok_or_else(|| wrong(VaultErrorKind::NoNumber))
    }

    pub(super) fn write(&self, number: u64) -> Result<(), VaultError> {
        let written = self.directory.write_beside(&self.file, format!("{number}\n").as_bytes());
        let written = written.and_then(|()| self.directory.place(&self.file)).and_then(|()| self.directory.sync());
        written.map_err(|error| self.directory.at(&self.file, error))
    }

    pub(super) fn check(&self, changes: u64) -> Result<(), VaultErrorKind> {
        let known = self.read().map_err(|error| VaultErrorKind::Nested(Box::new(error)))?;
        match known {
            Some(known) if known > changes => {
                Err(VaultErrorKind::OldCopy { changes, counter: self.directory.path_of(&self.file), known })
            }
            _ => Ok(()),
        }
    }
}
