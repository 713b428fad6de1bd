//! Files that a user names.
//!
//! Opening a FIFO waits for its writer, perhaps without end, and a path may turn out to be one: `keys import www FILE` would
//! hang, and so would a service at its start. A FIFO with a writer is as good as a file, and shells make one of
//! `<(command)`. So a FIFO is opened without waiting, and the first read tells whether a program writes to it.

use rustix::fs::{FileType, Mode, OFlags, fcntl_getfl, fcntl_setfl, fstat, open};
use rustix::io::Errno;
use std::fs::{File, Metadata};
use std::io::{self, ErrorKind, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

/// An open file, or an open FIFO.
#[derive(Debug)]
pub struct NamedFile {
    file: File,
    /// A FIFO from which nothing was read yet. Reads of it do not wait.
    is_fresh_fifo: bool,
}

impl NamedFile {
    /// Opens it, without waiting for a writer.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
        let file = File::from(open(path, flags, Mode::empty())?);
        let is_fresh_fifo = FileType::from_raw_mode(fstat(&file)?.st_mode) == FileType::Fifo;
        if !is_fresh_fifo {
            // A terminal's reader waits, as with any program.
            wait_in_calls(&file)?;
        }
        Ok(Self { file, is_fresh_fifo })
    }

    /// Opens a file for writing, which is emptied, or made with this mode.
    ///
    /// # Errors
    /// It cannot be opened, or is a FIFO without a reader.
    pub fn create(path: &Path, mode: u32) -> io::Result<File> {
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
        let file = open(path, flags, Mode::from_raw_mode(mode)).map_err(|error| match error {
            Errno::NXIO => io::Error::other("it is a FIFO that no program reads from: name a file"),
            other => other.into(),
        })?;
        let file = File::from(file);
        wait_in_calls(&file)?;
        Ok(file)
    }

    /// Kind, owner and mode of what was opened.
    ///
    /// # Errors
    /// The system does not say.
    pub fn metadata(&self) -> io::Result<Metadata> {
        self.file.metadata()
    }
}

impl AsFd for NamedFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl Read for NamedFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if !self.is_fresh_fifo || buffer.is_empty() {
            return self.file.read(buffer);
        }
        let first = self.file.read(buffer);
        match first {
            // The end at once: there is no writer, or it wrote nothing.
            Ok(0) => return Err(io::Error::other("it is a FIFO that no program writes to: name a file")),
            Err(ref error) if error.kind() == ErrorKind::Interrupted => return first,
            _ => {}
        }
        self.is_fresh_fifo = false;
        wait_in_calls(&self.file)?;
        match first {
            Err(error) if error.kind() == ErrorKind::WouldBlock => self.file.read(buffer),
            first => first,
        }
    }
}

fn wait_in_calls(file: &File) -> io::Result<()> {
    Ok(fcntl_setfl(file, fcntl_getfl(file)?.difference(OFlags::NONBLOCK))?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, mknodat};
    use std::fs;
    use std::io::Write;
    use std::thread;

    fn fifo() -> (tempfile::TempDir, std::path::PathBuf) {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("fifo");
        mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        (scratch, path)
    }

    fn read(path: &Path) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        NamedFile::open(path)?.read_to_end(&mut bytes).map(|_| bytes)
    }

    #[test]
    fn a_fifo_that_nobody_writes_to_is_an_error_and_no_wait() {
        let (_scratch, path) = fifo();
        assert!(read(&path).unwrap_err().to_string().contains("no program writes"));
        assert!(NamedFile::create(&path, 0o600).unwrap_err().to_string().contains("no program reads"));
    }

    #[test]
    fn a_fifo_with_a_writer_is_read_to_its_end_however_late_the_bytes_come() {
        let (_scratch, path) = fifo();
        thread::scope(|scope| {
            // This end makes the others' openings return at once.
            let _held = File::options().read(true).write(true).open(&path).unwrap();
            let mut writer = File::options().write(true).open(&path).unwrap();
            let mut reader = NamedFile::open(&path).unwrap();
            let all = scope.spawn(move || {
                let mut bytes = vec![0; 6];
                reader.read_exact(&mut bytes).map(|()| bytes)
            });
            writer.write_all(b"one").unwrap();
            writer.write_all(b"two").unwrap();
            assert_eq!(all.join().unwrap().unwrap(), b"onetwo");
        });
    }

    #[test]
    fn other_files_are_read_as_ever() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("file");
        fs::write(&path, "text").unwrap();
        assert_eq!(read(&path).unwrap(), b"text");
        assert_eq!(NamedFile::open(&path).unwrap().metadata().unwrap().len(), 4);
        fs::write(&path, "").unwrap();
        assert_eq!(read(&path).unwrap(), b"");
        assert!(read(&scratch.path().join("none")).is_err() && read(scratch.path()).is_err());
    }
}
