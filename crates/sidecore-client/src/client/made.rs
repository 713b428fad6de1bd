//! A key that the service makes for this program: its private part never leaves the service.

use crate::spec::{KeyMaterial, KeyToken};
use crate::sys::own::{Left, Own};

/// A key of this program, kept by the service until this is dropped; forked children hold it as well, each until it drops
/// its own or ends. Sessions that were opened on it stay until they are closed.
#[derive(Debug)]
pub struct MadeKey {
    token: KeyToken,
    public: Vec<u8>,
    /// The key is there as long as a process has this open. `None`: it is kept open by a [`Left`].
    connection: Option<Own>,
}

impl MadeKey {
    pub(super) fn new(token: KeyToken, public: Vec<u8>, connection: Own) -> Self {
        Self { token, public, connection: Some(connection) }
    }

    /// The key of this token, which a [`Left`] keeps.
    pub fn of(token: KeyToken, public: Vec<u8>) -> Self {
        Self { token, public, connection: None }
    }

    /// What names it.
    pub fn token(&self) -> &KeyToken {
        &self.token
    }

    /// What keeps it in the service, left open: until it is recalled, and dropped.
    pub fn leave(self) -> Left {
        self.connection.map_or(Left::NONE, Own::leave)
    }

    /// What sessions on it are opened with, on any lane: also by a process that was forked, or is another user by now.
    pub fn material(&self) -> KeyMaterial {
        KeyMaterial::Made(self.token)
    }

    /// Its public part: a `SubjectPublicKeyInfo` in DER.
    pub fn public(&self) -> &[u8] {
        &self.public
    }
}
