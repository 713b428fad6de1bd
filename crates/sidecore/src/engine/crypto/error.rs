//! Why a session was not opened, each with what to do.

use crate::spec::Hash;
use std::fmt;

/// Why a session was not opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpenError {
    /// The scheme takes another kind of key.
    KeyKind {
        /// What it takes.
        expected: &'static str,
    },
    /// The key has the wrong length.
    KeyLength {
        /// Length it should have, in bytes.
        expected: usize,
        /// Length it has, in bytes.
        found: usize,
    },
    /// The key's bytes are not what they should be.
    MalformedKey {
        /// What they should be.
        expected: &'static str,
    },
    /// An XTS key whose halves are equal.
    EqualXtsKeys,
    /// An RSA key of unsupported size.
    ModulusBits(
        /// Length of the modulus, in bits.
        u32,
    ),
    /// An RSA key too small for this padding with this hash.
    KeyTooSmall {
        /// Length of the modulus that it takes, in bytes.
        needed: usize,
        /// Length of the modulus, in bytes.
        found: usize,
    },
    /// An OAEP label longer than a session keeps.
    LabelTooLong {
        /// Longest label, in bytes.
        most: usize,
        /// Length that it has, in bytes.
        found: usize,
    },
    /// An EC key on another curve than P-256 and P-384.
    UnsupportedCurve,
    /// The scheme does not take this hash.
    UnsupportedHash(
        /// The hash.
        Hash,
    ),
    /// The library failed for a reason that is not in the spec.
    Library,
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::KeyKind { expected } => write!(f, "this scheme takes another kind of key: give {expected}"),
            Self::KeyLength { expected, found } => {
                write!(f, "the key has {found} bytes: give one of {expected}")
            }
            Self::MalformedKey { expected } => write!(f, "the key cannot be read: give {expected}"),
            Self::EqualXtsKeys => write!(f, "the two halves of the XTS key are equal: give two independent keys"),
            Self::ModulusBits(bits) => {
                write!(f, "RSA keys of {bits} bits are not supported: use 1024, 2048, 3072 or 4096")
            }
            Self::KeyTooSmall { needed, found } => write!(
                f,
                "this padding and hash need a modulus of {needed} bytes, the key has {found}: use a larger key, \
                 a shorter hash or a shorter salt"
            ),
            Self::LabelTooLong { most, found } => {
                write!(f, "the label has {found} bytes: use up to {most}, such as a digest of it")
            }
            Self::UnsupportedCurve => write!(f, "the key's curve is not supported: use P-256 or P-384"),
            Self::UnsupportedHash(hash) => {
                write!(f, "{hash:?} is not supported here: use Sha256, Sha384 or Sha512")
            }
            Self::Library => write!(f, "the crypto library failed: try again, and see the service's log"),
        }
    }
}

impl std::error::Error for OpenError {}
