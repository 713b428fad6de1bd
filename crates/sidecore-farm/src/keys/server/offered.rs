//! The keys that this key server may use, looked at again and again: the service is asked, as this process's user.

use crate::output::tell;
use sidecore_client::client::{Admin, Error, Options};
use sidecore_client::face::key::{Key, Private, Public};
use sidecore_client::gateway::{MAX_PUBLIC, Offer};
use sidecore_client::keys::KeyCommand;
use sidecore_core::session::Class;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;
use tokio::sync::watch;

/// How often the keys are looked at.
const INTERVAL: Duration = Duration::from_secs(1);
/// Pause after a service that is not there was looked for.
const PAUSE: Duration = Duration::from_millis(20);
/// Most keys that are offered: what a gateway takes.
const MOST: usize = Class::COUNT;

/// Keys by name.
#[derive(Default)]
pub(super) struct Offered(BTreeMap<String, Held>);

#[derive(Clone)]
struct Held {
    /// As the service gives it.
    public: Vec<u8>,
    key: Arc<Key>,
}

impl Offered {
    /// The key of this name.
    pub(super) fn key(&self, name: &str) -> Option<Arc<Key>> {
        self.0.get(name).map(|held| held.key.clone())
    }

    /// Whether there is a key at all.
    pub(super) fn any(&self) -> bool {
        !self.0.is_empty()
    }

    /// What gateways are told.
    pub(super) fn offers(&self) -> Vec<Offer<'_>> {
        self.0.iter().map(|(key, held)| Offer { key, public: &held.public }).collect()
    }

    fn is(&self, other: &Self) -> bool {
        let same = |one: (&String, &Held), other: (&String, &Held)| one.0 == other.0 && one.1.public == other.1.public;
        self.0.len() == other.0.len() && self.0.iter().zip(&other.0).all(|(one, other)| same(one, other))
    }
}

/// The thread that looks at the keys; it ends when this is dropped and it looks next.
pub(super) struct Keys {
    poke: SyncSender<()>,
    receiver: watch::Receiver<Arc<Offered>>,
}

impl Keys {
    /// Begins to watch. `allow`: these keys only; none: all that the service lists.
    ///
    /// # Errors
    /// No thread, or the first look said that it cannot be.
    pub(super) async fn watch(options: &Options, allow: &[String]) -> Result<Self, String> {
        let (poke, pokes) = sync_channel(1);
        let (sender, mut receiver) = watch::channel(Arc::new(Offered::default()));
        let look = Look { options: options.clone(), allow: allow.to_vec(), admin: None, told: BTreeSet::new() };
        let watching = thread::Builder::new().name("keys".to_owned()).spawn(move || watch_keys(look, &sender, &pokes));
        watching.map_err(|error| format!("cannot start a thread: {error}"))?;
        // A first look, or a service that is not there: gateways are told later.
        let _ = tokio::time::timeout(options.patience, receiver.changed()).await;
        receiver.mark_changed();
        Ok(Self { poke, receiver })
    }

    /// Has the keys looked at now.
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
                look.tell(format!("no key is offered: {why}"));
                (Offered::default(), PAUSE)
            }
        };
        if !now.is(&before) {
            tell(format_args!("offers {} keys", now.0.len()));
            look.told.retain(|said| !said.starts_with("no key is offered"));
            sender.send_replace(Arc::new(now));
        }
        match pokes.recv_timeout(wait) {
            // Whoever asks for a look may do so often.
            Ok(()) => thread::sleep(PAUSE),
            Err(RecvTimeoutError::Timeout) if !sender.is_closed() => {}
            Err(_) => return,
        }
    }
}

/// Asks the service.
struct Look {
    options: Options,
    allow: Vec<String>,
    admin: Option<Admin>,
    /// What was told to people, once.
    told: BTreeSet<String>,
}

impl Look {
    /// The keys of now. An error: none can be used.
    fn look(&mut self, before: &Offered) -> Result<Offered, String> {
        let mut admin = match self.admin.take() {
            Some(admin) => admin,
            None => Admin::connect(&self.options).map_err(|error| error.to_string())?,
        };
        let names = if self.allow.is_empty() { list(&mut admin)? } else { self.allow.clone() };
        let mut offered = Offered::default();
        for name in names {
            if offered.0.len() == MOST {
                self.tell(format!("offers the first {MOST} keys of the service only: choose with --allow"));
                break;
            }
            match held(&mut admin, &name, before) {
                Ok(held) => drop(offered.0.insert(name, held)),
                Err(Trouble::Key(why)) => self.tell(format!("the key {name} is not offered: {why}")),
                Err(Trouble::Service(why)) => return Err(why),
            }
        }
        self.admin = Some(admin);
        Ok(offered)
    }

    fn tell(&mut self, what: String) {
        if self.told.len() < 4 * MOST && self.told.insert(what.clone()) {
            tell(what);
        }
    }
}

/// Why a key is not offered.
enum Trouble {
    /// It is about this key.
    Key(String),
    /// It is about the service.
    Service(String),
}

fn held(admin: &mut Admin, name: &str, before: &Offered) -> Result<Held, Trouble> {
    let info = admin.key_info(name).map_err(|error| match error {
        Error::Service(refused) => Trouble::Key(refused.text),
        other => Trouble::Service(other.to_string()),
    })?;
    if let Some(held) = before.0.get(name).filter(|held| held.public == info.public) {
        return Ok(held.clone());
    }
    let public = Public::from_spki(&info.public).map_err(|error| Trouble::Key(error.to_string()))?;
    if info.public.len() > MAX_PUBLIC || !super::super::subjects::fits(name) {
        return Err(Trouble::Key("its name or its public part does not fit into messages of the farm".to_owned()));
    }
    let key = Arc::new(Key::new(public, Private::Stored(name.to_owned())));
    Ok(Held { public: info.public, key })
}

/// Names of all keys of the service.
fn list(admin: &mut Admin) -> Result<Vec<String>, String> {
    let mut names: Vec<String> = Vec::new();
    loop {
        let after = names.last().cloned().unwrap_or_default();
        let entries = admin.keys(KeyCommand::List { after }).map_err(|error| match error {
            Error::Service(why) => format!("{why}; or name the keys with --allow"),
            other => other.to_string(),
        })?;
        if entries.is_empty() || names.len() > MOST {
            return Ok(names);
        }
        names.extend(entries.into_iter().map(|entry| entry.name));
    }
}
