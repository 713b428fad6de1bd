//! A key that the service makes for this program. Its private part never leaves the service.

use crate::spec::{KeyMaterial, KeyToken};
use sidecore_ipc::sys::verified_fd::{Left, VerifiedFd};

/// A key of this program, kept by the service until this value is dropped. Forked children hold it as well, each until
/// it drops its own or ends. Open sessions on it stay open until they are closed.
#[derive(Debug)]
pub struct MadeKey {
    token: KeyToken,
    public: Vec<u8>,
    /// The key exists while a process has this connection open. `None`: a [`Left`] keeps it open.
    connection: Option<VerifiedFd>,
}

impl MadeKey {
    pub(super) fn new(token: KeyToken, public: Vec<u8>, connection: VerifiedFd) -> Self {
        Self { token, public, connection: Some(connection) }
    }

    /// The key with this token, which a [`Left`] keeps open.
    pub fn of(token: KeyToken, public: Vec<u8>) -> Self {
        Self { token, public, connection: None }
    }

    /// The token that names it.
    pub fn token(&self) -> &KeyToken {
        &self.token
    }

    /// Leaves its connection open, and the key in the service, until the [`Left`] is recalled and dropped.
    pub fn leave(self) -> Left {
        self.connection.map_or(Left::NONE, VerifiedFd::leave)
    }

    /// Key material for opening sessions on it, on any lane: also from a forked process, or after a change of user.
    pub fn material(&self) -> KeyMaterial {
        KeyMaterial::Made(self.token)
    }

    /// Its public part: a `SubjectPublicKeyInfo` in DER.
    pub fn public(&self) -> &[u8] {
        &self.public
    }
}
