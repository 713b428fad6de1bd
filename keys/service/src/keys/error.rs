//! Errors of keys: in files, as they are read, and in the store.

use super::sealed::{PartnerError, TransferError};
use super::vault::VaultError;
use crate::channel::ServeError;
use crate::config::{PassphraseError, UnfitPassphrase};
use crate::control::{RefusalCode, Refused};
use crate::engine::crypto::SessionError;
use sidecore_client::keys::{
    DateError, Kind, MAX_ACL, MAX_CERTIFICATE, MAX_CERTIFICATES, MAX_ID, MAX_RATE, NameError, Usage,
};
use std::path::PathBuf;

/// A file without the key that is looked for in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyFileError {
    /// It is encrypted.
    #[error("it is encrypted: name the file with its passphrase (--passphrase-file FILE)")]
    NeedsPassphrase,
    /// The passphrase is another one, or the file is damaged or encrypted in a way unknown to the library (scrypt).
    #[error(
        "this passphrase does not open it, or it is damaged, or encrypted in a way that is not read here: then decrypt \
         it first, with `openssl pkey -in FILE -out OTHER`"
    )]
    WrongPassphrase,
    /// No known form of a private key.
    #[error(
        "there is no private key in it that can be read: give an RSA, P-256, P-384, P-521, Ed25519, X25519, ML-KEM-768 \
         or ML-DSA-65 key in PEM, PKCS#8 in DER (encrypted or not), an older RSA or EC key, or PKCS#12"
    )]
    NoPrivateKey,
    /// Another part of a pair of keys.
    #[error("there is a certificate or a public key in it, and no private key: name the file with the private key")]
    NotPrivate,
    /// The key exists only in a form that cannot be stored.
    #[error("its key has no seed: export it with the seed")]
    NoSeed,
    /// Its algorithm is id-RSASSA-PSS.
    #[error(
        "its key is restricted to PSS (id-RSASSA-PSS), which keys here cannot be: use an RSA key, which signs with PSS \
         as well"
    )]
    OnlyPss,
    /// No known form of a public key.
    #[error("there is no public key in it that can be read: give a public key or a certificate, in PEM or DER")]
    NoPublicKey,
    /// It holds a secret that must not be passed around.
    #[error("there is a private key in it, which is not to be here: give the public key or the certificate")]
    NotPublic,
}

/// Certificates that cannot be stored with a key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CertificateError {
    /// The file has no certificate.
    #[error("there is no certificate in it that can be read: give the chain in PEM, that of the key first")]
    None,
    /// There are more than [`MAX_CERTIFICATES`].
    #[error("a key has at most {MAX_CERTIFICATES} certificates: leave out the last ones, which clients have")]
    Many,
    /// One is larger than [`MAX_CERTIFICATE`].
    #[error("certificate {0} has {1} bytes: at most {MAX_CERTIFICATE} are stored")]
    Large(usize, usize),
    /// One is damaged.
    #[error("certificate {0} cannot be read: give X.509 certificates")]
    Damaged(usize),
    /// The first one is of another key.
    #[error("the first certificate is of another key: give that of this key first")]
    OtherKey,
    /// One has another issuer than the next.
    #[error("certificate {0} is not of the issuer of the one before: give the chain in its order")]
    Order(usize),
    /// It is not valid now, or older than the present one.
    #[error(transparent)]
    Dates(#[from] DateError),
}

/// A key that the service cannot use.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// No private key in PKCS#8.
    #[error("the key cannot be read: give a PKCS#8 private key in DER")]
    NotPkcs8,
    /// No public key.
    #[error("the key cannot be read: give a SubjectPublicKeyInfo in DER")]
    NotSpki,
    /// A private key without its public part.
    #[error("the key's public part cannot be made: give the key with its parts")]
    NoPublicPart,
    /// Keys of its kind are not stored.
    #[error("keys of this kind are not supported: use {}", kinds())]
    Unsupported,
    /// Keys of this kind are not stored.
    #[error("it holds {0}, which the service does not store: use {kinds}", kinds = kinds())]
    NotStored(String),
    /// No raw private key of that kind.
    #[error("this is no raw private key of kind {}", .0.name())]
    NotRaw(Kind),
    /// The library made no key.
    #[error("the crypto library made no key: try again")]
    NotMade,
    /// A scheme that keys of this kind do not do.
    #[error("a key of kind {} does not do {scheme}", kind.name())]
    WrongScheme {
        /// The key's kind.
        kind: Kind,
        /// The scheme, in words.
        scheme: &'static str,
    },
    /// Its parts are of different keys.
    #[error("the parts of the key do not fit each other: export it again")]
    Unfit,
    /// The private part is on other machines.
    #[error("the key is on other machines only: to have it here, delete it and import its private part")]
    Remote,
    /// No session opens on it.
    #[error(transparent)]
    Session(#[from] SessionError),
}

/// A refusal by the store of keys, or an error of the keys at rest.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// There is no key of this name.
    #[error("there is no key {0:?}: see `sidecore keys list`")]
    NoKey(String),
    /// The user may not use the key.
    #[error("user {uid} may not use key {name:?}: allow it with `sidecore keys acl {name} --add --uid {uid}`")]
    NotAllowed {
        /// The user.
        uid: u32,
        /// The key's name.
        name: String,
    },
    /// The key is restricted to other operations.
    #[error(
        "key {name:?} is for {usage} only, not for {needs}: permit it with `sidecore keys usage {name} {wanted}`",
        wanted = usage.with(*needs)
    )]
    Usage {
        /// The key's name.
        name: String,
        /// The permitted operations.
        usage: Usage,
        /// Those of the refused session.
        needs: Usage,
    },
    /// Keys of its kind do not do this.
    #[error("a key of kind {kind} is never for {more}: use {all}", kind = kind.name(), all = Usage::settable(*kind))]
    NoSuchUsage {
        /// The key's kind.
        kind: Kind,
        /// What it does not do.
        more: Usage,
    },
    /// A usage of a later version, or none.
    #[error("the service does not know this usage: use sign, decrypt, derive or ssh")]
    UnknownUsage,
    /// An identifier that is too long.
    #[error("an identifier has at most {MAX_ID} bytes: give a shorter one, or none")]
    Identifier,
    /// A limit that is none.
    #[error("a key's limit is 1 to {MAX_RATE} requests a second")]
    Rate,
    /// The certificates do not fit the key.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// The key has fewer certificates.
    #[error("key {name:?} has {count} certificates: store them with `sidecore keys cert {name} FILE`")]
    NoCertificate {
        /// The key's name.
        name: String,
        /// Number of its certificates.
        count: usize,
    },
    /// No key can have this name.
    #[error(transparent)]
    Name(#[from] NameError),
    /// The list of users is too long.
    #[error("a key has at most {MAX_ACL} users and {MAX_ACL} groups: put the users in a group")]
    ManyUsers,
    /// Another key has this name.
    #[error(
        "there is a key {0:?} already: choose another name, or put a key in its place with `sidecore keys import {0} \
         FILE --replace`"
    )]
    Exists(String),
    /// There are too many keys.
    #[error(
        "there are {0} keys already (limits.keys): delete those that no program uses (`sidecore keys list`), or raise \
         limits.keys in the configuration and restart the service"
    )]
    Full(usize),
    /// The key was replaced while a session on it was opened.
    #[error("key {0:?} was replaced by another just now: ask again")]
    Replaced(String),
    /// The key is on other machines, too.
    #[error("key {0:?} is on other machines: replace it there, or delete it here first")]
    Remote(String),
    /// Other machines know the key by its name.
    #[error(
        "key {0:?} is also on other machines, which know it by this name: end that first with `sidecore keys remote {0} \
         --never`; if only they have it, delete it here and import its public part under the name that it has there"
    )]
    NamedElsewhere(String),
    /// A user had the key made for itself: that user would use and delete the new one.
    #[error(
        "key {name:?} is user {owner}'s own (keys.creators), who would use the new one, too: take another name, or delete it \
         first with `sidecore keys delete {name}`"
    )]
    Owned {
        /// The key's name.
        name: String,
        /// The user.
        owner: u32,
    },
    /// The keys at rest are being sealed again.
    #[error("the passphrase is being changed: try again when that is done")]
    Resealing,
    /// The same, for another change of the passphrase.
    #[error("the passphrase is being changed already: try again when that is done")]
    ResealingAlready,
    /// Another service reads the keys at rest, to take this one's place.
    #[error("another service is taking this one's place, and no key can be changed meanwhile: try again in a moment")]
    Released,
    /// There are no keys at rest.
    #[error("the keys are in memory only, under no passphrase: to keep keys, configure keys.directory")]
    InMemory,
    /// No passphrase is configured.
    #[error("keys.directory needs keys.passphrase_file, or `sidecore serve --passphrase-file FILE`")]
    NoPassphrase,
    /// The passphrase file.
    #[error(transparent)]
    Passphrase(#[from] PassphraseError),
    /// A file with another service's address.
    #[error("keys.{setting}: {why}")]
    Partner {
        /// Its setting.
        setting: &'static str,
        /// The reason.
        why: PartnerError,
    },
    /// A key to or from another service.
    #[error(transparent)]
    Transfer(#[from] TransferError),
    /// A request of another service.
    #[error(transparent)]
    Serve(#[from] ServeError),
    /// A new passphrase.
    #[error(transparent)]
    NewPassphrase(#[from] UnfitPassphrase),
    /// The directory of keys.
    #[error(transparent)]
    Vault(#[from] VaultError),
    /// A key that was just read.
    #[error(transparent)]
    Material(#[from] KeyError),
    /// The key of this name.
    #[error("key {name:?}: {why}")]
    Key {
        /// Its name.
        name: String,
        /// The reason.
        why: KeyError,
    },
    /// A key in the directory.
    #[error("{}: key {name:?}: {why}", directory.display())]
    AtRest {
        /// The directory.
        directory: PathBuf,
        /// The key's name.
        name: String,
        /// The reason.
        why: Box<Self>,
    },
}

fn kinds() -> String {
    Kind::ALL.map(Kind::name).join(", ")
}

impl From<StoreError> for Refused {
    fn from(why: StoreError) -> Self {
        let code = match why {
            StoreError::Serve(why) => return why.into(),
            StoreError::NoKey(_) => RefusalCode::NoKey,
            StoreError::NotAllowed { .. } | StoreError::Usage { .. } => RefusalCode::NotAllowed,
            _ => RefusalCode::Other,
        };
        Self::new(code, why.to_string())
    }
}

impl From<KeyError> for Refused {
    fn from(why: KeyError) -> Self {
        StoreError::from(why).into()
    }
}

impl From<SessionError> for Refused {
    fn from(why: SessionError) -> Self {
        KeyError::from(why).into()
    }
}

impl From<CertificateError> for Refused {
    fn from(why: CertificateError) -> Self {
        StoreError::from(why).into()
    }
}

impl From<TransferError> for Refused {
    fn from(why: TransferError) -> Self {
        StoreError::from(why).into()
    }
}

impl From<VaultError> for Refused {
    fn from(why: VaultError) -> Self {
        StoreError::from(why).into()
    }
}
