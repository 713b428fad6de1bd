//! The signing keys of the agent's user. Each list asks the services. A service without changes answers with a number
//! alone.

use crate::log::{Event, Log};
use crate::public::{Certificate, blob};
use crate::sign;
use rustix::process::geteuid;
use sidecore_client::client::Options;
use sidecore_client::keyops::ask;
use sidecore_client::keyops::failure::{Failure, Reason};
use sidecore_client::keyops::key::{Key, Private, Public};
use sidecore_client::keys::{UsableKey, Usage};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

pub(crate) struct Services {
    sources: Vec<Source>,
    /// Names of the keys to offer, in order. Empty: all.
    names: Vec<String>,
    certificates: Vec<Certificate>,
}

struct Source {
    options: Options,
    /// For lists.
    brief: Options,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    revision: Option<u64>,
    keys: Vec<Arc<Signer>>,
}

/// A key that signs.
pub(crate) struct Signer {
    pub(crate) name: String,
    /// A `SubjectPublicKeyInfo` in DER.
    pub(crate) spki: Vec<u8>,
    /// The public key in SSH's form, if it has one.
    blob: Option<Vec<u8>>,
    key: Arc<Key>,
    /// Index of its service.
    source: usize,
}

impl Signer {
    fn new(source: usize, usable: UsableKey) -> Option<Self> {
        let UsableKey { name, public: spki, usage, kind, .. } = usable;
        if !usage.both(Usage::of_kind(kind)).contains(Usage::SIGN) {
            return None;
        }
        let public = Public::from_spki(&spki).ok()?;
        let blob = blob(&public);
        let key = Arc::new(Key::new(public, Private::Stored(name.clone())));
        Some(Self { name, spki, blob, key, source })
    }
}

/// A key or certificate for SSH.
pub(crate) struct Identity {
    pub(crate) blob: Vec<u8>,
    pub(crate) comment: String,
}

impl Source {
    fn known(&self) -> MutexGuard<'_, Known> {
        // Both fields are set together, and nothing can stop in between.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Services {
    pub(crate) fn new(options: Vec<Options>, names: Vec<String>, certificates: Vec<Certificate>) -> Self {
        let several = options.len() > 1;
        let source = |options: Options| {
            // The keys of one service are not delayed by another one that is away.
            let restart_wait = if several { Duration::ZERO } else { options.restart_wait };
            let brief = Options { restart_wait, ..options.clone() };
            Source { options, brief, known: Mutex::default() }
        };
        Self { sources: options.into_iter().map(source).collect(), names, certificates }
    }

    /// The keys of all services that answer.
    ///
    /// # Errors
    /// No service answers.
    pub(crate) fn signers(&self, log: &Log) -> Result<Vec<Arc<Signer>>, Failure> {
        let (mut signers, mut failures) = (Vec::new(), Vec::new());
        for (index, source) in self.sources.iter().enumerate() {
            match self.refreshed(index) {
                Ok(more) => signers.extend(more),
                Err(failure) => {
                    log.failed(format_args!("keys of {}", source.options.socket.display()), &failure);
                    failures.push(failure);
                }
            }
        }
        if failures.len() == self.sources.len()
            && let Some(failure) = failures.pop()
        {
            return Err(failure);
        }
        signers.sort_by_key(|signer| self.place(&signer.name));
        Ok(signers)
    }

    fn place(&self, name: &str) -> Option<usize> {
        self.names.iter().position(|wanted| wanted == name)
    }

    /// Root and the service's own user may use all keys. Those of other users are offered only by name: their owners chose
    /// them.
    fn offers(&self, key: &UsableKey, own: u32) -> bool {
        key.owner.is_none_or(|owner| owner == own) || self.place(&key.name).is_some()
    }

    fn refreshed(&self, index: usize) -> Result<Vec<Arc<Signer>>, Failure> {
        let source = &self.sources[index];
        let revision = source.known().revision;
        if let Some(listed) = ask::list(&source.brief, revision)? {
            let own = geteuid().as_raw();
            let keys =
                listed.keys.into_iter().filter(|key| self.offers(key, own)).filter_map(|key| Signer::new(index, key));
            let wanted = keys.filter(|signer| self.names.is_empty() || self.place(&signer.name).is_some());
            let keys = wanted.map(Arc::new).collect();
            *source.known() = Known { revision: listed.revision, keys };
        }
        Ok(source.known().keys.clone())
    }

    /// Each key once, after its certificates.
    ///
    /// # Errors
    /// No service answers.
    pub(crate) fn identities(&self, log: &Log) -> Result<Vec<Identity>, Failure> {
        let signers = self.signers(log)?;
        for certificate in &self.certificates {
            if !signers.iter().any(|signer| signer.blob.as_ref() == Some(&certificate.key)) {
                let file = certificate.path.display();
                log.tell(Event::Certificate, format_args!("{file}: a certificate for none of the keys of the agent"));
            }
        }
        let (mut identities, mut seen) = (Vec::new(), BTreeSet::new());
        for signer in &signers {
            let Some(blob) = signer.blob.as_ref().filter(|blob| seen.insert(*blob)) else { continue };
            let certificates = self.certificates.iter().filter(|certificate| certificate.key == *blob);
            let blobs = certificates.map(|certificate| &certificate.blob).chain([blob]);
            identities.extend(blobs.map(|blob| Identity { blob: blob.clone(), comment: signer.name.clone() }));
        }
        Ok(identities)
    }

    /// Signs a message for SSH with the key that has this blob, or a certificate with it. A failure is logged.
    pub(crate) fn sign_ssh(&self, log: &Log, blob: &[u8], message: &[u8], flags: u32) -> Option<Vec<u8>> {
        let certificate = self.certificates.iter().find(|certificate| certificate.blob == blob);
        let blob = certificate.map_or(blob, |certificate| &certificate.key);
        let is = |signer: &Signer| signer.blob.as_deref() == Some(blob);
        self.sign(log, is, |options, key| sign::ssh(options, key, message, flags))
    }

    /// Signs with the key of this name and public part, by a scheme of TLS. A failure is logged.
    pub(crate) fn sign_tls(&self, log: &Log, name: &str, spki: &[u8], scheme: u32, input: &[u8]) -> Option<Vec<u8>> {
        let is = |signer: &Signer| signer.name == name && signer.spki == spki;
        self.sign(log, is, |options, key| sign::tls(options, key, scheme, input))
    }

    /// Takes the key from the last list. If it is missing there, or the service refuses it, from a new one.
    fn sign(
        &self,
        log: &Log,
        is: impl Fn(&Signer) -> bool,
        sign: impl Fn(&Options, &Arc<Key>) -> Result<Vec<u8>, Failure>,
    ) -> Option<Vec<u8>> {
        let with = |signer: &Signer| sign(&self.sources[signer.source].options, &signer.key);
        let known = self.sources.iter().find_map(|source| source.known().keys.iter().find(|key| is(key)).cloned());
        if let Some(signer) = known {
            match with(&signer) {
                Ok(signature) => return Some(signature),
                Err(failure) if matches!(failure.reason, Reason::NoKey | Reason::Replaced | Reason::NotAllowed) => {}
                Err(failure) => return failed(log, &signer, &failure),
            }
        }
        let signers = self.signers(log).ok()?;
        let Some(signer) = signers.iter().find(|signer| is(signer)) else {
            let text = "a signature with a key that the agent has not, or no more: see sidecore keys list";
            log.tell(Event::Failed(Reason::NoKey), text);
            return None;
        };
        with(signer).map_or_else(|failure| failed(log, signer, &failure), Some)
    }
}

fn failed(log: &Log, signer: &Signer, failure: &Failure) -> Option<Vec<u8>> {
    log.failed(format_args!("a signature with the key {}", signer.name), failure);
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use sidecore_client::keys::{Kind, Site};

    fn key(name: &str, owner: Option<u32>) -> UsableKey {
        let (name, public) = (name.to_owned(), Vec::new());
        let usage = Usage::of_kind(Kind::P256);
        UsableKey { name, kind: Kind::P256, public, usage, site: Site::Here, certificates: 0, rate: None, owner }
    }

    #[test]
    fn keys_that_other_users_had_made_are_offered_by_name_only() {
        let services =
            |names: &[&str]| Services::new(Vec::new(), names.iter().map(ToString::to_string).collect(), Vec::new());
        let (all, named) = (services(&[]), services(&["theirs"]));
        assert!(all.offers(&key("a", None), 0) && all.offers(&key("own", Some(7)), 7));
        assert!(!all.offers(&key("theirs", Some(8)), 0) && named.offers(&key("theirs", Some(8)), 0));
    }
}
