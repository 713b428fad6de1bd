//! The section `[sockets]`, which makes a service one of sockets, with the limits of each user.

use serde::Deserialize;
use sidecore::config::{Config, ConfigError, ConfigErrorKind, DeviceConfig, KeysConfig, Section};
use sidecore_core::streams::layout::{MAX_RING, MIN_RING};
use sidecore_sockets::protocol::{DEFAULT_SOCKET, MAX_NAME};
use std::collections::BTreeMap;
use toml::{Table, Value};

/// Keys that a service of sockets uses. It has one hop of `notify` only.
const APPLY: [&str; 6] = ["socket", "socket_mode", "sidecores", "notify", "sandbox", "sockets"];
const NOTIFY: &str = "service";
const MAX_WEIGHT: u32 = 100;

/// The section `[sockets]`. A file has either this or keys and devices.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SocketsConfig {
    /// KiB of each ring, a power of two.
    pub ring_kib: u32,
    /// Most connections of one user in rings.
    pub max_sockets: u32,
    /// Most MiB of shared memory of one user's rings.
    pub max_mib: u32,
    /// Most programs of one user, including mere askers for rows.
    pub max_programs: u32,
    /// Most users at a time.
    pub max_users: u32,
    /// Weights of programs among those of one user, by the name that each states; the default is 1.
    pub weights: BTreeMap<String, u32>,
}

impl Default for SocketsConfig {
    fn default() -> Self {
        Self {
            ring_kib: 32,
            max_sockets: 4096,
            max_mib: 512,
            max_programs: 256,
            max_users: 64,
            weights: BTreeMap::new(),
        }
    }
}

impl SocketsConfig {
    pub(crate) fn ring_bytes(&self) -> u32 {
        self.ring_kib << 10
    }

    pub(crate) fn weight_of(&self, name: &str) -> u32 {
        self.weights.get(name).copied().unwrap_or(1)
    }

    /// Checks the numbers, and that the rest of the configuration sets nothing for a service of keys.
    pub(crate) fn check_beside(&self, beside: &Config) -> Result<(), ConfigErrorKind> {
        within("sockets.ring_kib", self.ring_kib, MIN_RING >> 10, MAX_RING >> 10)?;
        require(self.ring_kib.is_power_of_two(), || {
            format!("sockets.ring_kib = {}: use a power of two, e.g. 32", self.ring_kib)
        })?;
        within("sockets.max_sockets", self.max_sockets, 1, 1 << 20)?;
        within("sockets.max_mib", self.max_mib, 1, 1 << 20)?;
        within("sockets.max_programs", self.max_programs, 1, 16_384)?;
        within("sockets.max_users", self.max_users, 1, 4096)?;
        for (name, weight) in &self.weights {
            require((1..=MAX_NAME).contains(&name.len()), || {
                format!(
                    "sockets.weights: no program is named {name:?}: use names of 1 to {MAX_NAME} bytes, as `sidecore sockets` shows them"
                )
            })?;
            within(&format!("sockets.weights.{name:?}"), *weight, 1, MAX_WEIGHT)?;
        }
        let others = [
            ("[keys]", beside.keys != KeysConfig::default()),
            ("[[device]]", beside.devices != [DeviceConfig::inline("inline")]),
            ("[[client]]", !beside.clients.is_empty()),
        ];
        match others.into_iter().find(|(_, stands)| *stands) {
            Some((section, _)) => Err(ConfigErrorKind::Section(format!(
                "[sockets] and {section} in one file: sockets have a service of their own, without keys and devices; \
                 write two files and start a service with each"
            ))),
            None => Ok(()),
        }
    }
}

impl Section for SocketsConfig {
    const NAME: &'static str = "sockets";
    const SOCKET: &'static str = DEFAULT_SOCKET;

    fn check(&self, beside: &Config, written: &Table) -> Result<(), ConfigError> {
        self.check_beside(beside)?;
        Ok(check_keys(written)?)
    }
}

/// Finds a key in the file that a service of sockets does not use: an ignored key would mislead its author.
fn check_keys(keys: &Table) -> Result<(), ConfigErrorKind> {
    let notify = keys.get("notify").and_then(Value::as_table);
    let idle_hop = notify.and_then(|hops| hops.keys().find(|hop| *hop != NOTIFY)).map(|hop| format!("notify.{hop}"));
    let idle_key = keys.iter().find(|(key, _)| !APPLY.contains(&key.as_str())).map(|(key, value)| match value {
        Value::Table(_) => format!("[{key}]"),
        Value::Array(_) => format!("[[{key}]]"),
        _ => key.clone(),
    });
    idle_key.or(idle_hop).map_or(Ok(()), |idle| {
        Err(ConfigErrorKind::Section(format!(
            "[sockets] and {idle} in one file: it has no effect on sockets; leave it out. Beside [sockets] these apply: \
             socket, socket_mode, [sidecores], notify.{NOTIFY}, [sandbox]"
        )))
    })
}

fn within(key: &str, value: u32, least: u32, most: u32) -> Result<(), ConfigErrorKind> {
    require((least..=most).contains(&value), || format!("{key} = {value}: use {least} to {most}"))
}

fn require(is_fine: bool, remedy: impl FnOnce() -> String) -> Result<(), ConfigErrorKind> {
    if is_fine { Ok(()) } else { Err(ConfigErrorKind::Section(remedy())) }
}

#[cfg(test)]
mod tests;
