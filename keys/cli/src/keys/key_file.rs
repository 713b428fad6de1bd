//! Replaces a file of `keys pem` in one step. Any other file of that name stays.

use rustix::fd::OwnedFd;
use rustix::fs::{
    AtFlags, CWD, FileType, Gid, Mode, OFlags, RenameFlags, Stat, Uid, fchmod, fchown, fstat, fsync, openat,
    readlinkat, renameat, renameat_with, statat, unlinkat,
};
use rustix::io::Errno;
use sidecore::keys::uri::{PEM_LABEL, Uri};
use std::ffi::OsString;
use std::fmt::Display;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use zeroize::Zeroizing;

/// Longest file that is read, bytes. The longest file of `keys pem` has about 3600.
const MAX_FILE: u64 = 1 << 14;
/// Most names that are tried for the temporary file.
const MAX_TRIES: u32 = 100;

/// Device and inode: they identify a file independent of its name.
pub(super) type Id = (u64, u64);

#[derive(Clone, Copy, Debug)]
pub(super) struct Access {
    pub(super) mode: u32,
    /// `None`: as for any new file.
    pub(super) uid: Option<u32>,
    pub(super) gid: Option<u32>,
}

#[derive(Clone, Debug)]
pub(super) struct Present {
    pub(super) text: String,
    pub(super) access: Access,
    pub(super) key: String,
    id: Id,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum KeyFileError {
    #[error("it is a directory: name a file")]
    NoName,
    #[error("there is no such directory: make it, or name another file")]
    NoDirectory,
    #[error("it is {0}: name a file")]
    NoFile(String),
    #[error("{0}, and only a file of `sidecore keys pem` is replaced: name another file, or move this one away")]
    Foreign(&'static str),
    #[error("another program put something there meanwhile: look what, and run this again")]
    Changed,
    #[error("cannot give it to that owner: {0}")]
    Owner(#[source] io::Error),
    #[error("remove {}/.sidecore-{process}-*: it is of commands that were killed", directory.display())]
    Leftovers { directory: PathBuf, process: u32 },
    #[error(transparent)]
    System(#[from] io::Error),
}

impl From<Errno> for KeyFileError {
    fn from(error: Errno) -> Self {
        Self::System(error.into())
    }
}

/// A path whose directory is held open: later changes of the path have no effect.
#[derive(Debug)]
pub(super) struct KeyFile {
    directory: OwnedFd,
    path: PathBuf,
    name: OsString,
    present: Option<Present>,
}

/// A temporary file in the same directory. Dropping it removes the file unless it was put in its place.
#[derive(Debug)]
pub(super) struct Draft<'a> {
    key_file: &'a KeyFile,
    name: String,
    id: Id,
}

impl KeyFile {
    pub(super) fn open(file: &Path) -> Result<Self, KeyFileError> {
        let name = file.file_name().ok_or(KeyFileError::NoName)?.to_owned();
        let path = file.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new(".")).to_owned();
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = openat(CWD, &path, flags, Mode::empty()).map_err(|error| match error {
            Errno::NOENT | Errno::NOTDIR => KeyFileError::NoDirectory,
            other => other.into(),
        })?;
        let present = present(&directory, &name)?;
        Ok(Self { directory, path, name, present })
    }

    /// Its path, for messages.
    pub(super) fn shown(&self) -> impl Display {
        self.path.join(&self.name).display().to_string()
    }

    pub(super) fn present(&self) -> Option<&Present> {
        self.present.as_ref()
    }

    /// Writes a temporary file. Its owner and mode are set before it can be put in place.
    pub(super) fn draft(&self, text: &str, access: Access) -> Result<Draft<'_>, KeyFileError> {
        let (mut file, name) = self.beside()?;
        let id = id(&fstat(&file)?);
        let draft = Draft { key_file: self, name, id };
        file.write_all(text.as_bytes())?;
        if access.uid.is_some() || access.gid.is_some() {
            fchown(&file, access.uid.map(Uid::from_raw), access.gid.map(Gid::from_raw))
                .map_err(|error| KeyFileError::Owner(error.into()))?;
        }
        fchmod(&file, Mode::from_raw_mode(access.mode))?;
        fsync(&file)?;
        Ok(draft)
    }

    fn beside(&self) -> Result<(File, String), KeyFileError> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let process = std::process::id();
        for number in 0..MAX_TRIES {
            let name = format!(".sidecore-{process}-{number}");
            match openat(&self.directory, &name, flags, Mode::RUSR | Mode::WUSR) {
                Err(Errno::EXIST) => {}
                opened => return Ok((opened?.into(), name)),
            }
        }
        Err(KeyFileError::Leftovers { directory: self.path.clone(), process })
    }

    pub(super) fn undo(&self, put: Id) -> Result<(), KeyFileError> {
        match &self.present {
            Some(present) => self.draft(&present.text, present.access)?.put_over(Some(put)),
            None => self.remove(put),
        }
    }

    fn remove(&self, put: Id) -> Result<(), KeyFileError> {
        let found = statat(&self.directory, &self.name, AtFlags::SYMLINK_NOFOLLOW)?;
        if id(&found) != put {
            return Err(KeyFileError::Changed);
        }
        Ok(unlinkat(&self.directory, &self.name, AtFlags::empty())?)
    }
}

impl Draft<'_> {
    pub(super) fn path(&self) -> PathBuf {
        self.key_file.path.join(&self.name)
    }

    pub(super) fn put(self) -> Result<Id, KeyFileError> {
        let expected = self.key_file.present.as_ref().map(|present| present.id);
        self.put_over(expected)?;
        Ok(self.id)
    }

    fn put_over(&self, expected: Option<Id>) -> Result<(), KeyFileError> {
        let flags = if expected.is_some() { RenameFlags::EXCHANGE } else { RenameFlags::NOREPLACE };
        match (self.rename(flags), expected) {
            (Ok(()), None) => {}
            (Ok(()), Some(expected)) => self.check_taken(expected)?,
            (Err(Errno::EXIST | Errno::NOENT), _) => return Err(KeyFileError::Changed),
            // This file system (NFS) cannot exchange or refuse to replace: a file created in this instant is lost.
            (Err(Errno::INVAL | Errno::NOSYS), _) => {
                let (directory, name) = (&self.key_file.directory, &self.key_file.name);
                renameat(directory, &self.name, directory, name)?;
            }
            (Err(error), _) => return Err(error.into()),
        }
        Ok(fsync(&self.key_file.directory)?)
    }

    fn rename(&self, flags: RenameFlags) -> Result<(), Errno> {
        let (directory, name) = (&self.key_file.directory, &self.key_file.name);
        renameat_with(directory, &self.name, directory, name, flags)
    }

    /// After the exchange the former file has the temporary name. Exchanges back if it is not the expected file.
    fn check_taken(&self, expected: Id) -> Result<(), KeyFileError> {
        let taken = statat(&self.key_file.directory, &self.name, AtFlags::SYMLINK_NOFOLLOW)?;
        if id(&taken) == expected {
            return Ok(());
        }
        self.rename(RenameFlags::EXCHANGE)?;
        Err(KeyFileError::Changed)
    }
}

impl Drop for Draft<'_> {
    fn drop(&mut self) {
        // After a successful `put` no file has this name.
        let _ = unlinkat(&self.key_file.directory, &self.name, AtFlags::empty());
    }
}

fn id(found: &Stat) -> Id {
    (found.st_dev, found.st_ino)
}

/// The file of `keys pem` with this name. `None`: there is no file.
fn present(directory: &OwnedFd, name: &OsString) -> Result<Option<Present>, KeyFileError> {
    let found = match statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => return Ok(None),
        found => found?,
    };
    check_regular(directory, name, &found)?;
    // Another file may have replaced it: opening must not block then.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(openat(directory, name, flags, Mode::empty())?);
    let found = fstat(&file)?;
    check_regular(directory, name, &found)?;
    let mut content = Zeroizing::new(Vec::with_capacity(MAX_FILE as usize + 1));
    file.take(MAX_FILE).read_to_end(&mut content)?;
    // Byte for byte: a longer file was assembled by another program.
    let own = Uri::from_pem(&content).ok().and_then(|uri| {
        let forms = [Some(uri.to_pem()), uri.to_pkcs8_pem().ok()];
        Some((forms.into_iter().flatten().find(|text| text.as_bytes() == content.as_slice())?, uri))
    });
    let (text, uri) = own.ok_or_else(|| KeyFileError::Foreign(kind(&content)))?;
    let access = Access { mode: found.st_mode & 0o7777, uid: Some(found.st_uid), gid: Some(found.st_gid) };
    Ok(Some(Present { text, access, key: uri.name().to_owned(), id: id(&found) }))
}

fn check_regular(directory: &OwnedFd, name: &OsString, found: &Stat) -> Result<(), KeyFileError> {
    let what = match FileType::from_raw_mode(found.st_mode) {
        FileType::RegularFile => return Ok(()),
        FileType::Directory => "a directory".to_owned(),
        FileType::Symlink => {
            let to = readlinkat(directory, name, Vec::new())?;
            format!("a link to {:?}", to.to_string_lossy())
        }
        FileType::CharacterDevice | FileType::BlockDevice => "a device".to_owned(),
        FileType::Fifo => "a pipe".to_owned(),
        _ => "a socket".to_owned(),
    };
    Err(KeyFileError::NoFile(what))
}

fn kind(content: &[u8]) -> &'static str {
    let has = |mark: &[u8]| content.windows(mark.len()).any(|window| window == mark);
    match content {
        [] => "it is empty",
        _ if has(b"PRIVATE KEY-----") => "it holds a private key",
        _ if has(b"CERTIFICATE-----") => "it holds a certificate",
        _ if has(b"PUBLIC KEY-----") => "it holds a public key",
        _ if has(PEM_LABEL.as_bytes()) => "it holds more than the name of a key",
        // A sequence in DER.
        [0x30, ..] => "it holds a key or a certificate in DER, or is an archive of them",
        _ => "it is a file of another kind",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, symlink};

    const ACCESS: Access = Access { mode: 0o640, uid: None, gid: None };

    fn text(name: &str) -> String {
        Uri::new(name).unwrap().to_pem()
    }

    #[test]
    fn a_file_of_ours_is_replaced_whole_with_its_mode() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("www.key");
        for name in ["old", "new"] {
            KeyFile::open(&file).unwrap().draft(&text(name), ACCESS).unwrap().put().unwrap();
            assert_eq!(fs::read_to_string(&file).unwrap(), text(name));
        }
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o7777, 0o640);
        assert_eq!(KeyFile::open(&file).unwrap().present().unwrap().key, "new");
        assert!(KeyFile::open(&folder.path().join("none/www.key")).is_err());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left beside it");
    }

    #[test]
    fn everything_else_is_refused_by_what_it_is_and_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let both = format!("{}-----BEGIN CERTIFICATE-----\n", text("www"));
        for (content, what) in [
            ("-----BEGIN ENCRYPTED PRIVATE KEY-----\n", "private key"),
            ("-----BEGIN CERTIFICATE-----\n", "certificate"),
            (&both, "certificate"),
            (&format!("{}{}", text("www"), text("www")), "more than"),
            ("0\u{1}", "DER"),
            ("", "empty"),
            ("text", "another kind"),
        ] {
            fs::write(path("file"), content).unwrap();
            let said = KeyFile::open(&path("file")).unwrap_err().to_string();
            assert!(said.contains(what), "{content}: {said}");
            assert_eq!(fs::read_to_string(path("file")).unwrap(), content);
        }
        fs::write(path("ours"), text("www")).unwrap();
        symlink("ours", path("link")).unwrap();
        for (file, what) in
            [(path("link"), "a link to \"ours\""), (path(""), "directory"), ("/dev/null".into(), "device")]
        {
            let said = KeyFile::open(&file).unwrap_err().to_string();
            assert!(said.contains(what), "{}: {said}", file.display());
        }
    }

    #[test]
    fn what_takes_the_name_meanwhile_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("www.key");
        let stays = |draft: Draft<'_>| {
            assert!(matches!(draft.put().unwrap_err(), KeyFileError::Changed));
            assert_eq!(fs::read_to_string(&file).unwrap(), "a private key");
            assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
            fs::remove_file(&file).unwrap();
        };
        let key_file = KeyFile::open(&file).unwrap();
        let draft = key_file.draft(&text("www"), ACCESS).unwrap();
        fs::write(&file, "a private key").unwrap();
        stays(draft);
        key_file.draft(&text("www"), ACCESS).unwrap().put().unwrap();
        let key_file = KeyFile::open(&file).unwrap();
        let put = key_file.draft(&text("new"), ACCESS).unwrap().put().unwrap();
        key_file.undo(put).unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), text("www"));
        let key_file = KeyFile::open(&file).unwrap();
        let draft = key_file.draft(&text("www"), ACCESS).unwrap();
        fs::write(folder.path().join("other"), "a private key").unwrap();
        fs::set_permissions(folder.path().join("other"), Permissions::from_mode(0o600)).unwrap();
        fs::rename(folder.path().join("other"), &file).unwrap();
        stays(draft);
    }
}
