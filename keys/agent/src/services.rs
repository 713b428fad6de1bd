//! The signing keys of the agent's user. Each list asks the services. A service without changes answers with a number
//! alone.
//!
//! SSH's clients are offered the keys that are meant for SSH: those that `--keys` names, or those with the usage `ssh`. A
//! user of an older version has no key with that usage, and expects the agent to offer what it offered before. So where a
//! service has none for this user, all its signing keys are offered. On a connection from another machine such a key
//! signs what SSH asks for (a login, or a file by `ssh-keygen -Y`) and nothing else: it may be a TLS server's key.

use crate::binding::{Bindings, Login, is_sshsig};
use crate::certificates::{Certificate, Certificates};
use crate::log::{Event, Log};
use crate::public::blob;
use crate::sign;
use rustix::process::geteuid;
use sidecore_client::client::Options;
use sidecore_client::keyops::ask;
use sidecore_client::keyops::failure::{Failure, Reason};
use sidecore_client::keyops::key::{Key, Private, Public};
use sidecore_client::keys::{UsableKey, Usage};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

pub(crate) struct Services {
    sources: Vec<Source>,
    /// Names of the keys to offer, in order. Empty: all.
    names: Vec<String>,
    certificates: Certificates,
    /// The operator was told that no key is marked for SSH.
    has_told: AtomicBool,
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
    /// Its usage says that it is for SSH.
    is_for_ssh: bool,
    /// SSH's clients may list and use it.
    is_offered: bool,
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
        let is_for_ssh = usage.contains(Usage::SSH);
        Some(Self { name, spki, blob, is_for_ssh, is_offered: true, key, source })
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
    pub(crate) fn new(options: Vec<Options>, names: Vec<String>, certificates: Certificates) -> Self {
        let several = options.len() > 1;
        let source = |options: Options| {
            // The keys of one service are not delayed by another one that is away.
            let restart_wait = if several { Duration::ZERO } else { options.restart_wait };
            let brief = Options { restart_wait, ..options.clone() };
            Source { options, brief, known: Mutex::default() }
        };
        let sources = options.into_iter().map(source).collect();
        Self { sources, names, certificates, has_told: AtomicBool::new(false) }
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
            let mut keys: Vec<Signer> = wanted.collect();
            // Names are the operator's choice.
            let only_marked = self.names.is_empty() && keys.iter().any(|signer| signer.is_for_ssh);
            for signer in &mut keys {
                signer.is_offered = signer.is_for_ssh || !only_marked;
            }
            let keys = keys.into_iter().map(Arc::new).collect();
            *source.known() = Known { revision: listed.revision, keys };
        }
        Ok(source.known().keys.clone())
    }

    /// Each key once, after its certificates.
    ///
    /// # Errors
    /// No service answers.
    pub(crate) fn identities(&self, log: &Log) -> Result<Vec<Identity>, Failure> {
        let mut signers = self.signers(log)?;
        signers.retain(|signer| signer.is_offered);
        self.tell_unmarked(log, &signers);
        let files = self.certificates(log);
        for (path, kept) in &files {
            if !kept.iter().any(|of| signers.iter().any(|signer| signer.blob.as_ref() == Some(&of.key))) {
                let file = path.display();
                log.tell(Event::Certificate, format_args!("{file}: a certificate for none of the keys of the agent"));
            }
        }
        let (mut identities, mut seen) = (Vec::new(), BTreeSet::new());
        for signer in &signers {
            let Some(blob) = signer.blob.as_ref().filter(|blob| seen.insert(*blob)) else { continue };
            let certificates = files.iter().filter_map(|(_, kept)| kept.iter().find(|of| of.key == *blob));
            let blobs = certificates.map(|certificate| &certificate.blob).chain([blob]);
            identities.extend(blobs.map(|blob| Identity { blob: blob.clone(), comment: signer.name.clone() }));
        }
        Ok(identities)
    }

    fn certificates(&self, log: &Log) -> Vec<(PathBuf, Vec<Arc<Certificate>>)> {
        self.certificates.present(|path, error| {
            let path = path.display();
            log.tell(Event::Certificate, format_args!("{path}: {error}; the certificates that it had before are kept"));
        })
    }

    fn tell_unmarked(&self, log: &Log, offered: &[Arc<Signer>]) {
        let unmarked = offered.iter().find(|signer| !signer.is_for_ssh).filter(|_| self.names.is_empty());
        let Some(signer) = unmarked.filter(|_| !self.has_told.swap(true, Ordering::Relaxed)) else { return };
        let text = "no key has the usage ssh, so SSH is offered all that sign: mark those that are meant for it";
        log.tell(Event::NotForSsh, format_args!("{text}, e.g. sidecore keys usage {} ssh", signer.name));
    }

    /// Signs a message for SSH with the key that has this blob, or a certificate with it. A failure is logged.
    pub(crate) fn sign_ssh(
        &self,
        log: &Log,
        bindings: &Bindings,
        named: &[u8],
        message: &[u8],
        flags: u32,
    ) -> Option<Vec<u8>> {
        let login = Login::of(message, named);
        if login.as_ref().is_some_and(|login| !bindings.permits(login)) {
            let text = "a login was to be signed for another session than that of its connection: it was refused";
            log.tell(Event::Forwarded, text);
            return None;
        }
        let files = self.certificates(log);
        let certificate = files.iter().flat_map(|(_, kept)| kept).find(|certificate| certificate.blob == named);
        let blob = certificate.map_or(named, |certificate| &certificate.key);
        let is = |signer: &Signer| signer.blob.as_deref() == Some(blob);
        let is_for_ssh = login.is_some() || is_sshsig(message) || !bindings.is_forwarded();
        self.sign(log, is, |signer, options| {
            if !signer.is_offered {
                return Err(Denied::NotForSsh.into());
            }
            if !is_for_ssh && !signer.is_for_ssh {
                return Err(Denied::Forwarded.into());
            }
            Ok(sign::ssh(options, &signer.key, message, flags)?)
        })
        .ok()
    }

    /// Whether this is a signature of the message by a host key. The first service that answers verifies it.
    pub(crate) fn verify(&self, host_key: &[u8], signature: &[u8], message: &[u8]) -> Result<bool, Failure> {
        let mut last = Failure::new(Reason::Absent, "no service is named");
        for source in &self.sources {
            match sign::verify(&source.options, host_key, signature, message) {
                Ok(verified) => return Ok(verified),
                Err(failure) => last = failure,
            }
        }
        Err(last)
    }

    /// Signs with the key of this name and public part, by a scheme of TLS.
    ///
    /// # Errors
    /// The failure's kind. The log has the failure.
    pub(crate) fn sign_tls(
        &self,
        log: &Log,
        name: &str,
        spki: &[u8],
        scheme: u32,
        input: &[u8],
    ) -> Result<Vec<u8>, Reason> {
        let is = |signer: &Signer| signer.name == name && signer.spki == spki;
        let signed = self.sign(log, is, |signer, options| Ok(sign::tls(options, &signer.key, scheme, input)?));
        signed.map_err(|reason| if reason == Reason::NoKey && self.has(name) { Reason::Replaced } else { reason })
    }

    /// Whether the last list had a key of this name.
    fn has(&self, name: &str) -> bool {
        self.sources.iter().any(|source| source.known().keys.iter().any(|key| key.name == name))
    }

    /// Takes the key from the last list. If it is missing there, or the service refuses it, from a new one.
    ///
    /// # Errors
    /// The failure's kind. The log has the failure.
    fn sign(
        &self,
        log: &Log,
        is: impl Fn(&Signer) -> bool,
        sign: impl Fn(&Signer, &Options) -> Result<Vec<u8>, NotSigned>,
    ) -> Result<Vec<u8>, Reason> {
        let with = |signer: &Signer| sign(signer, &self.sources[signer.source].options);
        let known = self.sources.iter().find_map(|source| source.known().keys.iter().find(|key| is(key)).cloned());
        if let Some(signer) = known {
            match with(&signer) {
                Ok(signature) => return Ok(signature),
                // The list may be an old one.
                Err(NotSigned::Denied(Denied::NotForSsh)) => {}
                Err(NotSigned::Failed(failure))
                    if matches!(failure.reason, Reason::NoKey | Reason::Replaced | Reason::NotAllowed) => {}
                Err(why) => return Err(failed(log, &signer, &why)),
            }
        }
        let signers = self.signers(log).map_err(|failure| failure.reason)?;
        let Some(signer) = signers.iter().find(|signer| is(signer)) else {
            let text = "a signature with a key that the agent has not, or no more: see sidecore keys list";
            log.tell(Event::Failed(Reason::NoKey), text);
            return Err(Reason::NoKey);
        };
        with(signer).map_err(|why| failed(log, signer, &why))
    }
}

/// Why a key does not sign for this client.
#[derive(Clone, Copy, Debug, thiserror::Error)]
enum Denied {
    #[error("other keys have the usage ssh, and it has not: sidecore keys usage NAME sign,ssh, or name it with --keys")]
    NotForSsh,
    #[error(
        "another machine asked, for something that is no login and no signed file, and the key has not the usage ssh: it was \
         refused; if the key is meant for SSH alone, set that usage with sidecore keys usage"
    )]
    Forwarded,
}

#[derive(Debug, thiserror::Error)]
enum NotSigned {
    #[error(transparent)]
    Denied(#[from] Denied),
    #[error(transparent)]
    Failed(#[from] Failure),
}

fn failed(log: &Log, signer: &Signer, why: &NotSigned) -> Reason {
    let what = format_args!("a signature with the key {}", signer.name);
    match why {
        NotSigned::Failed(failure) => {
            log.failed(what, failure);
            failure.reason
        }
        NotSigned::Denied(denied) => {
            let event = if matches!(denied, Denied::NotForSsh) { Event::NotForSsh } else { Event::Forwarded };
            log.tell(event, format_args!("{what}: {denied}"));
            Reason::NotAllowed
        }
    }
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
        let services = |names: &[&str]| {
            Services::new(Vec::new(), names.iter().map(ToString::to_string).collect(), Certificates::default())
        };
        let (all, named) = (services(&[]), services(&["theirs"]));
        assert!(all.offers(&key("a", None), 0) && all.offers(&key("own", Some(7)), 7));
        assert!(!all.offers(&key("theirs", Some(8)), 0) && named.offers(&key("theirs", Some(8)), 0));
    }
}
