//! Abilities of a session: algorithms, operations, and their classes in policies and counters.
//!
//! A [`Class`] is a pair of algorithm and operation: a row of one table. Its number is its place in the table, so
//! that rates and counters are plain arrays, and [`Classes`] describe a device's abilities.

mod classes;

pub use classes::Classes;

use Algorithm as A;

/// An algorithm with its key size, as far as the time of a request depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Algorithm {
    /// No work at all: measures the path.
    Noop = 0,
    /// AES-128 in Galois/counter mode.
    Aes128Gcm,
    /// AES-256 in Galois/counter mode.
    Aes256Gcm,
    /// AES-128 in counter mode.
    Aes128Ctr,
    /// AES-256 in counter mode.
    Aes256Ctr,
    /// AES-128 in cipher block chaining mode, whole blocks.
    Aes128Cbc,
    /// AES-256 in cipher block chaining mode, whole blocks.
    Aes256Cbc,
    /// AES-128 in XTS mode (two 128-bit keys).
    Aes128Xts,
    /// AES-256 in XTS mode (two 256-bit keys).
    Aes256Xts,
    /// ChaCha20-Poly1305 of RFC 8439.
    ChaCha20Poly1305,
    /// Three-key triple DES in cipher block chaining mode, whole blocks.
    TripleDesCbc,
    /// SHA-256.
    Sha256,
    /// SHA-384.
    Sha384,
    /// SHA-512.
    Sha512,
    /// HMAC with SHA-256.
    HmacSha256,
    /// HMAC with SHA-384.
    HmacSha384,
    /// HMAC with SHA-512.
    HmacSha512,
    /// RSA with a modulus of 1024 bits.
    Rsa1024,
    /// RSA with a modulus of 2048 bits.
    Rsa2048,
    /// RSA with a modulus of 3072 bits.
    Rsa3072,
    /// RSA with a modulus of 4096 bits.
    Rsa4096,
    /// RSA with a modulus of 6144 bits.
    Rsa6144,
    /// RSA with a modulus of 8192 bits.
    Rsa8192,
    /// ECDSA and ECDH on P-256.
    P256,
    /// ECDSA and ECDH on P-384.
    P384,
    /// ECDSA and ECDH on P-521.
    P521,
    /// Ed25519 of RFC 8032.
    Ed25519,
    /// X25519 of RFC 7748.
    X25519,
    /// ML-KEM-768 of FIPS 203.
    MlKem768,
    /// ML-DSA-65 of FIPS 204.
    MlDsa65,
    /// An algorithm for tests only, whose operations may not be done again.
    #[cfg(test)]
    Once,
}

/// The operation that a request asks of its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Op {
    /// Nothing: the request comes back as it is.
    Noop = 0,
    /// Encrypt (AEAD: seal; RSA: public-key encryption).
    Encrypt,
    /// Decrypt (AEAD: open; RSA: private-key decryption).
    Decrypt,
    /// Digest of a message.
    Digest,
    /// Signature of a message; for HMAC its tag.
    Sign,
    /// Signature of a digest that the client made.
    SignDigest,
    /// Verify a signature or a tag over a message.
    Verify,
    /// Shared secret from the peer's public key.
    Derive,
    /// Fresh shared secret and its encapsulation.
    Encapsulate,
    /// Shared secret from an encapsulation.
    Decapsulate,
}

const OPS: &[(Op, &str)] = &[
    (Op::Noop, "noop"),
    (Op::Encrypt, "encrypt"),
    (Op::Decrypt, "decrypt"),
    (Op::Digest, "digest"),
    (Op::Sign, "sign"),
    (Op::SignDigest, "sign"),
    (Op::Verify, "verify"),
    (Op::Derive, "derive"),
    (Op::Encapsulate, "encaps"),
    (Op::Decapsulate, "decaps"),
];

impl Op {
    /// Number of operations.
    pub const COUNT: usize = OPS.len();

    /// The operation of that number, if there is one.
    #[inline]
    pub fn from_u8(number: u8) -> Option<Self> {
        OPS.get(usize::from(number)).map(|(op, _)| *op)
    }

    fn kind(self) -> &'static str {
        OPS[self as usize].1
    }
}

/// Algorithm and operation as one dense number below [`Class::COUNT`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Class(u8);

struct Row {
    algorithm: Algorithm,
    op: Op,
    name: &'static str,
    /// A second attempt has the same result: another device may do it after its first one died.
    again: bool,
}

const fn row(algorithm: Algorithm, op: Op, name: &'static str) -> Row {
    Row { algorithm, op, name, again: true }
}

/// Every supported pair in order of their numbers, those of one algorithm together and algorithms in order of theirs.
const CLASSES: &[Row] = &[
    row(A::Noop, Op::Noop, "noop"),
    row(A::Aes128Gcm, Op::Encrypt, "aes-128-gcm"),
    row(A::Aes128Gcm, Op::Decrypt, "aes-128-gcm-decrypt"),
    row(A::Aes256Gcm, Op::Encrypt, "aes-256-gcm"),
    row(A::Aes256Gcm, Op::Decrypt, "aes-256-gcm-decrypt"),
    row(A::Aes128Ctr, Op::Encrypt, "aes-128-ctr"),
    row(A::Aes128Ctr, Op::Decrypt, "aes-128-ctr-decrypt"),
    row(A::Aes256Ctr, Op::Encrypt, "aes-256-ctr"),
    row(A::Aes256Ctr, Op::Decrypt, "aes-256-ctr-decrypt"),
    row(A::Aes128Cbc, Op::Encrypt, "aes-128-cbc"),
    row(A::Aes128Cbc, Op::Decrypt, "aes-128-cbc-decrypt"),
    row(A::Aes256Cbc, Op::Encrypt, "aes-256-cbc"),
    row(A::Aes256Cbc, Op::Decrypt, "aes-256-cbc-decrypt"),
    row(A::Aes128Xts, Op::Encrypt, "aes-128-xts"),
    row(A::Aes128Xts, Op::Decrypt, "aes-128-xts-decrypt"),
    row(A::Aes256Xts, Op::Encrypt, "aes-256-xts"),
    row(A::Aes256Xts, Op::Decrypt, "aes-256-xts-decrypt"),
    row(A::ChaCha20Poly1305, Op::Encrypt, "chacha20-poly1305"),
    row(A::ChaCha20Poly1305, Op::Decrypt, "chacha20-poly1305-decrypt"),
    row(A::TripleDesCbc, Op::Encrypt, "3des-cbc"),
    row(A::TripleDesCbc, Op::Decrypt, "3des-cbc-decrypt"),
    row(A::Sha256, Op::Digest, "sha-256"),
    row(A::Sha384, Op::Digest, "sha-384"),
    row(A::Sha512, Op::Digest, "sha-512"),
    row(A::HmacSha256, Op::Sign, "hmac-sha-256"),
    row(A::HmacSha256, Op::Verify, "hmac-sha-256-verify"),
    row(A::HmacSha384, Op::Sign, "hmac-sha-384"),
    row(A::HmacSha384, Op::Verify, "hmac-sha-384-verify"),
    row(A::HmacSha512, Op::Sign, "hmac-sha-512"),
    row(A::HmacSha512, Op::Verify, "hmac-sha-512-verify"),
    row(A::Rsa1024, Op::Encrypt, "rsa-1024-encrypt"),
    row(A::Rsa1024, Op::Sign, "rsa-1024-sign"),
    row(A::Rsa1024, Op::SignDigest, "rsa-1024-sign-digest"),
    row(A::Rsa1024, Op::Verify, "rsa-1024-verify"),
    row(A::Rsa1024, Op::Decrypt, "rsa-1024-decrypt"),
    row(A::Rsa2048, Op::Encrypt, "rsa-2048-encrypt"),
    row(A::Rsa2048, Op::Sign, "rsa-2048-sign"),
    row(A::Rsa2048, Op::SignDigest, "rsa-2048-sign-digest"),
    row(A::Rsa2048, Op::Verify, "rsa-2048-verify"),
    row(A::Rsa2048, Op::Decrypt, "rsa-2048-decrypt"),
    row(A::Rsa3072, Op::Encrypt, "rsa-3072-encrypt"),
    row(A::Rsa3072, Op::Sign, "rsa-3072-sign"),
    row(A::Rsa3072, Op::SignDigest, "rsa-3072-sign-digest"),
    row(A::Rsa3072, Op::Verify, "rsa-3072-verify"),
    row(A::Rsa3072, Op::Decrypt, "rsa-3072-decrypt"),
    row(A::Rsa4096, Op::Encrypt, "rsa-4096-encrypt"),
    row(A::Rsa4096, Op::Sign, "rsa-4096-sign"),
    row(A::Rsa4096, Op::SignDigest, "rsa-4096-sign-digest"),
    row(A::Rsa4096, Op::Verify, "rsa-4096-verify"),
    row(A::Rsa4096, Op::Decrypt, "rsa-4096-decrypt"),
    row(A::Rsa6144, Op::Encrypt, "rsa-6144-encrypt"),
    row(A::Rsa6144, Op::Sign, "rsa-6144-sign"),
    row(A::Rsa6144, Op::SignDigest, "rsa-6144-sign-digest"),
    row(A::Rsa6144, Op::Verify, "rsa-6144-verify"),
    row(A::Rsa6144, Op::Decrypt, "rsa-6144-decrypt"),
    row(A::Rsa8192, Op::Encrypt, "rsa-8192-encrypt"),
    row(A::Rsa8192, Op::Sign, "rsa-8192-sign"),
    row(A::Rsa8192, Op::SignDigest, "rsa-8192-sign-digest"),
    row(A::Rsa8192, Op::Verify, "rsa-8192-verify"),
    row(A::Rsa8192, Op::Decrypt, "rsa-8192-decrypt"),
    row(A::P256, Op::Sign, "p-256-sign"),
    row(A::P256, Op::SignDigest, "p-256-sign-digest"),
    row(A::P256, Op::Verify, "p-256-verify"),
    row(A::P256, Op::Derive, "p-256-derive"),
    row(A::P384, Op::Sign, "p-384-sign"),
    row(A::P384, Op::SignDigest, "p-384-sign-digest"),
    row(A::P384, Op::Verify, "p-384-verify"),
    row(A::P384, Op::Derive, "p-384-derive"),
    row(A::P521, Op::Sign, "p-521-sign"),
    row(A::P521, Op::SignDigest, "p-521-sign-digest"),
    row(A::P521, Op::Verify, "p-521-verify"),
    row(A::P521, Op::Derive, "p-521-derive"),
    row(A::Ed25519, Op::Sign, "ed25519-sign"),
    row(A::Ed25519, Op::Verify, "ed25519-verify"),
    row(A::X25519, Op::Derive, "x25519"),
    row(A::MlKem768, Op::Encapsulate, "ml-kem-768-encaps"),
    row(A::MlKem768, Op::Decapsulate, "ml-kem-768-decaps"),
    row(A::MlDsa65, Op::Sign, "ml-dsa-65-sign"),
    row(A::MlDsa65, Op::Verify, "ml-dsa-65-verify"),
    // More classes than a word has bits.
    #[cfg(test)]
    Row { again: false, ..row(A::Once, Op::Encrypt, "once-encrypt") },
    #[cfg(test)]
    Row { again: false, ..row(A::Once, Op::Decrypt, "once-decrypt") },
    #[cfg(test)]
    Row { again: false, ..row(A::Once, Op::Sign, "once-sign") },
    #[cfg(test)]
    Row { again: false, ..row(A::Once, Op::SignDigest, "once-sign-digest") },
    #[cfg(test)]
    Row { again: false, ..row(A::Once, Op::Verify, "once-verify") },
    #[cfg(test)]
    Row { again: false, ..row(A::Once, Op::Decapsulate, "once-decaps") },
];

const ALGORITHMS: usize = CLASSES[CLASSES.len() - 1].algorithm as usize + 1;

/// `CLASSES` inverted: the class for each algorithm and operation.
const BY_PAIR: [[Option<Class>; Op::COUNT]; ALGORITHMS] = {
    let mut table = [[None; Op::COUNT]; ALGORITHMS];
    let mut i = 0;
    while i < Class::COUNT {
        table[CLASSES[i].algorithm as usize][CLASSES[i].op as usize] = Some(Class(i as u8));
        i += 1;
    }
    table
};

const _: () = assert!(Class::COUNT <= 1 << u8::BITS, "the number of a class is a byte");

impl Algorithm {
    /// The algorithm of that number, if there is one.
    pub fn from_u8(number: u8) -> Option<Self> {
        CLASSES.iter().map(|row| row.algorithm).find(|algorithm| *algorithm as u8 == number)
    }
}

impl Class {
    /// Number of classes.
    pub const COUNT: usize = CLASSES.len();
    /// The class of requests that do nothing.
    pub const NOOP: Self = Self(0);

    /// The class of an operation, or `None` where the algorithm has no such operation.
    #[inline]
    pub fn of(algorithm: Algorithm, op: Op) -> Option<Self> {
        BY_PAIR[algorithm as usize][op as usize]
    }

    /// The class of that name, e.g. `aes-256-gcm` or `rsa-2048-sign`.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::all().find(|class| class.name() == name)
    }

    /// Whether a family name includes it: the beginning of its own name in whole words, as `rsa`, `rsa-2048` and
    /// `rsa-2048-sign` for `rsa-2048-sign-digest`, or the kind of its operation, as `sign`.
    pub fn belongs_to(self, family: &str) -> bool {
        self.families().any(|name| name == family)
    }

    /// All names that include it, with its own.
    pub fn families(self) -> impl Iterator<Item = &'static str> {
        let name = self.name();
        name.match_indices('-').map(move |(end, _)| &name[..end]).chain([name, self.op().kind()])
    }

    /// The class of that number, if there is one.
    pub fn from_index(index: usize) -> Option<Self> {
        (index < Self::COUNT).then_some(Self(index as u8))
    }

    /// Dense number, below [`Class::COUNT`].
    #[inline]
    pub fn index(self) -> usize {
        usize::from(self.0)
    }

    /// Name on the command line and in rows.
    pub fn name(self) -> &'static str {
        CLASSES[self.index()].name
    }

    /// The algorithm of this class.
    pub fn algorithm(self) -> Algorithm {
        CLASSES[self.index()].algorithm
    }

    /// The operation of this class.
    pub fn op(self) -> Op {
        CLASSES[self.index()].op
    }

    /// Whether another device may do it after its first one died, at any progress.
    pub fn may_be_replayed(self) -> bool {
        CLASSES[self.index()].again
    }

    /// All classes in order of their numbers.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..Self::COUNT).map(|i| Self(i as u8))
    }
}

/// Why a request was refused. The session goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Refusal {
    /// The lane has no session of this handle.
    NoSession = 1,
    /// The session cannot do this operation.
    Unsupported,
    /// The input's length does not fit the operation.
    InputLength,
    /// The output extents are too small for the result.
    OutputLength,
    /// A tag, signature or padding did not verify; nothing of the plaintext was released.
    Authentication,
    /// Larger than the service accepts.
    TooLarge,
    /// No device can do this operation now.
    NoDevice,
    /// The service is shutting down.
    Shutdown,
    /// The library failed for a reason that is not in the request.
    Internal,
    /// The key is remote, and no machine with it can be reached.
    KeyElsewhere,
    /// The key is remote, and its machines do not permit this one to use it.
    KeyDenied,
    /// The key has done as many operations as its limit permits.
    KeyLimit,
}

impl Refusal {
    const ALL: [Self; 12] = [
        Self::NoSession,
        Self::Unsupported,
        Self::InputLength,
        Self::OutputLength,
        Self::Authentication,
        Self::TooLarge,
        Self::NoDevice,
        Self::Shutdown,
        Self::Internal,
        Self::KeyElsewhere,
        Self::KeyDenied,
        Self::KeyLimit,
    ];

    /// The refusal of that number, if there is one.
    pub fn from_u8(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number).checked_sub(1)?).copied()
    }

    /// One line for display: the error and the remedy.
    pub fn message(self) -> &'static str {
        match self {
            Self::NoSession => "no session of this handle on this lane: open one first",
            Self::Unsupported => "this session's algorithm or key cannot do this operation",
            Self::InputLength => "the input's length does not fit the operation",
            Self::OutputLength => "the output extents are too small for the result",
            Self::Authentication => "a tag, signature or padding did not verify",
            Self::TooLarge => "the request is larger than the service's max_request_bytes",
            Self::NoDevice => "no device of the service can do this operation now",
            Self::Shutdown => "the service is shutting down",
            Self::Internal => "the crypto library failed; see the service's log",
            Self::KeyElsewhere => {
                "the key is on other machines, and no gateway to one that has it is connected: start `sidecore gateway` \
                 here, or a key server there"
            }
            Self::KeyDenied => {
                "the key is on other machines, and NATS does not let the gateway of this one ask for it: permit its subject, and \
                 start the gateway again"
            }
            Self::KeyLimit => {
                "the key's limit of operations a second is reached (`sidecore keys list` shows it): try again later, or raise it \
                 with `sidecore keys limit NAME N/s`"
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;

    /// Numbers in lanes, in sealed answers and in gateways' messages. A new one comes behind; none of these changes.
    #[test]
    fn the_numbers_of_refusals_are_frozen() {
        let frozen = [
            (1, "NoSession"),
            (2, "Unsupported"),
            (3, "InputLength"),
            (4, "OutputLength"),
            (5, "Authentication"),
            (6, "TooLarge"),
            (7, "NoDevice"),
            (8, "Shutdown"),
            (9, "Internal"),
            (10, "KeyElsewhere"),
            (11, "KeyDenied"),
            (12, "KeyLimit"),
        ];
        assert_eq!(Refusal::ALL.len(), frozen.len());
        for (number, name) in frozen {
            assert_eq!(Refusal::from_u8(number).map(|refusal| format!("{refusal:?}")).as_deref(), Some(name));
        }
    }

    #[test]
    fn classes_and_names_are_unique_and_invertible() {
        for class in Class::all() {
            assert_eq!(Class::of(class.algorithm(), class.op()), Some(class));
            assert_eq!(Class::from_name(class.name()), Some(class));
            assert_eq!(Class::from_index(class.index()), Some(class));
            assert_eq!(Algorithm::from_u8(class.algorithm() as u8), Some(class.algorithm()));
        }
        assert_eq!(Class::from_index(Class::COUNT), None);
        assert_eq!(Class::of(A::Sha256, Op::Decrypt), None);
    }

    #[test]
    fn a_family_is_the_beginning_of_a_name_in_whole_words_or_a_kind() {
        let of = |family: &str| Class::all().filter(|class| class.belongs_to(family)).count();
        assert_eq!(["rsa", "rsa-2048", "rsa-2048-sign", "rsa-2048-sign-digest"].map(of), [30, 5, 2, 1]);
        assert_eq!(["aes", "aes-256-gcm", "sha", "sha-256", "hmac", "p", "ml-kem"].map(of), [16, 2, 3, 1, 6, 12, 2]);
        assert_eq!(["digest", "derive", "encaps", "noop"].map(of), [3, 4, 1, 1]);
        let signs = Class::all().filter(|class| matches!(class.op(), Op::Sign | Op::SignDigest)).count();
        assert_eq!(of("sign"), signs);
        assert_eq!(["", "rs", "rsa-", "-sign", "256", "rsa-2048-signs"].map(of), [0; 6]);
        for class in Class::all() {
            assert!(class.families().all(|family| class.belongs_to(family)));
        }
    }

    #[test]
    fn numbers_from_the_wire_are_checked() {
        for number in 0..=u8::MAX {
            assert_eq!(Op::from_u8(number).map(|op| op as u8), Op::from_u8(number).and(Some(number)));
            assert_eq!(Refusal::from_u8(number).map(|r| r as u8), Refusal::from_u8(number).and(Some(number)));
        }
        assert_eq!(Op::from_u8(10), None);
        assert_eq!(Algorithm::from_u8(ALGORITHMS as u8), None);
        assert_eq!(Refusal::from_u8(0), None);
    }
}
