//! What is stored with a key besides its parts.

use crate::sys::clock;
use serde::{Deserialize, Serialize};
use sidecore_client::keys::{Acl, Usage};

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Attributes {
    pub(crate) acl: Acl,
    pub(crate) usage: Usage,
    /// Most private operations a second.
    pub(crate) rate: Option<u32>,
    /// The user who had it made under `keys.creators`.
    pub(crate) owner: Option<u32>,
    /// DER: that of the key, each followed by that of its issuer.
    pub(crate) certificates: Vec<Vec<u8>>,
    /// Of a key that another service sent: time of its seal, or of a later change here, ms since 1970. In files it stands
    /// beside the others, and it is not sent on.
    #[serde(skip)]
    pub(crate) received: Option<u64>,
}

impl Attributes {
    /// As a service sends them: independent of their way here.
    pub(super) fn as_sent(&self) -> Self {
        Self { received: None, ..self.clone() }
    }

    /// Before a change here: no key that was sealed earlier may undo it.
    pub(super) fn changed_here(self) -> Self {
        let received = self.received.map(|before| clock::wall_ms().max(before.saturating_add(1)));
        Self { received, ..self }
    }

    /// Whether it holds no more than a list of users.
    pub(super) fn is_plain(&self) -> bool {
        let Self { acl, .. } = self;
        *self == Self::from(acl.clone())
    }
}

impl From<Acl> for Attributes {
    fn from(acl: Acl) -> Self {
        Self { acl, ..Self::default() }
    }
}
