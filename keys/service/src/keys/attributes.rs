//! What is stored with a key besides its parts.

use super::lineage::Lineage;
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
    /// Of a key that other services have or may get. In files and sealed keys it stands beside the others. `None`: no
    /// change of it was recorded.
    #[serde(skip)]
    pub(crate) lineage: Option<Lineage>,
    /// The name that programs on this machine know it by; empty: none. It stands beside the others in files, too.
    #[serde(skip)]
    pub(crate) id: Vec<u8>,
}

impl Attributes {
    /// As a service sends them: independent of their way here.
    pub(super) fn as_sent(&self) -> Self {
        Self { lineage: None, id: Vec::new(), ..self.clone() }
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
