//! Directories made to survive a loss of power.

use rustix::fs::{Mode, OFlags, open};
use std::fs::DirBuilder;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// The directories on the way to this one that are not there, from outside in.
pub fn missing(directory: &Path) -> Vec<PathBuf> {
    let exists = |path: &&Path| !path.as_os_str().is_empty() && !path.exists();
    let mut missing: Vec<PathBuf> = directory.ancestors().take_while(exists).map(Path::to_owned).collect();
    missing.reverse();
    missing
}

/// The directory that the file is in.
pub fn parent(path: &Path) -> PathBuf {
    match path.parent() {
        Some(directory) if !directory.as_os_str().is_empty() => directory.to_owned(),
        _ => PathBuf::from("."),
    }
}

/// Makes a directory, and flushes its parent to the disk by `sync`: otherwise its files would be lost with it.
///
/// # Errors
/// Those of the system.
pub fn make(directory: &Path, mode: u32, sync: impl Fn(&OwnedFd) -> io::Result<()>) -> io::Result<()> {
    DirBuilder::new().mode(mode).create(directory)?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    sync(&open(parent(directory), flags, Mode::empty())?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::fs;

    #[test]
    fn missing_directories_are_found_from_outside_in() {
        let scratch = tempfile::tempdir().unwrap();
        let (outer, inner) = (scratch.path().join("a"), scratch.path().join("a/b"));
        assert_eq!(missing(&inner), [outer, inner.clone()]);
        fs::create_dir_all(&inner).unwrap();
        assert!(missing(&inner).is_empty());
        assert!(missing(Path::new(".")).is_empty());
    }

    #[test]
    fn the_directory_around_a_new_one_is_brought_to_the_disk() {
        let scratch = tempfile::tempdir().unwrap();
        let synced = Cell::new(0);
        make(&scratch.path().join("a"), 0o700, |directory| {
            synced.set(rustix::fs::fstat(directory)?.st_ino);
            Ok(())
        })
        .unwrap();
        assert_eq!(synced.get(), std::os::unix::fs::MetadataExt::ino(&fs::metadata(scratch.path()).unwrap()));
    }
}
