//! Keys that the service makes for programs: each stands as long as the connection that asked for it, and serves whoever
//! has its token.
//!
//! Forked children inherit the connection, so the key lives until the last of them lets go of it; that the process which
//! asked has ended does not end it.

use super::attach::random;
use super::{Listener, Reply};
use crate::keys::{Kind, Material};
use crate::service::command::{ClientKey, LaneKey};
use crate::service::opener::Order;
use crate::spec::KeyToken;
use std::sync::Arc;

/// What a key is charged: about what it takes of the heap with its connection, bytes. That of ML-DSA-65 is the largest.
pub(super) const KEY_BYTES: u64 = 8 << 10;

/// A connection's key.
#[derive(Debug)]
pub(super) struct OwnKey {
    /// `None`: it is being made.
    token: Option<KeyToken>,
}

impl Listener {
    /// The answer comes when the key is made.
    pub(super) fn make_key(&mut self, key: LaneKey, kind: Kind) -> Result<(), String> {
        let connection = self.connections.get_mut(&key).ok_or("not connected")?;
        if connection.attached.is_some() || connection.own.is_some() {
            return Err("this connection has a lane or a key already: connect again for a key".to_owned());
        }
        self.quotas.keep_key(connection.client, KEY_BYTES, &self.config.limits)?;
        connection.own = Some(OwnKey { token: None });
        self.maker.order(connection.client.0, key, Order::Make(kind));
        Ok(())
    }

    /// Keeps a key for whoever asked for it, if that one is still there.
    pub(super) fn key_made(&mut self, key: LaneKey, material: Material) -> Result<Reply, String> {
        let own =
            self.connections.get_mut(&key).and_then(|connection| connection.own.as_mut()).ok_or("not connected")?;
        let token = KeyToken(random().map_err(|error| format!("{error}: the system gives no random numbers"))?);
        own.token = Some(token);
        let public = material.public.clone();
        self.made.insert(token, Arc::new(material));
        Ok(Reply::KeyMade { token, public })
    }

    /// The key's connection is gone. Sessions on it stay with those who opened them.
    pub(super) fn forget_key(&mut self, client: ClientKey, own: &OwnKey) {
        if let Some(token) = own.token {
            self.made.remove(&token);
        }
        self.quotas.forget_key(client, KEY_BYTES);
    }

    /// The key of this token.
    pub(super) fn made_key(&self, token: KeyToken) -> Result<Arc<Material>, String> {
        let gone = "the service has no such key: it is gone with the program that had it made, or the service was started anew";
        self.made.get(&token).cloned().ok_or_else(|| gone.to_owned())
    }
}
