//! Specs of sessions that cannot work.

use std::ffi::c_int;

use crate::spec::Hash;

/// Reason why a session does not open.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SessionError {
    /// The key is not of the scheme's kind.
    #[error("this scheme takes another kind of key: give {0}")]
    WrongKind(&'static str),
    /// The key's bytes are none of the expected form.
    #[error("the key cannot be read: give {0}")]
    Malformed(&'static str),
    /// The key has another length.
    #[error("the key has {found} bytes: give one of {expected}")]
    KeyLength {
        /// Its length, bytes.
        found: usize,
        /// The scheme's length, bytes.
        expected: usize,
    },
    /// An RSA modulus of another length, bits.
    #[error("RSA keys of {0} bits are not supported: use 1024, 2048, 3072, 4096, 6144 or 8192")]
    RsaBits(c_int),
    /// An EC key on another curve.
    #[error("the key's curve is not supported: use P-256, P-384 or P-521")]
    Curve,
    /// A hash with known collisions, where a collision would matter.
    #[error("{0:?} is not supported here: use one of SHA-2")]
    WeakHash(Hash),
    /// A hash without a digest or HMAC of its own.
    #[error("{0:?} is not supported here: use Sha256, Sha384 or Sha512")]
    NoDigest(Hash),
    /// The RSA modulus has no room for the padding.
    #[error(
        "this padding and hash need a modulus of {needed} bytes, the key has {found}: use a larger key, a shorter hash \
         or a shorter salt"
    )]
    ShortModulus {
        /// Least length, bytes.
        needed: usize,
        /// The key's length, bytes.
        found: usize,
    },
    /// The label of OAEP is too long.
    #[error("the label has {found} bytes: use up to {most}, such as a digest of it")]
    LongLabel {
        /// Its length, bytes.
        found: usize,
        /// Most bytes.
        most: usize,
    },
    /// XTS with one key for both purposes.
    #[error("the two halves of the XTS key are equal: give two independent keys")]
    EqualHalves,
    /// A failure that is not in the spec.
    #[error("the crypto library failed: try again, and see the service's log")]
    Library,
}
