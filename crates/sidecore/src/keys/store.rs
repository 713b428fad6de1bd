//! The service's keys by name: who may use them, and the sessions on them that lanes share.

use super::material::Material;
use super::vault::{Doubt, Found, Vault};
use super::{Acl, KeyEntry, KeyInfo, MAX_ACL, Site, check_name};
use crate::config::{KeysConfig, check_passphrase};
use crate::control::{Ground, Refused};
use crate::engine::crypto::Session;
use crate::spec::{DecryptionPadding, Scheme, Secret};
use crate::sys::peer::{Asker, Peer};
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
    material: Arc<Material>,
    acl: Acl,
    /// Sessions by scheme, the last used at the end.
    sessions: Vec<(Scheme, Arc<Session>)>,
}

/// A session on a key, or what it takes to open one, which takes long.
#[derive(Debug)]
pub(crate) enum Ready {
    /// Lanes share it.
    Session(Arc<Session>),
    /// To be opened elsewhere, and brought to [`Store::keep`].
    Material(Arc<Material>),
}

/// A change that was made.
#[derive(Debug)]
pub(crate) struct Changed<T> {
    /// What is there now, or the place of the key whose sessions are to be looked at.
    pub(crate) what: T,
    /// What its asker is told in the place of success: the change was made, but something is not certain.
    pub(crate) doubt: Option<Reason>,
}

/// Where keys are, beside this memory.
#[derive(Debug)]
enum Rest {
    /// Nowhere: they are forgotten when the store ends.
    None,
    Vault(Box<Vault>),
    /// Where a thread seals them anew.
    Lent,
}

/// Seals the keys at rest anew. This takes a while: the passphrase is stretched, and each key's file is written.
pub(crate) type Resealing = Box<dyn FnOnce() -> Resealed + Send>;

/// Keys at rest that were sealed anew, or not.
#[derive(Debug)]
pub(crate) struct Resealed {
    vault: Box<Vault>,
    done: Result<Doubt, Reason>,
}

/// All keys.
#[derive(Debug)]
pub(crate) struct Store {
    keys: BTreeMap<String, Key>,
    /// Keys by their places, which counters are kept by.
    places: Vec<Option<String>>,
    own_uid: u32,
    rest: Rest,
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
        let mut store =
            Self { keys: BTreeMap::new(), places: vec![None; usize::from(limit)], own_uid, rest: Rest::None };
        let Some(directory) = &config.directory else { return Ok(store) };
        let read = match passphrase {
            Some(passphrase) => passphrase.clone(),
            None => config
                .passphrase()?
                .ok_or("keys.directory needs keys.passphrase_file, or `sidecore serve --passphrase-file FILE`")?,
        };
        let (vault, found) = Vault::open(directory, config, &read)?;
        for Found { name, acl, pkcs8 } in found {
            let entered =
                store.check_new(&name, &acl).and_then(|()| store.enter(&name, Material::of_rest(pkcs8)?, acl));
            entered.map_err(|why| format!("{}: key {name:?}: {why}", directory.display()))?;
        }
        store.rest = Rest::Vault(Box::new(vault));
        Ok(store)
    }

    /// The number of the last change of the keys at rest; `None`: there are none.
    pub(crate) fn changes(&self) -> Option<u64> {
        match &self.rest {
            Rest::Vault(vault) => Some(vault.changes()),
            Rest::None | Rest::Lent => None,
        }
    }

    /// Whether this peer may change keys, or use any.
    pub(crate) fn is_master(&self, uid: u32) -> bool {
        uid == 0 || uid == self.own_uid
    }

    /// What is known of a key, for somebody who may use it.
    pub(crate) fn info(&self, name: &str, asker: &Asker) -> Result<KeyInfo, Refused> {
        let key = self.usable(name, asker)?;
        Ok(KeyInfo { name: name.to_owned(), kind: key.material.kind, public: key.material.public.clone() })
    }

    /// A session on a key, for somebody who may use it. Lanes share those of one scheme.
    pub(crate) fn ready(&mut self, name: &str, scheme: &Scheme, asker: &Asker) -> Result<Ready, Refused> {
        self.usable(name, asker)?;
        let key = self.keys.get_mut(name).ok_or_else(|| unknown(name))?;
        Ok(key.shared(scheme).map_or_else(|| Ready::Material(key.material.clone()), Ready::Session))
    }

    /// Takes a session that was opened on this material, to be shared if there is room for one more. Key and permission
    /// may have changed meanwhile.
    pub(crate) fn keep(
        &mut self,
        name: &str,
        material: &Arc<Material>,
        scheme: &Scheme,
        session: Session,
        asker: &Asker,
    ) -> Result<Arc<Session>, Refused> {
        self.usable(name, asker)?;
        let key = self.keys.get_mut(name).ok_or_else(|| unknown(name))?;
        if !Arc::ptr_eq(&key.material, material) {
            return Err(format!("key {name:?} was replaced by another just now: ask again").into());
        }
        Ok(key.keep(scheme, session))
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
    pub(crate) fn permits(&self, place: u16, asker: &Asker) -> bool {
        let name = self.places.get(usize::from(place)).and_then(Option::as_ref);
        name.is_some_and(|name| self.usable(name, asker).is_ok())
    }

    /// Puts a key in that was read or made elsewhere.
    pub(crate) fn insert(&mut self, name: &str, material: Material, acl: Acl) -> Result<Changed<KeyEntry>, Reason> {
        self.check_new(name, &acl)?;
        let doubt = self.at_rest(|vault| vault.write(name, &acl, &material.at_rest()))?;
        Ok(Changed { what: self.enter(name, material, acl)?, doubt })
    }

    /// Changes the keys at rest as well, where there are any.
    fn at_rest(&mut self, change: impl FnOnce(&mut Vault) -> Result<Doubt, Reason>) -> Result<Doubt, Reason> {
        match &mut self.rest {
            Rest::None => Ok(None),
            Rest::Vault(vault) => change(vault),
            Rest::Lent => Err("the passphrase is being changed: try again when that is done".to_owned()),
        }
    }

    fn is_at_rest(&self) -> bool {
        !matches!(self.rest, Rest::None)
    }

    fn enter(&mut self, name: &str, material: Material, acl: Acl) -> Result<KeyEntry, Reason> {
        let key = Key { place: self.free_place()?, material: Arc::new(material), acl, sessions: Vec::new() };
        let entry = key.entry(name, self.is_at_rest());
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
        let fits = entries.map(|(name, key)| key.entry(name, self.is_at_rest())).take_while(|entry| {
            let size = 16 + entry.name.len() + 5 * (entry.acl.uids.len() + entry.acl.gids.len());
            room.checked_sub(size).is_some_and(|left| {
                room = left;
                true
            })
        });
        fits.collect()
    }

    /// Takes a key out. Returns its place, whose sessions are to be closed.
    pub(crate) fn delete(&mut self, name: &str) -> Result<Changed<u16>, Reason> {
        let place = self.place(name).ok_or_else(|| unknown(name))?;
        let doubt = self.at_rest(|vault| vault.delete(name))?;
        self.keys.remove(name);
        self.places[usize::from(place)] = None;
        Ok(Changed { what: place, doubt })
    }

    /// Lets others use a key. Returns its place, whose sessions are to be closed where they are no longer permitted.
    pub(crate) fn set_acl(&mut self, name: &str, acl: Acl) -> Result<Changed<u16>, Reason> {
        check_acl(&acl)?;
        let bytes = self.keys.get(name).ok_or_else(|| unknown(name))?.material.at_rest();
        let doubt = self.at_rest(|vault| vault.write(name, &acl, &bytes))?;
        let key = self.keys.get_mut(name).ok_or_else(|| unknown(name))?;
        key.acl = acl;
        Ok(Changed { what: key.place, doubt })
    }

    /// Lets some use a key as well, or no longer. Returns as `set_acl` does.
    pub(crate) fn change_acl(&mut self, name: &str, add: &Acl, remove: &Acl) -> Result<Changed<u16>, Reason> {
        let key = self.keys.get(name).ok_or_else(|| unknown(name))?;
        self.set_acl(name, key.acl.changed(add, remove))
    }

    /// Other machines have a key as well from now on, or no more. Returns its place. Sessions that are open are as before:
    /// who closes the ways to those machines does so by the place.
    pub(crate) fn share(&mut self, name: &str, also: bool) -> Result<Changed<u16>, Reason> {
        let key = self.keys.get(name).ok_or_else(|| unknown(name))?;
        let (material, acl) =
            (key.material.shared(also).map_err(|why| format!("key {name:?}: {why}"))?, key.acl.clone());
        let bytes = material.at_rest();
        let doubt = self.at_rest(|vault| vault.write(name, &acl, &bytes))?;
        let key = self.keys.get_mut(name).ok_or_else(|| unknown(name))?;
        key.material = Arc::new(material);
        key.sessions.clear();
        Ok(Changed { what: key.place, doubt })
    }

    /// The place of a key that other machines offer: of this name and with this public part. `None`: there is none, or they
    /// are not to have it.
    pub(crate) fn offered(&self, name: &str, public: &[u8]) -> Option<u16> {
        let key = self.keys.get(name)?;
        (key.material.site != Site::Here && key.material.public == public).then_some(key.place)
    }

    /// Gives the keys at rest away to be sealed anew. Until they are taken back keys are used, and not changed.
    pub(crate) fn lend(&mut self, passphrase: Secret) -> Result<Resealing, Reason> {
        check_passphrase(passphrase.expose())?;
        match std::mem::replace(&mut self.rest, Rest::Lent) {
            Rest::Vault(mut vault) => Ok(Box::new(move || {
                let done = vault.change_passphrase(&passphrase);
                Resealed { vault, done }
            })),
            Rest::Lent => Err("the passphrase is being changed already: try again when that is done".to_owned()),
            Rest::None => {
                self.rest = Rest::None;
                Err("the keys are in memory only, under no passphrase: to keep keys, configure keys.directory"
                    .to_owned())
            }
        }
    }

    /// Takes back the keys at rest, and says what became of them.
    pub(crate) fn take_back(&mut self, Resealed { vault, done }: Resealed) -> Result<(), Reason> {
        self.rest = Rest::Vault(vault);
        done?.map_or(Ok(()), Err)
    }

    fn usable(&self, name: &str, asker: &Asker) -> Result<&Key, Refused> {
        let key = self.keys.get(name).ok_or_else(|| Refused::new(Ground::NoKey, unknown(name)))?;
        let may = |peer: &&Peer| self.is_master(peer.uid) || key.acl.permits(peer.uid, &peer.gids);
        let Some(peer) = asker.peers().find(|peer| !may(peer)) else { return Ok(key) };
        let text = format!(
            "user {0} may not use key {name:?}: allow it with `sidecore keys acl {name} --add --uid {0}`",
            peer.uid
        );
        Err(Refused::new(Ground::NotAllowed, text))
    }

    fn free_place(&self) -> Result<u16, Reason> {
        let free = self.places.iter().position(Option::is_none);
        free.map(|place| place as u16)
            .ok_or_else(|| format!("there are {} keys already (limits.keys)", self.places.len()))
    }
}

impl Key {
    fn entry(&self, name: &str, at_rest: bool) -> KeyEntry {
        KeyEntry {
            name: name.to_owned(),
            kind: self.material.kind,
            acl: self.acl.clone(),
            at_rest,
            site: self.material.site,
        }
    }

    /// The session of this scheme, if there is one to share.
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
        let session = session.of_key(self.place);
        if !is_small(scheme) || !self.make_room() {
            return Arc::new(session);
        }
        let session = Arc::new(session.shared());
        self.sessions.push((scheme.clone(), session.clone()));
        session
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

#[cfg(test)]
mod tests {
    use super::super::vault;
    use super::*;
    use crate::spec::{Hash, SaltLength, SignaturePadding};

    const RSA: &[u8] = include_bytes!("../engine/crypto/keys/test-rsa-2048.pkcs8.der");
    const EC: &[u8] = include_bytes!("../engine/crypto/keys/test-p-256.pkcs8.der");
    const OWN: u32 = 1000;

    fn store(limit: u16) -> Store {
        Store::open(&KeysConfig::default(), None, limit, OWN).unwrap()
    }

    fn peer(uid: u32) -> Asker {
        Peer { uid, gids: vec![uid] }.into()
    }

    fn import(store: &mut Store, name: &str, pkcs8: &[u8], acl: Acl) {
        store.insert(name, Material::read(pkcs8.into()).unwrap(), acl).unwrap();
    }

    fn with_key() -> Store {
        let mut store = store(4);
        import(&mut store, "www", RSA, Acl { uids: vec![7], gids: vec![8] });
        store
    }

    /// As the control thread and the opener do it.
    fn session(store: &mut Store, scheme: &Scheme, asker: &Asker) -> Result<Arc<Session>, Refused> {
        match store.ready("www", scheme, asker)? {
            Ready::Session(session) => Ok(session),
            Ready::Material(material) => {
                let session = material.open(scheme, "www")?;
                store.keep("www", &material, scheme, session, asker)
            }
        }
    }

    fn pss(salt: u16) -> Scheme {
        let padding = SignaturePadding::Pss { mgf1: Hash::Sha256, salt: SaltLength::Bytes(salt) };
        Scheme::RsaSignature { padding, hash: Hash::Sha256 }
    }

    fn open(store: &mut Store, scheme: &Scheme) -> Arc<Session> {
        session(store, scheme, &peer(7)).unwrap()
    }

    #[test]
    fn lanes_share_one_session_of_a_key_and_scheme() {
        let mut store = with_key();
        let (first, second) = (open(&mut store, &pss(20)), open(&mut store, &pss(20)));
        assert!(Arc::ptr_eq(&first, &second));
        assert!(!Arc::ptr_eq(&first, &open(&mut store, &pss(21))));
        assert_eq!(first.key(), store.place("www"));
    }

    #[test]
    fn a_thousand_schemes_keep_no_more_sessions_than_a_few() {
        let mut store = with_key();
        let kept = |store: &Store| store.keys["www"].sessions.len();
        for salt in 0..200 {
            drop(open(&mut store, &pss(salt)));
            assert!(kept(&store) <= CACHED);
        }
        // The same while lanes hold them all: beyond those that are kept, each is its lane's alone.
        let held: Vec<_> = (0..200).map(|salt| open(&mut store, &pss(salt))).collect();
        assert_eq!(kept(&store), CACHED);
        assert!(Arc::ptr_eq(&held[0], &open(&mut store, &pss(0))));
        assert_eq!(Arc::strong_count(&held[199]), 1);
        drop(held);
        assert!(Arc::ptr_eq(&open(&mut store, &pss(199)), &open(&mut store, &pss(199))));
    }

    #[test]
    fn a_session_with_a_label_of_the_clients_is_not_kept() {
        let mut store = with_key();
        let padding = DecryptionPadding::Oaep { hash: Hash::Sha256, mgf1: Hash::Sha256, label: vec![1] };
        drop(open(&mut store, &Scheme::RsaDecryption { padding }));
        assert!(store.keys["www"].sessions.is_empty());
    }

    #[test]
    fn root_and_the_own_user_and_those_of_the_list_may_use_a_key() {
        let mut store = with_key();
        for uid in [0, OWN, 7, 8] {
            assert!(store.info("www", &peer(uid)).is_ok(), "{uid}");
        }
        let why = session(&mut store, &pss(20), &peer(9)).unwrap_err();
        assert!(why.contains("sidecore keys acl www --add --uid 9"), "{why}");
        store.set_acl("www", Acl { uids: vec![9], gids: vec![] }).unwrap();
        assert!(store.permits(store.place("www").unwrap(), &peer(9)) && !store.permits(0, &peer(7)));
        assert!(store.set_acl("www", Acl { uids: vec![1; MAX_ACL + 1], gids: vec![] }).is_err());
    }

    #[test]
    fn what_was_opened_while_the_key_changed_is_not_kept() {
        let mut store = with_key();
        let Ready::Material(material) = store.ready("www", &pss(20), &peer(7)).unwrap() else { panic!("none is kept") };
        let opened = || material.open(&pss(20), "www").unwrap();
        store.set_acl("www", Acl { uids: vec![9], gids: vec![] }).unwrap();
        assert!(store.keep("www", &material, &pss(20), opened(), &peer(7)).unwrap_err().contains("may not use"));
        store.delete("www").unwrap();
        assert!(store.keep("www", &material, &pss(20), opened(), &peer(0)).unwrap_err().contains("no key"));
        import(&mut store, "www", RSA, Acl::default());
        assert!(store.keep("www", &material, &pss(20), opened(), &peer(0)).unwrap_err().contains("replaced"));
    }

    #[test]
    fn only_a_key_that_others_may_have_is_taken_from_them_and_only_with_its_public_part() {
        let mut store = with_key();
        let public = store.keys["www"].material.public.clone();
        assert_eq!(store.offered("www", &public), None, "it is here only");
        let kept = open(&mut store, &pss(20));
        store.share("www", true).unwrap();
        assert_eq!((store.offered("www", &public), store.offered("www", b"another")), (Some(0), None));
        assert!(!Arc::ptr_eq(&kept, &open(&mut store, &pss(20))), "the old one knows nothing of other machines");
        assert_eq!(store.list("")[0].site, Site::Both);
        store.share("www", false).unwrap();
        assert_eq!((store.offered("www", &public), store.list("")[0].site), (None, Site::Here));
        store.insert("far", Material::elsewhere(&public).unwrap(), Acl::default()).unwrap();
        assert_eq!((store.offered("far", &public), store.list("")[0].site), (Some(1), Site::Elsewhere));
        assert!(store.share("far", false).unwrap_err().contains("other machines only"));
    }

    #[test]
    fn a_key_comes_back_from_rest_with_its_site() {
        let here = Material::read(EC.into()).unwrap();
        let both = here.shared(true).unwrap();
        let elsewhere = Material::elsewhere(&here.public).unwrap();
        for material in [here, both, elsewhere] {
            let back = Material::of_rest(material.at_rest()).unwrap();
            assert_eq!((back.site, back.kind, &back.public), (material.site, material.kind, &material.public));
        }
        for wrong in [&[1][..], &[2], &[2, 0x30], &[3]] {
            assert!(Material::of_rest(wrong.into()).is_err());
        }
    }

    #[test]
    fn who_became_another_user_may_do_what_both_may() {
        let store = with_key();
        let (one, _other) = rustix::net::socketpair(
            rustix::net::AddressFamily::UNIX,
            rustix::net::SocketType::SEQPACKET,
            rustix::net::SocketFlags::CLOEXEC,
            None,
        )
        .unwrap();
        let own = crate::sys::peer::credentials(&one).unwrap();
        let became = |uid| Asker::of(&one, Some(crate::sys::peer::Credentials { uid, gid: uid, ..own })).unwrap();
        // These tests may run as any user: as root, who may use all keys, or as one who may use none.
        let may = store.info("www", &became(own.uid)).is_ok();
        assert_eq!(store.info("www", &became(7)).is_ok(), may);
        assert!(store.info("www", &became(9)).is_err());
    }

    #[test]
    fn the_place_of_a_deleted_key_permits_nothing_until_it_is_taken_again() {
        let mut store = with_key();
        let place = store.delete("www").unwrap().what;
        assert!(!store.permits(place, &peer(0)) && store.place("www").is_none());
        import(&mut store, "other", RSA, Acl::default());
        assert_eq!(store.places().collect::<Vec<_>>(), [(place, "other")]);
    }

    #[test]
    fn what_the_store_knows_after_a_failed_write_is_what_is_at_rest() {
        const KEYS: [&str; 3] = ["mail", "new", "www"];
        type Change = fn(&mut Store) -> Result<Option<Reason>, Reason>;
        let changes: [Change; 4] = [
            |store| {
                store.insert("new", Material::read(EC.into()).unwrap(), Acl::default()).map(|changed| changed.doubt)
            },
            |store| store.set_acl("www", Acl { uids: vec![9], gids: vec![] }).map(|changed| changed.doubt),
            |store| store.change_acl("www", &Acl::default(), &Acl { uids: vec![7], gids: vec![] }).map(|it| it.doubt),
            |store| store.delete("mail").map(|changed| changed.doubt),
        ];
        for (change, step) in changes.iter().flat_map(|change| (0..vault::tests::STEPS).map(move |step| (change, step)))
        {
            let scratch = tempfile::tempdir().unwrap();
            let path = scratch.path().join("keys");
            vault::tests::fill(&path, EC);
            let (vault, found) = vault::tests::failing(&path, step);
            let mut store = store(4);
            for Found { name, acl, pkcs8 } in found {
                store.enter(&name, Material::read(pkcs8).unwrap(), acl).unwrap();
            }
            store.rest = Rest::Vault(Box::new(vault));
            let said = change(&mut store);
            let known: Vec<_> = store.list("").into_iter().map(|entry| (entry.name, entry.acl)).collect();
            drop(store);
            let found: Vec<_> = vault::tests::found(&path).into_iter().map(|key| (key.name, key.acl)).collect();
            assert_eq!(known, found, "{step}: {said:?}");
            assert!(known.iter().all(|(name, _)| KEYS.contains(&name.as_str())));
        }
    }

    #[test]
    fn a_long_list_comes_in_pages_of_which_each_fits_a_message() {
        let mut store = store(40);
        let acl = Acl { uids: vec![u32::MAX; MAX_ACL], gids: vec![u32::MAX; MAX_ACL] };
        for number in 0..40 {
            import(&mut store, &format!("{number:0>64}"), EC, acl.clone());
        }
        let (mut names, mut after) = (Vec::new(), String::new());
        loop {
            let page = store.list(&after);
            let Some(last) = page.last() else { break };
            after.clone_from(&last.name);
            names.extend(page.iter().map(|entry| entry.name.clone()));
            let mut packet = vec![0; crate::sys::packet::MAX_PACKET];
            crate::control::encode(&crate::control::Reply::Keys(page), &mut packet).unwrap();
        }
        assert_eq!(names.len(), 40);
        assert!(names.is_sorted());
    }
}
