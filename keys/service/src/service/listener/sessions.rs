//! Sessions of lanes: checked first, opened by a job, entered, closed.

use super::connection::{Attached, not_connected};
use super::state::Listener;
use crate::channel::Asked;
use crate::config::DeviceKind;
use crate::control::{Refused, Reply};
use crate::engine::crypto::Session;
use crate::keys::Ready;
use crate::service::command::LaneKey;
use crate::service::jobs::{ControlJob, SessionKey};
use crate::spec::{KeyMaterial, SessionSpec};
use std::sync::Arc;

impl Listener {
    /// `None`: the answer follows once the key is parsed.
    pub(super) fn open_session(&mut self, key: LaneKey, spec: SessionSpec) -> Result<Option<Reply>, Refused> {
        self.has_room(key)?;
        let (user, mut scheme) = (self.tenant(key), spec.scheme);
        let client = self.connections.get(&key).ok_or_else(not_connected)?.client;
        // A key is tested here, in its user's turn, and not on a path where others wait.
        let gathers = self.setup.config.devices.iter().any(|device| device.kind == DeviceKind::Batch);
        let key_of_session = match spec.key {
            KeyMaterial::Stored(name) => match self.setup.store.ready(&name, &scheme, &self.asker(key)?)? {
                Ready::Session(session) => return self.enter(key, session).map(Some),
                Ready::Material(material) => SessionKey::Stored(name, material, None),
            },
            KeyMaterial::Served(opening) => {
                let Asked { key: name, scheme: asked, grant, .. } = self.setup.store.served(&opening)?;
                scheme = asked;
                match self.setup.store.ready(&name, &scheme, &grant)? {
                    Ready::Session(session) => {
                        return self.enter(key, Arc::new(Session::served(session, grant))).map(Some);
                    }
                    Ready::Material(material) => SessionKey::Stored(name, material, Some(grant)),
                }
            }
            KeyMaterial::Made(token) => SessionKey::Made(token, self.made_key(token)?.clone()),
            sent => SessionKey::Sent(sent),
        };
        self.jobs.push(user, key, ControlJob::Session { scheme, key: key_of_session, client, gathers });
        Ok(None)
    }

    pub(super) fn close_session(&mut self, key: LaneKey, handle: u32) -> Result<(), Refused> {
        let attached = self.attached(key)?;
        let session = attached
            .sessions
            .close(handle)
            .ok_or_else(|| Refused::other(format_args!("this lane has no session {handle}")))?;
        let (sidecore, bytes) = (attached.sidecore, session.heap_bytes());
        attached.session_bytes -= bytes;
        if let Some(connection) = self.connections.get(&key) {
            self.quotas.close(connection.client, bytes);
        }
        self.setup.sidecores[sidecore].send(move |reactor| reactor.close_session(key, handle));
        Ok(())
    }

    fn has_room(&mut self, key: LaneKey) -> Result<(), Refused> {
        let limit = self.setup.config.limits.sessions_per_lane;
        let room = self.attached(key)?.sessions.count() < limit as usize;
        ensure_limit!(room, "this lane has {limit} sessions already (limits.sessions_per_lane): close some");
        Ok(())
    }

    pub(super) fn enter(&mut self, key: LaneKey, session: Arc<Session>) -> Result<Reply, Refused> {
        self.has_room(key)?;
        let limit = self.setup.config.limits.sessions_per_lane;
        let bytes = session.heap_bytes();
        let connection = self.connections.get_mut(&key).ok_or_else(not_connected)?;
        let attached = connection.attached.as_mut().ok_or_else(attach_first)?;
        self.quotas.open(connection.client, bytes, &self.setup.config.limits)?;
        attached.session_bytes += bytes;
        // There is room, as checked above.
        let handle =
            attached.sessions.open(session.clone(), limit).ok_or_else(|| Refused::other("no room for a session"))?;
        self.setup.sidecores[attached.sidecore].send(move |reactor| {
            if let Some(sessions) = reactor.sessions(key) {
                sessions.insert(handle, session);
            }
        });
        Ok(Reply::Session { handle })
    }

    fn attached(&mut self, key: LaneKey) -> Result<&mut Attached, Refused> {
        let connection = self.connections.get_mut(&key);
        connection.and_then(|connection| connection.attached.as_mut()).ok_or_else(attach_first)
    }
}

fn attach_first() -> Refused {
    Refused::other("attach first")
}
