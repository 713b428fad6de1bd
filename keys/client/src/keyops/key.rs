//! A key as programs hold it: its public part, and the location of its private part.

mod curve;
mod der;
mod flat;
mod raw;

use crate::client::MadeKey;
use crate::keyops::failure::{Failure, Reason};
use crate::spec::{KeyMaterial, Secret};
use std::ffi::CStr;
use std::hash::{BuildHasher, RandomState};
use std::sync::OnceLock;

pub use self::der::{ec_private, ed25519_private, rsa_private};
pub use self::raw::Raw;

/// The type of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Family {
    /// RSA, 1024 to 8192 bits.
    Rsa,
    /// ECDSA and ECDH on a [`Curve`].
    Ec,
    /// A type whose public part is a string of bytes.
    Raw(Raw),
}

impl Family {
    /// Whether it signs digests, as opposed to whole messages.
    pub fn takes_digest(self) -> bool {
        matches!(self, Self::Rsa | Self::Ec)
    }

    /// Its name in C programs.
    pub fn name(self) -> &'static CStr {
        match self {
            Self::Rsa => c"RSA",
            Self::Ec => c"EC",
            Self::Raw(raw) => raw.facts().name,
        }
    }
}

/// An elliptic curve for ECDSA and ECDH.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Curve {
    /// P-256.
    P256,
    /// P-384.
    P384,
    /// P-521.
    P521,
}

impl Curve {
    /// All curves.
    pub const ALL: [Self; 3] = [Self::P256, Self::P384, Self::P521];

    /// Its name in C programs.
    pub fn name(self) -> &'static CStr {
        match self {
            Self::P256 => c"prime256v1",
            Self::P384 => c"secp384r1",
            Self::P521 => c"secp521r1",
        }
    }

    /// The curve with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        match name.to_ascii_lowercase().as_str() {
            "prime256v1" | "p-256" | "secp256r1" => Some(Self::P256),
            "secp384r1" | "p-384" => Some(Self::P384),
            "secp521r1" | "p-521" => Some(Self::P521),
            _ => None,
        }
    }

    fn bits(self) -> usize {
        match self {
            Self::P256 => 256,
            Self::P384 => 384,
            Self::P521 => 521,
        }
    }

    /// Length of a coordinate, bytes.
    pub fn size(self) -> usize {
        self.bits().div_ceil(8)
    }
}

/// The public part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Public {
    /// Modulus and exponent, most significant byte first, without leading zeros.
    Rsa {
        /// The modulus.
        n: Vec<u8>,
        /// The exponent.
        e: Vec<u8>,
    },
    /// The point, uncompressed.
    Ec {
        /// The curve.
        curve: Curve,
        /// The byte 4 and two coordinates.
        point: Vec<u8>,
    },
    /// The point or the key.
    Raw(Raw, Vec<u8>),
}

impl Public {
    /// Its type.
    pub fn family(&self) -> Family {
        match self {
            Self::Rsa { .. } => Family::Rsa,
            Self::Ec { .. } => Family::Ec,
            Self::Raw(raw, _) => Family::Raw(*raw),
        }
    }

    /// Size in bits, as certificates and programs count it.
    pub fn bits(&self) -> usize {
        match self {
            Self::Rsa { n, .. } => n.len() * 8 - n.first().map_or(0, |first| first.leading_zeros() as usize),
            Self::Ec { curve, .. } => curve.bits(),
            Self::Raw(raw, _) => raw.facts().bits,
        }
    }

    /// Strength in bits, as NIST SP 800-57 counts it.
    pub fn security_bits(&self) -> i32 {
        match self {
            Self::Rsa { .. } => match self.bits() {
                0..2048 => 80,
                2048..3072 => 112,
                3072..4096 => 128,
                4096..6144 => 152,
                6144..8192 => 176,
                _ => 200,
            },
            Self::Ec { curve: Curve::P256, .. } => 128,
            Self::Ec { curve: Curve::P384, .. } => 192,
            Self::Ec { curve: Curve::P521, .. } => 256,
            Self::Raw(raw, _) => raw.facts().security_bits,
        }
    }

    /// Length of the longest signature, plaintext, secret or ciphertext, bytes.
    pub fn max_len(&self) -> usize {
        match self {
            Self::Rsa { n, .. } => n.len(),
            // A sequence of two integers, each with tag, length and, if its top bit is set, a leading zero.
            Self::Ec { curve: Curve::P521, .. } => 2 * (66 + 2) + 3,
            Self::Ec { curve, .. } => 2 * (curve.size() + 3) + 2,
            Self::Raw(raw, _) => raw.facts().max_len,
        }
    }
}

/// Location of the private part.
pub enum Private {
    /// None: a public key.
    None,
    /// In the service's store, under this name.
    Stored(String),
    /// Imported by the program into this process: PKCS#8, or raw for X25519, ML-KEM and ML-DSA.
    Imported(Secret),
    /// In the service, which made it for this program.
    Made(MadeKey),
    /// In the service, for another service, which sealed its name in these bytes: see [`crate::channel`].
    Served(Vec<u8>),
}

impl Private {
    fn identity(&self) -> (u8, &[u8]) {
        match self {
            Self::None => (0, &[]),
            Self::Stored(name) => (1, name.as_bytes()),
            Self::Imported(secret) => (2, secret.expose()),
            Self::Made(key) => (3, &key.token().0),
            Self::Served(opening) => (4, opening),
        }
    }
}

/// A key. Immutable.
pub struct Key {
    /// A hash of the private part, or of its location, keyed with a secret of this process and its children.
    number: u64,
    /// The public part.
    pub public: Public,
    /// Location of the private part.
    pub private: Private,
}

impl Key {
    /// A key of these parts.
    pub fn new(public: Public, private: Private) -> Self {
        static SECRET: OnceLock<RandomState> = OnceLock::new();
        let number = SECRET.get_or_init(RandomState::new).hash_one(private.identity());
        Self { number, public, private }
    }

    /// The public part of this key.
    #[must_use]
    pub fn without_private(&self) -> Self {
        Self::new(self.public.clone(), Private::None)
    }

    /// Whether there is a private part, in any location.
    pub fn has_private(&self) -> bool {
        !matches!(self.private, Private::None)
    }

    pub(crate) fn material(&self) -> Result<KeyMaterial, Failure> {
        Ok(match &self.private {
            Private::None => KeyMaterial::Public(match &self.public {
                Public::Raw(Raw::MlKem768, key) => key.clone(),
                public => public.to_spki()?,
            }),
            Private::Stored(name) => KeyMaterial::Stored(name.clone()),
            Private::Imported(pkcs8) => KeyMaterial::Private(pkcs8.clone()),
            Private::Made(key) => key.material(),
            Private::Served(opening) => KeyMaterial::Served(opening.clone()),
        })
    }

    pub(crate) fn remembered(&self) -> Self {
        let private = match &self.private {
            Private::Stored(name) => Private::Stored(name.clone()),
            Private::Served(opening) => Private::Served(opening.clone()),
            _ => Private::None,
        };
        Self { number: self.number, public: self.public.clone(), private }
    }

    pub(crate) fn is(&self, other: &Self) -> bool {
        self.number == other.number && self.public == other.public
    }
}

fn unreadable(what: &str) -> Failure {
    Failure::new(
        Reason::Key,
        format!("{what} cannot be read: use RSA, EC (P-256, P-384 or P-521), Ed25519, X25519, ML-KEM-768 or ML-DSA-65"),
    )
}
