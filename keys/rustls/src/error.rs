//! Reasons why a key cannot be used.

use rustls::pki_types::pem;
use sidecore_client::keyops::failure::Failure;
use sidecore_client::keys::{Moment, Usage};
use std::io;
use std::path::PathBuf;

/// Reason why a key cannot be used, and the remedy.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The service did not find the key or did not sign with it. In a handshake it is in
    /// [`rustls::Error::Other`].
    #[error("key {name:?}: {failure}")]
    Key {
        /// The key.
        name: String,
        /// Kind of the failure, its details and the remedy.
        failure: Failure,
    },
    /// Keys of this kind sign nothing.
    #[error(
        "key {name:?} is of kind {kind}, which signs nothing: use one of RSA, P-256, P-384, P-521, Ed25519 or ML-DSA-65"
    )]
    Kind {
        /// The key.
        name: String,
        /// Its kind.
        kind: &'static str,
    },
    /// The key is for other operations only.
    #[error("key {name:?} may not sign: permit it with `sidecore keys usage {name} {wanted}`")]
    Usage {
        /// The key.
        name: String,
        /// Its operations, with signatures.
        wanted: Usage,
    },
    /// The service stores no certificate with the key, or the given chain is empty.
    #[error(
        "there is no certificate for key {name:?}: store its chain with `sidecore keys cert {name} FILE`, or load it from a file"
    )]
    NoCertificate {
        /// The key.
        name: String,
    },
    /// The first certificate has another public key.
    #[error(
        "the first certificate is not that of key {name:?}: put the key's own first, or name the key that belongs to it (`sidecore \
         keys list`)"
    )]
    OtherKeys {
        /// The key.
        name: String,
    },
    /// The first certificate cannot be read.
    #[error("the certificate for key {name:?} cannot be read: {source}; rustls takes X.509 version 3 in DER")]
    Unreadable {
        /// The key.
        name: String,
        /// The error of rustls.
        source: rustls::Error,
    },
    /// No thread to follow renewals.
    #[error("no thread can begin: {source}; raise the limit on threads (`ulimit -u`, TasksMax= of the unit)")]
    Thread {
        /// The system's error.
        source: io::Error,
    },
    /// A file of certificates that is not there.
    #[error("{}: {source}; a chain that is in use stays: put the file in its place", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A file of certificates without PEM.
    #[error("{}: {source}; a chain that is in use stays: put a chain in PEM in its place", path.display())]
    Pem {
        /// The file.
        path: PathBuf,
        /// The reader's error.
        source: pem::Error,
    },
    /// A changed chain without its key.
    #[error(
        "{}: the service has no key of the changed chain under the name {name}, and the former chain stays in use: run `sidecore keys \
         renew {name}`", path.display()
    )]
    NoKeyYet {
        /// The file.
        path: PathBuf,
        /// The key's name.
        name: String,
    },
    /// A changed chain that is not valid now, while the former one is.
    #[error(
        "{}: the changed chain is valid from {begins} to {ends}, and the former one stays in use: renew it again, or see whether this \
         machine's clock is right", path.display()
    )]
    Dates {
        /// The file.
        path: PathBuf,
        /// Its first moment.
        begins: Moment,
        /// Its last moment.
        ends: Moment,
    },
}

impl Error {
    pub(crate) fn key(name: &str, failure: Failure) -> Self {
        Self::Key { name: name.to_owned(), failure }
    }
}
