//! A directory whose files are replaced as a whole: written under a temporary name, flushed to the disk, renamed.

use super::error::{VaultError, VaultErrorKind};
use rustix::fs::{
    AtFlags, Dir, FileType, FlockOperation, Mode, OFlags, flock, fstat, fsync, openat, renameat, unlinkat,
};
use rustix::io::Errno;
use sidecore_daemon::sys::directory::{make, missing};
use std::fmt::Debug;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

pub(super) const BESIDE: &str = ".tmp";

/// The steps of changes to files. Each of them may fail, and tests make each fail.
pub(super) trait Disk: Debug + Send {
    fn write(&self, directory: &OwnedFd, file: &str, bytes: &[u8]) -> io::Result<File> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut opened = File::from(openat(directory, file, flags, Mode::RUSR | Mode::WUSR)?);
        opened.write_all(bytes)?;
        Ok(opened)
    }

    fn sync_file(&self, file: &File) -> io::Result<()> {
        file.sync_all()
    }

    fn sync(&self, directory: &OwnedFd) -> io::Result<()> {
        Ok(fsync(directory)?)
    }

    fn rename(&self, directory: &OwnedFd, from: &str, to: &str) -> io::Result<()> {
        Ok(renameat(directory, from, directory, to)?)
    }

    fn remove(&self, directory: &OwnedFd, file: &str) -> io::Result<()> {
        Ok(unlinkat(directory, file, AtFlags::empty())?)
    }
}

#[derive(Debug)]
pub(super) struct System;

impl Disk for System {}

#[derive(Debug)]
pub(super) struct Directory {
    path: PathBuf,
    descriptor: OwnedFd,
    disk: Box<dyn Disk>,
}

impl Directory {
    pub(super) fn open(path: &Path, disk: Box<dyn Disk>) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let descriptor = rustix::fs::open(path, flags, Mode::empty())?;
        Ok(Self { path: path.to_owned(), descriptor, disk })
    }

    /// Opens it, with a lock for as long as this service runs. A missing directory is made.
    pub(super) fn open_alone(path: &Path, disk: Box<dyn Disk>) -> Result<Self, VaultErrorKind> {
        if path.exists() && !path.is_dir() {
            return Err(VaultErrorKind::NoDirectory);
        }
        for missing in missing(path) {
            make(&missing, 0o700, |around| disk.sync(around))?;
        }
        let directory = Self::open(path, disk)?;
        let mode = fstat(&directory.descriptor).map_err(io::Error::from)?.st_mode & 0o777;
        if mode & 0o077 != 0 {
            return Err(VaultErrorKind::OpenDirectory(mode));
        }
        if directory.lock()? { Ok(directory) } else { Err(VaultErrorKind::Taken) }
    }

    /// Locks it. `false`: another process has the lock.
    pub(super) fn lock(&self) -> io::Result<bool> {
        match flock(&self.descriptor, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(true),
            Err(Errno::WOULDBLOCK) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    pub(super) fn unlock(&self) -> io::Result<()> {
        Ok(flock(&self.descriptor, FlockOperation::Unlock)?)
    }

    pub(super) fn at(&self, file: &str, what: impl Into<VaultErrorKind>) -> VaultError {
        VaultError::At { path: self.path_of(file), what: what.into() }
    }

    pub(super) fn here(&self, what: impl Into<VaultErrorKind>) -> VaultError {
        VaultError::At { path: self.path.clone(), what: what.into() }
    }

    pub(super) fn path_of(&self, file: &str) -> PathBuf {
        self.path.join(file)
    }

    pub(super) fn files(&self) -> Result<Vec<String>, VaultError> {
        let system = |error: Errno| self.here(io::Error::from(error));
        let mut files = Vec::new();
        for entry in Dir::read_from(&self.descriptor).map_err(system)? {
            let entry = entry.map_err(system)?;
            let file = entry.file_name().to_string_lossy();
            if ![".", ".."].contains(&&*file) {
                files.push(file.into_owned());
            }
        }
        Ok(files)
    }

    pub(super) fn read(&self, file: &str, most: usize) -> Result<Option<Vec<u8>>, VaultErrorKind> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let opened = match openat(&self.descriptor, file, flags, Mode::empty()) {
            Ok(opened) => opened,
            Err(Errno::NOENT) => return Ok(None),
            Err(Errno::LOOP) => return Err(VaultErrorKind::Link),
            Err(error) => return Err(io::Error::from(error).into()),
        };
        let found = fstat(&opened).map_err(io::Error::from)?;
        if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
            return Err(VaultErrorKind::NoFile);
        }
        if found.st_mode & 0o077 != 0 {
            return Err(VaultErrorKind::OpenFile(found.st_mode & 0o777));
        }
        let mut bytes = Vec::new();
        File::from(opened).take(most as u64 + 1).read_to_end(&mut bytes)?;
        if bytes.len() > most {
            return Err(VaultErrorKind::TooLarge(most));
        }
        Ok(Some(bytes))
    }

    pub(super) fn write_beside(&self, file: &str, bytes: &[u8]) -> io::Result<()> {
        let beside = beside(file);
        self.remove(&beside)?;
        let written = self.disk.write(&self.descriptor, &beside, bytes)?;
        self.disk.sync_file(&written)
    }

    pub(super) fn place(&self, file: &str) -> io::Result<()> {
        self.disk.rename(&self.descriptor, &beside(file), file)
    }

    pub(super) fn remove(&self, file: &str) -> io::Result<()> {
        match self.disk.remove(&self.descriptor, file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other,
        }
    }

    pub(super) fn sync(&self) -> io::Result<()> {
        self.disk.sync(&self.descriptor)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        // A child of this process may have the descriptor until it executes its program.
        let _ = self.unlock();
    }
}

pub(super) fn beside(file: &str) -> String {
    format!("{file}{BESIDE}")
}
