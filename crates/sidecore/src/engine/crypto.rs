//! The crypto engine: sessions that hold a key and do one thing with it.
//!
//! A request is an operation, one input and one output. The input's parts stand one after the other: an initialisation
//! vector where the algorithm has one, then a head of `head_len` bytes (associated data, or the tag or signature to
//! verify), then the payload. Each family of algorithms has a file of its own that says which parts it takes; all
//! stand behind one trait, so a session is the family, plus the table of what this key can do.
//!
//! Symmetric operations and digests allocate nothing. Key schedules are computed when the session opens and are only
//! read from then on, so threads share a session without a lock.

mod aead;
mod cipher;
mod curve25519;
mod ecdsa;
mod error;
mod footprint;
mod hash;
mod implicit_rejection;
mod lattice;
mod mechanism;
mod overlap;
mod rsa;
pub mod sample;
#[cfg(test)]
mod tests;
mod xts;

use std::fmt;

use sidecore_core::session::{Algorithm, Class, Op, Refusal};

use crate::ffi::aead::Aead;
use crate::shm::span::Span;
pub use error::OpenError;
use mechanism::{Mechanism, Written, keyless, symmetric};
pub use sidecore_client::spec::{
    Cipher, DecryptionPadding, Hash, KeyMaterial, SaltLength, Scheme, Secret, SessionSpec, SignaturePadding,
};

/// A key and what is done with it. Threads share it.
pub struct Session {
    algorithm: Algorithm,
    classes: [Option<Class>; Op::COUNT],
    /// Where the key is kept, if it is a stored one.
    key: Option<u16>,
    /// What it takes of the heap, and is charged for.
    heap_bytes: u64,
    mechanism: Box<dyn Mechanism>,
}

impl Session {
    /// Reads the key and computes its schedules.
    ///
    /// # Errors
    /// A spec that cannot work, by name.
    pub fn open(spec: &SessionSpec) -> Result<Self, OpenError> {
        let mechanism = open(&spec.scheme, &spec.key)?;
        let algorithm = mechanism.algorithm();
        let can = |op: &Op| mechanism.can(*op);
        let classes =
            std::array::from_fn(|number| Op::from_u8(number as u8).filter(can).and_then(|op| Class::of(algorithm, op)));
        let heap_bytes = footprint::heap_bytes(algorithm, &spec.scheme);
        Ok(Self { algorithm, classes, mechanism, key: None, heap_bytes })
    }

    /// The same session, as one on the stored key at this place.
    pub(crate) fn of_key(self, place: u16) -> Self {
        Self { key: Some(place), ..self }
    }

    /// The same session, as one that lanes share: each is charged for its entries in tables only.
    pub(crate) fn shared(self) -> Self {
        Self { heap_bytes: footprint::ENTRIES, ..self }
    }

    /// What a lane is charged for it: about what it takes of the service's heap, bytes.
    pub fn heap_bytes(&self) -> u64 {
        self.heap_bytes
    }

    /// The place of its stored key, below `limits.keys`; `None` where the client brought the key.
    #[inline]
    pub fn key(&self) -> Option<u16> {
        self.key
    }

    /// The algorithm, as classes count it.
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

    /// Does `op` in private memory; the number of bytes written to the front of `output`.
    ///
    /// # Errors
    /// Those of [`output_len`](Self::output_len); `OutputLength` where `output` is shorter than it says;
    /// `Authentication` where something does not verify, and then `output` holds nothing of the plaintext; `Internal`
    /// where the library fails.
    #[inline]
    pub fn run(&self, op: Op, head_len: usize, input: &[u8], output: &mut [u8]) -> Result<usize, Refusal> {
        let len = self.output_len(op, head_len, input.len())?;
        let output = output.get_mut(..len).ok_or(Refusal::OutputLength)?;
        self.run_sized(op, head_len, input, output)
    }

    /// As [`run`](Self::run), where `output` is as long as [`output_len`](Self::output_len) has said.
    #[inline]
    pub(crate) fn run_sized(&self, op: Op, head_len: usize, input: &[u8], output: &mut [u8]) -> Result<usize, Refusal> {
        self.mechanism.run(op, head_len, input, output)
    }

    /// As [`run`](Self::run), straight from and to memory that a client may change meanwhile; `None` where this is not
    /// offered and the caller copies instead.
    ///
    /// Offered for the encryption of AEADs (associated data up to 64 bytes), the unauthenticated ciphers in both
    /// directions, digests and HMAC tags. What is opened or verified is never offered: no plaintext may reach the
    /// client before its tag is known to be good. Payload and output may be the same place (the output starting where
    /// the payload starts) or apart; where they overlap in part, `None`.
    #[inline]
    pub fn run_spans(
        &self,
        op: Op,
        head_len: usize,
        input: Span<'_>,
        output: Span<'_>,
    ) -> Option<Result<usize, Refusal>> {
        let len = match self.output_len(op, head_len, input.len()) {
            Ok(len) => len,
            Err(refusal) => return Some(Err(refusal)),
        };
        let Some(output) = output.slice(0, len) else {
            return Some(Err(Refusal::OutputLength));
        };
        self.run_spans_sized(op, head_len, input, output)
    }

    /// As [`run_spans`](Self::run_spans), where `output` is as long as [`output_len`](Self::output_len) has said.
    #[inline]
    pub(crate) fn run_spans_sized(
        &self,
        op: Op,
        head_len: usize,
        input: Span<'_>,
        output: Span<'_>,
    ) -> Option<Result<usize, Refusal>> {
        self.mechanism.run_spans(op, head_len, input, output)
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("algorithm", &self.algorithm).finish_non_exhaustive()
    }
}

fn open(scheme: &Scheme, key: &KeyMaterial) -> Result<Box<dyn Mechanism>, OpenError> {
    Ok(match scheme {
        Scheme::Noop => {
            keyless(key)?;
            Box::new(Noop)
        }
        Scheme::Cipher(cipher) => open_cipher(*cipher, symmetric(key)?)?,
        Scheme::Digest(hash) => {
            keyless(key)?;
            Box::new(hash::DigestSession::open(*hash)?)
        }
        Scheme::Hmac(hash) => Box::new(hash::HmacSession::open(*hash, symmetric(key)?)?),
        Scheme::RsaSignature { padding, hash } => Box::new(rsa::SignatureSession::open(*padding, *hash, key)?),
        Scheme::RsaDecryption { padding } => Box::new(rsa::DecryptionSession::open(padding, key)?),
        Scheme::Ecdsa { hash } => Box::new(ecdsa::EcdsaSession::open(Some(*hash), key)?),
        Scheme::EcdsaRaw => Box::new(ecdsa::EcdsaSession::open(None, key)?),
        Scheme::Ed25519 => Box::new(curve25519::Ed25519Session::open(key)?),
        Scheme::X25519 => Box::new(curve25519::X25519Session::open(key)?),
        Scheme::MlKem768 => Box::new(lattice::MlKemSession::open(key)?),
        Scheme::MlDsa65 => Box::new(lattice::MlDsaSession::open(key)?),
    })
}

fn open_cipher(cipher: Cipher, key: &[u8]) -> Result<Box<dyn Mechanism>, OpenError> {
    if key.len() != cipher.key_len() {
        return Err(OpenError::KeyLength { expected: cipher.key_len(), found: key.len() });
    }
    let aead = |algorithm, aead| aead::AeadSession::open(algorithm, aead, key);
    let algorithm = match cipher {
        Cipher::Aes128Gcm => return Ok(Box::new(aead(Algorithm::Aes128Gcm, Aead::Aes128Gcm)?)),
        Cipher::Aes256Gcm => return Ok(Box::new(aead(Algorithm::Aes256Gcm, Aead::Aes256Gcm)?)),
        Cipher::ChaCha20Poly1305 => return Ok(Box::new(aead(Algorithm::ChaCha20Poly1305, Aead::ChaCha20Poly1305)?)),
        Cipher::Aes128Ctr => Algorithm::Aes128Ctr,
        Cipher::Aes256Ctr => Algorithm::Aes256Ctr,
        Cipher::Aes128Cbc => Algorithm::Aes128Cbc,
        Cipher::Aes256Cbc => Algorithm::Aes256Cbc,
        Cipher::Aes128Xts => Algorithm::Aes128Xts,
        Cipher::Aes256Xts => Algorithm::Aes256Xts,
        Cipher::TripleDesCbc => Algorithm::TripleDesCbc,
    };
    Ok(Box::new(cipher::CipherSession::open(algorithm, cipher, key)?))
}

/// Ignores its input and writes nothing.
struct Noop;

impl Mechanism for Noop {
    fn algorithm(&self) -> Algorithm {
        Algorithm::Noop
    }

    fn can(&self, op: Op) -> bool {
        op == Op::Noop
    }

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
