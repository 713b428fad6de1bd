//! Errors in the service of keys' own part of a configuration, in a setting of a running service, and in a passphrase
//! file.

use sidecore_client::keys::NameError;
use sidecore_daemon::config::ConfigError;
use std::io;
use std::path::PathBuf;

/// Longest passphrase, bytes.
pub(super) const MAX_PASSPHRASE: usize = 4096;

/// An error in what a service of keys alone has.
#[derive(Debug, thiserror::Error)]
pub enum KeysConfigError {
    /// There is no device.
    #[error("device = []: without a device nothing can be done; leave the key out or add one")]
    NoDevice,
    /// The device of this name.
    #[error("device {0:?}: {1}")]
    Device(String, DeviceConfigError),
    /// A name that cannot be a device's.
    #[error("device name {0:?}: use 1 to 32 printable characters without . and =")]
    DeviceName(String),
    /// Two devices have this name.
    #[error("two devices are named {0:?}: give each its own name")]
    SameName(String),
    /// A passphrase without stored keys.
    #[error("a passphrase file without keys.directory: name the directory, or leave the file out")]
    PassphraseAlone,
    /// A number of changes without stored keys.
    #[error("keys.changes_file without keys.directory: name the directory as well")]
    ChangesAlone,
    /// The number of changes would be restored with an old copy of the keys.
    #[error(
        "keys.changes_file lies in keys.directory, and an old copy of that would bring it along: name a file elsewhere"
    )]
    ChangesInside,
    /// An entry without a key, or with a name that no key has.
    #[error("keys.serve_to: {0}")]
    ServeTo(NameError),
    /// An entry without a key.
    #[error("keys.serve_to: an entry names no key: write those that the other service may use, or leave it out")]
    ServeNothing,
    /// A setting is no key with a value.
    #[error("write key=value, e.g. notify=park or device.NAME=drain")]
    NoSetting,
    /// A record cannot begin while the service runs.
    #[error("record can only be set to off: to begin one, start the service with it")]
    NoRecord,
    /// A limit that a running service cannot change.
    #[error("limits.{0} takes effect at the next start: change it in the configuration and start the service again")]
    AtStart(String),
    /// No number.
    #[error("write a whole number from 0 on")]
    NoNumber,
    /// No device.
    #[error("write device={{name=\"NAME\",kind=\"worker\"}} for one more, or device.NAME=drain")]
    NoNewDevice,
}

impl From<KeysConfigError> for ConfigError {
    fn from(error: KeysConfigError) -> Self {
        Self::own(error)
    }
}

/// An error of one device in a configuration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeviceConfigError {
    /// A sidecore that does not exist.
    #[error("sidecore = {number}: use 0 to {last}, one for each of sidecores.cpus")]
    Sidecore {
        /// Its number.
        number: usize,
        /// The number of the last one.
        last: usize,
    },
    /// No core can be owned.
    #[error("owned = true without cpu: name the core that is its alone, e.g. cpu = 1")]
    NothingOwned,
    /// The farm's name, or its device.
    #[error(
        "farm names the farm of a remote device, and of no other: 1 to 32 letters, digits, - and _, e.g. kind = \
         \"remote\", farm = \"keys\""
    )]
    Farm,
    /// A user of no remote device.
    #[error("user names whose process is the gateway of a remote device: leave it out")]
    User,
    /// Modelled times outside their ranges.
    #[error("fixed_ns up to 1e9, per_byte_ns 0 to 1e6")]
    Times,
}

/// An argument of `sidecore set` that is no change.
#[derive(Debug, thiserror::Error)]
#[error("{setting}: {why}")]
pub struct SettingError {
    /// The argument.
    pub setting: String,
    /// The error and the accepted values.
    pub why: ConfigError,
}

/// A file without a usable passphrase.
#[derive(Debug, thiserror::Error)]
pub enum PassphraseError {
    /// It cannot be read.
    #[error("passphrase file {}: {error}; name a file with one line that this user may read", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// All users may use it.
    #[error("passphrase file {}: everybody may use it (mode {mode:o}): chmod 600", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// Its content is no passphrase.
    #[error("passphrase file {}: {why}", path.display())]
    Unfit {
        /// The file.
        path: PathBuf,
        /// The reason.
        why: UnfitPassphrase,
    },
}

/// A text that is no passphrase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnfitPassphrase {
    /// It is empty.
    #[error("the passphrase is empty: write one, in one line")]
    Empty,
    /// It is too long.
    #[error("a passphrase has at most {MAX_PASSPHRASE} bytes")]
    TooLong,
}
