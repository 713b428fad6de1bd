//! A valid request for every class: to calibrate rates, to benchmark, to test.
//!
//! No private key is compiled in. The keys are computed where they are needed, from numbers that everybody can
//! compute; they protect nothing. A search for primes would take seconds at each start: its result is written here.

use std::sync::OnceLock;

use sidecore_client::keys::Kind;
use sidecore_core::session::{Algorithm, Class, Op};

use super::{
    CIPHERS, Cipher, DecryptionPadding, EncryptionPadding, HASHES, Hash, KeyMaterial, SaltLength, Scheme, Secret,
    Session, SessionSpec, SignaturePadding,
};
use crate::ffi::padding::Padding;
use crate::ffi::{aes, pkey::PKey};

const PREMASTER_LEN: usize = 48;

/// Length of the modulus in bits, and the last two bytes of both primes. The bytes before are those of [`SplitMix64`].
const RSA: [(Algorithm, u16, [u16; 2]); 6] = [
    (Algorithm::Rsa1024, 1024, [25, 635]),
    (Algorithm::Rsa2048, 2048, [1181, 1941]),
    (Algorithm::Rsa3072, 3072, [1129, 1341]),
    (Algorithm::Rsa4096, 4096, [1149, 3589]),
    (Algorithm::Rsa6144, 6144, [1119, 1327]),
    (Algorithm::Rsa8192, 8192, [807, 5265]),
];

/// One request and its session.
#[derive(Clone, Debug)]
pub struct Sample {
    /// The session.
    pub spec: SessionSpec,
    /// The operation.
    pub op: Op,
    /// Length of the head within the input, in bytes.
    pub head_len: usize,
    /// The whole input, valid for `op`: tags, signatures and ciphertexts in it verify.
    pub input: Vec<u8>,
    /// Room that the output needs, in bytes.
    pub output_len: usize,
}

impl Sample {
    /// Whether the result may take the place of the payload: it has the same length, but for a tag after it.
    pub fn in_place(&self) -> bool {
        matches!(self.spec.scheme, Scheme::Cipher(_))
    }

    /// Start of the payload in the input of a cipher: after nonce or iv, and head.
    pub fn payload_offset(&self) -> usize {
        let Scheme::Cipher(cipher) = self.spec.scheme else { return self.head_len };
        cipher.iv_len() + self.head_len
    }
}

/// A request of `class` over `size` bytes of payload. It is the same for the same `seed`, but for random parts of an
/// algorithm (signatures of ECDSA and ML-DSA, ciphertexts of RSA and ML-KEM).
///
/// CBC rounds `size` up to whole blocks, XTS to at least one block. Where an operation's input has a fixed length
/// (digests to sign, RSA encryption, key agreement, ML-KEM) `size` is ignored.
pub fn sample(class: Class, size: usize, seed: u64) -> Sample {
    let (_, mut samples) = samples(class, &[size], seed);
    samples.swap_remove(0)
}

/// As [`sample`], for each of these sizes, all for one session, which is open: to check an RSA key takes longer than
/// to use it. Where the size is ignored, there is one sample.
pub(crate) fn samples(class: Class, sizes: &[usize], seed: u64) -> (Session, Vec<Sample>) {
    let mut random = SplitMix64(seed);
    let spec = spec(class, &mut random);
    let session = Session::open(&spec).expect("the sample keys are good");
    let sizes = if has_fixed_length(class) { &sizes[..1] } else { sizes };
    let samples = sizes.iter().map(|size| of_session(&session, &spec, class, *size, &mut random)).collect();
    (session, samples)
}

fn has_fixed_length(class: Class) -> bool {
    match class.op() {
        Op::SignDigest | Op::Derive | Op::Encapsulate | Op::Decapsulate => true,
        Op::Encrypt | Op::Decrypt => cipher(class.algorithm()).is_none(),
        _ => false,
    }
}

fn of_session(session: &Session, spec: &SessionSpec, class: Class, size: usize, random: &mut SplitMix64) -> Sample {
    let op = class.op();
    let (head_len, input) = match op {
        Op::Decrypt if cipher(class.algorithm()).is_none() => (0, rsa_ciphertext(class.algorithm(), random)),
        Op::Verify | Op::Decapsulate | Op::Decrypt => reversed(session, class, size, random),
        _ => forward(class.algorithm(), op, size, random),
    };
    let output_len = session.output_len(op, head_len, input.len()).expect("the sample's lengths fit");
    Sample { spec: spec.clone(), op, head_len, input, output_len }
}

/// Steele, Lea and Flood 2014: one addition and two multiplications a word, good enough to fill buffers.
struct SplitMix64(u64);

impl SplitMix64 {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn bytes(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&self.next().to_le_bytes()[..chunk.len()]);
        }
        bytes
    }
}

fn spec(class: Class, random: &mut SplitMix64) -> SessionSpec {
    use Algorithm as A;
    let algorithm = class.algorithm();
    let (scheme, key) = match algorithm {
        A::Noop => (Scheme::Noop, KeyMaterial::None),
        A::Rsa1024 | A::Rsa2048 | A::Rsa3072 | A::Rsa4096 | A::Rsa6144 | A::Rsa8192 => {
            (rsa(class), of_algorithm(algorithm))
        }
        A::P256 | A::P384 | A::P521 if class.op() == Op::Derive => (Scheme::Ecdh, of_algorithm(algorithm)),
        A::P256 => (Scheme::Ecdsa { hash: Hash::Sha256 }, of_algorithm(algorithm)),
        A::P384 => (Scheme::Ecdsa { hash: Hash::Sha384 }, of_algorithm(algorithm)),
        A::P521 => (Scheme::Ecdsa { hash: Hash::Sha512 }, of_algorithm(algorithm)),
        A::Ed25519 => (Scheme::Ed25519, of_algorithm(algorithm)),
        A::X25519 => (Scheme::X25519, private(&random.bytes(32))),
        A::MlKem768 => (Scheme::MlKem768, private(&random.bytes(64))),
        A::MlDsa65 => (Scheme::MlDsa65, private(&random.bytes(32))),
        _ => symmetric(algorithm, random),
    };
    SessionSpec { scheme, key }
}

fn symmetric(algorithm: Algorithm, random: &mut SplitMix64) -> (Scheme, KeyMaterial) {
    let mut key = |len| KeyMaterial::Symmetric(Secret::new(random.bytes(len)));
    if let Some(cipher) = cipher(algorithm) {
        return (Scheme::Cipher(cipher), key(cipher.key_len()));
    }
    let of = |(_, digest, hmac): &(Hash, Algorithm, Algorithm)| [*digest, *hmac].contains(&algorithm);
    let (hash, digest, _) = HASHES.into_iter().find(of).expect("all others have a key of two parts, or none");
    if algorithm == digest { (Scheme::Digest(hash), KeyMaterial::None) } else { (Scheme::Hmac(hash), key(hash.len())) }
}

fn cipher(algorithm: Algorithm) -> Option<Cipher> {
    CIPHERS.into_iter().find(|(_, each)| *each == algorithm).map(|(cipher, _)| cipher)
}

fn private(key: &[u8]) -> KeyMaterial {
    KeyMaterial::Private(key.into())
}

/// Signatures as TLS 1.3 makes them (PSS), encryption as TLS 1.2 asks for it (PKCS#1 v1.5); RSA-1024 as in its day.
fn rsa(class: Class) -> Scheme {
    let padding = match (class.op(), class.algorithm()) {
        (Op::Decrypt, _) => return Scheme::RsaDecryption { padding: DecryptionPadding::Pkcs1 },
        (Op::Encrypt, _) => {
            return Scheme::RsaEncryption { padding: EncryptionPadding::Padded(DecryptionPadding::Pkcs1) };
        }
        (_, Algorithm::Rsa1024) => SignaturePadding::Pkcs1,
        _ => SignaturePadding::Pss { mgf1: Hash::Sha256, salt: SaltLength::Digest },
    };
    Scheme::RsaSignature { padding, hash: Hash::Sha256 }
}

fn of_algorithm(algorithm: Algorithm) -> KeyMaterial {
    KeyMaterial::Private(pkcs8(algorithm))
}

/// The key of each algorithm whose requests all have the same. Those of RSA take long enough to be computed once only.
fn pkcs8(algorithm: Algorithm) -> Secret {
    const BYTES: [u8; 32] = *b"anyone may have this private key";
    static OF_RSA: [OnceLock<Secret>; RSA.len()] = [const { OnceLock::new() }; RSA.len()];
    let written = |key: Option<PKey>| key.and_then(|key| key.to_pkcs8()).expect("the sample keys are good");
    if let Some((made, (_, bits, [p, q]))) = OF_RSA.iter().zip(&RSA).find(|(_, (each, ..))| *each == algorithm) {
        let made = made.get_or_init(|| written(PKey::of_primes([&prime(*bits, 0, *p), &prime(*bits, 1, *q)])));
        return made.clone();
    }
    written(match algorithm {
        Algorithm::Ed25519 => PKey::raw_private(Kind::Ed25519, &BYTES),
        _ => PKey::of_curve(algorithm, &BYTES),
    })
}

fn key(algorithm: Algorithm) -> PKey {
    PKey::private(pkcs8(algorithm).expose()).expect("the sample keys are good")
}

/// One of the two primes of a modulus of that many bits. `end`: its last two bytes.
fn prime(bits: u16, which: u16, end: u16) -> Vec<u8> {
    let mut prime = SplitMix64(u64::from(2 * bits + which)).bytes(usize::from(bits) / 16);
    prime[0] |= 0xc0;
    if let Some(last) = prime.last_chunk_mut() {
        *last = end.to_be_bytes();
    }
    prime
}

/// The sample key's own point: the work is the same as with a peer's.
fn ec_point(algorithm: Algorithm) -> Vec<u8> {
    let key = key(algorithm);
    let spki = key.to_spki().expect("a public part");
    spki[spki.len() - (1 + 2 * key.coordinate_len())..].to_vec()
}

fn forward(algorithm: Algorithm, op: Op, size: usize, random: &mut SplitMix64) -> (usize, Vec<u8>) {
    use Algorithm as A;
    let iv_len = cipher(algorithm).map_or(0, Cipher::iv_len);
    let len = match (algorithm, op) {
        (A::Aes128Cbc | A::Aes256Cbc | A::TripleDesCbc, _) => size.next_multiple_of(iv_len),
        (A::Aes128Xts | A::Aes256Xts, _) => size.max(aes::BLOCK_LEN),
        (A::P256 | A::P384 | A::P521, Op::Derive) => return (0, ec_point(algorithm)),
        (_, Op::Encrypt) if cipher(algorithm).is_none() => PREMASTER_LEN,
        (A::P384, Op::SignDigest) => Hash::Sha384.len(),
        (A::P521, Op::SignDigest) => Hash::Sha512.len(),
        (_, Op::SignDigest) => Hash::Sha256.len(),
        (A::X25519, _) => 32,
        (A::MlKem768, _) => 0,
        _ => size,
    };
    (0, random.bytes(iv_len + len))
}

fn reversed(session: &Session, class: Class, size: usize, random: &mut SplitMix64) -> (usize, Vec<u8>) {
    let op = match class.op() {
        Op::Decrypt => Op::Encrypt,
        Op::Decapsulate => Op::Encapsulate,
        _ => Op::Sign,
    };
    let (head_len, input) = forward(class.algorithm(), op, size, random);
    let len = session.output_len(op, head_len, input.len()).expect("the sample's lengths fit");
    let mut output = vec![0; len];
    let len = session.run(op, head_len, &input, &mut output).expect("the sample runs");
    output.truncate(len);
    match op {
        Op::Encrypt => (0, [&input[..cipher(class.algorithm()).map_or(0, Cipher::iv_len)], &output].concat()),
        Op::Encapsulate => (0, output[..1088].to_vec()),
        _ => (output.len(), [output, input].concat()),
    }
}

/// A PKCS#1 v1.5 ciphertext of a TLS premaster secret, whose padding comes from the seed, too.
fn rsa_ciphertext(algorithm: Algorithm, random: &mut SplitMix64) -> Vec<u8> {
    let key = key(algorithm);
    let message = random.bytes(PREMASTER_LEN);
    let mut padded: Vec<_> = random.bytes(key.len()).into_iter().map(|byte| byte | 1).collect();
    let separator = key.len() - message.len() - 1;
    padded[..2].copy_from_slice(&[0, 2]);
    padded[separator] = 0;
    padded[separator + 1..].copy_from_slice(&message);
    let mut ciphertext = vec![0; key.len()];
    let written = key.encrypt(&Padding::Decryption(DecryptionPadding::Pkcs1), &padded, &mut ciphertext);
    written.expect("the padded block is below the modulus");
    ciphertext
}
