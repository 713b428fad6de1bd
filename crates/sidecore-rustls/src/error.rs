//! Reasons why a key cannot be used.

use sidecore_client::keyops::failure::Failure;
use sidecore_client::keys::Usage;

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
}

impl Error {
    pub(crate) fn key(name: &str, failure: Failure) -> Self {
        Self::Key { name: name.to_owned(), failure }
    }
}
