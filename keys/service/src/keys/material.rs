//! A private key in the store, and the encodings of it that sessions of each scheme take.

use super::error::KeyError;
use crate::engine::crypto::{Session, SessionError};
use crate::ffi::pkey::PKey;
use crate::spec::{Hash, KeyMaterial, Scheme, Secret, SessionSpec, SignaturePadding};
use sidecore_client::keys::{Kind, Site};
use sidecore_core::session::Op;

/// First byte of a local key at rest that is also remote, and of the public part of a merely remote key. PKCS#8
/// begins with another byte.
const BOTH: &[u8] = &[1];
const ELSEWHERE: &[u8] = &[2];

#[derive(Debug)]
pub(crate) struct Material {
    pub(super) kind: Kind,
    pub(super) site: Site,
    /// Empty if the private key is remote only.
    pkcs8: Secret,
    /// A `SubjectPublicKeyInfo` in DER.
    pub(crate) public: Vec<u8>,
}

impl Material {
    pub(crate) fn read(pkcs8: Secret) -> Result<Self, KeyError> {
        let material = Self::parse(pkcs8)?;
        material.try_out()?;
        Ok(material)
    }

    fn parse(pkcs8: Secret) -> Result<Self, KeyError> {
        let key = PKey::private(pkcs8.expose()).ok_or(KeyError::NotPkcs8)?;
        let kind = key.kind().ok_or(KeyError::Unsupported)?;
        let public = public(kind, &key).ok_or(KeyError::NoPublicPart)?;
        Ok(Self { kind, site: Site::Here, pkcs8, public })
    }

    pub(crate) fn elsewhere(spki: &[u8]) -> Result<Self, KeyError> {
        let key = PKey::public(spki).ok_or(KeyError::NotSpki)?;
        let kind = key.kind().ok_or(KeyError::Unsupported)?;
        // Encoded again in the service's form, since a point may be compressed.
        let public = key.to_spki().ok_or(SessionError::Library)?;
        let material = Self { kind, site: Site::Elsewhere, pkcs8: Secret::from(&[][..]), public };
        // A session's checks are made now, once.
        material.open(&first_scheme(kind), "")?;
        Ok(material)
    }

    /// Reads the output of [`Material::at_rest`]. The key was tested before it was sealed, and clients wait while a
    /// service starts.
    pub(super) fn of_rest(bytes: Secret) -> Result<Self, KeyError> {
        if let Some(pkcs8) = bytes.expose().strip_prefix(BOTH) {
            return Ok(Self { site: Site::Both, ..Self::parse(pkcs8.into())? });
        }
        if let Some(spki) = bytes.expose().strip_prefix(ELSEWHERE) {
            return Self::elsewhere(spki);
        }
        Self::parse(bytes)
    }

    pub(super) fn at_rest(&self) -> Secret {
        match self.site {
            Site::Here => self.pkcs8.clone(),
            Site::Both => Secret::new([BOTH, self.pkcs8.expose()].concat()),
            Site::Elsewhere => Secret::new([ELSEWHERE, &self.public].concat()),
        }
    }

    pub(super) fn shared(&self, also: bool) -> Result<Self, KeyError> {
        if self.site == Site::Elsewhere {
            return Err(KeyError::Remote);
        }
        let site = if also { Site::Both } else { Site::Here };
        Ok(Self { site, ..self.copy() })
    }

    pub(crate) fn kind(&self) -> Kind {
        self.kind
    }

    /// PKCS#8 in DER; empty if the private key is remote only.
    pub(super) fn private(&self) -> &Secret {
        &self.pkcs8
    }

    pub(crate) fn copy(&self) -> Self {
        Self { kind: self.kind, site: self.site, pkcs8: self.pkcs8.clone(), public: self.public.clone() }
    }

    pub(crate) fn generate(kind: Kind) -> Result<Self, KeyError> {
        let pkcs8 = PKey::generate(kind).and_then(|key| key.to_pkcs8());
        Self::read(pkcs8.ok_or(KeyError::NotMade)?)
    }

    pub(crate) fn open(&self, scheme: &Scheme, name: &str) -> Result<Session, KeyError> {
        if !self.kind.does(scheme) {
            return Err(KeyError::WrongScheme { kind: self.kind, scheme: scheme.what() });
        }
        let session = if self.site == Site::Elsewhere {
            Session::open_public(scheme, &self.public)?
        } else {
            let key = KeyMaterial::Private(self.encoded().ok_or(SessionError::Library)?);
            Session::open(&SessionSpec { scheme: scheme.clone(), key })?
        };
        Ok(session.with_site(name, scheme, &self.public, self.site))
    }

    fn encoded(&self) -> Option<Secret> {
        match self.kind {
            Kind::X25519 | Kind::MlKem768 => PKey::private(self.pkcs8.expose())?.to_raw_private(),
            _ => Some(self.pkcs8.clone()),
        }
    }

    /// A key whose parts do not fit each other would make signatures that never verify.
    fn try_out(&self) -> Result<(), KeyError> {
        let session = self.open(&first_scheme(self.kind), "")?;
        if session.class(Op::Sign).is_none() {
            return Ok(());
        }
        let message = b"sidecore tries a key";
        let tried = session.output_len(Op::Sign, 0, message.len()).and_then(|len| {
            let mut signed = vec![0; len];
            let len = session.run(Op::Sign, 0, message, &mut signed)?;
            signed.truncate(len);
            signed.extend(message);
            session.run(Op::Verify, len, &signed, &mut [])
        });
        tried.map(|_| ()).map_err(|_| KeyError::Unfit)
    }
}

pub(crate) fn public_part(kind: Kind, raw: &Secret) -> Result<Vec<u8>, KeyError> {
    let public = PKey::raw_private(kind, raw.expose()).and_then(|key| key.to_spki());
    public.ok_or(KeyError::NotRaw(kind))
}

/// A decapsulation key without its seed has its public part only as a part of its bytes.
pub(super) fn public(kind: Kind, key: &PKey) -> Option<Vec<u8>> {
    if kind == Kind::MlKem768 {
        return PKey::raw_private(kind, key.to_raw_private()?.expose())?.to_spki();
    }
    key.to_spki()
}

fn first_scheme(kind: Kind) -> Scheme {
    match kind {
        Kind::Rsa2048 | Kind::Rsa3072 | Kind::Rsa4096 | Kind::Rsa6144 | Kind::Rsa8192 => {
            Scheme::RsaSignature { padding: SignaturePadding::Pkcs1, hash: Hash::Sha256 }
        }
        Kind::P256 | Kind::P384 | Kind::P521 => Scheme::Ecdsa { hash: Hash::Sha256 },
        Kind::Ed25519 => Scheme::Ed25519,
        Kind::X25519 => Scheme::X25519,
        Kind::MlKem768 => Scheme::MlKem768,
        Kind::MlDsa65 => Scheme::MlDsa65,
    }
}
