//! Services on other machines that have requests done here.

use super::error::KeysConfigError;
use serde::de::Error;
use serde::{Deserialize, Deserializer};
use sidecore_client::keys::{Usage, check_name, parse_rate};
use sidecore_daemon::config::{ConfigError, require};
use std::path::PathBuf;

/// Most services that have requests done here, and most that do some for this one.
pub const MAX_SERVICES: usize = 64;

/// A service, and what it may have done: its requests come sealed, through a key server.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServeToConfig {
    /// The file with its address, read at start.
    pub address: PathBuf,
    /// Names of keys. Renewals of a key have its rights.
    pub keys: Vec<String>,
    /// Operations.
    #[serde(default = "signatures", deserialize_with = "operations")]
    pub operations: Usage,
    /// Most operations a second, of all these keys together: `100/s`.
    #[serde(default, deserialize_with = "limit")]
    pub limit: Option<u32>,
}

impl ServeToConfig {
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        require(!self.keys.is_empty(), || KeysConfigError::ServeNothing)?;
        let names = self.keys.iter().try_for_each(|name| check_name(name));
        names.map_err(|why| KeysConfigError::ServeTo(why).into())
    }
}

fn signatures() -> Usage {
    Usage::SIGN
}

fn operations<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Usage, D::Error> {
    let words = Vec::<String>::deserialize(deserializer)?;
    let usage: Usage = words.join(",").parse().map_err(D::Error::custom)?;
    if usage.contains(Usage::SSH) {
        return Err(D::Error::custom("ssh is no operation: write sign, decrypt or derive"));
    }
    Ok(usage)
}

fn limit<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u32>, D::Error> {
    let text = String::deserialize(deserializer)?;
    parse_rate(&text).map(Some).map_err(D::Error::custom)
}
