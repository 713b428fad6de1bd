//! Results as files of one directory. Other users may create files and links there: no link is followed.

use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, Mode, OFlags, open, openat, renameat, unlinkat};
use rustix::io::Errno;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

const TRIES: usize = 8;

pub(in crate::results) struct Directory {
    path: PathBuf,
    descriptor: OwnedFd,
}

impl Directory {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        fs::create_dir_all(path)?;
        let descriptor = open(path, OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        Ok(Self { path: path.to_owned(), descriptor })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Writes a result. Its file appears whole or not at all.
    pub(super) fn put(&self, id: &str, result: &[u8]) -> io::Result<()> {
        let (part, whole) = (format!(".{id}.part"), file_name(id));
        for _ in 0..TRIES {
            match self.try_put(&part, &whole, result) {
                // A file of a killed taker, or of another program: its name is removed, and a link's target stays.
                Err(error) if is(&error, Errno::EXIST) => self.remove(&part)?,
                Err(error) if is(&error, Errno::NOENT) => {}
                done => return done,
            }
        }
        Err(io::Error::other(format!("the directory is gone, or another process makes and removes {part} there")))
    }

    fn try_put(&self, part: &str, whole: &str, result: &[u8]) -> io::Result<()> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(&self.descriptor, part, flags, Mode::from_raw_mode(0o666))?;
        if let Err(error) = File::from(file).write_all(result) {
            // The first error is the important one.
            drop(self.remove(part));
            return Err(error);
        }
        Ok(renameat(&self.descriptor, part, &self.descriptor, whole)?)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        match unlinkat(&self.descriptor, name, AtFlags::empty()) {
            Err(Errno::NOENT) => Ok(()),
            removed => Ok(removed?),
        }
    }
}

/// The file name of a result. An id that looks like an option has `%2D` as its first character; ids have no `%`.
fn file_name(id: &str) -> String {
    id.strip_prefix('-').map_or_else(|| id.to_owned(), |rest| format!("%2D{rest}"))
}

fn is(error: &io::Error, errno: Errno) -> bool {
    error.raw_os_error() == Some(errno.raw_os_error())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn no_link_is_written_through_and_what_is_in_the_way_is_replaced() {
        let scratch = tempfile::tempdir().unwrap();
        let (to, victim) = (scratch.path().join("to"), scratch.path().join("victim"));
        let directory = Directory::open(&to).unwrap();
        fs::write(&victim, "mine").unwrap();
        for name in [".f-1.part", "f-1"] {
            symlink(&victim, to.join(name)).unwrap();
        }
        fs::write(to.join(".f-2.part"), "half of it, and longer than the result").unwrap();
        symlink(scratch.path().join("new"), to.join(".f-3.part")).unwrap();
        for id in ["f-1", "f-2", "f-3"] {
            directory.put(id, b"result").unwrap();
            assert!(to.join(id).symlink_metadata().unwrap().is_file());
            assert_eq!(fs::read_to_string(to.join(id)).unwrap(), "result");
        }
        assert_eq!(fs::read_to_string(&victim).unwrap(), "mine");
        assert!(!scratch.path().join("new").exists());
        assert_eq!(fs::read_dir(&to).unwrap().count(), 3);
    }

    #[test]
    fn a_directory_that_is_moved_away_gets_its_results_all_the_same() {
        let scratch = tempfile::tempdir().unwrap();
        let (to, moved) = (scratch.path().join("to"), scratch.path().join("moved"));
        let directory = Directory::open(&to).unwrap();
        fs::rename(&to, &moved).unwrap();
        symlink("/", &to).unwrap();
        directory.put("f-1", b"result").unwrap();
        assert!(moved.join("f-1").exists());
    }

    #[test]
    fn each_id_has_a_file_name_of_its_own_that_is_no_option() {
        let ids = ["-rf", "--", "-", "f-1", "2Drf", "_2drf"];
        let names: std::collections::BTreeSet<_> = ids.iter().map(|id| file_name(id)).collect();
        assert_eq!((names.len(), file_name("-rf")), (ids.len(), "%2Drf".to_owned()));
        assert!(names.iter().all(|name| !name.starts_with(['-', '.'])));
    }
}
