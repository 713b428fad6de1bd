//! Users who may have keys made for themselves.

use serde::Deserialize;
use sidecore_daemon::config::{ConfigError, within};

/// Most keys of one creator that a configuration can permit: as many as a service has.
const MAX_KEYS: u16 = 4096;

/// Users who may have keys made, each for itself.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CreatorsConfig {
    /// Members of these groups. None: nobody.
    pub gids: Vec<u32>,
    /// Most stored keys of one user.
    pub per_user: u16,
}

impl Default for CreatorsConfig {
    fn default() -> Self {
        Self { gids: Vec::new(), per_user: 16 }
    }
}

impl CreatorsConfig {
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        within("keys.creators.per_user", self.per_user, 1, MAX_KEYS)?;
        // The kernel's -1 stands for no group.
        self.gids.iter().try_for_each(|gid| within("keys.creators.gids", *gid, 0, u32::MAX - 1))
    }
}
