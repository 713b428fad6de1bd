//! Making the counter file: complete under another name first, then in place of the old one at once.

use rustix::fs::{FallocateFlags, Mode, OFlags, fallocate, fchmod, ftruncate, open, rename, unlink};
use rustix::io::Errno;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// Everybody may read it, the service alone writes.
const MODE: Mode = Mode::from_raw_mode(0o644);

/// A file that is not yet in its place. Removed when dropped before that.
#[derive(Debug)]
pub(super) struct Draft {
    path: PathBuf,
    pub(super) file: OwnedFd,
}

impl Draft {
    /// An empty file beside `target`, of so many bytes that take no space yet.
    pub(super) fn new(target: &Path, bytes: usize) -> io::Result<Self> {
        let path = beside(target);
        // What a service with the same process id left behind when it died right here.
        let _ = unlink(&path);
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::CLOEXEC;
        let draft = Self { file: open(&path, flags, MODE)?, path };
        // The process's umask must not hide it from those who only read.
        fchmod(&draft.file, MODE)?;
        ftruncate(&draft.file, bytes as u64)?;
        Ok(draft)
    }

    /// Puts the file in its place and returns it.
    pub(super) fn publish(self, target: &Path) -> io::Result<OwnedFd> {
        rename(&self.path, target)?;
        self.file.try_clone()
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        // After `publish` there is nothing under this name.
        let _ = unlink(&self.path);
    }
}

/// Sets space aside for a part of the file: to store into a hole kills the process where the file system is full.
pub(super) fn reserve(file: &OwnedFd, offset: usize, bytes: usize) -> io::Result<()> {
    match fallocate(file, FallocateFlags::empty(), offset as u64, bytes as u64) {
        // A file system that cannot reserve is used as it is.
        Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn beside(target: &Path) -> PathBuf {
    let mut path = target.as_os_str().to_owned();
    path.push(format!(".{}.new", std::process::id()));
    path.into()
}
