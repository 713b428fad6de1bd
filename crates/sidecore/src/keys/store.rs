//! The service's keys by name: who may use them, and the sessions on them that lanes share.

use super::material::Material;
use super::vault::{Found, Vault};
use super::{Acl, KeyEntry, KeyInfo, MAX_ACL, check_name};
use crate::config::KeysConfig;
use crate::engine::crypto::{DecryptionPadding, Scheme, Secret, Session};
use crate::sys::peer::Peer;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Sessions of one key that are kept for the next lane. A client that asks for more schemes than that gets sessions of
/// its own, which end with its lane.
const CACHED: usize = 16;
/// Bytes of a page of the list: a message holds it.
const PAGE: usize = 12 * 1024;

/// Why a key is not to be had, in words for people.
pub(crate) type Reason = String;

#[derive(Debug)]
struct Key {
    place: u16,
    material: Material,
    acl: Acl,
    /// Sessions by scheme, the last used at the end.
    sessions: Vec<(Scheme, Arc<Session>)>,
}

/// All keys.
#[derive(Debug)]
pub(crate) struct Store {
    keys: BTreeMap<String, Key>,
    /// Keys by their places, which counters are kept by.
    places: Vec<Option<String>>,
    own_uid: u32,
    /// Where keys are at rest; `None`: they are forgotten when the store ends.
    vault: Option<Vault>,
}

impl Store {
    /// A store of at most `limit` keys, with those that are at rest. Without a passphrase it is read from its file.
    ///
    /// # Errors
    /// What is wrong with the passphrase, the directory or a file there, each with its path and what to do.
    pub(crate) fn open(
        config: &KeysConfig,
        passphrase: Option<&Secret>,
        limit: u16,
        own_uid: u32,
    ) -> Result<Self, Reason> {
        let mut store = Self { keys: BTreeMap::new(), places: vec![None; usize::from(limit)], own_uid, vault: None };
        let Some(directory) = &config.directory else { return Ok(store) };
        let read = match passphrase {
            Some(passphrase) => passphrase.clone(),
            None => config
                .passphrase()?
                .ok_or("keys.directory needs keys.passphrase_file, or `sidecore serve --passphrase-file FILE`")?,
        };
        let (vault, found) = Vault::open(directory, &read)?;
        for Found { name, acl, pkcs8 } in found {
            let entered = store.check_new(&name, &acl).and_then(|()| store.enter(&name, Material::read(pkcs8)?, acl));
            entered.map_err(|why| format!("{}: key {name:?}: {why}", directory.display()))?;
        }
        store.vault = Some(vault);
        Ok(store)
    }

    /// Whether this peer may change keys, or use any.
    pub(crate) fn is_master(&self, uid: u32) -> bool {
        uid == 0 || uid == self.own_uid
    }

    /// What is known of a key, for somebody who may use it.
    pub(crate) fn info(&self, name: &str, peer: &Peer) -> Result<KeyInfo, Reason> {
        let key = self.usable(name, peer)?;
        Ok(KeyInfo { name: name.to_owned(), kind: key.material.kind, public: key.material.public.clone() })
    }

    /// A session on a key, for somebody who may use it. Lanes share those of one scheme.
    pub(crate) fn session(&mut self, name: &str, scheme: &Scheme, peer: &Peer) -> Result<Arc<Session>, Reason> {
        self.usable(name, peer)?;
        let key = self.keys.get_mut(name).ok_or_else(|| unknown(name))?;
        key.session(scheme).map_err(|why| format!("key {name:?}: {why}"))
    }

    /// The place of a key.
    pub(crate) fn place(&self, name: &str) -> Option<u16> {
        self.keys.get(name).map(|key| key.place)
    }

    /// All keys with their places.
    pub(crate) fn places(&self) -> impl Iterator<Item = (u16, &str)> {
        self.keys.iter().map(|(name, key)| (key.place, name.as_str()))
    }

    /// Whether a session on the key at this place may be used by this peer.
    pub(crate) fn permits(&self, place: u16, peer: &Peer) -> bool {
        let name = self.places.get(usize::from(place)).and_then(Option::as_ref);
        name.is_some_and(|name| self.usable(name, peer).is_ok())
    }

    /// Puts a key in.
    pub(crate) fn import(&mut self, name: &str, pkcs8: Secret, acl: Acl) -> Result<KeyEntry, Reason> {
        // Before the key is looked at, for that takes longer.
        self.check_new(name, &acl)?;
        self.insert(name, Material::read(pkcs8)?, acl)
    }

    /// Puts a key in that was made elsewhere.
    pub(crate) fn insert(&mut self, name: &str, material: Material, acl: Acl) -> Result<KeyEntry, Reason> {
        self.check_new(name, &acl)?;
        if let Some(vault) = &self.vault {
            vault.write(name, &acl, &material.pkcs8)?;
        }
        self.enter(name, material, acl)
    }

    fn enter(&mut self, name: &str, material: Material, acl: Acl) -> Result<KeyEntry, Reason> {
        let key = Key { place: self.free_place()?, material, acl, sessions: Vec::new() };
        let entry = key.entry(name, self.vault.is_some());
        self.places[usize::from(key.place)] = Some(name.to_owned());
        self.keys.insert(name.to_owned(), key);
        Ok(entry)
    }

    /// Whether a key of this name and with these users could be put in.
    pub(crate) fn check_new(&self, name: &str, acl: &Acl) -> Result<(), Reason> {
        check_name(name).map_err(|error| error.to_string())?;
        check_acl(acl)?;
        if self.keys.contains_key(name) {
            return Err(format!("there is a key {name:?} already: delete it first, or choose another name"));
        }
        self.free_place().map(|_| ())
    }

    /// The keys with names after this one, as many as a message holds.
    pub(crate) fn list(&self, after: &str) -> Vec<KeyEntry> {
        let mut room = PAGE;
        let entries = self.keys.iter().filter(|(name, _)| name.as_str() > after);
        let fits = entries.map(|(name, key)| key.entry(name, self.vault.is_some())).take_while(|entry| {
            let size = 16 + entry.name.len() + 5 * (entry.acl.uids.len() + entry.acl.gids.len());
            room.checked_sub(size).is_some_and(|left| {
                room = left;
                true
            })
        });
        fits.collect()
    }

    /// Takes a key out. Returns its place, whose sessions are to be closed.
    pub(crate) fn delete(&mut self, name: &str) -> Result<u16, Reason> {
        let key = self.keys.get(name).ok_or_else(|| unknown(name))?;
        if let Some(vault) = &self.vault {
            vault.delete(name)?;
        }
        let place = key.place;
        self.keys.remove(name);
        self.places[usize::from(place)] = None;
        Ok(place)
    }

    /// Lets others use a key. Returns its place, whose sessions are to be closed where they are no longer permitted.
    pub(crate) fn set_acl(&mut self, name: &str, acl: Acl) -> Result<u16, Reason> {
        check_acl(&acl)?;
        let key = self.keys.get_mut(name).ok_or_else(|| unknown(name))?;
        if let Some(vault) = &self.vault {
            vault.write(name, &acl, &key.material.pkcs8)?;
        }
        key.acl = acl;
        Ok(key.place)
    }

    fn usable(&self, name: &str, peer: &Peer) -> Result<&Key, Reason> {
        let key = self.keys.get(name).ok_or_else(|| unknown(name))?;
        if self.is_master(peer.uid) || key.acl.permits(peer.uid, &peer.gids) {
            return Ok(key);
        }
        Err(format!("user {0} may not use key {name:?}: allow it with `sidecore keys acl {name} --uid {0}`", peer.uid))
    }

    fn free_place(&self) -> Result<u16, Reason> {
        let free = self.places.iter().position(Option::is_none);
        free.map(|place| place as u16)
            .ok_or_else(|| format!("there are {} keys already (limits.keys)", self.places.len()))
    }
}

impl Key {
    fn entry(&self, name: &str, at_rest: bool) -> KeyEntry {
        KeyEntry { name: name.to_owned(), kind: self.material.kind, acl: self.acl.clone(), at_rest }
    }

    fn session(&mut self, scheme: &Scheme) -> Result<Arc<Session>, Reason> {
        if let Some(at) = self.sessions.iter().position(|(known, _)| known == scheme) {
            self.sessions[at..].rotate_left(1);
        } else {
            let session = Arc::new(self.material.open(scheme)?.of_key(self.place));
            if !self.make_room() || !is_small(scheme) {
                return Ok(session);
            }
            self.sessions.push((scheme.clone(), session));
        }
        self.sessions.last().map(|(_, session)| session.clone()).ok_or_else(|| "no session".to_owned())
    }

    /// Forgets the session that no lane has for longest, if there are too many. `false`: lanes have them all.
    fn make_room(&mut self) -> bool {
        if self.sessions.len() < CACHED {
            return true;
        }
        let unused = self.sessions.iter().position(|(_, session)| Arc::strong_count(session) == 1);
        unused.map(|at| self.sessions.remove(at)).is_some()
    }
}

/// A label is of any length that a message has: what is kept is not.
fn is_small(scheme: &Scheme) -> bool {
    !matches!(scheme, Scheme::RsaDecryption { padding: DecryptionPadding::Oaep { label, .. } } if !label.is_empty())
}

fn check_acl(acl: &Acl) -> Result<(), Reason> {
    if acl.uids.len() <= MAX_ACL && acl.gids.len() <= MAX_ACL {
        return Ok(());
    }
    Err(format!("a key has at most {MAX_ACL} users and {MAX_ACL} groups: put the users in a group"))
}

fn unknown(name: &str) -> Reason {
    let name: String = name.chars().take(80).collect();
    format!("there is no key {name:?}: see `sidecore keys list`")
}
