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
//! [`follow`] keeps such a server going over renewals: it changes the key and the chain of a file together.
//!
//! A signature blocks its thread until the service answers, for up to
//! [`Options::timeout`](sidecore_client::client::Options::timeout). While no service runs it fails at once, so that an
//! asynchronous program goes on with its other work; [`StoredKey::waiting`] is for programs with a thread for each
//! connection, which rather wait.
//!
//! |Module|For|
//! |---|---|
//! |`followed`|a key and a chain that change together|
//! |`presence`|whether the service is there: what keeps signatures from waiting for it|
//! |`error`|reasons why a key cannot be used, each with its remedy|

#![forbid(unsafe_code)]

mod error;
mod followed;
mod presence;

pub use error::Error;
pub use followed::{Followed, follow};
pub use sidecore_client::client::Options;

use presence::{Presence, without_wait};
use rustls::pki_types::{CertificateDer, SubjectPublicKeyInfoDer};
use rustls::sign::{CertifiedKey, Signer, SigningKey};
use rustls::{InconsistentKeys, OtherError, SignatureAlgorithm, SignatureScheme};
use sidecore_client::keyops::ask;
use sidecore_client::keyops::failure::{Failure, Reason};
use sidecore_client::keyops::hasher::input;
use sidecore_client::keyops::key::{Family, Key, Private, Public, Raw};
use sidecore_client::keyops::sign::Settings;
use sidecore_client::keyops::tls;
use sidecore_client::keyops::wait::Caller;
use sidecore_client::keys::{UsableKey, Usage, renewal_of};
use std::fmt;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;

/// The key of this name with the certificates that the service stores with it.
///
/// # Errors
/// As for [`StoredKey::find`]; there is no certificate, or the first one is another key's.
pub fn stored(options: &Options, name: &str) -> Result<CertifiedKey, Error> {
    let (key, listed) = found(options, name)?;
    let chain = (0..listed.certificates).map(|index| ask::certificate(options, name, index).map(CertificateDer::from));
    key.with_chain(chain.collect::<Result<_, _>>().map_err(|failure| Error::key(name, failure))?)
}

/// The key of this chain: its own certificate, then each issuer's. It is the key of this name, or the one that
/// `sidecore keys renew` stored for it as `NAME.SECONDS`. [`follow`] goes on to the next renewal.
///
/// # Errors
/// As for [`StoredKey::find`]; the chain is empty, or its first certificate is another key's.
pub fn with_chain(options: &Options, name: &str, chain: Vec<CertificateDer<'static>>) -> Result<CertifiedKey, Error> {
    let (key, chain) = keys_of(options, name, chain)?;
    Ok(CertifiedKey::new(chain, Arc::new(key)))
}

/// The key of the name that fits this chain, with it.
fn keys_of(
    options: &Options,
    name: &str,
    chain: Vec<CertificateDer<'static>>,
) -> Result<(StoredKey, Vec<CertificateDer<'static>>), Error> {
    let found = StoredKey::find(options, name).and_then(|key| key.fits(&chain).map(|()| key));
    let error = match found {
        Ok(key) => return Ok((key, chain)),
        Err(error) => error,
    };
    let is_elsewhere = matches!(&error, Error::OtherKeys { .. })
        || matches!(&error, Error::Key { failure, .. } if failure.reason == Reason::NoKey);
    if !is_elsewhere {
        return Err(error);
    }
    let listed = ask::list(options, None).map_err(|failure| Error::key(name, failure))?;
    let renewed = listed.into_iter().flat_map(|listed| listed.keys);
    let mut renewed = renewed.filter(|key| renewal_of(name, &key.name).is_some_and(|seconds| seconds > 0));
    let key = renewed.find_map(|listed| {
        let key = StoredKey::of(options, &listed).ok()?;
        key.fits(&chain).is_ok().then_some(key)
    });
    key.map(|key| (key, chain)).ok_or(error)
}

/// A key of the service. It signs from any thread, and in forked children.
#[derive(Clone)]
pub struct StoredKey {
    parts: Arc<Parts>,
    waits: bool,
    /// Told when the service has another key under this name.
    wake: Option<SyncSender<()>>,
}

struct Parts {
    options: Options,
    /// The same, for signatures that do not wait.
    at_once: Options,
    presence: Arc<Presence>,
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

    fn of(options: &Options, listed: &UsableKey) -> Result<Self, Error> {
        let (options, name) = (options.clone(), listed.name.clone());
        let public = Public::from_spki(&listed.public).map_err(|failure| Error::key(&name, failure))?;
        if tls::schemes(&public).is_empty() {
            return Err(Error::Kind { name, kind: listed.kind.name() });
        }
        if !listed.usage.contains(Usage::SIGN) {
            return Err(Error::Usage { name, wanted: listed.usage.with(Usage::SIGN) });
        }
        let key = Arc::new(Key::new(public, Private::Stored(name.clone())));
        let (at_once, presence, spki) = (without_wait(&options), Arc::default(), listed.public.clone());
        let parts = Arc::new(Parts { options, at_once, presence, name, key, spki });
        Ok(Self { parts, waits: false, wake: None })
    }

    /// This key with a chain: its own certificate, then each issuer's.
    ///
    /// # Errors
    /// The chain is empty, or its first certificate is another key's.
    pub fn with_chain(self, chain: Vec<CertificateDer<'static>>) -> Result<CertifiedKey, Error> {
        self.fits(&chain)?;
        Ok(CertifiedKey::new(chain, Arc::new(self)))
    }

    /// This key, whose signatures wait for a service that is away, up to [`Options::restart_wait`] for all signatures of an
    /// outage together. For programs with a thread for each connection: it holds up whatever else its thread has to do.
    #[must_use]
    pub fn waiting(self) -> Self {
        Self { waits: true, ..self }
    }

    fn woken_by(self, wake: SyncSender<()>) -> Self {
        Self { wake: Some(wake), ..self }
    }

    fn fits(&self, chain: &[CertificateDer<'static>]) -> Result<(), Error> {
        let name = self.parts.name.clone();
        let leaf = chain.first().cloned().into_iter().collect();
        match CertifiedKey::new(leaf, Arc::new(self.clone())).keys_match() {
            Ok(()) => Ok(()),
            Err(rustls::Error::NoCertificatesPresented) => Err(Error::NoCertificate { name }),
            Err(rustls::Error::InconsistentKeys(InconsistentKeys::KeyMismatch)) => Err(Error::OtherKeys { name }),
            Err(source) => Err(Error::Unreadable { name, source }),
        }
    }

    /// Its name in the service.
    pub fn name(&self) -> &str {
        &self.parts.name
    }
}

fn found(options: &Options, name: &str) -> Result<(StoredKey, UsableKey), Error> {
    let mut options = options.clone();
    options.look_up_users();
    let listed = ask::usable(&options, name).map_err(|failure| Error::key(name, failure))?;
    Ok((StoredKey::of(&options, &listed)?, listed))
}

impl SigningKey for StoredKey {
    fn choose_scheme(&self, offered: &[SignatureScheme]) -> Option<Box<dyn Signer>> {
        // In the order of rustls' own keys, so that a key that moves into the service changes no handshake.
        let mut schemes = tls::schemes(&self.parts.key.public).iter().copied().map(SignatureScheme::from);
        let scheme = schemes.find(|scheme| offered.contains(scheme))?;
        let settings = tls::settings(scheme.into(), &self.parts.key.public)?;
        Some(Box::new(StoredSigner { key: self.clone(), scheme, settings }))
    }

    fn public_key(&self) -> Option<SubjectPublicKeyInfoDer<'_>> {
        Some(SubjectPublicKeyInfoDer::from(&*self.parts.spki))
    }

    fn algorithm(&self) -> SignatureAlgorithm {
        match self.parts.key.public.family() {
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
        f.debug_tuple("StoredKey").field(&self.parts.name).finish()
    }
}

#[derive(Debug)]
struct StoredSigner {
    key: StoredKey,
    scheme: SignatureScheme,
    settings: Settings,
}

impl StoredSigner {
    fn signature(&self, message: &[u8]) -> Result<Vec<u8>, Failure> {
        let StoredKey { parts, waits, wake } = &self.key;
        let settings = &self.settings;
        let sign = |options| settings.sign(Caller::thread(options), &parts.key, &input(settings, message));
        if *waits {
            return sign(&parts.options);
        }
        if let Some(away) = parts.presence.away() {
            return Err(away);
        }
        sign(&parts.at_once).inspect_err(|failure| match (failure.reason, wake) {
            (Reason::Absent, _) => parts.presence.found_none(failure, &parts.options, &parts.name),
            // It looks already where the channel is full.
            (Reason::Replaced | Reason::NoKey, Some(wake)) => drop(wake.try_send(())),
            _ => {}
        })
    }
}

impl Signer for StoredSigner {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, rustls::Error> {
        self.signature(message).map_err(|failure| OtherError(Arc::new(Error::key(self.key.name(), failure))).into())
    }

    fn scheme(&self) -> SignatureScheme {
        self.scheme
    }
}
