//! Errors of `sidecore keys`.

use super::{Cause, LaunchError};
use nix::errno::Errno;
use sidecore::client;
use std::fmt::Display;
use std::io;
use std::path::{Path, PathBuf};

#[derive(Debug, thiserror::Error)]
pub(crate) enum IdError {
    #[error("{} is the kernel's -1, which stands for no user and no group: give another", u32::MAX)]
    MinusOne,
    #[error("write an octal number from 0000 to 0777")]
    Mode,
    #[error("there is no such {kind} here, name one of `getent {database}`")]
    Unknown { kind: &'static str, database: &'static str },
    #[error(transparent)]
    System(#[from] Errno),
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum KeysError {
    #[error("name the file with the key")]
    NoFile,
    #[error("{}: {source}; name a file with a key that this user may read", called(path))]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("{}: {source}", called(path))]
    Content { path: PathBuf, source: Cause },
    #[error(
        "it is a file of `sidecore keys pem` and names the key {0:?}, which is in the service already: name the file with the \
         private key"
    )]
    NamesKey(String),
    #[error("the service does not say what it stored: use one version of both")]
    NothingStored,
    #[error("{done}, but this could not be written to standard output: {source}")]
    Unprinted { done: String, source: io::Error },
    #[error("--owner: {0}")]
    Owner(#[from] IdError),
    #[error("--owner: there is no {name:?} here: name one of `getent {database}`")]
    UnknownOwner { name: String, database: &'static str },
    #[error("{}: {source}; nothing was changed there", path.display())]
    Put { path: PathBuf, source: KeyFileError },
}

/// A file that is not written, or not replaced.
#[derive(Debug, thiserror::Error)]
pub(crate) enum KeyFileError {
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

impl From<rustix::io::Errno> for KeyFileError {
    fn from(error: rustix::io::Errno) -> Self {
        Self::System(error.into())
    }
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum RenewError {
    #[error("{name} is a key of {base}: give the name that they have in common, {base}")]
    WholeName { name: String, base: String },
    #[error("{}: another renewal with this file is at work: wait until it has ended", .0.display())]
    Busy(PathBuf),
    #[error(
        "{} is of another key than {}: give those of one renewal; nothing was changed",
        called(certificate),
        called(key)
    )]
    OtherKey { certificate: PathBuf, key: PathBuf },
    #[error("{}: {source}; nothing was changed", output.display())]
    Output { output: PathBuf, source: KeyFileError },
    #[error(
        "{} names the key {key:?}, which is none of {name:?}: give its own name, or another file; nothing was changed",
        output.display()
    )]
    OtherName { output: PathBuf, key: String, name: String },
    #[error("cannot run `sidecore keys test`: {0}")]
    NoTest(#[source] io::Error),
    #[error("{said}; {} is as it was", output.display())]
    Test { said: String, output: PathBuf },
    #[error("the key {key} could not be deleted: {source}")]
    Delete { key: String, source: client::Error },
    /// The server's file and the service are as `why` and `key` say.
    #[error(
        "{why}; {key}. A server that runs goes on with its former key; where its certificate's file is the new one already, run \
         this again before the server starts anew"
    )]
    Undone { why: String, key: String },
    #[error("the service has the new key no more")]
    Gone,
}

/// A failed step of `keys test`, or a user that it cannot become.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TrialError {
    #[error("{}: {source}: name a file of `sidecore keys pem` that this user may read", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    /// The library or the service refuses the file, the key or the certificate.
    #[error(transparent)]
    Refused(Cause),
    #[error(
        "it is that of another key, e.g. of an older one: write the file again with `sidecore keys pem {key} --output {}`",
        path.display()
    )]
    OldPublic { key: String, path: PathBuf },
    #[error("it is of another key: give the server the certificate that was issued for this one")]
    OtherKey,
    #[error("{}: {source}", path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("no directory for a signature: {0}")]
    NoScratch(#[source] io::Error),
    #[error(transparent)]
    Configuration(#[from] LaunchError),
    #[error("{program}: {source}; install it, e.g. apt-get install {package}")]
    NoProgram { program: &'static str, package: &'static str, source: io::Error },
    /// Standard error of OpenSSL.
    #[error("{0}")]
    OpenSsl(String),
    #[error("the file's name is no text: give it another one")]
    Name,
    #[error("OpenSSL does not load the file with {configuration}: {source}")]
    NotLoaded { configuration: String, source: Box<TrialError> },
    #[error("none was made: {0}")]
    NotSigned(#[source] Box<TrialError>),
    #[error("it does not verify: {0}")]
    NotVerified(#[source] Box<TrialError>),
    #[error("the service's counters cannot be read")]
    NoCounters,
    #[error("no TLS handshake with {server}: {said}; is it started?")]
    NoHandshake { server: String, said: String },
    #[error(
        "{server} shook hands by a key of its own: name this file as its key, let it load the provider \
         (OPENSSL_CONF={configuration}), and restart it"
    )]
    OwnKey { server: String, configuration: &'static str },
    #[error("there is no user {0:?} (--as)")]
    NoUser(String),
    #[error("only root can try it as {0}: run this as root, or as {0} without --as")]
    NotRoot(String),
    #[error("cannot become {user}: {source}")]
    Become { user: String, source: io::Error },
}

impl TrialError {
    pub(crate) fn refused(error: impl Into<Cause>) -> Self {
        Self::Refused(error.into())
    }
}

pub(crate) fn called(file: &Path) -> impl Display {
    if file == Path::new("-") { "standard input".to_owned() } else { file.display().to_string() }
}
