//! Stored keys: their descriptions, their users, and changes while lanes use them. Also keys that the service makes
//! for programs: each exists as long as its connection, and serves any process with its token.
//!
//! Forked children inherit the connection, so such a key lives until the last of them closes it. The end of the
//! process that asked for it does not end it.

use super::attach::random;
use super::connection::{Connection, MadeState, OwnKey, not_connected};
use super::state::Listener;
use crate::control::{RefusalCode, Refused, Reply};
use crate::engine::crypto::Session;
use crate::events;
use crate::keys::{
    Acl, Attributes, Changed, KeyCommand, KeyEntry, KeyInfo, Kind, Limiter, Material, Resealed, Store, Terms,
    UsablePage, Who,
};
use crate::service::command::{ClientKey, LaneKey};
use crate::service::jobs::{ControlJob, KeyPart, MadeKey, NewKey};
use crate::service::key_change::Change;
use crate::service::sessions::Sessions;
use crate::spec::{KeyToken, Secret};
use sidecore_client::keys::Moment;
use sidecore_core::time::Nanos;
use sidecore_counters::KeyCounter;
use sidecore_daemon::events::warning;
use sidecore_daemon::sys::peer::{Asker, Credentials};
use sidecore_ipc::sys::clock;
use std::sync::Arc;

/// Charge of a program's key: an estimate of its heap memory with its connection, bytes. That of ML-DSA-65 is the
/// largest.
pub(super) const KEY_BYTES: u64 = 8 << 10;

const MAX_GENERATIONS: usize = 64;

// The counter file shows each name in full.
const _: () = assert!(sidecore_counters::MAX_KEY_NAME == sidecore_client::keys::MAX_NAME);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keep {
    Permitted,
    /// None: the key was replaced.
    None,
}

impl Listener {
    pub(super) fn key_info(&self, key: LaneKey, name: &str) -> Result<KeyInfo, Refused> {
        Ok(self.setup.store.info(name, &self.asker(key)?)?)
    }

    /// Checks that the sender may change the service. A connection with a lane, which children of its process
    /// inherit, may not.
    pub(super) fn administers(&self, key: LaneKey, what: &str) -> Result<(), Refused> {
        let has_lane = self.connections.get(&key).is_some_and(|connection| connection.attached.is_some());
        ensure!(!has_lane, "a connection that has a lane cannot {what}: use one without");
        let master = self.asker(key)?.peers().all(|peer| self.setup.store.is_master(peer.uid));
        if master {
            return Ok(());
        }
        Err(Refused::new(RefusalCode::NotAllowed, format!("only root and the service's own user may {what}")))
    }

    pub(super) fn administers_keys(&self, key: LaneKey) -> Result<(), Refused> {
        self.administers(key, "see and change the keys")
    }

    /// `None`: the answer comes later.
    pub(super) fn keys(&mut self, key: LaneKey, command: KeyCommand) -> Result<Option<Reply>, Refused> {
        let creator = match self.administers_keys(key) {
            Ok(()) => None,
            Err(refused) => Some(self.creator(key, &command).ok_or(refused)?),
        };
        let writes = !matches!(
            command,
            KeyCommand::AddCertificate { more: true, .. } | KeyCommand::AddCertificateOfAnyDate { more: true, .. }
        );
        if let Some(user) = creator.filter(|_| writes) {
            self.take_change(user)?;
        }
        let deletes = matches!(command, KeyCommand::Delete { .. } | KeyCommand::Confirm { delete: true, .. });
        let change = self.change_of(key, &command);
        let changed = match command {
            KeyCommand::Import { name, pkcs8, acl } => {
                return self.import(key, &name, acl, KeyPart::Private(pkcs8)).map(|()| None);
            }
            KeyCommand::ImportPublic { name, public, acl } => {
                return self.import(key, &name, acl, KeyPart::Public(public)).map(|()| None);
            }
            KeyCommand::Replace { name, pkcs8 } => return self.replace(key, &name, pkcs8).map(|()| None),
            KeyCommand::Generate { name, kind, acl } => {
                return self.generate(key, &name, kind, acl, creator, Terms::default()).map(|()| None);
            }
            KeyCommand::GenerateWith { name, kind, acl, terms } => {
                return self.generate(key, &name, kind, acl, creator, terms).map(|()| None);
            }
            KeyCommand::KeepMade { token, name } => {
                return self.keep_made(key, token, &name, creator, Terms::default()).map(Some);
            }
            KeyCommand::KeepMadeWith { token, name, terms } => {
                return self.keep_made(key, token, &name, creator, terms).map(Some);
            }
            KeyCommand::ChangePassphrase { passphrase } => return self.reseal(key, passphrase).map(|()| None),
            KeyCommand::Share { name, also } => {
                let shared = self.setup.store.share(&name, also)?;
                self.offers_changed(&name);
                shared
            }
            KeyCommand::List { after } => return Ok(Some(Reply::Keys(self.list(&after)))),
            KeyCommand::Delete { name } => self.setup.store.delete(&name)?,
            KeyCommand::Rename { name, new } => return self.rename(key, &name, new).map(Some),
            KeyCommand::SetAcl { name, acl } => self.setup.store.set_acl(&name, acl)?,
            KeyCommand::ChangeAcl { name, add, remove } => self.setup.store.change_acl(&name, &add, &remove)?,
            KeyCommand::SetUsage { name, usage } => self.setup.store.set_usage(&name, usage)?,
            KeyCommand::SetRate { name, rate } => self.setup.store.set_rate(&name, rate)?,
            KeyCommand::RemoveCertificates { name } => self.setup.store.set_certificates(&name, Vec::new(), None)?,
            KeyCommand::AddCertificate { name, certificate, more } => {
                let now = Some(Moment(clock::wall_ms() / 1000));
                let Some(stored) = self.add_certificate(key, name, (certificate, more), now)? else {
                    return Ok(Some(Reply::Done));
                };
                stored
            }
            KeyCommand::AddCertificateOfAnyDate { name, certificate, more } => {
                let Some(stored) = self.add_certificate(key, name, (certificate, more), None)? else {
                    return Ok(Some(Reply::Done));
                };
                stored
            }
            KeyCommand::Address => return Ok(Some(Reply::Address(self.setup.store.address()?))),
            KeyCommand::Seal { name, to, if_changed, names } => return self.seal(key, name, to, if_changed, names),
            KeyCommand::NextPart => return self.next_part(key),
            KeyCommand::Receive { part, more, replace } => return self.receive(key, &part, more, replace),
            KeyCommand::Users(numbers) => return self.receive_for(key, &numbers),
            KeyCommand::Confirm { name, receipt, delete } => {
                let Some(gone) = self.confirm(key, &name, &receipt, delete)? else {
                    return Ok(Some(Reply::Done));
                };
                gone
            }
        };
        self.take_effect(changed, change, deletes).map(Some)
    }

    /// A stored key was changed or deleted: sessions that it permits no more end, and the log gets its line.
    fn take_effect(
        &mut self,
        Changed { what: place, doubt }: Changed<u16>,
        change: Option<Change>,
        deletes: bool,
    ) -> Result<Reply, Refused> {
        self.close_sessions_on(place, Keep::Permitted);
        if deletes {
            self.forget_offers(place);
            self.setup.counters.close_key(place.into());
            if let Some(change) = &change {
                self.offers_changed(&change.name);
            }
        }
        if let Some(change) = change {
            self.changed(&change, doubt.as_ref());
        }
        doubt.map_or(Ok(Reply::Done), |doubt| Err(doubt.into()))
    }

    fn rename(&mut self, key: LaneKey, name: &str, new: String) -> Result<Reply, Refused> {
        let change = self.change("key-renamed", key, name);
        let Changed { what: place, doubt } = self.setup.store.rename(name, &new)?;
        // The key has its blocks already. Counters of another name begin at 0.
        if let Err(error) = self.setup.counters.open_key(place.into(), &new) {
            warning(&format!("{error}: the counters of the key {new} still have its former name, {name}"));
        }
        self.usage.begin(place.into(), clock::now());
        self.forget_offers(place);
        self.offers_changed(name);
        self.offers_changed(&new);
        self.changed(&Change { name: new, ..change }, doubt.as_ref());
        doubt.map_or(Ok(Reply::Done), |doubt| Err(doubt.into()))
    }

    fn replace(&mut self, key: LaneKey, name: &str, pkcs8: Secret) -> Result<(), Refused> {
        self.setup.store.check_replaceable(name)?;
        let change = self.change("key-replaced", key, name);
        self.jobs.push(self.tenant(key), key, ControlJob::Replace(change, pkcs8));
        Ok(())
    }

    fn generate(
        &mut self,
        key: LaneKey,
        name: &str,
        kind: Kind,
        acl: Acl,
        creator: Option<u32>,
        terms: Terms,
    ) -> Result<(), Refused> {
        let attributes = match creator {
            Some(user) => self.own_attributes(user, name, kind, &acl)?,
            None => acl.into(),
        };
        let attributes = Store::with_terms(attributes, kind, terms)?;
        self.setup.store.check_new(name, &attributes.acl)?;
        let wanted = self.jobs.generations();
        ensure_limit!(wanted < MAX_GENERATIONS, "{wanted} keys are being made already: wait for some of them");
        let change = self.change("key-generated", key, name);
        self.jobs.push(self.tenant(key), key, ControlJob::Generate(NewKey { change, attributes }, kind));
        Ok(())
    }

    /// The keys that the sender may use.
    pub(super) fn my_keys(&self, key: LaneKey, after: &str, known: Option<u64>) -> Result<Reply, Refused> {
        let page = self.setup.store.usable_after(after, known, &self.asker(key)?);
        Ok(page.map_or(Reply::Unchanged, |page| {
            let UsablePage { revision, keys, more } = page;
            Reply::MyKeys { revision, keys, more }
        }))
    }

    pub(super) fn identifiers(&self, key: LaneKey, after: &str) -> Result<Reply, Refused> {
        Ok(Reply::Identifiers(self.setup.store.identifiers_after(after, &self.asker(key)?)))
    }

    fn list(&mut self, after: &str) -> Vec<KeyEntry> {
        let now = clock::now();
        self.look_at_usage(now);
        let mut entries = self.setup.store.list(after);
        for entry in &mut entries {
            let place = self.setup.store.place(&entry.name);
            entry.idle_seconds = place.map_or(0, |place| self.usage.idle_seconds(place.into(), now));
        }
        entries
    }

    pub(super) fn look_at_usage(&mut self, now: Nanos) {
        let (counters, sidecores) = (&self.setup.counters, 0..self.setup.sidecores.len());
        let of = |sidecore, place| counters.key(sidecore, place).get(KeyCounter::Submitted);
        // Only for existing keys: other blocks have no memory.
        let places = self.setup.store.places().map(|(place, _)| usize::from(place));
        self.usage.look(now, places.map(|place| (place, sidecores.clone().map(|sidecore| of(sidecore, place)).sum())));
    }

    fn import(&mut self, key: LaneKey, name: &str, acl: Acl, part: KeyPart) -> Result<(), Refused> {
        // Checked before the key itself, which takes longer.
        self.setup.store.check_new(name, &acl)?;
        let change = self.change("key-imported", key, name);
        self.jobs.push(self.tenant(key), key, ControlJob::Import(NewKey { change, attributes: acl.into() }, part));
        Ok(())
    }

    fn reseal(&mut self, key: LaneKey, passphrase: Secret) -> Result<(), Refused> {
        let resealing = self.setup.store.lend(passphrase)?;
        self.jobs.push(self.tenant(key), key, ControlJob::Reseal(self.who(key), resealing));
        Ok(())
    }

    pub(super) fn resealed(&mut self, who: Credentials, resealed: Resealed) -> Result<Reply, Refused> {
        let file = self.setup.config.keys.passphrase_file.as_ref().map(|file| file.display().to_string());
        let doubt = self.setup.store.take_back(resealed)?;
        events::passphrase_changed(who, doubt.as_ref().map(ToString::to_string).as_deref());
        doubt.map_or(Ok(()), Err)?;
        Ok(Reply::PassphraseChanged { file })
    }

    pub(super) fn stored(
        &mut self,
        NewKey { change, attributes }: NewKey,
        material: Material,
    ) -> Result<Reply, Refused> {
        let name = &change.name;
        self.check_quota(&attributes)?;
        let Changed { what: entry, doubt } = self.setup.store.insert(name, material, attributes)?;
        if let Some(place) = self.setup.store.place(name) {
            if let Err(error) = self.setup.counters.open_key(place.into(), name) {
                self.setup.store.delete(name)?;
                return Err(Refused::other(format_args!(
                    "{error}: the counter file has no room for the key; make room on its file system"
                )));
            }
            self.usage.begin(place.into(), clock::now());
        }
        self.offers_changed(name);
        self.changed(&change, doubt.as_ref());
        doubt.map_or(Ok(Reply::Keys(vec![entry])), |doubt| Err(doubt.into()))
    }

    /// Replaces a key's material. From then on no request finds a session on the old one, not even of users of the
    /// new one.
    pub(super) fn replaced(&mut self, change: Change, material: Material) -> Result<Reply, Refused> {
        // The old key may have changed while the new one was read.
        let change = change.of_now(&self.setup.store);
        let name = &change.name;
        let Changed { what: place, doubt } = self.setup.store.replace(name, material)?;
        self.close_sessions_on(place, Keep::None);
        self.forget_offers(place);
        self.offers_changed(name);
        self.changed(&change, doubt.as_ref());
        doubt.map_or(Ok(Reply::Done), |doubt| Err(doubt.into()))
    }

    pub(super) fn asker(&self, key: LaneKey) -> Result<Asker, Refused> {
        let connection = self.connections.get(&key).ok_or_else(not_connected)?;
        let asker = Asker::of(&connection.socket, connection.speaker);
        asker.map_err(|error| Refused::other(format_args!("the kernel does not say who asks: {error}")))
    }

    /// Keeps the sessions of a parent's lane that its child may use: its user is the same, its groups need not be.
    pub(super) fn keep_permitted(&self, sessions: &mut Sessions, asker: &Asker) {
        let store = &self.setup.store;
        let permitted = |session: &Session, place| {
            store.permits(place, session.grant().map_or(Who::User(asker), Who::Service))
                && store.is_for(place, session.usage())
        };
        let forbidden = |session: &Session| session.key().is_some_and(|place| !permitted(session, place));
        let handles: Vec<u32> =
            sessions.all().filter(|(_, session)| forbidden(session)).map(|(handle, _)| handle).collect();
        for handle in handles {
            sessions.close(handle);
        }
    }

    /// Closes the sessions on the key of this place that are no longer permitted. They are closed for every client
    /// that has the answer to the change, since sidecores look for commands before each request.
    pub(super) fn close_sessions_on(&mut self, place: u16, keep: Keep) {
        let mut closed: Vec<Vec<(LaneKey, u32)>> = vec![Vec::new(); self.setup.sidecores.len()];
        for (key, connection) in &mut self.connections {
            let Some(attached) = &mut connection.attached else { continue };
            let sessions = attached.sessions.all().filter(|(_, session)| session.key() == Some(place));
            let mut handles: Vec<(u32, Arc<Session>)> = sessions.collect();
            if handles.is_empty() {
                continue;
            }
            // A peer without the kernel's credentials may use nothing.
            let asker = Asker::of(&connection.socket, connection.speaker).ok();
            let store = &self.setup.store;
            let is_permitted = |session: &Session| {
                let who = session.grant().map(Who::Service).or(asker.as_ref().map(Who::User));
                store.is_for(place, session.usage()) && who.is_some_and(|who| store.permits(place, who))
            };
            handles.retain(|(_, session)| keep == Keep::None || !is_permitted(session));
            for (handle, _) in handles {
                let bytes = attached.sessions.close(handle).map_or(0, |session| session.heap_bytes());
                attached.session_bytes -= bytes;
                self.quotas.close(connection.client, bytes);
                closed[attached.sidecore].push((*key, handle));
            }
        }
        for (sidecore, sessions) in self.setup.sidecores.iter().zip(closed) {
            if !sessions.is_empty() {
                sidecore.send(move |reactor| {
                    for (lane, handle) in sessions {
                        reactor.sessions(lane).and_then(|sessions| sessions.close(handle));
                    }
                });
            }
        }
    }

    pub(super) fn make_key(&mut self, key: LaneKey, kind: Kind) -> Result<(), Refused> {
        let connection = self.connections.get_mut(&key).ok_or_else(not_connected)?;
        let free = connection.attached.is_none() && connection.own.is_none();
        ensure!(free, "this connection has a lane or a key already: connect again for a key");
        let long = matches!(kind, Kind::Rsa6144 | Kind::Rsa8192);
        ensure!(
            !long,
            "RSA keys of more than 4096 bits take minutes to make: `sidecore keys generate` makes and keeps them"
        );
        self.quotas.keep_key(connection.client, KEY_BYTES, &self.setup.config.limits)?;
        connection.own = Some(OwnKey { token: None });
        let tenant = self.quotas.tenant(connection.client);
        self.jobs.push(tenant, key, ControlJob::Make(kind));
        Ok(())
    }

    pub(super) fn key_made(&mut self, key: LaneKey, material: Material) -> Result<Reply, Refused> {
        let own =
            self.connections.get_mut(&key).and_then(|connection| connection.own.as_mut()).ok_or_else(not_connected)?;
        let token =
            random().map_err(|error| Refused::other(format_args!("{error}: the system gives no random numbers")))?;
        let token = KeyToken(token);
        own.token = Some(token);
        let public = material.public.clone();
        let made = MadeKey { material: Arc::new(material), limiter: Arc::new(Limiter::new(None)) };
        self.made.insert(token, MadeState::Live(made));
        Ok(Reply::KeyMade { token, public })
    }

    /// Stores a key that was made for a program. `creator`: the user it then belongs to. The token serves no more, and
    /// sessions that were opened by it are the stored key's, with its users, usage and limit.
    fn keep_made(
        &mut self,
        key: LaneKey,
        token: KeyToken,
        name: &str,
        creator: Option<u32>,
        terms: Terms,
    ) -> Result<Reply, Refused> {
        let made = self.made_key(token)?.clone();
        // A token alone is not enough, e.g. of a key that another user's program passed on.
        let holds = |connection: &Connection| connection.own.as_ref().is_some_and(|own| own.token == Some(token));
        let maker =
            self.connections.values().find(|connection| holds(connection)).map(|connection| connection.client.0);
        ensure!(
            maker == Some(self.user(key)),
            "the key was made for a program of another user: have one made, and keep that"
        );
        let attributes = match creator {
            Some(user) => self.own_attributes(user, name, made.material.kind(), &Acl::default())?,
            None => Attributes::default(),
        };
        let attributes = Store::with_terms(attributes, made.material.kind(), terms)?;
        let change = self.change("key-kept", key, name);
        self.setup.store.check_new(name, &attributes.acl)?;
        let stored = self.stored(NewKey { change, attributes }, made.material.copy());
        // Also where the disk did not confirm it.
        if let Some(place) = self.setup.store.place(name) {
            self.made.insert(token, MadeState::Stored(name.to_owned()));
            self.bind_sessions(&made.limiter, name, place);
        }
        stored
    }

    fn bind_sessions(&mut self, limiter: &Arc<Limiter>, name: &str, place: u16) {
        self.setup.store.take_limiter(name, limiter.clone());
        let attached = self.connections.values().filter_map(|connection| connection.attached.as_ref());
        for (_, session) in attached.flat_map(|attached| attached.sessions.all()) {
            if session.is_limited_by(limiter) {
                session.bind(place);
            }
        }
        self.close_sessions_on(place, Keep::Permitted);
    }

    /// The key's connection is gone. Open sessions on it stay.
    pub(super) fn forget_key(&mut self, client: ClientKey, own: &OwnKey) {
        if let Some(token) = own.token {
            self.made.remove(&token);
        }
        self.quotas.forget_key(client, KEY_BYTES);
    }

    pub(super) fn made_key(&self, token: KeyToken) -> Result<&MadeKey, Refused> {
        match self.made.get(&token) {
            Some(MadeState::Live(made)) => Ok(made),
            Some(MadeState::Stored(name)) => {
                let text = format!("the key that was made for this program is stored as {name:?}: use it by that name");
                Err(Refused::new(RefusalCode::NoKey, text))
            }
            None => {
                let gone = "the service has no such key: it is gone with the program that had it made, or the service was started anew";
                Err(Refused::new(RefusalCode::NoKey, gone))
            }
        }
    }
}
