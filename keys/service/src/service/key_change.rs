//! A change of a stored key, for the log.

use crate::keys::{Described, Store};
use sidecore_client::keys::transfer::Address;
use sidecore_daemon::sys::peer::Credentials;

pub(super) struct Change {
    pub(super) event: &'static str,
    pub(super) who: Credentials,
    pub(super) name: String,
    pub(super) before: Option<Described>,
    /// The other machine's service.
    pub(super) peer: Option<Address>,
}

impl Change {
    pub(super) fn of_now(self, store: &Store) -> Self {
        Self { before: store.describe(&self.name), ..self }
    }

    pub(super) fn with(self, peer: Address) -> Self {
        Self { peer: Some(peer), ..self }
    }
}
