//! Slow jobs of the control thread, as data: the work, and its result.
//!
//! A job runs on a thread of the [`JobQueues`](super::job_queue::JobQueues) and touches no state of the control thread,
//! which completes it with the result.

use super::command::ClientKey;
use super::key_change::Change;
use crate::channel::Grant;
use crate::control::Refused;
use crate::engine::crypto::Session;
use crate::keys::{Attributes, Kind, Limiter, Material, Receipts, Resealed, Resealing, StoreError, public_part};
use crate::spec::{KeyMaterial, KeyToken, Scheme, Secret, SessionSpec};
use sidecore_client::keys::Usage;
use sidecore_client::keys::transfer::Replace;
use sidecore_daemon::sys::peer::Credentials;
use std::sync::Arc;

pub(super) enum ControlJob {
    Session { scheme: Scheme, key: SessionKey, client: ClientKey, gathers: bool },
    Import(NewKey, KeyPart),
    Replace(Change, Secret),
    Generate(NewKey, Kind),
    Make(Kind),
    PublicPart { kind: Kind, raw: Secret },
    Reseal(Credentials, Resealing),
    Receive(Box<Arrival>, Secret),
}

pub(super) enum SessionKey {
    Sent(KeyMaterial),
    Made(KeyToken, MadeKey),
    /// The right is that of another service.
    Stored(String, Arc<Material>, Option<Grant>),
}

/// A key that the service made for a program.
#[derive(Clone, Debug)]
pub(super) struct MadeKey {
    pub(super) material: Arc<Material>,
    /// All its sessions have it, and the key as well once it is stored.
    pub(super) limiter: Arc<Limiter>,
}

pub(super) struct NewKey {
    pub(super) change: Change,
    pub(super) attributes: Attributes,
}

/// A key that another service sent, without its private part.
pub(super) struct Arrival {
    pub(super) new: NewKey,
    pub(super) receipts: Receipts,
    pub(super) replace: Replace,
}

pub(super) enum KeyPart {
    /// PKCS#8 in DER.
    Private(Secret),
    /// A `SubjectPublicKeyInfo` in DER.
    Public(Vec<u8>),
}

pub(super) enum JobOutput {
    Session(Arc<Session>),
    MadeSession(KeyToken, Arc<Session>),
    StoredSession { name: String, material: Arc<Material>, scheme: Scheme, session: Box<Session>, grant: Option<Grant> },
    Imported(NewKey, Material),
    Replaced(Change, Material),
    Generated(NewKey, Material),
    Made(Material),
    PublicPart(Vec<u8>),
    Resealed(Credentials, Resealed),
    Arrived(Box<Arrival>, Material),
}

pub(super) type JobResult = Result<JobOutput, Refused>;

/// One thread for each length of jobs: a short job does not wait for a long one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum JobThread {
    /// Milliseconds: parses keys.
    Parser,
    /// Seconds: makes keys for programs.
    Maker,
    /// Minutes: makes stored keys, one at a time, since each takes a core.
    Keeper,
    /// Seals stored keys again. It does not wait for a key that is being made, since no stored key can be changed
    /// meanwhile.
    Sealer,
}

impl ControlJob {
    pub(super) fn thread(&self) -> JobThread {
        match self {
            Self::Session { .. }
            | Self::Import(..)
            | Self::Replace(..)
            | Self::PublicPart { .. }
            | Self::Receive(..) => JobThread::Parser,
            Self::Make(_) => JobThread::Maker,
            Self::Generate(..) => JobThread::Keeper,
            Self::Reseal(..) => JobThread::Sealer,
        }
    }

    pub(super) fn run(self) -> JobResult {
        Ok(match self {
            Self::Session { scheme, key, client, gathers } => return open(scheme, key, client, gathers),
            Self::Import(new, KeyPart::Private(pkcs8)) => JobOutput::Imported(new, Material::read(pkcs8)?),
            Self::Import(new, KeyPart::Public(spki)) => JobOutput::Imported(new, Material::elsewhere(&spki)?),
            Self::Replace(change, pkcs8) => JobOutput::Replaced(change, Material::read(pkcs8)?),
            Self::Generate(new, kind) => JobOutput::Generated(new, Material::generate(kind)?),
            Self::Make(kind) => JobOutput::Made(Material::generate(kind)?),
            Self::PublicPart { kind, raw } => JobOutput::PublicPart(public_part(kind, &raw)?),
            Self::Reseal(who, resealing) => JobOutput::Resealed(who, resealing.run()),
            Self::Receive(arrival, pkcs8) => JobOutput::Arrived(arrival, Material::read(pkcs8)?),
        })
    }
}

fn open(scheme: Scheme, key: SessionKey, client: ClientKey, gathers: bool) -> JobResult {
    let ready = |session: Session| {
        if gathers {
            session.make_ready();
        }
        session
    };
    Ok(match key {
        SessionKey::Sent(key) => {
            let session = Session::open(&SessionSpec { scheme, key })?.of_client(client);
            JobOutput::Session(Arc::new(ready(session)))
        }
        SessionKey::Made(token, MadeKey { material, limiter }) => {
            let session = material.open(&scheme, "")?.of_client(client).of_made(Usage::of_scheme(&scheme), limiter);
            JobOutput::MadeSession(token, Arc::new(ready(session)))
        }
        SessionKey::Stored(name, material, grant) => match material.open(&scheme, &name) {
            Ok(session) => {
                JobOutput::StoredSession { name, material, scheme, session: Box::new(ready(session)), grant }
            }
            Err(why) => return Err(StoreError::Key { name, why }.into()),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::crypto::sample::sample;
    use crate::keys::Acl;
    use sidecore_core::session::{Class, Op};

    const PKCS8: &[u8] = include_bytes!("../engine/crypto/keys/test-p-256.pkcs8.der");
    const SPKI: &[u8] = include_bytes!("../engine/crypto/keys/test-p-256.spki.der");
    const CLIENT: ClientKey = (7, 100);

    fn new_key() -> NewKey {
        let who = Credentials { pid: 1, uid: 0, gid: 0 };
        let change = Change { event: "key-imported", who, name: "www".to_owned(), before: None, peer: None };
        NewKey { change, attributes: Acl { uids: vec![7], gids: vec![] }.into() }
    }

    fn session(scheme: Scheme, key: SessionKey) -> JobResult {
        ControlJob::Session { scheme, key, client: CLIENT, gathers: false }.run()
    }

    fn text(result: JobResult) -> String {
        result.err().expect("a refusal").text
    }

    #[test]
    fn a_session_on_a_key_that_was_sent_or_made_is_the_clients() {
        let spec = sample(Class::from_name("p-256-sign").unwrap(), 64, 1).spec;
        let material = Arc::new(Material::read(PKCS8.into()).unwrap());
        let made = MadeKey { material, limiter: Arc::new(Limiter::new(None)) };
        for key in [SessionKey::Sent(spec.key), SessionKey::Made(KeyToken([7; 16]), made)] {
            let (JobOutput::Session(session) | JobOutput::MadeSession(_, session)) =
                session(spec.scheme.clone(), key).unwrap_or_else(|refused| panic!("{refused}"))
            else {
                panic!("no session")
            };
            assert_eq!(session.owner(), Some(CLIENT));
            assert!(session.class(Op::Sign).is_some());
        }
    }

    #[test]
    fn a_session_on_a_stored_key_is_the_stores_and_its_refusal_names_the_key() {
        let material = Arc::new(Material::read(PKCS8.into()).unwrap());
        let stored = || SessionKey::Stored("www".to_owned(), material.clone(), None);
        let scheme = sample(Class::from_name("p-256-sign").unwrap(), 64, 1).spec.scheme;
        let Ok(JobOutput::StoredSession { name, session, .. }) = session_of(&scheme, stored()) else {
            panic!("no session")
        };
        assert_eq!((name.as_str(), session.owner()), ("www", None));
        let refused = text(session_of(&Scheme::X25519, stored()));
        assert!(refused.starts_with("key \"www\": a key of kind p-256 does not do "), "{refused}");
    }

    fn session_of(scheme: &Scheme, key: SessionKey) -> JobResult {
        session(scheme.clone(), key)
    }

    #[test]
    fn keys_are_read_with_what_the_store_needs_for_them() {
        for part in [KeyPart::Private(PKCS8.into()), KeyPart::Public(SPKI.to_vec())] {
            let Ok(JobOutput::Imported(new, material)) = ControlJob::Import(new_key(), part).run() else {
                panic!("no key")
            };
            assert_eq!((new.change.name.as_str(), new.attributes.acl.uids), ("www", vec![7]));
            assert_eq!(material.public, SPKI);
        }
        let NewKey { change, .. } = new_key();
        assert!(matches!(ControlJob::Replace(change, PKCS8.into()).run(), Ok(JobOutput::Replaced(..))));
        let part = || KeyPart::Private(b"no key".as_slice().into());
        let refused = text(ControlJob::Import(new_key(), part()).run());
        assert_eq!(refused, "the key cannot be read: give a PKCS#8 private key in DER");
    }

    #[test]
    fn keys_are_made_for_the_store_and_for_programs() {
        let made = ControlJob::Generate(new_key(), Kind::P256).run();
        assert!(matches!(made, Ok(JobOutput::Generated(..))));
        assert!(matches!(ControlJob::Make(Kind::X25519).run(), Ok(JobOutput::Made(_))));
    }

    #[test]
    fn the_public_part_of_a_raw_key_is_computed_or_refused() {
        let part =
            |len: usize| ControlJob::PublicPart { kind: Kind::Ed25519, raw: vec![7; len].as_slice().into() }.run();
        assert!(matches!(part(32), Ok(JobOutput::PublicPart(_))));
        assert_eq!(text(part(31)), "this is no raw private key of kind ed25519");
    }

    #[test]
    fn a_long_job_has_another_thread_than_a_short_one() {
        let parse = ControlJob::PublicPart { kind: Kind::Ed25519, raw: vec![7; 32].as_slice().into() };
        let threads = [parse, ControlJob::Make(Kind::P256), ControlJob::Generate(new_key(), Kind::P256)];
        assert_eq!(threads.map(|job| job.thread()), [JobThread::Parser, JobThread::Maker, JobThread::Keeper]);
    }
}
