//! Parameters of a session: a scheme and a key.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use zeroize::{Zeroize, Zeroizing};

/// A scheme and a key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionSpec {
    /// Algorithm and its parameters.
    pub scheme: Scheme,
    /// Key for the scheme.
    pub key: KeyMaterial,
}

/// Algorithm of a session. Where the key determines parameters (RSA's modulus, ECDSA's curve), the key decides.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Scheme {
    /// No operation. Key: none.
    Noop,
    /// Symmetric encryption. Key: raw.
    Cipher(Cipher),
    /// Digest. SHA-256, SHA-384 or SHA-512. Key: none.
    Digest(Hash),
    /// HMAC with SHA-256, SHA-384 or SHA-512. Key: raw, of at least one byte.
    Hmac(Hash),
    /// RSA signatures. Key: PKCS#8 to sign and verify, SPKI to verify.
    RsaSignature {
        /// Padding of the digest.
        padding: SignaturePadding,
        /// Hash of the message, one of SHA-2.
        hash: Hash,
    },
    /// RSA decryption. Key: PKCS#8.
    RsaDecryption {
        /// Padding of the plaintext.
        padding: DecryptionPadding,
    },
    /// ECDSA on P-256, P-384 or P-521. Key: PKCS#8 to sign and verify, SPKI to verify. A digest to sign may come from
    /// another hash: it has 20 to 66 bytes, and ECDSA uses as many leading bits as the curve has.
    Ecdsa {
        /// Hash of the message, one of SHA-2.
        hash: Hash,
    },
    /// ECDSA over digests that the client made, of 20 to 66 bytes: signs and verifies them. Key: as for `Ecdsa`.
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
    /// ECDH on P-256, P-384 or P-521. Input: the peer's point, uncompressed or compressed. Result: the first
    /// coordinate of the shared point. Key: PKCS#8.
    Ecdh,
    /// RSA encryption: the public operation. Key: PKCS#8 or SPKI.
    RsaEncryption {
        /// Padding of the plaintext.
        padding: EncryptionPadding,
    },
}

impl Scheme {
    /// Whether its operations take tens of microseconds or more, for any input size.
    pub fn is_asymmetric(&self) -> bool {
        !matches!(self, Self::Noop | Self::Cipher(_) | Self::Digest(_) | Self::Hmac(_))
    }

    /// A short description.
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

/// Padding of a signature's digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SignaturePadding {
    /// PKCS#1 v1.5.
    Pkcs1,
    /// PSS.
    Pss {
        /// Hash of the mask generation function, usually that of the message. SHA-1 serves to verify old signatures.
        mgf1: Hash,
        /// Length of the salt.
        salt: SaltLength,
    },
    /// PKCS#1 v1.5 around bytes from the client in the digest's place: a `DigestInfo` of any hash, or any bytes, from
    /// 1 to the modulus's length less 11. Signs and verifies digests only. The scheme's hash is not used.
    Pkcs1Raw,
    /// PSS over digests of the scheme's hash that the client made: signs and verifies them.
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
    /// The digest's length.
    Digest,
    /// Signing: the longest that fits. Verifying: any length.
    Any,
    /// This number of bytes.
    Bytes(u16),
}

/// Padding of an RSA ciphertext.
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
        /// Label, usually empty; up to 1024 bytes.
        label: Vec<u8>,
    },
}

/// Padding of an RSA plaintext.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum EncryptionPadding {
    /// As for decryption.
    Padded(DecryptionPadding),
    /// No padding: the input is a number below the modulus, of the modulus's length. Also recovers signed values.
    None,
}

/// A key in its encoding.
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
    /// A key of the service's store, by its name: see [`crate::keys`]. The service substitutes the key itself.
    Stored(String),
    /// A key that the service made for a program, see [`MadeKey`](crate::client::MadeKey).
    Made(KeyToken),
    /// A key of the service's store for another service, which sealed its name and the scheme in these bytes: see
    /// [`crate::channel`]. The scheme beside it counts for nothing.
    Served(Vec<u8>),
}

/// Names a key that the service made for a program. Every process that has the token can use the key.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct KeyToken(pub [u8; 16]);

impl fmt::Debug for KeyToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyToken(..)")
    }
}

/// Bytes of a key. Wiped on drop; never printed. They never move between allocations, which would leave a copy behind.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Zeroizing<Box<[u8]>>);

impl Secret {
    /// Takes over the bytes. A vector with spare capacity is copied and then wiped.
    pub fn new(mut bytes: Vec<u8>) -> Self {
        if bytes.len() == bytes.capacity() {
            return Self(Zeroizing::new(bytes.into_boxed_slice()));
        }
        let exact = Self::from(bytes.as_slice());
        bytes.zeroize();
        exact
    }

    /// Access to the bytes.
    pub fn expose(&self) -> &[u8] {
        &self.0
    }
}

impl From<&[u8]> for Secret {
    fn from(bytes: &[u8]) -> Self {
        Self(Zeroizing::new(bytes.into()))
    }
}

/// As one run of bytes: a sequence of elements would pass through a growing vector.
impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(&self.0)
    }
}

/// From a packet in memory: borrows the bytes until they are copied here.
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
