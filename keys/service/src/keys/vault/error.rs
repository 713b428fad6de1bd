//! Errors of keys at rest: the directory, a file in it, and the number of changes outside it.

use sidecore_ipc::versions::SIDECORE;
use std::fmt;
use std::io;
use std::path::PathBuf;

/// An error of the keys at rest, or a doubt about a change that was made.
#[derive(Debug, thiserror::Error)]
pub enum VaultError {
    /// A file, or the directory.
    #[error("{}: {what}", path.display())]
    At {
        /// Its path.
        path: PathBuf,
        /// The error and its remedy.
        what: VaultErrorKind,
    },
    /// The file of the number of changes, before it is opened.
    #[error("keys.changes_file {}: {what}", path.display())]
    ChangesFile {
        /// Its path.
        path: PathBuf,
        /// The error and its remedy.
        what: VaultErrorKind,
    },
    /// The change was made, but its number is not in the file outside.
    #[error("the number of the change was not noted: {0}")]
    NotNoted(Box<Self>),
    /// Nothing was sealed.
    #[error("the system gave no random numbers or no memory: nothing was changed; try again")]
    NotSealed,
}

/// The error of a file or a directory of keys.
#[derive(Debug, thiserror::Error)]
pub enum VaultErrorKind {
    /// The system's error.
    #[error(transparent)]
    System(#[from] io::Error),
    /// A change was not made.
    #[error("{0}: nothing was changed")]
    Unchanged(io::Error),
    /// A change was taken back, and the disk does not confirm it.
    #[error(
        "{0}: the change was taken back, but the disk confirms neither: after a power failure it may be there; see to \
         the disk, and look with `sidecore keys list` after the next start"
    )]
    Unsure(io::Error),
    /// A change was made, and the disk does not confirm it.
    #[error(
        "{0}: the change was made and could not be taken back, but the disk does not confirm it: after a power failure \
         the old state may be there; see to the disk, then make the change again"
    )]
    NotUndone(io::Error),
    /// A change was made, and an old file is left.
    #[error("the change was made, but an old file could not be removed ({0}): the next change or start does it")]
    Unsettled(io::Error),
    /// An error with a path of its own.
    #[error(transparent)]
    Nested(Box<VaultError>),
    /// It is no directory.
    #[error("it is no directory: name one, or a path where one can be made, in keys.directory")]
    NoDirectory,
    /// Other users may enter the directory, by this mode.
    #[error("others may enter it (mode {0:o}): chmod 700")]
    OpenDirectory(u32),
    /// Another service has the directory.
    #[error("another service has it: stop that one, or name another directory")]
    Taken,
    /// It is a link.
    #[error("it is a link: put the file itself there")]
    Link,
    /// It is no file.
    #[error("it is no file: move it away")]
    NoFile,
    /// Other users may use the file, by this mode.
    #[error("others may use it (mode {0:o}): chmod 600")]
    OpenFile(u32),
    /// It has more than this number of bytes.
    #[error("it is larger than {0} bytes, which no file of a key is: move it away")]
    TooLarge(usize),
    /// The path names no file.
    #[error("name a file")]
    NoName,
    /// The directory around the file cannot be opened.
    #[error("its directory cannot be opened: {0}")]
    Around(io::Error),
    /// The file holds no number.
    #[error("it holds no number: restore it, or remove it to go on without")]
    NoNumber,
    /// The directory is older than the number outside it.
    #[error(
        "this is an old copy, of change {changes}: {counter} knows of change {known}. Restore the newest copy; to use \
         this one all the same, with its old keys and users, remove {counter} and start again",
        counter = counter.display()
    )]
    OldCopy {
        /// Number of the directory's last change.
        changes: u64,
        /// The file with the number.
        counter: PathBuf,
        /// The number in it.
        known: u64,
    },
    /// The master key of this number of keys is missing.
    #[error("it is missing, and without it {0} keys stay sealed: restore it")]
    NoMaster(usize),
    /// The master key does not open.
    #[error("{}", master_error(.0))]
    Master(Unsealing),
    /// A key does not open.
    #[error("{}", key_error(.0))]
    Key(Unsealing),
    /// A key's file is gone since the start.
    #[error("it is gone: restore it")]
    Gone,
    /// A file in the directory that no service wrote.
    #[error("{0:?} is none of the service's files: move it to another directory")]
    Foreign(String),
    /// The file of this key is missing.
    #[error(
        "it is missing: restore it; to go on without the key {0:?} for good, write keys.accept_missing = [{0:?}] in the \
         configuration and start again"
    )]
    Missing(String),
    /// A key's file is newer than the list, which is of this change.
    #[error(
        "it is newer than the list in the file \"master\", which is of change {0} and an old copy: restore the newest \
         copy of that; to go on with the old list, move this file away"
    )]
    Newer(u64),
    /// A key's file is older than the list, which is of this change.
    #[error(
        "it is an old file, of a key that was changed or deleted since (the directory is of change {0}), and does not \
         count: move it away"
    )]
    Older(u64),
}

/// Reason why a sealed file does not open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unsealing {
    /// Its beginning is unknown.
    Foreign,
    /// Its beginning is of another version.
    Version,
    /// Its content has changed.
    Damaged,
    /// The passphrase is another one.
    Passphrase,
    /// It is of the key of this name.
    Name(String),
    /// It is of another change of the key, with this number.
    Number(u64),
    /// The system gave no random numbers or no memory.
    System,
}

fn master_error(why: &Unsealing) -> &'static str {
    match why {
        Unsealing::Passphrase => "the passphrase is not the one that it was sealed with: give that one",
        Unsealing::Version => {
            "it is of another version of sidecore, which this one does not read: use that one (nothing was changed), or name another directory \
             in keys.directory and import the keys there"
        }
        Unsealing::System => "the system gave no random numbers or no memory: try again",
        Unsealing::Foreign | Unsealing::Name(_) | Unsealing::Number(_) => {
            "it is no master key of sidecore: move it away, or restore it"
        }
        Unsealing::Damaged => "it is damaged: restore it from a backup",
    }
}

fn key_error(why: &Unsealing) -> impl fmt::Display {
    match why {
        Unsealing::Name(name) => format!("it holds the key {name:?}: files of keys must not be renamed; name it back"),
        Unsealing::Number(number) => {
            format!("it is the file of change {number}: files of keys must not be renamed; restore the right one")
        }
        Unsealing::Version => format!(
            "it is of another version of sidecore than this one ({SIDECORE}): use that one; it lists and deletes the keys that this one does not read"
        ),
        Unsealing::Foreign => "it is no key of sidecore: move it away".to_owned(),
        _ => "it is damaged, or of another master key: restore it from a backup, or move it away".to_owned(),
    }
}
