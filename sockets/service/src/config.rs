//! The configuration of a service of sockets: a file with a section `[sockets]`, which has the limits of each user.

use serde::{Deserialize, Deserializer, de};
use sidecore_core::policy::notify::Notify;
use sidecore_daemon::config::{
    ConfigError, SandboxConfig, Sidecores, check_socket, in_file, octal, read, require, text_of, within,
};
use sidecore_daemon::sandbox::Directories;
use sidecore_daemon::tenants::{SUBUID, Subordinates, SubordinatesError};
use sidecore_sockets::protocol::{DEFAULT_SOCKET, MAX_NAME};
use sidecore_streams::layout::{MAX_RING, MIN_RING};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

const MAX_WEIGHT: u32 = 100;

/// Of the service of keys: an ignored key would mislead its author.
const TWO_FILES: &str = "and [sockets] in one file: sockets have a service of their own, without keys and devices; write \
                         two files and start a service with each";
const IDLE: &str = "and [sockets] in one file: it has no effect on sockets; leave it out. Beside [sockets] these apply: socket, \
                    socket_mode, [sidecores], notify.service, [sandbox]";
const FOREIGN: [(&str, &str); 14] = [
    ("notify.to_device", IDLE),
    ("notify.from_device", IDLE),
    ("notify.client", IDLE),
    ("keys", TWO_FILES),
    ("device", TWO_FILES),
    ("client", TWO_FILES),
    ("limits", IDLE),
    ("balance", IDLE),
    ("order", IDLE),
    ("counters", IDLE),
    ("sample_every", IDLE),
    ("record", IDLE),
    ("record_mib", IDLE),
    ("subordinates", IDLE),
];

/// The whole file. Every key has a default.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Path of the Unix socket.
    pub socket: PathBuf,
    /// Octal file mode of the socket: it decides which users may connect.
    #[serde(deserialize_with = "octal")]
    pub socket_mode: u32,
    /// The cores of users' threads.
    pub sidecores: Sidecores,
    /// How these threads wait.
    pub notify: NotifyConfig,
    /// Restrictions that the service puts on itself.
    pub sandbox: SandboxConfig,
    /// Rings, and the limits of each user.
    pub sockets: SocketsConfig,
    /// Subordinate users, once read: refusals are counted for a user with these together.
    #[serde(skip)]
    pub subordinates: Subordinates,
}

/// How the one hop waits that sockets have.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NotifyConfig {
    /// Program to service: how a user's thread waits for messages.
    #[serde(deserialize_with = "policy")]
    pub service: Notify,
}

/// The section `[sockets]`.
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

impl Default for Config {
    fn default() -> Self {
        Self {
            socket: DEFAULT_SOCKET.into(),
            socket_mode: 0o660,
            sidecores: Sidecores::default(),
            notify: NotifyConfig::default(),
            sandbox: SandboxConfig::default(),
            sockets: SocketsConfig::default(),
            subordinates: Subordinates::default(),
        }
    }
}

impl Default for NotifyConfig {
    fn default() -> Self {
        Self { service: Notify::BreakEven }
    }
}

/// An error in the section `[sockets]`.
#[derive(Debug, thiserror::Error)]
enum SocketsConfigError {
    #[error("sockets.ring_kib = {0}: use a power of two, e.g. 32")]
    NoPowerOfTwo(u32),
    #[error(
        "sockets.weights: no program is named {0:?}: use names of 1 to {MAX_NAME} bytes, as `sidecore sockets` shows them"
    )]
    NoProgram(String),
}

impl From<SocketsConfigError> for ConfigError {
    fn from(error: SocketsConfigError) -> Self {
        Self::own(error)
    }
}

impl Config {
    /// Reads and checks a file.
    ///
    /// # Errors
    /// Names the file, the line, and the remedy.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let text = text_of(path).map_err(in_file(path))?;
        Self::parse(&text).map_err(in_file(path))
    }

    /// Reads and checks the text of a file.
    ///
    /// # Errors
    /// Names the line and the remedy.
    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        let config: Self = read(text, &FOREIGN)?;
        config.check()?;
        Ok(config)
    }

    /// Checks numbers against each other and against their limits.
    ///
    /// # Errors
    /// Names the key and the remedy.
    pub fn check(&self) -> Result<(), ConfigError> {
        check_socket(&self.socket)?;
        self.sandbox.check()?;
        self.sidecores.check()?;
        self.sockets.check()
    }

    /// Reads the system's file of subordinate users, which the sandbox hides. Returns what in it has no effect, for
    /// warnings.
    ///
    /// # Errors
    /// The file exists and cannot be read.
    pub fn read_subordinates(&mut self) -> Result<Vec<String>, SubordinatesError> {
        let (users, wrong) = Subordinates::read(Path::new(SUBUID))?;
        self.subordinates = users;
        Ok(wrong)
    }

    /// The directories that the service works in.
    pub fn directories(&self) -> Directories {
        Directories::of_socket(&self.socket)
    }
}

impl SocketsConfig {
    pub(crate) fn ring_bytes(&self) -> u32 {
        self.ring_kib << 10
    }

    pub(crate) fn weight_of(&self, name: &str) -> u32 {
        self.weights.get(name).copied().unwrap_or(1)
    }

    fn check(&self) -> Result<(), ConfigError> {
        within("sockets.ring_kib", self.ring_kib, MIN_RING >> 10, MAX_RING >> 10)?;
        require(self.ring_kib.is_power_of_two(), || SocketsConfigError::NoPowerOfTwo(self.ring_kib))?;
        within("sockets.max_sockets", self.max_sockets, 1, 1 << 20)?;
        within("sockets.max_mib", self.max_mib, 1, 1 << 20)?;
        within("sockets.max_programs", self.max_programs, 1, 16_384)?;
        within("sockets.max_users", self.max_users, 1, 4096)?;
        self.weights.iter().try_for_each(|(name, weight)| {
            require((1..=MAX_NAME).contains(&name.len()), || SocketsConfigError::NoProgram(name.clone()))?;
            within(&format!("sockets.weights.{name:?}"), *weight, 1, MAX_WEIGHT)
        })
    }
}

fn policy<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Notify, D::Error> {
    Notify::parse(&String::deserialize(deserializer)?).map_err(de::Error::custom)
}

#[cfg(test)]
mod tests;
