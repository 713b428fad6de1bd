//! The service's keys by name: their users, and the sessions on them that lanes share.

mod served;
mod terms;
mod transfer;
mod usable;

use super::attributes::Attributes;
use super::error::StoreError;
use super::limiter::Limiter;
use super::lineage::Lineage;
use super::material::Material;
use super::sealed::Transfer;
use super::vault::{self, Stretched, Vault, VaultError, VaultWarning};
use crate::channel::{Grant, Serving};
use crate::config::{KeysConfig, Partners, check_passphrase};
use crate::engine::crypto::{Session, label_len};
use crate::spec::{Scheme, Secret};
use aws_lc_rs::digest::{SHA256, digest};
use sidecore_client::keys::transfer::Address;
use sidecore_client::keys::{Acl, KeyEntry, KeyInfo, MAX_ACL, Site, Usage, check_name};
use sidecore_core::custody::Custody;
use sidecore_core::policy::succession::Found;
use sidecore_daemon::sys::peer::{Asker, Peer};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::hash::RandomState;
use std::sync::Arc;
pub(crate) use transfer::{Arriving, Sent};
pub(crate) use usable::UsablePage;

/// Most sessions of one key that are kept for the next lane. A client that asks for more schemes gets sessions of its
/// own, which end with its lane.
const CACHED: usize = 16;
/// Bytes of a page of the list: a message holds it.
const PAGE: usize = 12 * 1024;

#[derive(Debug)]
struct Key {
    place: u16,
    material: Arc<Material>,
    attributes: Attributes,
    /// Number of the last change.
    changed: u64,
    custody: Custody,
    /// Services with a receipt for it, and the change that they have.
    confirmed: Vec<(Address, u64)>,
    /// All its sessions have it.
    limiter: Arc<Limiter>,
    /// Sessions by scheme, the last used at the end.
    sessions: Vec<(Scheme, Arc<Session>)>,
}

/// Who is to use a key.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Who<'a> {
    User(&'a Asker),
    /// Another service.
    Service(&'a Grant),
}

impl<'a> From<&'a Asker> for Who<'a> {
    fn from(asker: &'a Asker) -> Self {
        Self::User(asker)
    }
}

impl<'a> From<&'a Grant> for Who<'a> {
    fn from(grant: &'a Grant) -> Self {
        Self::Service(grant)
    }
}

#[derive(Debug)]
pub(crate) enum Ready {
    Session(Arc<Session>),
    /// To be opened on another thread, and passed to [`Store::keep`].
    Material(Arc<Material>),
}

#[derive(Debug)]
pub(crate) struct Changed<T> {
    /// The new value, or the place of the key whose sessions are to be checked.
    pub(crate) what: T,
    /// Answer in the place of success: the change was made, but its durability is not certain.
    pub(crate) doubt: VaultWarning,
}

#[derive(Clone, Debug)]
pub(crate) struct Described {
    pub(crate) entry: KeyEntry,
    /// `sha256:` and the digest of its `SubjectPublicKeyInfo` in DER.
    pub(crate) fingerprint: String,
    /// Of the operations of its kind.
    pub(crate) usage: Usage,
    pub(crate) rate: Option<u32>,
    /// Number of its certificates.
    pub(crate) certificates: usize,
    pub(crate) owner: Option<u32>,
}

#[derive(Debug)]
enum Rest {
    /// None: keys are forgotten when the store ends.
    None,
    Vault(Box<Vault>),
    Lent,
    /// Another service reads them, and may have them soon.
    Released(Box<Vault>),
}

#[derive(Debug)]
pub(crate) struct Resealing {
    vault: Box<Vault>,
    passphrase: Secret,
}

impl Resealing {
    /// This takes a while: the passphrase is stretched, and each key's file is written.
    pub(crate) fn run(mut self) -> Resealed {
        let done = self.vault.change_passphrase(&self.passphrase);
        Resealed { vault: self.vault, done }
    }
}

#[derive(Debug)]
pub(crate) struct Resealed {
    vault: Box<Vault>,
    done: Result<VaultWarning, VaultError>,
}

#[derive(Debug)]
pub(crate) struct Store {
    keys: BTreeMap<String, Key>,
    /// Names of keys by their places, which index counters.
    places: Vec<Option<String>>,
    own_uid: u32,
    explicit: Vec<String>,
    rest: Rest,
    /// The disk did not confirm the last change.
    doubted: bool,
    /// Without a directory: its transfer key.
    transient: Option<Transfer>,
    /// Services to which keys are sealed, and those from which they come.
    partners: Partners,
    /// Services that have requests done here.
    serving: Serving,
    /// Number of the last change of any key.
    changes: u64,
    /// Another one for each store: revisions of two services differ.
    revisions: RandomState,
}

impl Store {
    /// What takes longest of opening the store, and needs no lock.
    pub(crate) fn stretch(config: &KeysConfig, passphrase: Option<&Secret>) -> Option<Stretched> {
        Vault::stretch(config.directory.as_ref()?, &read(config, passphrase).ok()?)
    }

    /// A store of at most `limit` keys, with the keys at rest. A `passphrase` of `None` is read from its file.
    pub(crate) fn open(
        config: &KeysConfig,
        passphrase: Option<&Secret>,
        ahead: Option<&Stretched>,
        limit: u16,
        own_uid: u32,
    ) -> Result<Self, StoreError> {
        let explicit = config.explicit_decryption_errors.clone();
        let places = vec![None; usize::from(limit)];
        let partners = config.partners.clone().map_or_else(|| config.read_partners(), Ok)?;
        let serving = Serving::new(partners.served.clone());
        let mut store = Self {
            keys: BTreeMap::new(),
            places,
            own_uid,
            explicit,
            rest: Rest::None,
            doubted: false,
            transient: None,
            partners,
            serving,
            changes: 0,
            revisions: RandomState::new(),
        };
        let Some(directory) = &config.directory else {
            store.transient = Transfer::random();
            return Ok(store);
        };
        let (vault, found) = Vault::open(directory, config, &read(config, passphrase)?, ahead)?;
        for vault::Found { name, attributes, pkcs8 } in found {
            let entered = store
                .check_new(&name, &attributes.acl)
                .and_then(|()| store.enter(&name, Material::of_rest(pkcs8)?, attributes));
            entered.map_err(|why| StoreError::AtRest { directory: directory.clone(), name, why: Box::new(why) })?;
        }
        store.rest = Rest::Vault(Box::new(vault));
        Ok(store)
    }

    pub(crate) fn changes(&self) -> Option<u64> {
        match &self.rest {
            Rest::Vault(vault) => Some(vault.changes()),
            Rest::None | Rest::Lent | Rest::Released(_) => None,
        }
    }

    pub(crate) fn is_master(&self, uid: u32) -> bool {
        uid == 0 || uid == self.own_uid
    }

    pub(crate) fn info(&self, name: &str, asker: &Asker) -> Result<KeyInfo, StoreError> {
        let key = self.usable(name, asker)?;
        Ok(KeyInfo { name: name.to_owned(), kind: key.material.kind, public: key.material.public.clone() })
    }

    pub(crate) fn ready<'a>(
        &mut self,
        name: &str,
        scheme: &Scheme,
        who: impl Into<Who<'a>>,
    ) -> Result<Ready, StoreError> {
        self.usable(name, who)?.check_usage(name, scheme)?;
        let key = self.keys.get_mut(name).ok_or_else(|| unknown(name))?;
        Ok(key.shared(scheme).map_or_else(|| Ready::Material(key.material.clone()), Ready::Session))
    }

    /// Takes a session that was opened on this material, and shares it if there is room for one more. Key and
    /// permission may have changed meanwhile.
    pub(crate) fn keep<'a>(
        &mut self,
        name: &str,
        material: &Arc<Material>,
        scheme: &Scheme,
        session: Session,
        who: impl Into<Who<'a>>,
    ) -> Result<Arc<Session>, StoreError> {
        self.usable(name, who)?.check_usage(name, scheme)?;
        let key = self.keys.get_mut(name).ok_or_else(|| unknown(name))?;
        if !Arc::ptr_eq(&key.material, material) {
            return Err(StoreError::Replaced(name.to_owned()));
        }
        let is_explicit = self.explicit.iter().any(|explicit| explicit == name);
        Ok(key.keep(scheme, if is_explicit { session.with_explicit_errors() } else { session }))
    }

    pub(crate) fn place(&self, name: &str) -> Option<u16> {
        self.keys.get(name).map(|key| key.place)
    }

    pub(crate) fn places(&self) -> impl Iterator<Item = (u16, &str)> {
        self.keys.iter().map(|(name, key)| (key.place, name.as_str()))
    }

    /// Name and limit of the key at this place.
    pub(crate) fn rate(&self, place: u16) -> Option<(&str, u32)> {
        let name = self.places.get(usize::from(place))?.as_deref()?;
        Some((name, self.keys.get(name)?.attributes.rate?))
    }

    pub(crate) fn permits<'a>(&self, place: u16, who: impl Into<Who<'a>>) -> bool {
        let name = self.places.get(usize::from(place)).and_then(Option::as_ref);
        name.is_some_and(|name| self.usable(name, who).is_ok())
    }

    /// Whether the key at this place may do these operations.
    pub(crate) fn is_for(&self, place: u16, needs: Usage) -> bool {
        let name = self.places.get(usize::from(place)).and_then(Option::as_ref);
        name.and_then(|name| self.keys.get(name)).is_some_and(|key| key.attributes.usage.contains(needs))
    }

    pub(crate) fn insert(
        &mut self,
        name: &str,
        material: Material,
        attributes: Attributes,
    ) -> Result<Changed<KeyEntry>, StoreError> {
        self.check_new(name, &attributes.acl)?;
        let doubt = self.at_rest(|vault| vault.write(name, &attributes, &material.at_rest()))?;
        Ok(Changed { what: self.enter(name, material, attributes)?, doubt })
    }

    pub(crate) fn replace(&mut self, name: &str, material: Material) -> Result<Changed<u16>, StoreError> {
        self.check_replaceable(name)?;
        let key = self.keys.get(name).ok_or_else(|| unknown(name))?;
        let (kind, usage) = (material.kind, key.attributes.usage);
        if usage.both(Usage::of_kind(kind)) == Usage::NONE {
            return Err(StoreError::NoSuchUsage { kind, more: usage });
        }
        // They are of the old key.
        let attributes = Attributes { certificates: Vec::new(), ..key.attributes.clone() };
        let attributes = key.changed(&material.public, attributes, self.replicates());
        self.give(name, material, attributes)
    }

    pub(crate) fn check_replaceable(&self, name: &str) -> Result<(), StoreError> {
        let key = self.keys.get(name).ok_or_else(|| unknown(name))?;
        if key.material.site != Site::Here {
            return Err(StoreError::Remote(name.to_owned()));
        }
        match key.attributes.owner {
            Some(owner) => Err(StoreError::Owned { name: name.to_owned(), owner }),
            None => Ok(()),
        }
    }

    fn at_rest(
        &mut self,
        change: impl FnOnce(&mut Vault) -> Result<VaultWarning, VaultError>,
    ) -> Result<VaultWarning, StoreError> {
        match &mut self.rest {
            Rest::None => Ok(None),
            Rest::Vault(vault) => {
                let done = change(vault);
                self.doubted = !matches!(done, Ok(None));
                Ok(done?)
            }
            Rest::Lent => Err(StoreError::Resealing),
            Rest::Released(_) => Err(StoreError::Released),
        }
    }

    /// Lets another service read the keys at rest. Until [`Store::regain`] has found them unchanged, keys can be used and
    /// not changed.
    pub(crate) fn release(&mut self) -> Result<(), StoreError> {
        match std::mem::replace(&mut self.rest, Rest::Lent) {
            Rest::Vault(vault) => {
                let released = vault.release();
                self.rest = if released.is_ok() { Rest::Released(vault) } else { Rest::Vault(vault) };
                Ok(released?)
            }
            Rest::Lent => Err(StoreError::Resealing),
            other => {
                self.rest = other;
                Ok(())
            }
        }
    }

    /// Tries to get the keys at rest back.
    pub(crate) fn regain(&mut self) -> Found {
        let Rest::Released(vault) = &self.rest else { return Found::Same };
        let found = vault.regain();
        if found == Found::Same
            && let Rest::Released(vault) = std::mem::replace(&mut self.rest, Rest::None)
        {
            self.rest = Rest::Vault(vault);
        }
        found
    }

    fn is_at_rest(&self) -> bool {
        !matches!(self.rest, Rest::None)
    }

    fn enter(&mut self, name: &str, material: Material, attributes: Attributes) -> Result<KeyEntry, StoreError> {
        let (place, changed) = (self.free_place()?, self.next_change());
        let limiter = Arc::new(Limiter::new(attributes.rate));
        let (material, confirmed, sessions) = (Arc::new(material), Vec::new(), Vec::new());
        let custody = Custody::new(changed);
        let key = Key { place, material, attributes, changed, custody, confirmed, limiter, sessions };
        let entry = key.entry(name, self.is_at_rest());
        self.places[usize::from(key.place)] = Some(name.to_owned());
        self.keys.insert(name.to_owned(), key);
        Ok(entry)
    }

    pub(crate) fn check_new(&self, name: &str, acl: &Acl) -> Result<(), StoreError> {
        check_name(name)?;
        check_acl(acl)?;
        if self.keys.contains_key(name) {
            return Err(StoreError::Exists(name.to_owned()));
        }
        self.free_place().map(|_| ())
    }

    pub(crate) fn list(&self, after: &str) -> Vec<KeyEntry> {
        let mut room = PAGE;
        let entries = self.keys.iter().filter(|(name, _)| name.as_str() > after);
        let fits = entries.map(|(name, key)| key.entry(name, self.is_at_rest())).take_while(|entry| {
            let size = 26 + entry.name.len() + 5 * (entry.acl.uids.len() + entry.acl.gids.len());
            room.checked_sub(size).is_some_and(|left| {
                room = left;
                true
            })
        });
        fits.collect()
    }

    pub(crate) fn delete(&mut self, name: &str) -> Result<Changed<u16>, StoreError> {
        let place = self.place(name).ok_or_else(|| unknown(name))?;
        let doubt = self.at_rest(|vault| vault.delete(name))?;
        self.keys.remove(name);
        self.places[usize::from(place)] = None;
        Ok(Changed { what: place, doubt })
    }

    /// Gives a key another name, in one step on the disk. Its users, terms, certificates and place stay, and so do open
    /// sessions. Receipts of other services are for the former name, so none counts any more. Returns its place.
    pub(crate) fn rename(&mut self, name: &str, new: &str) -> Result<Changed<u16>, StoreError> {
        check_name(new)?;
        let key = self.keys.get(name).ok_or_else(|| unknown(name))?;
        if self.keys.contains_key(new) {
            return Err(StoreError::Exists(new.to_owned()));
        }
        if key.material.site != Site::Here {
            return Err(StoreError::NamedElsewhere(name.to_owned()));
        }
        let (attributes, bytes) = (key.attributes.clone(), key.material.at_rest());
        let doubt = self.at_rest(|vault| vault.rename(name, new, &attributes, &bytes))?;
        let changed = self.next_change();
        let mut key = self.keys.remove(name).ok_or_else(|| unknown(name))?;
        key.set(attributes, changed);
        key.confirmed.clear();
        // Whether decryption errors are explicit is configured by name, so later lanes get sessions made for the new one.
        key.sessions.clear();
        let place = key.place;
        self.places[usize::from(place)] = Some(new.to_owned());
        self.keys.insert(new.to_owned(), key);
        Ok(Changed { what: place, doubt })
    }

    /// Sets a key's users. Returns its place, whose sessions are to be closed where they are no longer permitted.
    pub(crate) fn set_acl(&mut self, name: &str, acl: Acl) -> Result<Changed<u16>, StoreError> {
        check_acl(&acl)?;
        self.alter(name, |attributes| attributes.acl = acl)
    }

    pub(crate) fn change_acl(&mut self, name: &str, add: &Acl, remove: &Acl) -> Result<Changed<u16>, StoreError> {
        let key = self.keys.get(name).ok_or_else(|| unknown(name))?;
        self.set_acl(name, key.attributes.acl.changed(add, remove))
    }

    fn alter(&mut self, name: &str, alter: impl FnOnce(&mut Attributes)) -> Result<Changed<u16>, StoreError> {
        let key = self.keys.get(name).ok_or_else(|| unknown(name))?;
        let (mut attributes, bytes) = (key.attributes.clone(), key.material.at_rest());
        alter(&mut attributes);
        let attributes = key.changed(&key.material.public, attributes, self.replicates());
        let doubt = self.at_rest(|vault| vault.write(name, &attributes, &bytes))?;
        let changed = self.next_change();
        let key = self.keys.get_mut(name).ok_or_else(|| unknown(name))?;
        key.sessions.retain(|(scheme, _)| attributes.usage.contains(Usage::of_scheme(scheme)));
        key.set(attributes, changed);
        Ok(Changed { what: key.place, doubt })
    }

    /// Whether other services send keys here or get some from here.
    fn replicates(&self) -> bool {
        !self.partners.recipients.is_empty() || !self.partners.senders.is_empty()
    }

    fn next_change(&mut self) -> u64 {
        self.changes += 1;
        self.changes
    }

    /// Sets whether other machines also have a key. Returns its place. Open sessions stay as they are: the caller
    /// closes the ways to those machines by the place.
    pub(crate) fn share(&mut self, name: &str, also: bool) -> Result<Changed<u16>, StoreError> {
        let key = self.keys.get(name).ok_or_else(|| unknown(name))?;
        let material = key.material.shared(also).map_err(|why| StoreError::Key { name: name.to_owned(), why })?;
        let attributes = key.attributes.clone();
        self.give(name, material, attributes)
    }

    fn give(&mut self, name: &str, material: Material, attributes: Attributes) -> Result<Changed<u16>, StoreError> {
        let bytes = material.at_rest();
        let doubt = self.at_rest(|vault| vault.write(name, &attributes, &bytes))?;
        let changed = self.next_change();
        let key = self.keys.get_mut(name).ok_or_else(|| unknown(name))?;
        key.material = Arc::new(material);
        key.set(attributes, changed);
        key.sessions.clear();
        Ok(Changed { what: key.place, doubt })
    }

    pub(crate) fn public(&self, name: &str) -> Option<&[u8]> {
        Some(&self.keys.get(name)?.material.public)
    }

    /// The place of an offered remote key: of this name and with this public part. `None`: there is no such key, or
    /// it is not shared with other machines.
    pub(crate) fn offered(&self, name: &str, public: &[u8]) -> Option<u16> {
        let key = self.keys.get(name)?;
        (key.material.site != Site::Here && key.material.public == public).then_some(key.place)
    }

    /// Lends the keys at rest, to be sealed again. Until they are returned, keys can be used and not changed.
    pub(crate) fn lend(&mut self, passphrase: Secret) -> Result<Resealing, StoreError> {
        check_passphrase(passphrase.expose())?;
        match std::mem::replace(&mut self.rest, Rest::Lent) {
            Rest::Vault(vault) => Ok(Resealing { vault, passphrase }),
            Rest::Lent => Err(StoreError::ResealingAlready),
            Rest::Released(vault) => {
                self.rest = Rest::Released(vault);
                Err(StoreError::Released)
            }
            Rest::None => {
                self.rest = Rest::None;
                Err(StoreError::InMemory)
            }
        }
    }

    /// Takes back the keys at rest, with the result. They may be sealed again with a doubt.
    pub(crate) fn take_back(&mut self, Resealed { vault, done }: Resealed) -> Result<VaultWarning, VaultError> {
        self.rest = Rest::Vault(vault);
        self.doubted |= !matches!(done, Ok(None));
        done
    }

    pub(crate) fn describe(&self, name: &str) -> Option<Described> {
        let key = self.keys.get(name)?;
        Some(Described {
            entry: key.entry(name, self.is_at_rest()),
            fingerprint: fingerprint(&key.material.public),
            usage: key.usage(),
            rate: key.attributes.rate,
            certificates: key.attributes.certificates.len(),
            owner: key.attributes.owner,
        })
    }

    fn usable<'a>(&self, name: &str, who: impl Into<Who<'a>>) -> Result<&Key, StoreError> {
        let key = self.keys.get(name).ok_or_else(|| unknown(name))?;
        match who.into() {
            Who::User(asker) => {
                let may = |peer: &&Peer| self.is_master(peer.uid) || key.attributes.acl.permits(peer.uid, &peer.gids);
                match asker.peers().find(|peer| !may(peer)) {
                    None => Ok(key),
                    Some(peer) => Err(StoreError::NotAllowed { uid: peer.uid, name: name.to_owned() }),
                }
            }
            Who::Service(grant) => key.check_served(name, grant).map(|()| key),
        }
    }

    fn free_place(&self) -> Result<u16, StoreError> {
        let free = self.places.iter().position(Option::is_none);
        free.map(|place| place as u16).ok_or(StoreError::Full(self.places.len()))
    }
}

impl Key {
    fn entry(&self, name: &str, at_rest: bool) -> KeyEntry {
        KeyEntry {
            name: name.to_owned(),
            kind: self.material.kind,
            acl: self.attributes.acl.clone(),
            at_rest,
            site: self.material.site,
            idle_seconds: 0,
        }
    }

    fn set(&mut self, attributes: Attributes, changed: u64) {
        (self.attributes, self.changed, self.custody) = (attributes, changed, Custody::new(changed));
    }

    fn lineage(&self) -> Lineage {
        let Self { material, attributes, .. } = self;
        attributes.lineage.clone().unwrap_or_else(|| Lineage::of(&material.public, attributes))
    }

    /// Attributes after a change here, with the lineage of the key that has them. Where no other service has the key,
    /// changes need no record, and its file stays readable for older versions.
    fn changed(&self, public: &[u8], attributes: Attributes, replicates: bool) -> Attributes {
        let is_recorded = replicates || self.attributes.lineage.is_some();
        let lineage = is_recorded.then(|| self.lineage().changed(public, &attributes));
        Attributes { lineage, ..attributes }
    }

    /// Without what keys of its kind do not do.
    fn usage(&self) -> Usage {
        self.attributes.usage.both(Usage::settable(self.material.kind))
    }

    fn check_usage(&self, name: &str, scheme: &Scheme) -> Result<(), StoreError> {
        let needs = Usage::of_scheme(scheme);
        // A scheme of another kind of key has an error of its own.
        if self.attributes.usage.contains(needs) || !self.material.kind.does(scheme) {
            return Ok(());
        }
        Err(StoreError::Usage { name: name.to_owned(), usage: self.usage(), needs })
    }

    fn shared(&mut self, scheme: &Scheme) -> Option<Arc<Session>> {
        let at = self.sessions.iter().position(|(known, _)| known == scheme)?;
        self.sessions[at..].rotate_left(1);
        self.sessions.last().map(|(_, session)| session.clone())
    }

    fn keep(&mut self, scheme: &Scheme, session: Session) -> Arc<Session> {
        // Another lane may have asked for the same meanwhile.
        if let Some(session) = self.shared(scheme) {
            return session;
        }
        let session = session.of_key(self.place, Usage::of_scheme(scheme)).with_limiter(self.limiter.clone());
        if !is_small(scheme) || !self.make_room() {
            return Arc::new(session);
        }
        let session = Arc::new(session.shared());
        self.sessions.push((scheme.clone(), session.clone()));
        session
    }

    /// Forgets the session that has been unused for longest, if there are too many. `false`: lanes use them all.
    fn make_room(&mut self) -> bool {
        if self.sessions.len() < CACHED {
            return true;
        }
        let unused = self.sessions.iter().position(|(_, session)| Arc::strong_count(session) == 1);
        unused.map(|at| self.sessions.remove(at)).is_some()
    }
}

fn read(config: &KeysConfig, passphrase: Option<&Secret>) -> Result<Secret, StoreError> {
    match passphrase {
        Some(passphrase) => Ok(passphrase.clone()),
        None => config.passphrase()?.ok_or(StoreError::NoPassphrase),
    }
}

fn fingerprint(public: &[u8]) -> String {
    let mut text = "sha256:".to_owned();
    for byte in digest(&SHA256, public).as_ref() {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// A label may be as long as a message; sessions with a long one are not kept.
fn is_small(scheme: &Scheme) -> bool {
    label_len(scheme) == 0
}

fn check_acl(acl: &Acl) -> Result<(), StoreError> {
    if acl.uids.len() <= MAX_ACL && acl.gids.len() <= MAX_ACL {
        return Ok(());
    }
    Err(StoreError::ManyUsers)
}

fn unknown(name: &str) -> StoreError {
    StoreError::NoKey(name.chars().take(80).collect())
}

#[cfg(test)]
mod tests;
