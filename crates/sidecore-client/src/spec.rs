//! What a client says when it opens a session: what to do, and with which key.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use zeroize::{Zeroize, Zeroizing};

/// Everything that a session needs: what to do, and with which key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionSpec {
    /// What the session does.
    pub scheme: Scheme,
    /// The key it does it with.
    pub key: KeyMaterial,
}

/// What a session does. Where the key tells more (RSA's modulus, ECDSA's curve), the key decides.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Scheme {
    /// Nothing. Key: none.
    Noop,
    /// Symmetric encryption. Key: raw.
    Cipher(Cipher),
    /// Digest. SHA-256, SHA-384 or SHA-512. Key: none.
    Digest(Hash),
    /// HMAC with SHA-256, SHA-384 or SHA-512. Key: raw, of at least one byte.
    Hmac(Hash),
    /// RSA signatures. Key: PKCS#8 to sign and verify, SPKI to verify.
    RsaSignature {
        /// How the digest is padded.
        padding: SignaturePadding,
        /// Hash of the message, one of SHA-2.
        hash: Hash,
    },
    /// RSA decryption. Key: PKCS#8.
    RsaDecryption {
        /// How the plaintext was padded.
        padding: DecryptionPadding,
    },
    /// ECDSA on P-256, P-384 or P-521. Key: PKCS#8 to sign and verify, SPKI to verify. A digest to sign may be of another
    /// hash: it has 20 to 66 bytes, of which ECDSA takes as many bits as the curve has.
    Ecdsa {
        /// Hash of the message, one of SHA-2.
        hash: Hash,
    },
    /// ECDSA over digests that the client made, of 20 to 66 bytes: signs them, and verifies them. Key: as for `Ecdsa`.
    EcdsaRaw,
    /// Ed25519. Key: PKCS#8 to sign and verify, SPKI or 32 raw bytes to verify.
    Ed25519,
    /// X25519. Key: 32 raw private bytes.
    X25519,
    /// ML-KEM-768. Key: decapsulation key (2400 raw bytes, or its 64-byte seed) to do both, encapsulation key (1184 raw
    /// bytes) to encapsulate.
    MlKem768,
    /// ML-DSA-65 with an empty context. Key: 32-byte seed, 4032 raw bytes or PKCS#8 to sign and verify; 1952 raw bytes
    /// or SPKI to verify.
    MlDsa65,
    /// ECDH on P-256, P-384 or P-521: from the peer's point, uncompressed or compressed, the shared point's first coordinate.
    /// Key: PKCS#8.
    Ecdh,
    /// RSA encryption: the public operation. Key: PKCS#8 or SPKI.
    RsaEncryption {
        /// How the plaintext is padded.
        padding: EncryptionPadding,
    },
}

impl Scheme {
    /// Whether its operations take tens of microseconds or more, whatever the size.
    pub fn is_asymmetric(&self) -> bool {
        !matches!(self, Self::Noop | Self::Cipher(_) | Self::Digest(_) | Self::Hmac(_))
    }

    /// What it is, in a few words.
    pub fn what(&self) -> &'static str {
        match self {
            Self::Noop => "nothing",
            Self::Cipher(_) => "symmetric encryption",
            Self::Digest(_) => "digests",
            Self::Hmac(_) => "HMAC",
            Self::RsaSignature { .. } => "RSA signatures",
            Self::RsaDecryption { .. } => "RSA decryption",
            Self::Ecdsa { .. } | Self::EcdsaRaw => "ECDSA",
            Self::Ed25519 => "Ed25519",
            Self::X25519 => "X25519",
            Self::MlKem768 => "ML-KEM-768",
            Self::MlDsa65 => "ML-DSA-65",
            Self::Ecdh => "ECDH",
            Self::RsaEncryption { .. } => "RSA encryption",
        }
    }
}

/// A symmetric cipher in its mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Cipher {
    /// AES-128-GCM: 16-byte key.
    Aes128Gcm,
    /// AES-256-GCM: 32-byte key.
    Aes256Gcm,
    /// AES-128 in counter mode: 16-byte key.
    Aes128Ctr,
    /// AES-256 in counter mode: 32-byte key.
    Aes256Ctr,
    /// AES-128 in CBC mode, whole blocks: 16-byte key.
    Aes128Cbc,
    /// AES-256 in CBC mode, whole blocks: 32-byte key.
    Aes256Cbc,
    /// AES-128 in XTS mode: two different 16-byte keys, one after the other.
    Aes128Xts,
    /// AES-256 in XTS mode: two different 32-byte keys, one after the other.
    Aes256Xts,
    /// ChaCha20-Poly1305: 32-byte key.
    ChaCha20Poly1305,
    /// Three-key triple DES in CBC mode, whole blocks: 24-byte key.
    TripleDesCbc,
}

impl Cipher {
    /// Length of the key, in bytes.
    pub fn key_len(self) -> usize {
        match self {
            Self::Aes128Gcm | Self::Aes128Ctr | Self::Aes128Cbc => 16,
            Self::TripleDesCbc => 24,
            Self::Aes256Gcm | Self::Aes256Ctr | Self::Aes256Cbc | Self::Aes128Xts | Self::ChaCha20Poly1305 => 32,
            Self::Aes256Xts => 64,
        }
    }

    /// Length of the nonce, iv or tweak before the input, in bytes.
    pub fn iv_len(self) -> usize {
        match self {
            Self::Aes128Gcm | Self::Aes256Gcm | Self::ChaCha20Poly1305 => 12,
            Self::TripleDesCbc => 8,
            _ => 16,
        }
    }
}

/// A hash function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Hash {
    /// SHA-1: inside OAEP only, where many programs still default to it.
    Sha1,
    /// SHA-256.
    Sha256,
    /// SHA-384.
    Sha384,
    /// SHA-512.
    Sha512,
    /// SHA-224: for RSA and ECDSA.
    Sha224,
    /// SHA-512/224: for RSA and ECDSA.
    Sha512_224,
    /// SHA-512/256: for RSA and ECDSA.
    Sha512_256,
}

impl Hash {
    /// Length of the digest, in bytes.
    #[expect(clippy::len_without_is_empty, reason = "no digest is empty")]
    #[inline]
    pub const fn len(self) -> usize {
        match self {
            Self::Sha1 => 20,
            Self::Sha224 | Self::Sha512_224 => 28,
            Self::Sha256 | Self::Sha512_256 => 32,
            Self::Sha384 => 48,
            Self::Sha512 => 64,
        }
    }
}

/// How a signature pads its digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SignaturePadding {
    /// PKCS#1 v1.5.
    Pkcs1,
    /// PSS.
    Pss {
        /// Hash of the mask generation function; mostly that of the message. SHA-1 serves to verify old signatures.
        mgf1: Hash,
        /// Length of the salt.
        salt: SaltLength,
    },
    /// PKCS#1 v1.5 around what the client gives in the digest's place: a `DigestInfo` of a hash of its own choice, or any
    /// bytes, 1 to the modulus's length less 11. Signs digests only; verifies them, too. The scheme's hash is not used.
    Pkcs1Raw,
    /// PSS over digests of the scheme's hash that the client made: signs them, and verifies them.
    PssRaw {
        /// As for `Pss`.
        mgf1: Hash,
        /// As for `Pss`.
        salt: SaltLength,
    },
}

/// Length of a PSS salt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SaltLength {
    /// That of the digest.
    Digest,
    /// Signing: the longest that fits. Verifying: whichever it is.
    Any,
    /// So many bytes.
    Bytes(u16),
}

/// How an RSA ciphertext was padded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DecryptionPadding {
    /// PKCS#1 v1.5 with implicit rejection: bad padding gives a plaintext that depends on key and ciphertext only.
    Pkcs1,
    /// OAEP.
    Oaep {
        /// Hash of the label.
        hash: Hash,
        /// Hash of the mask generation function.
        mgf1: Hash,
        /// Label, mostly empty; up to 1024 bytes.
        label: Vec<u8>,
    },
}

/// How an RSA plaintext is padded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum EncryptionPadding {
    /// As for decryption.
    Padded(DecryptionPadding),
    /// Not at all: a number of the modulus's length and below it. Recovers what was signed, too.
    None,
}

/// A key, as it is stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum KeyMaterial {
    /// The scheme has no key.
    None,
    /// A symmetric key, raw.
    Symmetric(Secret),
    /// A private key, in the encoding that [`Scheme`] names.
    Private(Secret),
    /// A public key, in the encoding that [`Scheme`] names.
    Public(Vec<u8>),
    /// A key of the service's store, by its name: see [`crate::keys`]. The service puts the key in its place.
    Stored(String),
    /// A key that the service made for a program, see [`MadeKey`](crate::client::MadeKey).
    Made(KeyToken),
}

/// Names a key that the service made for a program, and lets whoever has it use the key.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct KeyToken(pub [u8; 16]);

impl fmt::Debug for KeyToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyToken(..)")
    }
}

/// Bytes of a key. Wiped on drop; never printed. They are never moved from one allocation to another, which would leave
/// a copy behind.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Zeroizing<Box<[u8]>>);

impl Secret {
    /// Takes over the bytes. Where the vector has room to spare they are copied, and the vector is wiped.
    pub fn new(mut bytes: Vec<u8>) -> Self {
        if bytes.len() == bytes.capacity() {
            return Self(Zeroizing::new(bytes.into_boxed_slice()));
        }
        let exact = Self::from(bytes.as_slice());
        bytes.zeroize();
        exact
    }

    /// The bytes.
    pub fn expose(&self) -> &[u8] {
        &self.0
    }
}

impl From<&[u8]> for Secret {
    fn from(bytes: &[u8]) -> Self {
        Self(Zeroizing::new(bytes.into()))
    }
}

/// As bytes, in one piece: no element of a sequence passes through a vector that grows.
impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(&self.0)
    }
}

/// From a packet in memory, of which the bytes are borrowed until they are copied here.
impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        <&[u8]>::deserialize(deserializer).map(Self::from)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secret({} bytes)", self.0.len())
    }
}
