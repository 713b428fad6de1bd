//! Sessions on remote keys: the data sent to other machines, and the check of their answers.
//!
//! Without the private part, the public part stands in its place: it does the public operations, knows the lengths of
//! all others, and verifies signatures. Other machines get only the digest of a message, if the algorithm signs
//! digests.

use sidecore_client::gateway::Operation;
use sidecore_client::keys::{Kind, Site};
use sidecore_core::session::{Op, Refusal};
use sidecore_core::work::KeyLocation;

use super::error::SessionError;
use super::mechanism::{Mechanism, Opened, Written};
use super::{Session, decryption, exchange, key, signature};
use crate::ffi::hash;
use crate::shm::span::Span;
use crate::spec::{KeyMaterial, Scheme, SessionSpec};

#[derive(Clone, Debug)]
pub(crate) struct RemoteSession {
    pub(crate) key: String,
    pub(crate) scheme: Scheme,
    /// Its `SubjectPublicKeyInfo` in DER.
    pub(crate) public: Box<[u8]>,
    /// The key is local, too.
    pub(super) both: bool,
}

impl RemoteSession {
    pub(super) fn key_location(&self, place: u16, op: Op) -> KeyLocation {
        match (Operation::of(op), self.both) {
            (None, _) => KeyLocation::LOCAL,
            (Some(_), true) => KeyLocation::both(place),
            (Some(_), false) => KeyLocation::remote(place),
        }
    }
}

impl Session {
    /// A session on a key without its private part. Its public part is a `SubjectPublicKeyInfo` in DER.
    pub(crate) fn open_public(scheme: &Scheme, spki: &[u8]) -> Result<Self, SessionError> {
        let of_public = || KeyMaterial::Public(spki.to_vec());
        let opened = match scheme {
            Scheme::RsaSignature { padding, hash } => signature::rsa(*padding, *hash, &of_public())?,
            Scheme::Ecdsa { hash } => signature::ecdsa(Some(*hash), &of_public())?,
            Scheme::EcdsaRaw => signature::ecdsa(None, &of_public())?,
            Scheme::Ed25519 => signature::whole(&key::ED25519, &of_public())?,
            Scheme::MlDsa65 => signature::whole(&key::ML_DSA, &of_public())?,
            Scheme::RsaDecryption { padding } => decryption::public(padding, spki)?,
            Scheme::RsaEncryption { padding } => decryption::encryption(padding, &of_public())?,
            Scheme::Ecdh => exchange::ecdh_public(spki)?,
            Scheme::X25519 => exchange::public(Kind::X25519, spki)?,
            Scheme::MlKem768 => exchange::public(Kind::MlKem768, spki)?,
            Scheme::Noop | Scheme::Cipher(_) | Scheme::Digest(_) | Scheme::Hmac(_) => {
                return Self::open(&SessionSpec { scheme: scheme.clone(), key: of_public() });
            }
        };
        let Opened { algorithm, ops, mechanism } = opened;
        let ops = signature::private_ops(scheme).unwrap_or(ops);
        Ok(Self::of(scheme, Opened { algorithm, ops, mechanism: Box::new(Public(mechanism)) }))
    }

    pub(crate) fn with_site(self, key: &str, scheme: &Scheme, public: &[u8], site: Site) -> Self {
        if site == Site::Here {
            return self;
        }
        let remote = RemoteSession {
            key: key.to_owned(),
            scheme: scheme.clone(),
            public: public.into(),
            both: site == Site::Both,
        };
        Self { remote: Some(Box::new(remote)), ..self }
    }

    pub(crate) fn remote(&self) -> Option<&RemoteSession> {
        self.remote.as_deref()
    }

    /// The operation for another machine in the place of `op`; only the digest of a message is left in `input` where
    /// that is enough. `None`: `op` needs no private key.
    pub(crate) fn abridge(&self, op: Op, input: &mut Vec<u8>) -> Option<Operation> {
        let mut made = [0; hash::MAX_LEN];
        let Some(len) = self.mechanism.digest(op, input, &mut made) else { return Operation::of(op) };
        input.clear();
        input.extend(&made[..len]);
        Some(Operation::SignDigest)
    }

    /// Whether that can be the result of `op` on an abridged input. Only the private part could check a plaintext or
    /// a shared secret, so these are accepted unchecked.
    pub(crate) fn fits(&self, op: Op, input: &[u8], result: &[u8]) -> bool {
        self.mechanism.fits(op, input, result)
    }
}

struct Public(Box<dyn Mechanism>);

impl Mechanism for Public {
    fn output_len(&self, op: Op, head_len: usize, input_len: usize) -> Written {
        self.0.output_len(op, head_len, input_len)
    }

    /// A private operation reaches this only by mistake.
    fn run(&self, op: Op, head_len: usize, input: &[u8], output: &mut [u8]) -> Written {
        match Operation::of(op) {
            None => self.0.run(op, head_len, input, output),
            Some(_) => Err(Refusal::KeyElsewhere),
        }
    }

    fn digest(&self, op: Op, message: &[u8], made: &mut [u8; hash::MAX_LEN]) -> Option<usize> {
        self.0.digest(op, message, made)
    }

    fn fits(&self, op: Op, input: &[u8], result: &[u8]) -> bool {
        self.0.fits(op, input, result)
    }

    fn run_spans(&self, op: Op, head_len: usize, input: Span<'_>, output: Span<'_>) -> Option<Written> {
        if Operation::of(op).is_some() {
            return None;
        }
        self.0.run_spans(op, head_len, input, output)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::{DecryptionPadding, Hash, SaltLength, Secret, SignaturePadding};
    use sidecore_client::keys::Usage;

    const RSA: [&[u8]; 2] =
        [include_bytes!("keys/test-rsa-2048.pkcs8.der"), include_bytes!("keys/test-rsa-2048.spki.der")];
    const P256: [&[u8]; 2] = [include_bytes!("keys/test-p-256.pkcs8.der"), include_bytes!("keys/test-p-256.spki.der")];
    const ED: [&[u8]; 2] =
        [include_bytes!("keys/test-ed25519.pkcs8.der"), include_bytes!("keys/test-ed25519.spki.der")];

    fn there(scheme: &Scheme, pkcs8: &[u8], operation: Operation, input: &[u8]) -> Vec<u8> {
        let key = KeyMaterial::Private(Secret::from(pkcs8));
        let session = Session::open(&SessionSpec { scheme: scheme.clone(), key }).unwrap();
        let mut result = vec![0; session.output_len(operation.op(), 0, input.len()).unwrap()];
        let len = session.run(operation.op(), 0, input, &mut result).unwrap();
        result.truncate(len);
        result
    }

    #[test]
    fn a_signature_made_elsewhere_fits_and_no_other_does() {
        let pss = SignaturePadding::Pss { mgf1: Hash::Sha256, salt: SaltLength::Digest };
        let rsa = |padding| Scheme::RsaSignature { padding, hash: Hash::Sha256 };
        for (scheme, [private, public]) in [
            (rsa(SignaturePadding::Pkcs1), RSA),
            (rsa(pss), RSA),
            (Scheme::Ecdsa { hash: Hash::Sha256 }, P256),
            (Scheme::Ed25519, ED),
        ] {
            let session = Session::open_public(&scheme, public).unwrap();
            assert!(session.class(Op::Sign).is_some() && session.class(Op::Verify).is_some(), "{scheme:?}");
            let mut input = b"message".to_vec();
            let operation = session.abridge(Op::Sign, &mut input).unwrap();
            let signature = there(&scheme, private, operation, &input);
            assert!(session.fits(Op::Sign, &input, &signature), "{scheme:?}");
            assert!(!session.fits(Op::Sign, &input, &signature[1..]), "{scheme:?}");
            assert!(!session.fits(Op::Sign, b"another", &signature), "{scheme:?}");
            // The message is verified here as with any key.
            let signed = [&signature[..], b"message"].concat();
            assert_eq!(session.run(Op::Verify, signature.len(), &signed, &mut []), Ok(0), "{scheme:?}");
            let refused = session.run(Op::Sign, 0, b"message", &mut [0; 512]);
            assert_eq!(refused, Err(Refusal::KeyElsewhere), "{scheme:?}");
        }
    }

    #[test]
    fn lengths_are_known_without_the_private_part() {
        let scheme = Scheme::RsaDecryption { padding: DecryptionPadding::Pkcs1 };
        let session = Session::open_public(&scheme, RSA[1]).unwrap();
        assert_eq!(session.output_len(Op::Decrypt, 0, 256), Ok(256));
        assert_eq!(session.output_len(Op::Decrypt, 0, 255), Err(Refusal::InputLength));
        assert!(session.class(Op::Verify).is_none());
        let x25519 = include_bytes!("../../keys/test-files/x25519.spki.der");
        let session = Session::open_public(&Scheme::X25519, x25519).unwrap();
        assert_eq!(session.output_len(Op::Derive, 0, 32), Ok(32));
        assert!(!session.fits(Op::Derive, &[9; 32], &[0; 32]) && session.fits(Op::Derive, &[9; 32], &[1; 32]));
        let ml_kem = include_bytes!("../../keys/test-files/ml-kem-768.spki.der");
        let session = Session::open_public(&Scheme::MlKem768, ml_kem).unwrap();
        assert_eq!(session.run(Op::Encapsulate, 0, &[], &mut [0; 1120]), Ok(1120));
        assert!(Session::open_public(&Scheme::X25519, RSA[1]).is_err());
    }

    #[test]
    fn only_what_takes_the_private_key_goes_elsewhere() {
        let session = Session::open_public(&Scheme::Ed25519, ED[1]).unwrap();
        let key_location = |session: &Session, op| session.key_location(op);
        let only = session.with_site("www", &Scheme::Ed25519, ED[1], Site::Elsewhere).of_key(7, Usage::SIGN);
        assert_eq!(
            (key_location(&only, Op::Sign), key_location(&only, Op::Verify)),
            (KeyLocation::remote(7), KeyLocation::LOCAL)
        );
        let session = Session::open_public(&Scheme::Ed25519, ED[1]).unwrap();
        let both = session.with_site("www", &Scheme::Ed25519, ED[1], Site::Both).of_key(7, Usage::SIGN);
        assert_eq!(
            (key_location(&both, Op::Sign), key_location(&both, Op::Verify)),
            (KeyLocation::both(7), KeyLocation::LOCAL)
        );
        let session = Session::open_public(&Scheme::Ed25519, ED[1]).unwrap();
        assert_eq!(
            key_location(
                &session.with_site("www", &Scheme::Ed25519, ED[1], Site::Here).of_key(7, Usage::SIGN),
                Op::Sign
            ),
            KeyLocation::LOCAL
        );
    }
}
