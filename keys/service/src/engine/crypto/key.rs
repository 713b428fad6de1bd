//! Asymmetric keys of session specs: in DER, some of them raw as well.

use std::ffi::c_int;

use sidecore_client::keys::Kind;
use sidecore_core::session::Algorithm;

use super::error::SessionError;
use crate::ffi::pkey::{self, PKey};
use crate::spec::KeyMaterial;

pub(super) struct Family {
    id: c_int,
    raw_private: Option<Kind>,
    raw_public: Option<Kind>,
    /// The expected form, for the error on other material or malformed bytes.
    material: &'static str,
    private: &'static str,
    public: &'static str,
}

pub(super) const RSA: Family = Family {
    id: pkey::RSA,
    raw_private: None,
    raw_public: None,
    material: "a private or public RSA key",
    private: "a PKCS#8 RSA key in DER",
    public: "an SPKI RSA key in DER",
};

pub(super) const EC: Family = Family {
    id: pkey::EC,
    material: "a private or public EC key",
    private: "a PKCS#8 EC key in DER",
    public: "an SPKI EC key in DER",
    ..RSA
};

pub(super) const ED25519: Family = Family {
    id: pkey::ED25519,
    raw_public: Some(Kind::Ed25519),
    material: "a private or public Ed25519 key",
    private: "a PKCS#8 Ed25519 key in DER",
    public: "an SPKI Ed25519 key in DER, or 32 bytes",
    ..RSA
};

pub(super) const ML_DSA: Family = Family {
    id: pkey::PQDSA,
    raw_private: Some(Kind::MlDsa65),
    raw_public: Some(Kind::MlDsa65),
    material: "a private or public ML-DSA-65 key",
    private: "an ML-DSA-65 seed of 32 bytes, a key of 4032, or PKCS#8 in DER",
    public: "an ML-DSA-65 public key of 1952 bytes, or SPKI in DER",
};

pub(super) struct Key {
    pub(super) algorithm: Algorithm,
    pub(super) pkey: PKey,
    pub(super) private: bool,
}

impl Key {
    pub(super) fn open(family: &Family, key: &KeyMaterial) -> Result<Self, SessionError> {
        let (pkey, private) = match key {
            KeyMaterial::Private(secret) => {
                let bytes = secret.expose();
                (PKey::private(bytes).or_else(|| PKey::raw_private(family.raw_private?, bytes)), true)
            }
            KeyMaterial::Public(bytes) => {
                (PKey::public(bytes).or_else(|| PKey::raw_public(family.raw_public?, bytes)), false)
            }
            _ => return Err(SessionError::WrongKind(family.material)),
        };
        let malformed = || SessionError::Malformed(if private { family.private } else { family.public });
        // A key that its encoding restricts to PSS is of another algorithm: nothing here would enforce the
        // restriction.
        let pkey = pkey.filter(|pkey| pkey.id() == family.id).ok_or_else(malformed)?;
        let algorithm = pkey.algorithm().ok_or_else(|| match family.id {
            pkey::RSA => SessionError::RsaBits(pkey.bits()),
            pkey::EC => SessionError::Curve,
            _ => malformed(),
        })?;
        Ok(Self { algorithm, pkey, private })
    }

    pub(super) fn check_room(&self, needed: usize) -> Result<(), SessionError> {
        let found = self.pkey.len();
        if needed <= found {
            return Ok(());
        }
        Err(SessionError::ShortModulus { needed, found })
    }
}
