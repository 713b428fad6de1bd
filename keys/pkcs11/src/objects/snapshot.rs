//! The service's objects as one user saw them at one moment.
//!
//! A handle is a digest of name, class and public part. So it stays while these stay, is the same in all processes, also
//! after a fork, and that of another key differs.

use super::{Object, Pair, What, id_of};
use crate::certificate::Certificate;
use crate::config::Setup;
use crate::life;
use crate::log::{Doing, told};
use crate::rv::Rv;
use crate::sys::lock::OwnedLock;
use cryptoki_sys::{CK_OBJECT_CLASS, CK_OBJECT_HANDLE, CKO_CERTIFICATE, CKO_PRIVATE_KEY, CKO_PUBLIC_KEY};
use sidecore_client::keyops::ask::{ListedKey, ListedKeys, list_with_certificates};
use sidecore_client::keyops::credentials::Credentials;
use sidecore_client::keyops::digest::Digest;
use sidecore_client::keyops::hasher::Hasher;
use sidecore_client::keyops::key::{Key, Private, Public};
use sidecore_client::keys::{UsableKey, Usage};
use sidecore_ipc::sys::clock;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// A search asks the service again after this time, ns.
const FRESH: u64 = 250_000_000;
/// Users whose snapshots are kept; a program rarely has two.
const MAX_USERS: usize = 4;
/// Lists of keys that change meanwhile are asked for so often again.
const TORN_TRIES: usize = 4;
/// Handles of own objects have the bit above these.
const HANDLE_BITS: u32 = 62;

#[derive(Default)]
pub(crate) struct Snapshot {
    revision: Option<u64>,
    objects: Vec<Arc<Object>>,
    places: HashMap<CK_OBJECT_HANDLE, usize>,
}

struct Cached {
    user: Credentials,
    snapshot: Arc<Snapshot>,
    /// Time of the last answer, ns.
    asked: u64,
}

static CACHE: OwnedLock<Vec<Cached>> = OwnedLock::new(Vec::new());

/// The calling user's objects. While no service answers, those of before.
pub(crate) fn fresh(setup: &Setup) -> Result<Arc<Snapshot>, Rv> {
    let (process, user) = (life::process()?, Credentials::present());
    let known = cached(process, &user);
    if let Some((snapshot, _)) = known.as_ref().filter(|(_, asked)| clock::now().saturating_sub(*asked) < FRESH) {
        return Ok(Arc::clone(snapshot));
    }
    let before = known.map(|(snapshot, _)| snapshot);
    let revision = before.as_ref().and_then(|snapshot| snapshot.revision);
    let uid = user.uid();
    let wanted = |key: &UsableKey| {
        let is_anothers = key.owner.is_some_and(|owner| owner != uid);
        Public::from_spki(&key.public).is_ok_and(|public| setup.shows(&key.name, public.family(), is_anothers))
    };
    let list = || list_with_certificates(&setup.options, revision, wanted);
    // A key that is being replaced may be listed with certificates of the other key, or without some.
    let is_torn = |listed: &ListedKey| {
        let own = listed.certificates.first().and_then(|der| Certificate::read(der));
        listed.certificates.len() != usize::from(listed.key.certificates)
            || own.is_some_and(|own| !own.is_of(&listed.key))
    };
    let mut answer = list();
    for _ in 0..TORN_TRIES {
        if answer.as_ref().is_ok_and(|listed| listed.as_ref().is_some_and(|it| it.keys.iter().any(is_torn))) {
            answer = list();
        }
    }
    let snapshot = match (answer, before) {
        (Ok(Some(listed)), _) => Arc::new(Snapshot::new(&listed)),
        (Ok(None), Some(before)) => before,
        (Ok(None), None) => Arc::default(),
        (Err(failure), before) => {
            let rv = told(setup, Doing::Asking, &failure, None);
            return before.ok_or(rv);
        }
    };
    let mut cache = CACHE.lock_or(process, Vec::new);
    cache.retain(|cached| cached.user != user);
    if cache.len() == MAX_USERS {
        cache.remove(0);
    }
    cache.push(Cached { user, snapshot: Arc::clone(&snapshot), asked: clock::now() });
    Ok(snapshot)
}

/// The calling user's objects as a search last saw them.
pub(crate) fn last(setup: &Setup) -> Result<Arc<Snapshot>, Rv> {
    match cached(life::process()?, &Credentials::present()) {
        Some((snapshot, _)) => Ok(snapshot),
        None => fresh(setup),
    }
}

fn cached(process: u32, user: &Credentials) -> Option<(Arc<Snapshot>, u64)> {
    let cache = CACHE.lock_or(process, Vec::new);
    let found = cache.iter().find(|cached| cached.user == *user)?;
    Some((Arc::clone(&found.snapshot), found.asked))
}

/// Drops all snapshots, e.g. those of a service at another socket.
pub(crate) fn forget(process: u32) {
    let forgotten = std::mem::take(&mut *CACHE.lock_or(process, Vec::new));
    drop(forgotten);
}

impl Snapshot {
    fn new(listed: &ListedKeys) -> Self {
        let mut snapshot = Self { revision: listed.revision, ..Self::default() };
        let mut publics = HashSet::new();
        for ListedKey { key, id, certificates } in &listed.keys {
            let Ok(public) = Public::from_spki(&key.public) else { continue };
            let is_second = !publics.insert(&key.public);
            let own_id = || id_of(&public, is_second.then_some(key.name.as_str()));
            let id = if id.is_empty() { own_id() } else { id.clone() };
            snapshot.add_key(key, public, &id, certificates);
        }
        snapshot
    }

    fn add_key(&mut self, key: &UsableKey, public: Public, id: &[u8], certificates: &[Vec<u8>]) {
        let certificates: Vec<_> = certificates.iter().filter_map(|der| Certificate::read(der)).map(Arc::new).collect();
        let is_own = certificates.first().is_none_or(|own| own.is_of(key));
        let certificates = if is_own { certificates } else { Vec::new() };
        let usage = key.usage.both(Usage::of_kind(key.kind));
        let pair = Pair::new(Key::new(public, Private::Stored(key.name.clone())), usage, certificates.clone(), None);
        let pair = Arc::new(pair);
        self.add(CKO_PRIVATE_KEY, &key.name, id, &key.public, What::Private(Arc::clone(&pair)));
        self.add(CKO_PUBLIC_KEY, &key.name, id, &key.public, What::Public(pair));
        for (place, certificate) in certificates.into_iter().enumerate() {
            // The name belongs to the key's own: Java takes each label for an entry.
            let label = if place == 0 { key.name.clone() } else { format!("{} issuer {place}", key.name) };
            let of_issuer = Public::from_spki(&certificate.spki).map(|public| id_of(&public, None));
            let id = if place == 0 { id.to_vec() } else { of_issuer.unwrap_or_default() };
            let der = certificate.der.clone();
            self.add(CKO_CERTIFICATE, &label, &id, &der, What::Certificate(certificate));
        }
    }

    fn add(&mut self, class: CK_OBJECT_CLASS, label: &str, id: &[u8], content: &[u8], what: What) {
        let mut handle = handle_of(class, label, content);
        while self.places.contains_key(&handle) {
            handle = handle % (1 << HANDLE_BITS) + 1;
        }
        self.places.insert(handle, self.objects.len());
        let object = Object { handle, token: true, label: label.to_owned(), id: id.to_vec(), what };
        self.objects.push(Arc::new(object));
    }

    pub(crate) fn get(&self, handle: CK_OBJECT_HANDLE) -> Option<&Arc<Object>> {
        self.objects.get(*self.places.get(&handle)?)
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<Object>> {
        self.objects.iter()
    }
}

fn handle_of(class: CK_OBJECT_CLASS, label: &str, content: &[u8]) -> CK_OBJECT_HANDLE {
    let mut hasher = Hasher::new(Digest::Sha256);
    hasher.update(&[class as u8]);
    hasher.update(label.as_bytes());
    hasher.update(&[0]);
    hasher.update(content);
    let digest = hasher.finish();
    let number = digest.iter().take(8).fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
    (number & ((1 << HANDLE_BITS) - 1)).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sidecore_client::keyops::key::Raw;
    use sidecore_client::keys::{Kind, Site};

    fn key(name: &str, byte: u8) -> ListedKey {
        let public = Public::Raw(Raw::Ed25519, vec![byte; 32]).to_spki().unwrap();
        let (name, usage) = (name.to_owned(), Usage::ALL);
        let (kind, site) = (Kind::Ed25519, Site::Here);
        let key = UsableKey { name, kind, public, usage, site, certificates: 0, rate: None, owner: None };
        ListedKey { key, id: Vec::new(), certificates: Vec::new() }
    }

    fn handles(keys: Vec<ListedKey>) -> Vec<CK_OBJECT_HANDLE> {
        Snapshot::new(&ListedKeys { revision: Some(1), keys }).objects.iter().map(|object| object.handle).collect()
    }

    #[test]
    fn a_handle_stays_with_name_and_public_part_and_no_other_object_has_it() {
        let two = handles(vec![key("a", 1), key("b", 2)]);
        assert_eq!(two.iter().collect::<HashSet<_>>().len(), 4);
        assert_eq!(handles(vec![key("b", 2)]), two[2..]);
        assert!(handles(vec![key("a", 3), key("c", 2)]).iter().all(|handle| !two.contains(handle)));
        assert!(two.iter().all(|handle| *handle != 0 && *handle < 1 << HANDLE_BITS));
    }

    #[test]
    fn two_names_of_one_key_have_identifiers_of_their_own() {
        let snapshot = Snapshot::new(&ListedKeys { revision: Some(1), keys: vec![key("a", 1), key("b", 1)] });
        let ids: Vec<_> = snapshot.all().map(|object| &object.id).collect();
        assert!(ids[0] == ids[1] && ids[2] == ids[3] && ids[0] != ids[2]);
    }
}
