//! The number of the last change of a directory of keys, in a file outside it. A restored old copy of the directory
//! does not restore this number.

use super::directory::{Directory, System};
use std::path::{Path, PathBuf};

/// Longest file, bytes: a number and a line end.
const MAX_FILE_BYTES: usize = 32;

#[derive(Debug)]
pub(super) struct Counter {
    directory: Directory,
    file: String,
}

impl Counter {
    /// The file at this path, which need not exist. Its directory must.
    pub(super) fn at(path: &Path) -> Result<Self, String> {
        let wrong = |what: &str| format!("keys.changes_file {}: {what}", path.display());
        let file = path.file_name().and_then(|name| name.to_str()).ok_or_else(|| wrong("name a file"))?.to_owned();
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let parent = parent.map_or_else(|| PathBuf::from("."), Path::to_owned);
        let directory = Directory::open(&parent, Box::new(System))
            .map_err(|error| wrong(&format!("its directory cannot be opened: {error}")))?;
        Ok(Self { directory, file })
    }

    /// The number; `None`: there is no file.
    pub(super) fn read(&self) -> Result<Option<u64>, String> {
        let wrong = |what: &str| self.directory.at(&self.file, what);
        let Some(bytes) = self.directory.read(&self.file, MAX_FILE_BYTES).map_err(|what| wrong(&what))? else {
            return Ok(None);
        };
        let number = std::str::from_utf8(&bytes).ok().and_then(|text| text.trim_end().parse().ok());
        number.map(Some).ok_or_else(|| wrong("it holds no number: restore it, or remove it to go on without"))
    }

    pub(super) fn write(&self, number: u64) -> Result<(), String> {
        let written = self.directory.write_beside(&self.file, format!("{number}\n").as_bytes());
        let written = written.and_then(|()| self.directory.place(&self.file)).and_then(|()| self.directory.sync());
        written.map_err(|error| self.directory.at(&self.file, &error.to_string()))
    }

    /// Refuses a directory of keys with an older number.
    pub(super) fn check(&self, changes: u64) -> Result<(), String> {
        let Some(known) = self.read()?.filter(|known| *known > changes) else { return Ok(()) };
        let this = self.directory.at(&self.file, "");
        let this = this.trim_end_matches(": ");
        Err(format!(
            "this is an old copy, of change {changes}: {this} knows of change {known}. Restore the newest copy; to use \
             this one all the same, with its old keys and users, remove {this} and start again"
        ))
    }
}
