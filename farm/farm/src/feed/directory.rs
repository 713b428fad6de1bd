//! Events from a directory, one for each file.

use super::error::InputError;
use super::input::{Found, InvalidInput};
use super::place::{self, Mark};
use crate::error::FarmError;
use crate::ids::{self, Ids};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use tokio::io::AsyncReadExt;
use tokio::sync::mpsc::Sender;

/// Most names in one directory: they are sorted in memory.
const MAX_NAMES: usize = 1 << 20;
const DEEPEST: usize = 64;

pub(super) struct Directory {
    root: PathBuf,
    limit: usize,
    ids: Ids,
    behind: Option<PathBuf>,
    number: u64,
    /// Files that are done, or share their name with one.
    passed: u64,
}

enum Entry {
    File(PathBuf),
    Directory(PathBuf),
    Other(PathBuf, &'static str),
}

impl Directory {
    pub(super) fn open(root: &Path, limit: usize, ids: Ids) -> Result<Self, FarmError> {
        if root.is_dir() {
            return Ok(Self { root: root.to_owned(), limit, ids, behind: None, number: 0, passed: 0 });
        }
        Err(InputError::NoDirectory(root.to_owned()).into())
    }

    pub(super) fn place(&self) -> Result<String, FarmError> {
        place::named("the directory", &self.root)
    }

    pub(super) fn go_on_from(self, mark: &Mark) -> Self {
        Self { behind: mark.path.as_deref().and_then(ids::unescaped), number: mark.number, ..self }
    }

    /// Reads all files in the order of their names. A subdirectory's files come in its place.
    pub(super) async fn run(mut self, give: Sender<Found>) -> Result<(), FarmError> {
        // Each list is reversed: the next entry is the last.
        let mut open = vec![self.names(Path::new(""))?];
        let done = self.number;
        while let Some(names) = open.last_mut() {
            let Some(entry) = names.pop() else {
                open.pop();
                continue;
            };
            let found = match entry {
                Entry::Directory(path) if open.len() < DEEPEST => {
                    let below = self.names(&path)?;
                    open.push(below);
                    continue;
                }
                Entry::Directory(path) => self.refused(&path, "directories are too deep here"),
                Entry::Other(path, why) => self.refused(&path, why),
                Entry::File(path) if self.is_done(&path) => {
                    self.passed += 1;
                    continue;
                }
                Entry::File(path) => self.file(&path).await,
            };
            if give.send(found).await.is_err() {
                return Ok(());
            }
        }
        match self.passed.saturating_sub(done) {
            0 => Ok(()),
            new => Err(InputError::NewFiles { new, root: self.root }.into()),
        }
    }

    fn names(&self, below: &Path) -> Result<Vec<Entry>, FarmError> {
        let whole = self.root.join(below);
        let cannot = |error| FarmError::file("cannot read the directory", &whole)(error);
        let mut entries: Vec<(OsString, Entry)> = Vec::new();
        for entry in fs::read_dir(&whole).map_err(cannot)? {
            let entry = entry.map_err(cannot)?;
            let (name, path) = (entry.file_name(), below.join(entry.file_name()));
            let kind = entry.file_type().map_err(cannot)?;
            let entry = match (kind.is_file(), kind.is_dir(), kind.is_symlink()) {
                (true, ..) => Entry::File(path),
                (_, true, _) => Entry::Directory(path),
                (.., true) => Entry::Other(path, "it is a symbolic link, which is not followed"),
                _ => Entry::Other(path, "it is no file"),
            };
            if entries.len() == MAX_NAMES {
                return Err(InputError::TooManyNames { path: whole, most: MAX_NAMES }.into());
            }
            entries.push((name, entry));
        }
        entries.sort_by(|one, other| other.0.cmp(&one.0));
        Ok(entries.into_iter().map(|(_, entry)| entry).collect())
    }

    fn is_done(&self, path: &Path) -> bool {
        self.behind.as_ref().is_some_and(|behind| path <= behind.as_path())
    }

    async fn file(&mut self, path: &Path) -> Found {
        let body = content(&self.root.join(path), self.limit).await;
        self.number += 1;
        let after = Mark { number: self.number, offset: 0, path: Some(ids::escaped(path)) };
        Found { id: self.ids.path(path), name: Some(shown(path)), body, after: Some(after), asker: None }
    }

    fn refused(&self, path: &Path, why: &'static str) -> Found {
        let body = Err(InvalidInput::NoFile(why));
        Found { id: self.ids.path(path), name: Some(shown(path)), body, after: None, asker: None }
    }
}

async fn content(path: &Path, limit: usize) -> Result<bytes::Bytes, InvalidInput> {
    let file = tokio::fs::File::open(path).await?;
    let len = file.metadata().await?.len();
    if len > limit as u64 {
        return Err(InvalidInput::TooLarge(len, limit));
    }
    let mut body = Vec::with_capacity(usize::try_from(len).unwrap_or(limit));
    // The file may grow meanwhile.
    file.take(limit as u64 + 1).read_to_end(&mut body).await?;
    if body.len() > limit { Err(InvalidInput::TooLarge(body.len() as u64, limit)) } else { Ok(body.into()) }
}

/// A path for display: a name may hold control characters of a terminal.
fn shown(path: &Path) -> String {
    path.to_string_lossy().escape_debug().to_string()
}
