//! Sessions of lanes: checked first, parsed by the opener, entered, closed.

use super::attach::Attached;
use super::{Listener, Reply};
use crate::engine::crypto::Session;
use crate::keys::{Material, Ready};
use crate::service::command::{Command, LaneKey};
use crate::service::opener::Order;
use crate::spec::{KeyMaterial, Scheme, SessionSpec};
use std::sync::Arc;

impl Listener {
    /// `None`: the answer comes when the key is parsed.
    pub(super) fn open_session(&mut self, key: LaneKey, spec: SessionSpec) -> Result<Option<Reply>, String> {
        self.has_room(key)?;
        let order = match spec.key {
            KeyMaterial::Stored(name) => {
                let asker = self.asker(key)?;
                match self.store.ready(&name, &spec.scheme, &asker)? {
                    Ready::Session(session) => return self.enter_charged(key, session).map(Some),
                    Ready::Material(material) => Order::Stored { name, material, scheme: spec.scheme },
                }
            }
            KeyMaterial::Made(token) => Order::OnMade { material: self.made_key(token)?, scheme: spec.scheme },
            _ => Order::Session(spec),
        };
        self.opener.order(self.user(key), key, order);
        Ok(None)
    }

    /// A session on a key of the client's own is parsed.
    pub(super) fn enter_session(&mut self, key: LaneKey, session: Session) -> Result<Reply, String> {
        self.enter_charged(key, Arc::new(session))
    }

    /// A session on a stored key is made, if it is still that key and still permitted.
    pub(super) fn enter_stored(
        &mut self,
        key: LaneKey,
        name: &str,
        material: &Arc<Material>,
        scheme: &Scheme,
        session: Session,
    ) -> Result<Reply, String> {
        let asker = self.asker(key)?;
        let session = self.store.keep(name, material, scheme, session, &asker)?;
        self.enter_charged(key, session)
    }

    pub(super) fn close_session(&mut self, key: LaneKey, handle: u32) -> Result<(), String> {
        let attached = self.attached(key)?;
        let session = attached.sessions.close(handle).ok_or_else(|| format!("this lane has no session {handle}"))?;
        let (sidecore, bytes) = (attached.sidecore, session.heap_bytes());
        attached.session_bytes -= bytes;
        if let Some(connection) = self.connections.get(&key) {
            self.quotas.close(connection.client, bytes);
        }
        self.sidecores[sidecore].send(Command::CloseSession { lane: key, handle });
        Ok(())
    }

    fn has_room(&mut self, key: LaneKey) -> Result<(), String> {
        let limit = self.config.limits.sessions_per_lane;
        if self.attached(key)?.sessions.count() < limit as usize {
            return Ok(());
        }
        Err(format!("this lane has {limit} sessions already (limits.sessions_per_lane): close some"))
    }

    fn enter_charged(&mut self, key: LaneKey, session: Arc<Session>) -> Result<Reply, String> {
        self.has_room(key)?;
        let limit = self.config.limits.sessions_per_lane;
        let (algorithm, bytes) = (session.algorithm() as u8, session.heap_bytes());
        let connection = self.connections.get_mut(&key).ok_or("not connected")?;
        let attached = connection.attached.as_mut().ok_or("attach first")?;
        self.quotas.open(connection.client, bytes, &self.config.limits)?;
        attached.session_bytes += bytes;
        // There is room, as was seen above.
        let handle = attached.sessions.open(session.clone(), limit).ok_or("no room for a session")?;
        self.sidecores[attached.sidecore].send(Command::AddSession { lane: key, handle, session });
        Ok(Reply::Session { handle, algorithm })
    }

    fn attached(&mut self, key: LaneKey) -> Result<&mut Attached, String> {
        let connection = self.connections.get_mut(&key);
        connection.and_then(|connection| connection.attached.as_mut()).ok_or_else(|| "attach first".to_owned())
    }
}
