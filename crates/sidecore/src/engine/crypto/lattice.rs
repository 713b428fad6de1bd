//! ML-KEM-768 and ML-DSA-65.
//!
//! Encapsulate: nothing → ciphertext (1088) ‖ secret (32). Decapsulate: ciphertext → secret. Sign: message → signature
//! (3309). Verify: signature (`head_len`) ‖ message → nothing.

use aws_lc_rs::kem::{self, Ciphertext, DecapsulationKey, EncapsulationKey, ML_KEM_768};
use aws_lc_rs::signature::{self, KeyPair, ParsedPublicKey, PqdsaKeyPair};
use sidecore_core::session::{Algorithm, Op, Refusal};

use super::error::OpenError;
use super::mechanism::{Mechanism, Written, check_input, check_verified};
use crate::ffi::kem as seed;
use crate::spec::KeyMaterial;

const CIPHERTEXT_LEN: usize = 1088;
const SECRET_LEN: usize = 32;
const ENCAPSULATION_KEY_LEN: usize = 1184;
/// Where FIPS 203 puts the encapsulation key inside the decapsulation key.
const ENCAPSULATION_KEY_AT: usize = 1152;

const SIGNATURE_LEN: usize = 3309;
const ML_DSA_SEED_LEN: usize = 32;
const ML_DSA_PRIVATE_LEN: usize = 4032;

pub(super) struct MlKemSession {
    decapsulation: Option<DecapsulationKey<kem::AlgorithmId>>,
    encapsulation: EncapsulationKey<kem::AlgorithmId>,
}

impl MlKemSession {
    pub(super) fn open(key: &KeyMaterial) -> Result<Self, OpenError> {
        match key {
            KeyMaterial::Private(secret) => Self::private(secret.expose()),
            KeyMaterial::Public(public) => Self::public(public, None),
            _ => Err(OpenError::KeyKind { expected: "an ML-KEM-768 decapsulation or encapsulation key" }),
        }
    }

    fn private(bytes: &[u8]) -> Result<Self, OpenError> {
        let key = match bytes.try_into() {
            Ok(seed) => seed::decapsulation_key(seed).ok_or(OpenError::Library)?,
            Err(_) => bytes.into(),
        };
        let key = key.expose();
        check_len(key, seed::DECAPSULATION_KEY_LEN)?;
        let decapsulation = DecapsulationKey::new(&ML_KEM_768, key)
            .map_err(|_| malformed("an ML-KEM-768 decapsulation key of 2400 bytes, or its seed of 64"))?;
        Self::public(&key[ENCAPSULATION_KEY_AT..][..ENCAPSULATION_KEY_LEN], Some(decapsulation))
    }

    fn public(bytes: &[u8], decapsulation: Option<DecapsulationKey<kem::AlgorithmId>>) -> Result<Self, OpenError> {
        check_len(bytes, ENCAPSULATION_KEY_LEN)?;
        let encapsulation = EncapsulationKey::new(&ML_KEM_768, bytes)
            .map_err(|_| malformed("an ML-KEM-768 encapsulation key of 1184 bytes"))?;
        let session = Self { decapsulation, encapsulation };
        session.try_out().map(|()| session).map_err(|_| malformed("an ML-KEM-768 key whose parts fit each other"))
    }

    /// The library checks a key's numbers and its inner hash only when it uses it: better now than at every request.
    fn try_out(&self) -> Result<(), Refusal> {
        let (mut sent, mut received) = ([0; CIPHERTEXT_LEN + SECRET_LEN], [0; SECRET_LEN]);
        self.encapsulate(&mut sent)?;
        let (ciphertext, secret) = sent.split_at(CIPHERTEXT_LEN);
        if self.decapsulation.is_some() {
            self.decapsulate(ciphertext, &mut received)?;
            check_verified(received == secret)?;
        }
        Ok(())
    }

    fn encapsulate(&self, output: &mut [u8]) -> Written {
        let (ciphertext, secret) = self.encapsulation.encapsulate().map_err(|_| Refusal::Internal)?;
        output[..CIPHERTEXT_LEN].copy_from_slice(ciphertext.as_ref());
        output[CIPHERTEXT_LEN..][..SECRET_LEN].copy_from_slice(secret.as_ref());
        Ok(CIPHERTEXT_LEN + SECRET_LEN)
    }

    fn decapsulate(&self, ciphertext: &[u8], output: &mut [u8]) -> Written {
        let key = self.decapsulation.as_ref().ok_or(Refusal::Unsupported)?;
        let secret = key.decapsulate(Ciphertext::from(ciphertext)).map_err(|_| Refusal::Internal)?;
        output[..SECRET_LEN].copy_from_slice(secret.as_ref());
        Ok(SECRET_LEN)
    }
}

impl Mechanism for MlKemSession {
    fn algorithm(&self) -> Algorithm {
        Algorithm::MlKem768
    }

    fn can(&self, op: Op) -> bool {
        op == Op::Encapsulate || self.decapsulation.is_some() && op == Op::Decapsulate
    }

    fn output_len(&self, op: Op, head_len: usize, input_len: usize) -> Written {
        if op == Op::Encapsulate {
            return check_input(head_len == 0 && input_len == 0).map(|()| CIPHERTEXT_LEN + SECRET_LEN);
        }
        check_input(head_len == 0 && input_len == CIPHERTEXT_LEN).map(|()| SECRET_LEN)
    }

    fn run(&self, op: Op, _head_len: usize, input: &[u8], output: &mut [u8]) -> Written {
        if op == Op::Encapsulate { self.encapsulate(output) } else { self.decapsulate(input, output) }
    }
}

pub(super) struct MlDsaSession {
    signer: Option<PqdsaKeyPair>,
    verifier: ParsedPublicKey,
}

impl MlDsaSession {
    pub(super) fn open(key: &KeyMaterial) -> Result<Self, OpenError> {
        match key {
            KeyMaterial::Private(secret) => Self::private(secret.expose()),
            KeyMaterial::Public(public) => Self::public(public, None),
            _ => Err(OpenError::KeyKind { expected: "a private or public ML-DSA-65 key" }),
        }
    }

    fn private(bytes: &[u8]) -> Result<Self, OpenError> {
        let algorithm = &signature::ML_DSA_65_SIGNING;
        let signer = match bytes.len() {
            ML_DSA_SEED_LEN => PqdsaKeyPair::from_seed(algorithm, bytes),
            ML_DSA_PRIVATE_LEN => PqdsaKeyPair::from_raw_private_key(algorithm, bytes),
            _ => PqdsaKeyPair::from_pkcs8(algorithm, bytes),
        };
        let signer = signer.map_err(|_| malformed("an ML-DSA-65 seed of 32 bytes, a key of 4032, or PKCS#8 in DER"))?;
        let public = signer.public_key().as_ref().to_vec();
        Self::public(&public, Some(signer))
    }

    fn public(bytes: &[u8], signer: Option<PqdsaKeyPair>) -> Result<Self, OpenError> {
        let verifier = ParsedPublicKey::new(&signature::ML_DSA_65, bytes)
            .map_err(|_| malformed("an ML-DSA-65 public key of 1952 bytes, or SPKI in DER"))?;
        Ok(Self { signer, verifier })
    }
}

impl Mechanism for MlDsaSession {
    fn algorithm(&self) -> Algorithm {
        Algorithm::MlDsa65
    }

    fn can(&self, op: Op) -> bool {
        op == Op::Verify || self.signer.is_some() && op == Op::Sign
    }

    fn output_len(&self, op: Op, head_len: usize, input_len: usize) -> Written {
        if op == Op::Verify {
            return check_input(head_len <= input_len).map(|()| 0);
        }
        check_input(head_len == 0).map(|()| SIGNATURE_LEN)
    }

    fn run(&self, op: Op, head_len: usize, input: &[u8], output: &mut [u8]) -> Written {
        if op == Op::Verify {
            let (signature, message) = input.split_at_checked(head_len).ok_or(Refusal::InputLength)?;
            return check_verified(self.verifier.verify_sig(message, signature).is_ok());
        }
        let signer = self.signer.as_ref().ok_or(Refusal::Unsupported)?;
        signer.sign(input, output).map_err(|_| Refusal::Internal)
    }
}

fn malformed(expected: &'static str) -> OpenError {
    OpenError::MalformedKey { expected }
}

fn check_len(bytes: &[u8], expected: usize) -> Result<(), OpenError> {
    let found = bytes.len();
    if found == expected { Ok(()) } else { Err(OpenError::KeyLength { expected, found }) }
}
