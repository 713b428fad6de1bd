//! Errors in a configuration, in a setting of a running service, and in a passphrase file.

use sidecore_client::keys::NameError;
use std::fmt;
use std::io;
use std::path::PathBuf;

/// Longest passphrase, bytes.
pub(super) const MAX_PASSPHRASE: usize = 4096;

/// An error in a configuration. Its text is one line: file, line, key and remedy.
#[derive(Debug)]
pub struct ConfigError {
    /// The file, if there is one.
    pub file: Option<PathBuf>,
    /// Number of the line, from 1, if one line is wrong.
    pub line: Option<usize>,
    /// The key, with its sections, if one key is wrong and known.
    pub key: Option<String>,
    /// The error and its remedy.
    pub kind: Box<ConfigErrorKind>,
}

/// The error at a key of a configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigErrorKind {
    /// The file cannot be read.
    #[error("{0}; name a TOML file, as examples/sidecore.toml is")]
    Unreadable(io::Error),
    /// The file is too large.
    #[error("it has more than 1 MiB, as no configuration has; name a TOML file")]
    TooLarge,
    /// The file is no text.
    #[error("it is no text in UTF-8; name a TOML file")]
    NoText,
    /// A key stands there a second time.
    #[error("{0} stands here a second time: leave one out")]
    Twice(String),
    /// A name that does not exist.
    #[error("unknown {what} {name:?}{hint}")]
    Unknown {
        /// Kind of the name.
        what: &'static str,
        /// The name.
        name: String,
        /// Known names.
        hint: Hint,
    },
    /// A key that earlier versions had.
    #[error("{0} is gone: {1}; leave it out")]
    Removed(String, &'static str),
    /// A key that must be there is missing.
    #[error("{0} is missing: write {0} = …")]
    Missing(String),
    /// A value of another type.
    #[error("write {expected}, not {found}")]
    Mismatch {
        /// The expected type, in words.
        expected: String,
        /// The value that stands there.
        found: String,
    },
    /// No TOML, or a value that its own parser refuses: the parser's text.
    #[error("{0}")]
    Invalid(String),
    /// A number outside its range.
    #[error("use {least} to {most}")]
    OutOfRange {
        /// The number.
        value: u64,
        /// Least permitted number.
        least: u64,
        /// Most permitted number.
        most: u64,
    },
    /// A path is empty.
    #[error("the path is empty: name one, or leave the key out")]
    EmptyPath,
    /// The service would serve as root.
    #[error("name an unprivileged user, or leave it out to stay who starts the service")]
    Privileged,
    /// A list is too long.
    #[error("at most {0}")]
    TooMany(usize),
    /// There is no device.
    #[error("device = []: without a device nothing can be done; leave the key out or add one")]
    NoDevice,
    /// No core can be owned.
    #[error("sidecores.owned = true without sidecores.cpus: name the cores that are theirs alone, e.g. cpus = [1]")]
    NothingOwned,
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
    /// The section of a service of another crate.
    #[error("{0}")]
    Section(String),
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

/// Known names, for an unknown one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hint {
    /// The most similar one.
    Nearest(String),
    /// All of them.
    All(Vec<String>),
    /// Too many to list.
    Documented,
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

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use ConfigErrorKind::{NoText, OutOfRange, TooLarge, Unreadable};
        if let Some(file) = &self.file {
            let unread = matches!(*self.kind, Unreadable(_) | TooLarge | NoText);
            write!(f, "{}{}: ", if unread { "cannot read " } else { "" }, file.display())?;
        }
        if let Some(line) = self.line {
            write!(f, "line {line}: ")?;
        }
        match (&self.key, &*self.kind) {
            (Some(key), OutOfRange { value, .. }) => write!(f, "{key} = {value}: ")?,
            (Some(key), _) => write!(f, "{key}: ")?,
            (None, _) => {}
        }
        self.kind.fmt(f)
    }
}

impl std::error::Error for ConfigError {}

impl From<ConfigErrorKind> for ConfigError {
    fn from(kind: ConfigErrorKind) -> Self {
        Self { file: None, line: None, key: None, kind: Box::new(kind) }
    }
}

impl ConfigErrorKind {
    pub(super) fn at(self, key: impl Into<String>) -> ConfigError {
        ConfigError { key: Some(key.into()), ..self.into() }
    }
}

impl fmt::Display for Hint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nearest(name) => write!(f, "; did you mean {name:?}?"),
            Self::All(names) => write!(f, "; there are {}", names.join(", ")),
            Self::Documented => f.write_str("; see docs/configuration.md for what there is"),
        }
    }
}

/// Least similarity, 0 to 1, of a suggested name, and most names that are listed without one.
const ALIKE: f64 = 0.7;
const FEW: usize = 20;

pub(super) fn unknown<'a>(what: &'static str, name: &str, known: impl Iterator<Item = &'a str>) -> ConfigErrorKind {
    let known: Vec<&str> = known.collect();
    let alike = |known: &str| strsim::jaro_winkler(known, name);
    let nearest = known.iter().max_by(|a, b| alike(a).total_cmp(&alike(b)));
    let hint = match nearest {
        Some(nearest) if alike(nearest) >= ALIKE => Hint::Nearest((*nearest).to_owned()),
        _ if known.len() <= FEW => Hint::All(known.into_iter().map(str::to_owned).collect()),
        _ => Hint::Documented,
    };
    ConfigErrorKind::Unknown { what, name: name.to_owned(), hint }
}

pub(super) fn within<N: Into<u64>>(key: &str, value: N, least: N, most: N) -> Result<(), ConfigError> {
    let (value, least, most): (u64, u64, u64) = (value.into(), least.into(), most.into());
    require((least..=most).contains(&value), || ConfigErrorKind::OutOfRange { value, least, most }.at(key))
}

pub(super) fn require<E: Into<ConfigError>>(is_fine: bool, error: impl FnOnce() -> E) -> Result<(), ConfigError> {
    if is_fine { Ok(()) } else { Err(error().into()) }
}
