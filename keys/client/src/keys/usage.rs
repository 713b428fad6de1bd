//! The private operations that a key may do.

use super::Kind;
use crate::spec::Scheme;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A set of private operations, and whether the key is meant for SSH. Verification and encryption take the public part
/// only, and belong to none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Usage(u8);

/// Reason why a text names no usage.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UsageError {
    /// A word that is none of the usages.
    #[error("there is no usage {0:?}: write sign, decrypt, derive or ssh, with commas between them")]
    Unknown(String),
    /// There is no word.
    #[error("a key without any usage is of no use: write sign, decrypt, derive or ssh, or delete the key")]
    Empty,
}

impl Usage {
    /// None.
    pub const NONE: Self = Self(0);
    /// Signatures.
    pub const SIGN: Self = Self(1);
    /// RSA decryption.
    pub const DECRYPT: Self = Self(2);
    /// Key agreement and decapsulation.
    pub const DERIVE: Self = Self(4);
    /// All operations.
    pub const ALL: Self = Self(7);
    /// The key is meant for SSH: agents offer it to SSH's clients. It adds no operation, so it goes with [`Self::SIGN`],
    /// and services and clients that do not know it take the key for one that signs.
    pub const SSH: Self = Self(8);
    /// All that this version knows.
    pub const KNOWN: Self = Self(15);

    const WORDS: [(Self, &'static str); 4] =
        [(Self::SIGN, "sign"), (Self::DECRYPT, "decrypt"), (Self::DERIVE, "derive"), (Self::SSH, "ssh")];

    /// The usage of a session of this scheme.
    pub fn of_scheme(scheme: &Scheme) -> Self {
        match scheme {
            Scheme::RsaSignature { .. }
            | Scheme::Ecdsa { .. }
            | Scheme::EcdsaRaw
            | Scheme::Ed25519
            | Scheme::MlDsa65 => Self::SIGN,
            Scheme::RsaDecryption { .. } => Self::DECRYPT,
            Scheme::X25519 | Scheme::MlKem768 | Scheme::Ecdh => Self::DERIVE,
            Scheme::RsaEncryption { .. } | Scheme::Noop | Scheme::Cipher(_) | Scheme::Digest(_) | Scheme::Hmac(_) => {
                Self::NONE
            }
        }
    }

    /// All that may be set for a key of this kind.
    pub fn settable(kind: Kind) -> Self {
        match kind {
            Kind::X25519 | Kind::MlKem768 | Kind::MlDsa65 => Self::of_kind(kind),
            _ => Self::of_kind(kind).with(Self::SSH),
        }
    }

    /// All operations of a key of this kind.
    pub fn of_kind(kind: Kind) -> Self {
        match kind {
            _ if kind.is_rsa() => Self::SIGN.with(Self::DECRYPT),
            Kind::P256 | Kind::P384 | Kind::P521 => Self::SIGN.with(Self::DERIVE),
            Kind::X25519 | Kind::MlKem768 => Self::DERIVE,
            _ => Self::SIGN,
        }
    }

    /// Whether all of `other` is in it.
    pub fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// The union.
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The intersection.
    #[must_use]
    pub fn both(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// The difference.
    #[must_use]
    pub fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Its words, in a fixed order.
    pub fn words(self) -> impl Iterator<Item = &'static str> {
        Self::WORDS.into_iter().filter(move |(usage, _)| self.contains(*usage)).map(|(_, word)| word)
    }
}

/// All usages.
impl Default for Usage {
    fn default() -> Self {
        Self::ALL
    }
}

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words().collect::<Vec<_>>().join(","))
    }
}

impl FromStr for Usage {
    type Err = UsageError;

    fn from_str(text: &str) -> Result<Self, UsageError> {
        if text.trim().is_empty() {
            return Err(UsageError::Empty);
        }
        text.split(',').try_fold(Self::NONE, |usage, word| {
            let known = Self::WORDS.into_iter().find(|(_, known)| *known == word.trim());
            let (more, _) = known.ok_or_else(|| UsageError::Unknown(word.chars().take(80).collect()))?;
            // Whoever writes `ssh` means a key that signs.
            Ok(usage.with(if more == Self::SSH { more.with(Self::SIGN) } else { more }))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_usage_is_written_as_it_is_read() {
        for text in ["sign", "decrypt", "sign,decrypt", "sign,decrypt,derive"] {
            assert_eq!(text.parse::<Usage>().unwrap().to_string(), text);
        }
        assert_eq!("ssh".parse::<Usage>().unwrap().to_string(), "sign,ssh");
        assert_eq!("derive, sign,sign".parse::<Usage>().unwrap().to_string(), "sign,derive");
        for wrong in ["", " ", "signs", "sign,", ",sign", "sign\0", "SIGN", "raw", "sign;decrypt"] {
            assert!(wrong.parse::<Usage>().is_err(), "{wrong:?}");
        }
        assert!("raw".parse::<Usage>().unwrap_err().to_string().contains("sign, decrypt, derive or ssh"));
    }

    #[test]
    fn each_scheme_that_a_kind_does_is_among_its_usages() {
        let schemes =
            [Scheme::Ecdh, Scheme::EcdsaRaw, Scheme::Ed25519, Scheme::X25519, Scheme::MlKem768, Scheme::MlDsa65];
        for kind in Kind::ALL {
            assert_ne!(Usage::of_kind(kind), Usage::NONE);
            assert!(Usage::ALL.contains(Usage::of_kind(kind)) && Usage::KNOWN.contains(Usage::settable(kind)));
            for scheme in schemes.iter().filter(|scheme| kind.does(scheme)) {
                assert!(Usage::of_kind(kind).contains(Usage::of_scheme(scheme)), "{kind:?} {scheme:?}");
            }
        }
    }
}
