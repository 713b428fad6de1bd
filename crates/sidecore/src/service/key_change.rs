//! A change of a stored key, for the log.

use crate::keys::{Described, Store};
use crate::sys::peer::Credentials;

pub(super) struct Change {
    pub(super) event: &'static str,
    pub(super) who: Credentials,
    pub(super) name: String,
    pub(super) before: Option<Described>,
}

impl Change {
    pub(super) fn of_now(self, store: &Store) -> Self {
        Self { before: store.describe(&self.name), ..self }
    }
}
