//! The crypto engine: sessions with one key and one scheme each.
//!
//! A request is an operation, one input and one output. The input's parts stand one after the other: an
//! initialisation vector where the algorithm has one, then a head of `head_len` bytes (associated data, or the tag or
//! signature to verify), then the payload. Each family of algorithms has a file of its own that lists its parts. All
//! stand behind one trait, so a session is the family, plus the table of the key's operations.
//!
//! Symmetric operations and digests allocate nothing, but for those on contexts of the library (triple DES, XTS): a
//! session has a few of these, and a request that finds them all taken makes one. Key schedules are computed when the
//! session opens and are only read from then on, so threads share a session without a lock.

mod aead;
pub mod batch;
mod cipher;
mod decryption;
mod ecdsa;
mod error;
mod exchange;
mod hash;
mod implicit_rejection;
mod key;
mod mechanism;
mod remote_session;
pub mod sample;
mod served_session;
mod signature;
#[cfg(test)]
mod tests;
mod xts;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use sidecore_core::session::{Algorithm, Class, Op, Refusal};
use sidecore_core::work::KeyLocation;

use crate::channel::Grant;
use crate::ffi::aead::AeadKey;
use crate::keys::Limiter;
use crate::shm::span::Span;
use batch::BatchKey;
pub use error::SessionError;
use mechanism::{Mechanism, Opened, Written, check_len, keyless, symmetric};
use remote_session::RemoteSession;
use sidecore_client::keys::Usage;
pub use sidecore_client::spec::{
    Cipher, DecryptionPadding, EncryptionPadding, Hash, KeyMaterial, SaltLength, Scheme, Secret, SessionSpec,
    SignaturePadding,
};

const CIPHERS: [(Cipher, Algorithm); 10] = [
    (Cipher::Aes128Gcm, Algorithm::Aes128Gcm),
    (Cipher::Aes256Gcm, Algorithm::Aes256Gcm),
    (Cipher::Aes128Ctr, Algorithm::Aes128Ctr),
    (Cipher::Aes256Ctr, Algorithm::Aes256Ctr),
    (Cipher::Aes128Cbc, Algorithm::Aes128Cbc),
    (Cipher::Aes256Cbc, Algorithm::Aes256Cbc),
    (Cipher::Aes128Xts, Algorithm::Aes128Xts),
    (Cipher::Aes256Xts, Algorithm::Aes256Xts),
    (Cipher::ChaCha20Poly1305, Algorithm::ChaCha20Poly1305),
    (Cipher::TripleDesCbc, Algorithm::TripleDesCbc),
];

const HASHES: [(Hash, Algorithm, Algorithm); 3] = [
    (Hash::Sha256, Algorithm::Sha256, Algorithm::HmacSha256),
    (Hash::Sha384, Algorithm::Sha384, Algorithm::HmacSha384),
    (Hash::Sha512, Algorithm::Sha512, Algorithm::HmacSha512),
];

/// Charge of a shared session, bytes: an entry in two tables, and its part of the time to close many sessions
/// together.
const ENTRIES: u64 = 256;
/// Charge of the session itself with its entries, bytes.
const SESSION: u64 = 512;

/// No place: above all places.
const NOT_STORED: u32 = u32::MAX;

/// Wrong results of batches in a row after which a session joins no more batches.
const MAX_WRONG_RESULTS: u32 = 3;

/// A key and its scheme. Threads share it.
pub struct Session {
    /// User and process that brought the key. `None`: it is a stored one, or of no client.
    owner: Option<(u32, u32)>,
    /// Results of batches that did not verify, since the last good one.
    wrong: AtomicU32,
    algorithm: Algorithm,
    classes: [Option<Class>; Op::COUNT],
    /// Place of its stored key, or [`NOT_STORED`]. A key that was made for a program may be stored while sessions on it
    /// are open: [`bind`](Self::bind) gives them the place, and with it the key's users and terms.
    key: AtomicU32,
    /// The operations that its stored key must be permitted to do.
    usage: Usage,
    /// That of the key, shared by all sessions on it.
    limiter: Option<Arc<Limiter>>,
    key_location: [KeyLocation; Op::COUNT],
    remote: Option<Box<RemoteSession>>,
    /// `Some`: its requests are sealed by another service, which has this right.
    grant: Option<Arc<Grant>>,
    heap_bytes: u64,
    mechanism: Box<dyn Mechanism>,
}

impl Session {
    /// Reads the key and computes its schedules.
    ///
    /// # Errors
    /// A spec that cannot work.
    pub fn open(spec: &SessionSpec) -> Result<Self, SessionError> {
        Ok(Self::of(&spec.scheme, open(&spec.scheme, &spec.key)?))
    }

    fn of(scheme: &Scheme, Opened { algorithm, ops, mechanism }: Opened) -> Self {
        let mut classes = [None; Op::COUNT];
        for op in ops {
            classes[*op as usize] = Class::of(algorithm, *op);
        }
        let (key_location, heap_bytes) = ([KeyLocation::LOCAL; Op::COUNT], heap_bytes(algorithm, scheme));
        let (owner, wrong) = (None, AtomicU32::new(0));
        Self {
            owner,
            wrong,
            algorithm,
            classes,
            mechanism,
            key: AtomicU32::new(NOT_STORED),
            usage: Usage::NONE,
            limiter: None,
            key_location,
            remote: None,
            grant: None,
            heap_bytes,
        }
    }

    pub(crate) fn of_client(self, owner: (u32, u32)) -> Self {
        Self { owner: Some(owner), ..self }
    }

    pub(crate) fn owner(&self) -> Option<(u32, u32)> {
        self.owner
    }

    pub(crate) fn blame(&self) {
        self.wrong.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn acquit(&self) {
        if self.wrong.load(Ordering::Relaxed) != 0 {
            self.wrong.store(0, Ordering::Relaxed);
        }
    }

    pub(crate) fn make_ready(&self) {
        for op in [Op::Sign, Op::SignDigest] {
            self.batched(op);
        }
    }

    pub(crate) fn of_key(self, place: u16, usage: Usage) -> Self {
        let mut key_location = self.key_location;
        if let Some(remote) = &self.remote {
            for (op, class) in self.classes.iter().enumerate() {
                key_location[op] = class.map_or(KeyLocation::LOCAL, |class| remote.key_location(place, class.op()));
            }
        }
        Self { key: AtomicU32::new(place.into()), usage, key_location, ..self }
    }

    pub(crate) fn with_limiter(self, limiter: Arc<Limiter>) -> Self {
        Self { limiter: Some(limiter), ..self }
    }

    /// Makes it a session on a key that the service made for a program, which may be stored later.
    pub(crate) fn of_made(self, usage: Usage, limiter: Arc<Limiter>) -> Self {
        Self { usage, limiter: Some(limiter), ..self }
    }

    /// Whether this is the limiter of its key.
    pub(crate) fn is_limited_by(&self, limiter: &Arc<Limiter>) -> bool {
        self.limiter.as_ref().is_some_and(|own| Arc::ptr_eq(own, limiter))
    }

    /// Its key is stored from now on, at this place.
    pub(crate) fn bind(&self, place: u16) {
        // No memory is published by it: sidecores see the place at their next request.
        self.key.store(place.into(), Ordering::Relaxed);
    }

    /// The limiter of its stored key's private operations, if there is a limit and this is one.
    #[inline]
    pub(crate) fn limiter(&self, op: Op) -> Option<&Limiter> {
        let limiter = self.limiter.as_deref().filter(|limiter| limiter.is_on())?;
        matches!(op, Op::Sign | Op::SignDigest | Op::Decrypt | Op::Derive | Op::Decapsulate).then_some(limiter)
    }

    #[inline]
    pub(crate) fn key_location(&self, op: Op) -> KeyLocation {
        self.key_location[op as usize]
    }

    pub(crate) fn with_explicit_errors(mut self) -> Self {
        self.mechanism.refuse_bad_padding();
        self
    }

    /// Makes it one that lanes share: each is charged for its table entries only.
    pub(crate) fn shared(self) -> Self {
        Self { heap_bytes: ENTRIES, ..self }
    }

    /// Charge of a lane for it: an estimate of the service's heap memory, bytes.
    pub fn heap_bytes(&self) -> u64 {
        self.heap_bytes
    }

    /// The place of its stored key, below `limits.keys`; `None` where the client brought the key, or the service made it
    /// for a program.
    #[inline]
    pub fn key(&self) -> Option<u16> {
        u16::try_from(self.key.load(Ordering::Relaxed)).ok()
    }

    /// The operations that its stored key must be permitted to do.
    pub(crate) fn usage(&self) -> Usage {
        self.usage
    }

    /// The algorithm of its classes.
    #[inline]
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// The class of `op` on this session; `None` where it cannot do it, e.g. sign with a public key.
    #[inline]
    pub fn class(&self, op: Op) -> Option<Class> {
        self.classes[op as usize]
    }

    /// The most bytes that [`run`](Self::run) writes. Cheap.
    ///
    /// # Errors
    /// `Unsupported`, or `InputLength` where the lengths cannot be those of such a request.
    #[inline]
    pub fn output_len(&self, op: Op, head_len: usize, input_len: usize) -> Result<usize, Refusal> {
        self.class(op).ok_or(Refusal::Unsupported)?;
        self.mechanism.output_len(op, head_len, input_len)
    }

    /// Does `op` in private memory; returns the number of bytes written to the front of `output`.
    ///
    /// # Errors
    /// Those of [`output_len`](Self::output_len); `OutputLength` where `output` is shorter than it says;
    /// `Authentication` where a check fails, and then `output` holds nothing of the plaintext; `Internal` where the
    /// library fails.
    #[inline]
    pub fn run(&self, op: Op, head_len: usize, input: &[u8], output: &mut [u8]) -> Result<usize, Refusal> {
        let len = self.output_len(op, head_len, input.len())?;
        let output = output.get_mut(..len).ok_or(Refusal::OutputLength)?;
        self.run_sized(op, head_len, input, output)
    }

    /// As [`run`](Self::run), where `output` has the length of [`output_len`](Self::output_len).
    #[inline]
    pub(crate) fn run_sized(&self, op: Op, head_len: usize, input: &[u8], output: &mut [u8]) -> Result<usize, Refusal> {
        self.mechanism.run(op, head_len, input, output)
    }

    /// Its key, if several requests for `op` can be done side by side. The first call may prepare and test the key:
    /// see [`make_ready`](Self::make_ready).
    pub(crate) fn batched(&self, op: Op) -> Option<BatchKey<'_>> {
        let is_good = self.wrong.load(Ordering::Relaxed) < MAX_WRONG_RESULTS;
        self.class(op).filter(|_| is_good).and_then(|_| self.mechanism.batched(op))
    }

    /// Turns a request's input, whose length [`output_len`](Self::output_len) accepted, into the input of a batch.
    /// `None`: it has to be done alone, and the input may be lost.
    pub(crate) fn prepare(&self, op: Op, input: &mut Vec<u8>) -> Option<()> {
        self.mechanism.prepare(op, input)
    }

    /// As [`run_sized`](Self::run_sized), directly from and to memory that a client may change meanwhile; `None`
    /// where this is not offered and the caller copies instead.
    ///
    /// Offered for the encryption of AEADs (associated data up to 64 bytes), the unauthenticated ciphers in both
    /// directions, digests and HMAC tags. Opening and verifying is never offered: no plaintext may reach the client
    /// before its tag is known to be good. Payload and output may be the same place (the output starting where the
    /// payload starts) or disjoint; where they overlap in part, `None`.
    #[inline]
    pub(crate) fn run_spans(&self, op: Op, head_len: usize, input: Span<'_>, output: Span<'_>) -> Option<Written> {
        self.mechanism.run_spans(op, head_len, input, output)
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("algorithm", &self.algorithm).finish_non_exhaustive()
    }
}

fn open(scheme: &Scheme, key: &KeyMaterial) -> Result<Opened, SessionError> {
    let (algorithm, ops, mechanism): (_, &[Op], Box<dyn Mechanism>) = match scheme {
        Scheme::Noop => {
            keyless(key)?;
            (Algorithm::Noop, &[Op::Noop], Box::new(Noop))
        }
        Scheme::Cipher(cipher) => {
            let key = symmetric(key)?;
            check_len(key, cipher.key_len())?;
            let (_, algorithm) = CIPHERS.into_iter().find(|(each, _)| each == cipher).ok_or(SessionError::Library)?;
            let mechanism: Box<dyn Mechanism> = match AeadKey::new(*cipher, key) {
                Some(aead) => Box::new(aead),
                None => Box::new(cipher::Ciphers::open(*cipher, key)?),
            };
            (algorithm, &[Op::Encrypt, Op::Decrypt], mechanism)
        }
        Scheme::Digest(hash) => {
            keyless(key)?;
            (of_hash(*hash)?.0, &[Op::Digest], Box::new(*hash))
        }
        Scheme::Hmac(hash) => {
            let (key, algorithm) = (symmetric(key)?, of_hash(*hash)?.1);
            if key.is_empty() {
                check_len(key, hash.len())?;
            }
            (algorithm, &[Op::Sign, Op::Verify], Box::new(hash::Hmac::open(*hash, key)?))
        }
        Scheme::RsaSignature { padding, hash } => return signature::rsa(*padding, *hash, key),
        Scheme::RsaDecryption { padding } => return decryption::open(padding, key),
        Scheme::Ecdsa { hash } => return signature::ecdsa(Some(*hash), key),
        Scheme::EcdsaRaw => return signature::ecdsa(None, key),
        Scheme::Ed25519 => return signature::whole(&key::ED25519, key),
        Scheme::X25519 => return exchange::x25519(key),
        Scheme::MlKem768 => return exchange::ml_kem(key),
        Scheme::Ecdh => return exchange::ecdh(key),
        Scheme::RsaEncryption { padding } => return decryption::encryption(padding, key),
        Scheme::MlDsa65 => return signature::whole(&key::ML_DSA, key),
    };
    Ok(Opened { algorithm, ops, mechanism })
}

fn of_hash(hash: Hash) -> Result<(Algorithm, Algorithm), SessionError> {
    let found = HASHES.into_iter().find(|(each, ..)| *each == hash);
    found.map(|(_, digest, hmac)| (digest, hmac)).ok_or(SessionError::NoDigest(hash))
}

/// Heap memory of a session, bytes: an upper estimate, measured with glibc's allocator after one use of the session
/// (some keys compute more at their first use).
fn heap_bytes(algorithm: Algorithm, scheme: &Scheme) -> u64 {
    let key = match algorithm {
        Algorithm::Noop | Algorithm::Sha256 | Algorithm::Sha384 | Algorithm::Sha512 => 0,
        Algorithm::MlKem768 => 6 << 10,
        Algorithm::Aes128Xts | Algorithm::Aes256Xts | Algorithm::TripleDesCbc => 8 << 10,
        // Including the data that batches make of an RSA key at its first use.
        Algorithm::Rsa1024 => 9 << 10,
        Algorithm::Rsa2048 => 12 << 10,
        Algorithm::Rsa3072 => 16 << 10,
        Algorithm::Rsa4096 => 20 << 10,
        Algorithm::Rsa6144 => 28 << 10,
        Algorithm::Rsa8192 => 36 << 10,
        Algorithm::MlDsa65 => 14 << 10,
        _ => 2 << 10,
    };
    SESSION + key + label_len(scheme) as u64
}

pub(crate) fn label_len(scheme: &Scheme) -> usize {
    match scheme {
        Scheme::RsaDecryption { padding: DecryptionPadding::Oaep { label, .. } }
        | Scheme::RsaEncryption { padding: EncryptionPadding::Padded(DecryptionPadding::Oaep { label, .. }) } => {
            label.len()
        }
        _ => 0,
    }
}

struct Noop;

impl Mechanism for Noop {
    #[inline]
    fn output_len(&self, _op: Op, _head_len: usize, _input_len: usize) -> Written {
        Ok(0)
    }

    #[inline]
    fn run(&self, _op: Op, _head_len: usize, _input: &[u8], _output: &mut [u8]) -> Written {
        Ok(0)
    }

    fn run_spans(&self, _op: Op, _head_len: usize, _input: Span<'_>, _output: Span<'_>) -> Option<Written> {
        Some(Ok(0))
    }
}
