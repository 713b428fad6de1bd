//! Keys at rest: a directory of sealed files, one for each key, and one with the master key that seals them.
//!
//! A change is written beside its place, brought to the disk and renamed, so a file is the old one or the new one. What
//! is in the directory and was not put there by the service is an error at start: nothing is skipped, nothing is lost.

mod seal;

use super::{Acl, check_name};
use crate::engine::crypto::Secret;
use rustix::fs::{
    AtFlags, Dir, FileType, FlockOperation, Mode, OFlags, flock, fstat, fsync, openat, renameat, statat, unlinkat,
};
use rustix::io::Errno;
use seal::{Cost, MAX_FILE, Master, Sealed, Unsealing};
use std::fmt;
use std::fs::{DirBuilder, File};
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

const MASTER: &str = "master";
const SUFFIX: &str = ".key";
/// A file that is being written. One that is found was never reported as written.
const UNFINISHED: &str = ".tmp";

/// The directory of one service.
pub(super) struct Vault {
    path: PathBuf,
    /// Open and locked as long as the service runs.
    directory: OwnedFd,
    master: Master,
}

/// A key as it was found.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) name: String,
    pub(super) acl: Acl,
    pub(super) pkcs8: Secret,
}

impl fmt::Debug for Vault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Vault").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Vault {
    /// Opens a directory and all keys in it. A new one is made.
    pub(super) fn open(path: &Path, passphrase: &Secret) -> Result<(Self, Vec<Found>), String> {
        Self::open_at(path, passphrase, Cost::default())
    }

    fn open_at(path: &Path, passphrase: &Secret, cost: Cost) -> Result<(Self, Vec<Found>), String> {
        let directory = open_directory(path).map_err(|what| format!("{}: {what}", path.display()))?;
        let names = key_names(&directory).map_err(|what| format!("{}: {what}", path.display()))?;
        let at = |file: &str, what: String| format!("{}: {what}", path.join(file).display());
        let master = match read(&directory, MASTER) {
            Ok(Some(file)) => Master::open(passphrase, &file).map_err(|why| at(MASTER, master_error(&why)))?,
            Ok(None) if names.is_empty() => {
                let (master, file) = Master::create(passphrase, cost).map_err(|why| at(MASTER, master_error(&why)))?;
                write(&directory, MASTER, &file).map_err(|what| at(MASTER, what))?;
                master
            }
            Ok(None) => {
                return Err(at(
                    MASTER,
                    format!("it is missing, and without it {} keys stay sealed: restore it", names.len()),
                ));
            }
            Err(what) => return Err(at(MASTER, what)),
        };
        let vault = Self { path: path.to_owned(), directory, master };
        let found = names.into_iter().map(|name| vault.read(name)).collect::<Result<_, _>>()?;
        Ok((vault, found))
    }

    /// Writes a key, in the place of what there was of this name.
    pub(super) fn write(&self, name: &str, acl: &Acl, pkcs8: &Secret) -> Result<(), String> {
        let file = file_of(name);
        let sealed =
            self.master.seal(name, acl, pkcs8).map_err(|_| "the key could not be sealed: try again".to_owned())?;
        write(&self.directory, &file, &sealed).map_err(|what| self.at(&file, &what))
    }

    /// Deletes a key.
    pub(super) fn delete(&self, name: &str) -> Result<(), String> {
        let file = file_of(name);
        let gone = match unlinkat(&self.directory, &file, AtFlags::empty()) {
            // Somebody else was faster: it is gone all the same.
            Err(Errno::NOENT) => Ok(()),
            other => other,
        };
        gone.and_then(|()| fsync(&self.directory)).map_err(|error| self.at(&file, &error.to_string()))
    }

    fn read(&self, name: String) -> Result<Found, String> {
        let file = file_of(&name);
        let at = |what: &str| self.at(&file, what);
        let sealed = read(&self.directory, &file).map_err(|what| at(&what))?.ok_or_else(|| at("it is gone again"))?;
        let Sealed { acl, pkcs8 } = self.master.open_key(&name, &sealed).map_err(|why| at(&key_error(&why)))?;
        Ok(Found { name, acl, pkcs8 })
    }

    fn at(&self, file: &str, what: &str) -> String {
        format!("{}: {what}", self.path.join(file).display())
    }
}

fn file_of(name: &str) -> String {
    format!("{name}{SUFFIX}")
}

fn master_error(why: &Unsealing) -> String {
    match why {
        Unsealing::Passphrase => "the passphrase is not the one that it was sealed with: give that one",
        Unsealing::Version => "it is of another version of sidecore: use that one",
        Unsealing::System => "the system gave no random numbers or no memory: try again",
        Unsealing::Foreign | Unsealing::Name(_) => "it is no master key of sidecore: move it away, or restore it",
        Unsealing::Damaged => "it is damaged: restore it from a backup",
    }
    .to_owned()
}

fn key_error(why: &Unsealing) -> String {
    match why {
        Unsealing::Name(name) => format!("it holds the key {name:?}: files of keys must not be renamed; name it back"),
        Unsealing::Version => "it is of another version of sidecore: use that one".to_owned(),
        Unsealing::Foreign => "it is no key of sidecore: move it away".to_owned(),
        _ => "it is damaged, or of another master key: restore it from a backup, or move it away".to_owned(),
    }
}

/// Opens the directory, which is made if it is not there, for this service alone.
fn open_directory(path: &Path) -> Result<OwnedFd, String> {
    let system = |error: Errno| error.to_string();
    DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(|error| error.to_string())?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory: OwnedFd = rustix::fs::open(path, flags, Mode::empty()).map_err(system)?;
    let mode = fstat(&directory).map_err(system)?.st_mode & 0o777;
    if mode & 0o077 != 0 {
        return Err(format!("others may enter it (mode {mode:o}): chmod 700"));
    }
    match flock(&directory, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(directory),
        Err(Errno::WOULDBLOCK) => Err("another service has it: stop that one, or name another directory".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// The names of the keys in the directory, in order. Unfinished files are removed.
fn key_names(directory: &OwnedFd) -> Result<Vec<String>, String> {
    let system = |error: Errno| error.to_string();
    let mut names = Vec::new();
    for entry in Dir::read_from(directory).map_err(system)? {
        let entry = entry.map_err(system)?;
        let file = entry.file_name().to_str().map_err(|_| foreign(&entry.file_name().to_string_lossy()))?;
        match kind_of(file) {
            Some(Entry::Key(name)) => names.push(name.to_owned()),
            Some(Entry::Unfinished) => unlinkat(directory, file, AtFlags::empty()).map_err(system)?,
            Some(Entry::Known) => {}
            None => return Err(foreign(file)),
        }
    }
    names.sort_unstable();
    Ok(names)
}

enum Entry<'f> {
    Key(&'f str),
    Unfinished,
    Known,
}

/// What a file is by its name; `None`: nothing of the service's.
fn kind_of(file: &str) -> Option<Entry<'_>> {
    if [".", "..", MASTER].contains(&file) {
        return Some(Entry::Known);
    }
    if let Some(finished) = file.strip_suffix(UNFINISHED) {
        return (finished == MASTER || finished.ends_with(SUFFIX)).then_some(Entry::Unfinished);
    }
    file.strip_suffix(SUFFIX).filter(|name| check_name(name).is_ok()).map(Entry::Key)
}

fn foreign(file: &str) -> String {
    format!("{file:?} is none of the service's files: move it to another directory")
}

/// A file's bytes; `None`: there is none.
fn read(directory: &OwnedFd, file: &str) -> Result<Option<Vec<u8>>, String> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let opened = match openat(directory, file, flags, Mode::empty()) {
        Ok(opened) => opened,
        Err(Errno::NOENT) => return Ok(None),
        Err(Errno::LOOP) => return Err("it is a link: put the file itself there".to_owned()),
        Err(error) => return Err(error.to_string()),
    };
    let found = fstat(&opened).map_err(|error| error.to_string())?;
    if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
        return Err("it is no file: move it away".to_owned());
    }
    if found.st_mode & 0o077 != 0 {
        return Err(format!("others may use it (mode {:o}): chmod 600", found.st_mode & 0o777));
    }
    let mut bytes = Vec::new();
    File::from(opened).take(MAX_FILE as u64 + 1).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    if bytes.len() > MAX_FILE {
        return Err(format!("it is larger than {MAX_FILE} bytes, which no file of a key is: move it away"));
    }
    Ok(Some(bytes))
}

/// Writes a file so that there is the old one or the new one, whatever happens.
fn write(directory: &OwnedFd, file: &str, bytes: &[u8]) -> Result<(), String> {
    let unfinished = format!("{file}{UNFINISHED}");
    let written = write_unfinished(directory, &unfinished, bytes)
        .and_then(|()| Ok(renameat(directory, &unfinished, directory, file)?))
        .and_then(|()| Ok(fsync(directory)?));
    written.map_err(|error| {
        // If this fails too, the next start removes it.
        let _ = unlinkat(directory, &unfinished, AtFlags::empty());
        format!("{error}: nothing was changed")
    })
}

fn write_unfinished(directory: &OwnedFd, file: &str, bytes: &[u8]) -> std::io::Result<()> {
    if statat(directory, file, AtFlags::SYMLINK_NOFOLLOW).is_ok() {
        unlinkat(directory, file, AtFlags::empty())?;
    }
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut opened = File::from(openat(directory, file, flags, Mode::RUSR | Mode::WUSR)?);
    opened.write_all(bytes)?;
    opened.sync_all()
}

#[cfg(test)]
mod tests;
