//! A key as programs hold it: its public part, and where the private part is.

mod curve;
mod der;

use crate::client::MadeKey;
use crate::face::failure::{Failure, Reason};
use crate::spec::{KeyMaterial, Secret};
use std::ffi::CStr;
use std::sync::atomic::{AtomicU64, Ordering};

pub use self::der::{RsaParts, ec_private, ed25519_private, rsa_private};

/// The type of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Family {
    /// RSA, 1024 to 4096 bits.
    Rsa,
    /// ECDSA on a [`Curve`].
    Ec,
    /// Ed25519.
    Ed25519,
    /// X25519.
    X25519,
    /// ML-KEM-768.
    MlKem768,
    /// ML-DSA-65.
    MlDsa65,
}

impl Family {
    /// Whether signatures are made over digests, as opposed to whole messages.
    pub fn takes_digest(self) -> bool {
        matches!(self, Self::Rsa | Self::Ec)
    }

    /// Its name, as C programs have it.
    pub fn name(self) -> &'static CStr {
        match self {
            Self::Rsa => c"RSA",
            Self::Ec => c"EC",
            Self::Ed25519 => c"ED25519",
            Self::X25519 => c"X25519",
            Self::MlKem768 => c"ML-KEM-768",
            Self::MlDsa65 => c"ML-DSA-65",
        }
    }
}

/// An elliptic curve for ECDSA.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Curve {
    /// P-256.
    P256,
    /// P-384.
    P384,
}

impl Curve {
    /// Its name, as C programs have it.
    pub fn name(self) -> &'static CStr {
        match self {
            Self::P256 => c"prime256v1",
            Self::P384 => c"secp384r1",
        }
    }

    /// The curve of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        let is = |names: &[&str]| names.iter().any(|known| known.eq_ignore_ascii_case(name));
        if is(&["prime256v1", "P-256", "secp256r1"]) {
            Some(Self::P256)
        } else if is(&["secp384r1", "P-384"]) {
            Some(Self::P384)
        } else {
            None
        }
    }

    /// Bytes of a coordinate and of a digest that is signed.
    pub fn size(self) -> usize {
        match self {
            Self::P256 => 32,
            Self::P384 => 48,
        }
    }
}

/// The public part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Public {
    /// Modulus and exponent, the most significant byte first, without zeros before it.
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
        /// 4 and two coordinates.
        point: Vec<u8>,
    },
    /// The point.
    Ed25519([u8; 32]),
    /// The point.
    X25519([u8; 32]),
    /// The encapsulation key.
    MlKem768(Vec<u8>),
    /// The key.
    MlDsa65(Vec<u8>),
}

impl Public {
    /// Its type.
    pub fn family(&self) -> Family {
        match self {
            Self::Rsa { .. } => Family::Rsa,
            Self::Ec { .. } => Family::Ec,
            Self::Ed25519(_) => Family::Ed25519,
            Self::X25519(_) => Family::X25519,
            Self::MlKem768(_) => Family::MlKem768,
            Self::MlDsa65(_) => Family::MlDsa65,
        }
    }

    /// Size in bits, as certificates and programs count it.
    pub fn bits(&self) -> usize {
        match self {
            Self::Rsa { n, .. } => n.len() * 8 - n.first().map_or(0, |first| first.leading_zeros() as usize),
            Self::Ec { curve, .. } => curve.size() * 8,
            Self::Ed25519(_) => 256,
            Self::X25519(_) => 253,
            Self::MlKem768(_) => 768,
            Self::MlDsa65(key) => key.len() * 8,
        }
    }

    /// Strength in bits, as NIST SP 800-57 counts it.
    pub fn security_bits(&self) -> i32 {
        match self {
            Self::Rsa { .. } => match self.bits() {
                0..2048 => 80,
                2048..3072 => 112,
                3072..4096 => 128,
                _ => 152,
            },
            Self::Ec { curve: Curve::P384, .. } | Self::MlKem768(_) | Self::MlDsa65(_) => 192,
            _ => 128,
        }
    }

    /// The bytes, where they are the whole public part.
    pub fn raw(&self) -> Option<&[u8]> {
        match self {
            Self::Ed25519(key) | Self::X25519(key) => Some(key),
            Self::MlKem768(key) | Self::MlDsa65(key) => Some(key),
            Self::Rsa { .. } | Self::Ec { .. } => None,
        }
    }

    /// Length of the longest signature, plaintext, secret or ciphertext.
    pub fn max_len(&self) -> usize {
        match self {
            Self::Rsa { n, .. } => n.len(),
            // Two integers with tag, length and perhaps a zero before, in a sequence.
            Self::Ec { curve, .. } => 2 * (curve.size() + 3) + 2,
            Self::Ed25519(_) => 64,
            Self::X25519(_) => 32,
            Self::MlKem768(_) => 1088,
            Self::MlDsa65(_) => 3309,
        }
    }
}

/// Where the private part is.
pub enum Private {
    /// Nowhere: a public key.
    None,
    /// In the service's store, under this name.
    Stored(String),
    /// Imported by the program into this process: PKCS#8, or raw for X25519, ML-KEM and ML-DSA.
    Imported(Secret),
    /// In the service, which made it for this program.
    Made(MadeKey),
}

/// A key. Not changed once it is made.
pub struct Key {
    /// No other key of this process has it.
    number: u64,
    /// The public part.
    pub public: Public,
    /// Where the private part is.
    pub private: Private,
}

impl Key {
    /// A key of these parts.
    pub fn new(public: Public, private: Private) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self { number: NEXT.fetch_add(1, Ordering::Relaxed), public, private }
    }

    /// The public part of this key.
    #[must_use]
    pub fn without_private(&self) -> Self {
        Self::new(self.public.clone(), Private::None)
    }

    /// Whether there is a private part, wherever it is.
    pub fn has_private(&self) -> bool {
        !matches!(self.private, Private::None)
    }

    /// What a session on this key is opened with.
    pub(crate) fn material(&self) -> Result<KeyMaterial, Failure> {
        Ok(match &self.private {
            Private::None => KeyMaterial::Public(match &self.public {
                Public::MlKem768(key) => key.clone(),
                public => public.to_spki()?,
            }),
            Private::Stored(name) => KeyMaterial::Stored(name.clone()),
            Private::Imported(pkcs8) => KeyMaterial::Private(pkcs8.clone()),
            Private::Made(key) => key.material(),
        })
    }

    /// The same key, without what keeps its private part, to be known again by [`Key::is`].
    pub(crate) fn remembered(&self) -> Self {
        let private = match &self.private {
            Private::Stored(name) => Private::Stored(name.clone()),
            _ => Private::None,
        };
        Self { number: self.number, public: self.public.clone(), private }
    }

    /// Whether a session on `other` does for this one.
    pub(crate) fn is(&self, other: &Self) -> bool {
        self.number == other.number
            || self.public == other.public
                && matches!((&self.private, &other.private), (Private::Stored(a), Private::Stored(b)) if a == b)
    }
}

/// What cannot be read as a key.
fn unreadable(what: &str) -> Failure {
    Failure::new(
        Reason::Key,
        format!("{what} cannot be read: use RSA, EC (P-256 or P-384), Ed25519, X25519, ML-KEM-768 or ML-DSA-65"),
    )
}
