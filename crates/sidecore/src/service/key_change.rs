//! A change of a stored key, for the log.

use crate::keys::{Described, Store};
use crate::sys::peer::Credentials;

/// A pending change of a key: its author, and the key before the change.
pub(super) struct Change {
    pub(super) event: &'static str,
    pub(super) who: Credentials,
    pub(super) name: String,
    pub(super) before: Option<Described>,
}

impl Change {
    /// The same change, with the key's present state.
    pub(super) fn of_now(self, store: &Store) -> Self {
        Self { before: store.describe(&self.name), ..self }
    }
}
