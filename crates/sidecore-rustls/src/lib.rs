//! Keys of the sidecore service as keys of rustls: handshakes are signed without the private key in the process.
//!
//! ```no_run
//! use rustls::ServerConfig;
//! use rustls::sign::SingleCertAndKey;
//! use sidecore_client::client::Options;
//! use std::sync::Arc;
//!
//! let certified = sidecore_rustls::stored(&Options::default(), "www")?;
//! let server = ServerConfig::builder().with_no_client_auth();
//! let server = server.with_cert_resolver(Arc::new(SingleCertAndKey::from(certified)));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A signature blocks its thread until the service answers: in an asynchronous program it holds a thread of the
//! runtime for up to [`Options::timeout`](sidecore_client::client::Options::timeout), and
//! [`Options::restart_wait`](sidecore_client::client::Options::restart_wait) while no service runs.
//!
//! |Module|For|
//! |---|---|
//! |`error`|reasons why a key cannot be used, each with its remedy|

#![forbid(unsafe_code)]

mod error;

pub use error::Error;
pub use sidecore_client::client::Options;

use rustls::pki_types::{CertificateDer, SubjectPublicKeyInfoDer};
use rustls::sign::{CertifiedKey, Signer, SigningKey};
use rustls::{InconsistentKeys, OtherError, SignatureAlgorithm, SignatureScheme};
use sidecore_client::keyops::ask;
use sidecore_client::keyops::key::{Family, Key, Private, Public, Raw};
use sidecore_client::keyops::sign::Settings;
use sidecore_client::keyops::tls;
use sidecore_client::keyops::wait::Caller;
use sidecore_client::keys::{UsableKey, Usage};
use sidecore_digest::input;
use std::fmt;
use std::sync::Arc;

/// The key of this name with the certificates that the service stores with it.
///
/// # Errors
/// As for [`StoredKey::find`]; there is no certificate, or the first one is another key's.
pub fn stored(options: &Options, name: &str) -> Result<CertifiedKey, Error> {
    let (key, listed) = found(options, name)?;
    let chain = (0..listed.certificates).map(|index| ask::certificate(options, name, index).map(CertificateDer::from));
    key.with_chain(chain.collect::<Result<_, _>>().map_err(|failure| Error::key(name, failure))?)
}

/// The key of this name with this chain: its own certificate, then each issuer's.
///
/// # Errors
/// As for [`StoredKey::find`]; the chain is empty, or its first certificate is another key's.
pub fn with_chain(options: &Options, name: &str, chain: Vec<CertificateDer<'static>>) -> Result<CertifiedKey, Error> {
    StoredKey::find(options, name)?.with_chain(chain)
}

/// A key of the service. It signs from any thread, and in forked children.
#[derive(Clone)]
pub struct StoredKey(Arc<Parts>);

struct Parts {
    options: Options,
    name: String,
    key: Arc<Key>,
    spki: Vec<u8>,
}

impl StoredKey {
    /// Finds the key of this name. Users named in the options are looked up now, so a later `chroot` does no harm.
    ///
    /// # Errors
    /// No service answers, it has no such key, this user may not use it, or the key does not sign.
    pub fn find(options: &Options, name: &str) -> Result<Self, Error> {
        found(options, name).map(|(key, _)| key)
    }

    /// This key with a chain: its own certificate, then each issuer's.
    ///
    /// # Errors
    /// The chain is empty, or its first certificate is another key's.
    pub fn with_chain(self, chain: Vec<CertificateDer<'static>>) -> Result<CertifiedKey, Error> {
        let name = self.0.name.clone();
        let certified = CertifiedKey::new(chain, Arc::new(self));
        match certified.keys_match() {
            Ok(()) => Ok(certified),
            Err(rustls::Error::NoCertificatesPresented) => Err(Error::NoCertificate { name }),
            Err(rustls::Error::InconsistentKeys(InconsistentKeys::KeyMismatch)) => Err(Error::OtherKeys { name }),
            Err(source) => Err(Error::Unreadable { name, source }),
        }
    }

    /// Its name in the service.
    pub fn name(&self) -> &str {
        &self.0.name
    }
}

fn found(options: &Options, name: &str) -> Result<(StoredKey, UsableKey), Error> {
    let mut options = options.clone();
    options.look_up_users();
    let listed = ask::usable(&options, name).map_err(|failure| Error::key(name, failure))?;
    let public = Public::from_spki(&listed.public).map_err(|failure| Error::key(name, failure))?;
    let name = name.to_owned();
    if tls::schemes(&public).is_empty() {
        return Err(Error::Kind { name, kind: listed.kind.name() });
    }
    if !listed.usage.contains(Usage::SIGN) {
        return Err(Error::Usage { name, wanted: listed.usage.with(Usage::SIGN) });
    }
    let key = Arc::new(Key::new(public, Private::Stored(name.clone())));
    let parts = Parts { options, name, key, spki: listed.public.clone() };
    Ok((StoredKey(Arc::new(parts)), listed))
}

impl SigningKey for StoredKey {
    fn choose_scheme(&self, offered: &[SignatureScheme]) -> Option<Box<dyn Signer>> {
        // In the order of rustls' own keys, so that a key that moves into the service changes no handshake.
        let mut schemes = tls::schemes(&self.0.key.public).iter().copied().map(SignatureScheme::from);
        let scheme = schemes.find(|scheme| offered.contains(scheme))?;
        let settings = tls::settings(scheme.into(), &self.0.key.public)?;
        Some(Box::new(StoredSigner { key: self.clone(), scheme, settings }))
    }

    fn public_key(&self) -> Option<SubjectPublicKeyInfoDer<'_>> {
        Some(SubjectPublicKeyInfoDer::from(&*self.0.spki))
    }

    fn algorithm(&self) -> SignatureAlgorithm {
        match self.0.key.public.family() {
            Family::Rsa => SignatureAlgorithm::RSA,
            Family::Ec => SignatureAlgorithm::ECDSA,
            Family::Raw(Raw::Ed25519) => SignatureAlgorithm::ED25519,
            // ML-DSA, which has no cipher suite of TLS 1.2.
            Family::Raw(_) => SignatureAlgorithm::Unknown(0),
        }
    }
}

impl fmt::Debug for StoredKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("StoredKey").field(&self.0.name).finish()
    }
}

#[derive(Debug)]
struct StoredSigner {
    key: StoredKey,
    scheme: SignatureScheme,
    settings: Settings,
}

impl Signer for StoredSigner {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, rustls::Error> {
        let Parts { options, name, key, .. } = &*self.key.0;
        let settings = &self.settings;
        let signature = settings.sign(Caller::thread(options), key, &input(settings, message));
        signature.map_err(|failure| OtherError(Arc::new(Error::key(name, failure))).into())
    }

    fn scheme(&self) -> SignatureScheme {
        self.scheme
    }
}
