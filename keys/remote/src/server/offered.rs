//! The keys that this key server may use. It asks the service for them once a second, as this process's user.

use crate::args::Permit;
use crate::error::{Cause, RemoteError};
use sidecore_client::channel;
use sidecore_client::client::{Admin, ConnectError, Error, Options};
use sidecore_client::control::Refused;
use sidecore_client::gateway::{MAX_PUBLIC, Offer};
use sidecore_client::keyops::key::{Key, Private, Public};
use sidecore_client::keys::transfer::Address;
use sidecore_client::keys::{KeyCommand, UsableKeys};
use sidecore_core::session::Class;
use sidecore_terminal::output::tell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;
use tokio::sync::watch;

const INTERVAL: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(20);
/// Most keys offered: a gateway takes no more.
const MAX_KEYS: usize = Class::COUNT;
/// Most keys that are listed: more than a service can have.
const MAX_LISTED: usize = 1 << 16;

#[derive(Default)]
pub(super) struct Offered {
    keys: BTreeMap<String, OfferedKey>,
    /// Empty: all gateways may use all keys.
    permits: Arc<[Permit]>,
    /// The service's own name among keys, and its address, where it does requests of other services.
    route: Option<(String, Address)>,
}

#[derive(Clone)]
struct OfferedKey {
    /// In the service's encoding.
    public: Vec<u8>,
    key: Arc<Key>,
}

impl Offered {
    pub(super) fn key(&self, gateway: &str, name: &str) -> Option<Arc<Key>> {
        self.keys.get(name).filter(|_| self.permits(gateway, name)).map(|held| held.key.clone())
    }

    fn permits(&self, gateway: &str, key: &str) -> bool {
        let is_it = |permit: &Permit| permit.key == key && permit.gateway.as_deref().is_none_or(|of| of == gateway);
        self.permits.is_empty() || self.permits.iter().any(is_it)
    }

    pub(super) fn any(&self) -> bool {
        !self.keys.is_empty() || self.route.is_some()
    }

    /// The address of the service, if a request of this name is for the service itself.
    pub(super) fn service(&self, name: &str) -> Option<Address> {
        self.route.as_ref().filter(|(route, _)| route == name).map(|(_, address)| *address)
    }

    pub(super) fn offers(&self, gateway: &str) -> Vec<Offer<'_>> {
        let offers = self.keys.iter().filter(|(key, _)| self.permits(gateway, key));
        let offers = offers.map(|(key, held)| Offer { key, public: &held.public });
        // Whom it serves, and with which keys, is the service's to say.
        offers.chain(self.route.iter().map(|(key, address)| Offer { key, public: &address.0 })).collect()
    }

    fn is(&self, other: &Self) -> bool {
        let same = |one: (&String, &OfferedKey), other: (&String, &OfferedKey)| {
            one.0 == other.0 && one.1.public == other.1.public
        };
        self.route == other.route
            && self.keys.len() == other.keys.len()
            && self.keys.iter().zip(&other.keys).all(|(one, other)| same(one, other))
    }
}

/// Handle of the thread that checks the keys. The thread ends at its first check after this is dropped.
pub(super) struct Keys {
    poke: SyncSender<()>,
    receiver: watch::Receiver<Arc<Offered>>,
}

impl Keys {
    /// Starts the thread. `allow`: these keys only, for these gateways; empty: all keys that the service lists and no user
    /// had made for itself, for all gateways, but none where the service does sealed requests.
    pub(super) async fn watch(options: &Options, allow: &[Permit]) -> Result<Self, RemoteError> {
        let (poke, pokes) = sync_channel(1);
        let (sender, mut receiver) = watch::channel(Arc::new(Offered::default()));
        let look = Look {
            options: options.clone(),
            allow: allow.into(),
            admin: None,
            unowned: Unowned::default(),
            told: BTreeSet::new(),
            outages: BTreeSet::new(),
        };
        let watching = thread::Builder::new().name("keys".to_owned()).spawn(move || watch_keys(look, &sender, &pokes));
        watching.map_err(RemoteError::system("cannot start a thread"))?;
        // A first look, or a service that is not there: gateways are told later.
        let _ = tokio::time::timeout(options.timeout, receiver.changed()).await;
        receiver.mark_changed();
        Ok(Self { poke, receiver })
    }

    pub(super) fn poke(&self) -> SyncSender<()> {
        self.poke.clone()
    }

    pub(super) fn receiver(&self) -> watch::Receiver<Arc<Offered>> {
        self.receiver.clone()
    }
}

fn watch_keys(mut look: Look, sender: &watch::Sender<Arc<Offered>>, pokes: &Receiver<()>) {
    loop {
        let before = sender.borrow().clone();
        let (now, wait) = match look.look(&before) {
            Ok(offered) => (offered, INTERVAL),
            Err(why) => {
                look.admin = None;
                tell_once(&mut look.outages, format!("no key is offered: {why}"));
                (Offered::default(), PAUSE)
            }
        };
        if !now.is(&before) {
            let sealed = if now.route.is_some() { ", and carries sealed requests to its service" } else { "" };
            tell(format_args!("offers {} keys{sealed}", now.keys.len()));
            look.outages.clear();
            sender.send_replace(Arc::new(now));
        }
        match pokes.recv_timeout(wait) {
            // A caller may trigger checks very often.
            Ok(()) => thread::sleep(PAUSE),
            Err(RecvTimeoutError::Timeout) if !sender.is_closed() => {}
            Err(_) => return,
        }
    }
}

struct Look {
    options: Options,
    allow: Arc<[Permit]>,
    admin: Option<Admin>,
    unowned: Unowned,
    told: BTreeSet<String>,
    /// What was told since keys were offered last.
    outages: BTreeSet<String>,
}

/// Keys that no user had made for itself. Others are not offered: their users chose the names, and asked for no offer. A key that changed while the service listed them may be missing.
#[derive(Default)]
struct Unowned {
    revision: Option<u64>,
    names: BTreeSet<String>,
}

impl Unowned {
    fn update(&mut self, listed: UsableKeys) {
        let unowned = listed.keys.into_iter().filter(|key| key.owner.is_none());
        *self = Self { revision: listed.revision, names: unowned.map(|key| key.name).collect() };
    }
}

impl Look {
    fn look(&mut self, before: &Offered) -> Result<Offered, NotOffered> {
        let mut admin = match self.admin.take() {
            Some(admin) => admin,
            None => Admin::connect(&self.options)?,
        };
        let route = admin.serving_address().ok().map(|address| (channel::route(&address), address));
        let names = if self.allow.is_empty() {
            // Who seals requests wants no name of a key on NATS.
            if route.is_some() { BTreeSet::new() } else { self.list(&mut admin)? }
        } else {
            self.allow.iter().map(|permit| permit.key.clone()).collect()
        };
        let mut offered = Offered { permits: self.allow.clone(), route, ..Offered::default() };
        for name in names {
            if offered.keys.len() == MAX_KEYS {
                self.tell(format!("offers the first {MAX_KEYS} keys of the service only: choose with --allow"));
                break;
            }
            match held(&mut admin, &name, before) {
                Ok(held) => drop(offered.keys.insert(name, held)),
                Err(why @ (NotOffered::Key(_) | NotOffered::Unfit)) => {
                    self.tell(format!("the key {name} is not offered: {why}"));
                }
                Err(why) => return Err(why),
            }
        }
        self.admin = Some(admin);
        Ok(offered)
    }

    /// All keys without an owner.
    fn list(&mut self, admin: &mut Admin) -> Result<BTreeSet<String>, NotOffered> {
        let names = list(admin)?;
        match admin.my_keys(self.unowned.revision) {
            Ok(None) => {}
            Ok(Some(listed)) => self.unowned.update(listed),
            // There no user has keys made. The first versions close the connection.
            Err(Error::Service(refused)) if refused.is_of_older_version() => {
                *admin = Admin::connect(&self.options)?;
                return Ok(names);
            }
            Err(error) => return Err(error.into()),
        }
        Ok(names.intersection(&self.unowned.names).cloned().collect())
    }

    fn tell(&mut self, what: String) {
        tell_once(&mut self.told, what);
    }
}

fn tell_once(told: &mut BTreeSet<String>, what: String) {
    if told.len() < 4 * MAX_KEYS && told.insert(what.clone()) {
        tell(what);
    }
}

#[derive(Debug, thiserror::Error)]
enum NotOffered {
    /// A fault of this key.
    #[error(transparent)]
    Key(Cause),
    /// A fault of this key.
    #[error("its name or its public part does not fit into messages of the farm")]
    Unfit,
    /// A fault of the service.
    #[error(transparent)]
    Service(#[from] Error),
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error("{0}; or name the keys with --allow")]
    Unlisted(Refused),
}

fn held(admin: &mut Admin, name: &str, before: &Offered) -> Result<OfferedKey, NotOffered> {
    let info = admin.key_info(name).map_err(|error| match error {
        Error::Service(refused) => NotOffered::Key(refused.text.into()),
        other => NotOffered::Service(other),
    })?;
    if let Some(held) = before.keys.get(name).filter(|held| held.public == info.public) {
        return Ok(held.clone());
    }
    let public = Public::from_spki(&info.public).map_err(|error| NotOffered::Key(error.into()))?;
    if info.public.len() > MAX_PUBLIC || !super::super::subjects::fits(name) {
        return Err(NotOffered::Unfit);
    }
    let key = Arc::new(Key::new(public, Private::Stored(name.to_owned())));
    Ok(OfferedKey { public: info.public, key })
}

fn list(admin: &mut Admin) -> Result<BTreeSet<String>, NotOffered> {
    let mut names = BTreeSet::<String>::new();
    loop {
        let after = names.last().cloned().unwrap_or_default();
        let entries = admin.keys(KeyCommand::List { after }).map_err(|error| match error {
            Error::Service(refused) => NotOffered::Unlisted(refused),
            other => other.into(),
        })?;
        if entries.is_empty() || names.len() > MAX_LISTED {
            return Ok(names);
        }
        names.extend(entries.into_iter().map(|entry| entry.name));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sidecore_client::keys::{Kind, Site, UsableKey, Usage};

    const SPKI: &[u8] = include_bytes!("../../../service/src/engine/crypto/keys/test-p-256.spki.der");

    fn offered(names: &[&str], permits: &[(Option<&str>, &str)]) -> Offered {
        let held = |name: &&str| {
            let public = Public::from_spki(SPKI).unwrap();
            let key = Arc::new(Key::new(public, Private::Stored((*name).to_owned())));
            ((*name).to_owned(), OfferedKey { public: SPKI.to_vec(), key })
        };
        let permit = |(gateway, key): &(Option<&str>, &str)| Permit {
            gateway: gateway.map(str::to_owned),
            key: (*key).to_owned(),
        };
        Offered { keys: names.iter().map(held).collect(), permits: permits.iter().map(permit).collect(), route: None }
    }

    fn told(offered: &Offered, gateway: &str) -> Vec<String> {
        offered.offers(gateway).into_iter().map(|offer| offer.key.to_owned()).collect()
    }

    #[test]
    fn a_gateway_is_told_of_the_keys_that_it_may_use_and_uses_no_other() {
        let permits = [(Some("near"), "www"), (Some("other"), "secret"), (None, "common")];
        let offered = offered(&["common", "secret", "unnamed", "www"], &permits);
        assert_eq!(told(&offered, "near"), ["common", "www"]);
        assert_eq!(told(&offered, "other"), ["common", "secret"]);
        assert_eq!(told(&offered, "third"), ["common"]);
        assert!(offered.key("near", "www").is_some() && offered.key("near", "secret").is_none());
    }

    #[test]
    fn keys_that_users_had_made_are_not_offered_and_take_no_places() {
        let key = |name: &str, owner| UsableKey {
            name: name.to_owned(),
            kind: Kind::P256,
            public: SPKI.to_vec(),
            usage: Usage::ALL,
            site: Site::Here,
            certificates: 0,
            rate: None,
            owner,
        };
        let of_users = (0..MAX_KEYS).map(|number| format!("0{number:03}"));
        let keys: Vec<_> = of_users.map(|name| key(&name, Some(1000))).chain([key("www", None)]).collect();
        let mut unowned = Unowned::default();
        unowned.update(UsableKeys { revision: Some(7), keys });
        assert_eq!(unowned.names.into_iter().collect::<Vec<_>>(), ["www"]);
    }

    #[test]
    fn without_a_list_all_are_told_of_all() {
        assert_eq!(told(&offered(&["a", "b"], &[]), "near"), ["a", "b"]);
    }
}
