//! Stored keys: what is known of them, who may use them, and changes of them while lanes use them.

use super::{Listener, Reply};
use crate::engine::crypto::Session;
use crate::keys::{Acl, Changed, KeyCommand, KeyEntry, KeyInfo, Kind, Material};
use crate::service::command::{Command, Event, LaneKey};
use crate::service::opener::Order;
use crate::service::sessions::Sessions;
use crate::sys::peer::Asker;
use crate::sys::wake;
use std::thread;

/// Most keys that wait to be made.
const MAX_WANTED: usize = 64;

/// A key that is to be made.
#[derive(Debug)]
pub(super) struct Wanted {
    asker: LaneKey,
    name: String,
    kind: Kind,
    acl: Acl,
}

impl Listener {
    pub(super) fn key_info(&self, key: LaneKey, name: &str) -> Result<KeyInfo, String> {
        self.store.info(name, &self.asker(key)?)
    }

    /// Whether whoever speaks on this connection may change the service. A lane, which children of its process inherit, has
    /// given that up.
    pub(super) fn administers(&self, key: LaneKey, what: &str) -> Result<(), String> {
        if self.connections.get(&key).is_some_and(|connection| connection.attached.is_some()) {
            return Err(format!("a connection that has a lane cannot {what}: use one without"));
        }
        if self.asker(key)?.peers().all(|peer| self.store.is_master(peer.uid)) {
            return Ok(());
        }
        Err(format!("only root and the service's own user may {what}"))
    }

    /// `None`: the answer comes later.
    pub(super) fn keys(&mut self, key: LaneKey, command: KeyCommand) -> Result<Option<Reply>, String> {
        self.administers(key, "see and change the keys")?;
        match command {
            KeyCommand::Import { name, pkcs8, acl } => {
                // Before the key is looked at, for that takes longer.
                self.store.check_new(&name, &acl)?;
                self.opener.order(self.user(key), key, Order::Import { name, pkcs8, acl });
                Ok(None)
            }
            KeyCommand::Generate { name, kind, acl } => {
                self.generate(Wanted { asker: key, name, kind, acl }).map(|()| None)
            }
            KeyCommand::List { after } => Ok(Some(Reply::Keys(self.store.list(&after)))),
            KeyCommand::Delete { name } => {
                let Changed { what: place, doubt } = self.store.delete(&name)?;
                self.close_sessions_on(place);
                self.counters.close_key(place.into());
                doubt.map_or(Ok(Some(Reply::Done)), Err)
            }
            KeyCommand::SetAcl { name, acl } => {
                let Changed { what: place, doubt } = self.store.set_acl(&name, acl)?;
                self.close_sessions_on(place);
                doubt.map_or(Ok(Some(Reply::Done)), Err)
            }
            KeyCommand::ChangePassphrase { passphrase } => self.change_passphrase(key, passphrase).map(|()| None),
            KeyCommand::ChangeAcl { name, add, remove } => {
                let Changed { what: place, doubt } = self.store.change_acl(&name, &add, &remove)?;
                self.close_sessions_on(place);
                doubt.map_or(Ok(Some(Reply::Done)), Err)
            }
        }
    }

    /// Stores a key that was read.
    pub(super) fn imported(&mut self, key: LaneKey, name: &str, material: Material, acl: Acl) -> Result<Reply, String> {
        self.administers(key, "see and change the keys")?;
        let changed = self.store.insert(name, material, acl)?;
        self.counted(changed).map(|entry| Reply::Keys(vec![entry]))
    }

    /// Begins to count for a new key. One that cannot be counted for is not kept.
    fn counted(&mut self, changed: Changed<KeyEntry>) -> Result<KeyEntry, String> {
        let Changed { what: entry, doubt } = changed;
        let Some(place) = self.store.place(&entry.name) else { return Ok(entry) };
        if let Err(error) = self.counters.open_key(place.into(), &entry.name) {
            self.store.delete(&entry.name)?;
            return Err(format!("{error}: the counter file has no room for the key; make room on its file system"));
        }
        doubt.map_or(Ok(entry), Err)
    }

    /// On whose behalf the connection's message at hand is.
    pub(super) fn asker(&self, key: LaneKey) -> Result<Asker, String> {
        let connection = self.connections.get(&key).ok_or("not connected")?;
        let asker = Asker::of(&connection.socket, connection.speaker);
        asker.map_err(|error| format!("the kernel does not say who asks: {error}"))
    }

    /// The sessions of a parent's lane that its child may use: its user is the same, its groups need not be.
    pub(super) fn keep_permitted(&self, sessions: &mut Sessions, asker: &Asker) {
        let forbidden = |session: &Session| session.key().is_some_and(|place| !self.store.permits(place, asker));
        let handles: Vec<u32> =
            sessions.all().filter(|(_, session)| forbidden(session)).map(|(handle, _)| handle).collect();
        for handle in handles {
            sessions.close(handle);
        }
    }

    /// Closes the sessions on the key of this place that are no longer permitted. Whoever is told afterwards that it is
    /// done finds them closed, for sidecores look for commands before each request.
    fn close_sessions_on(&mut self, place: u16) {
        let mut closed: Vec<Vec<(LaneKey, u32)>> = vec![Vec::new(); self.sidecores.len()];
        for (key, connection) in &mut self.connections {
            let Some(attached) = &mut connection.attached else { continue };
            let sessions = attached.sessions.all().filter(|(_, session)| session.key() == Some(place));
            let handles: Vec<u32> = sessions.map(|(handle, _)| handle).collect();
            if handles.is_empty() {
                continue;
            }
            // Whoever the kernel does not vouch for may use nothing.
            let asker = Asker::of(&connection.socket, connection.speaker);
            if asker.is_ok_and(|asker| self.store.permits(place, &asker)) {
                continue;
            }
            for handle in handles {
                let bytes = attached.sessions.close(handle).map_or(0, |session| session.heap_bytes());
                attached.session_bytes -= bytes;
                self.quotas.close(connection.client, bytes);
                closed[attached.sidecore].push((*key, handle));
            }
        }
        for (sidecore, sessions) in self.sidecores.iter().zip(closed) {
            if !sessions.is_empty() {
                sidecore.send(Command::EndSessions(sessions));
            }
        }
    }

    /// Puts it at the end of those that are to be made: one at a time, for each takes a core.
    fn generate(&mut self, wanted: Wanted) -> Result<(), String> {
        self.store.check_new(&wanted.name, &wanted.acl)?;
        if self.wanted.len() >= MAX_WANTED {
            return Err(format!("{MAX_WANTED} keys are being made already: wait for some of them"));
        }
        self.wanted.push_back(wanted);
        if self.wanted.len() == 1 {
            self.start_generation();
        }
        Ok(())
    }

    /// A thread makes the first of the wanted keys.
    fn start_generation(&mut self) {
        let Some(kind) = self.wanted.front().map(|wanted| wanted.kind) else { return };
        let (tell, wake) = (self.tell.clone(), self.wake.clone());
        let make = move || {
            // Without a control thread the service is ending.
            if tell.send(Event::KeyGenerated(Box::new(Material::generate(kind)))).is_ok() {
                wake::ring(&*wake);
            }
        };
        if let Err(error) = thread::Builder::new().name("sidecore-keys".to_owned()).spawn(make) {
            // As any other outcome: after the asker is entered as one who waits.
            let _ = self.tell.send(Event::KeyGenerated(Box::new(Err(format!("no thread can make the key: {error}")))));
            wake::ring(&*self.wake);
        }
    }

    /// Stores the first of the wanted keys and tells its asker.
    pub(super) fn generated(&mut self, made: Result<Material, String>) {
        let Some(Wanted { asker, name, acl, .. }) = self.wanted.pop_front() else { return };
        let stored = made.and_then(|material| self.store.insert(&name, material, acl));
        let stored = stored.and_then(|entry| self.counted(entry));
        let reply = stored.map_or_else(Reply::Refused, |entry| Reply::Keys(vec![entry]));
        self.conclude(asker, &reply);
        self.start_generation();
    }
}
