//! A service's configuration: one TOML file, strict, with units in the names of its keys.
//!
//! Each service has one strict structure of its own for the whole file, so that a key which it does not use is refused and
//! not ignored. It reads the file by [`text_of`] and [`read`], and takes these sections into its structure. An error is
//! one line in an operator's words: file, line, key and remedy.

mod error;
mod read;

pub use error::{ConfigError, ConfigErrorKind, Hint, require, unknown, within};
pub use read::read;
use serde::{Deserialize, Deserializer};
use sidecore_ipc::named_file::NamedFile;
use std::io::Read;
use std::path::Path;

/// Largest file that is read, bytes.
const MAX_FILE: u64 = 1 << 20;
const MAX_SIDECORES: usize = 64;

/// The section `[sandbox]`.
///
/// Without a key, its restriction is applied if this machine supports it; otherwise a warning is logged. `true`
/// refuses to start without it; `false` omits it.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default, deny_unknown_fields)]
pub struct SandboxConfig {
    /// The user that the service becomes, with its group and no other; default: the user that started it.
    pub user: Option<String>,
    /// Only the system calls that the service needs.
    pub seccomp: Option<bool>,
    /// Access only to the service's own directories.
    pub landlock: Option<bool>,
    /// Memory is never written to swap.
    pub lock_memory: Option<bool>,
}

/// The cores of the sidecores.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Sidecores {
    /// One sidecore for each, tied to that core. Empty: one sidecore, tied to none.
    pub cpus: Vec<usize>,
    /// Nothing else runs on these cores, so their sidecores may spin. On other cores policies that spin park.
    pub owned: bool,
}

impl SandboxConfig {
    /// Checks the user: a service does not serve as root.
    ///
    /// # Errors
    /// Names the key and the remedy.
    pub fn check(&self) -> Result<(), ConfigError> {
        let is_root = matches!(self.user.as_deref(), Some("" | "root" | "0"));
        require(!is_root, || ConfigErrorKind::Privileged.at("sandbox.user"))
    }
}

impl Sidecores {
    /// Checks the number of cores, and that owned ones are named.
    ///
    /// # Errors
    /// Names the key and the remedy.
    pub fn check(&self) -> Result<(), ConfigError> {
        let Self { cpus, owned } = self;
        require(cpus.len() <= MAX_SIDECORES, || ConfigErrorKind::TooMany(MAX_SIDECORES).at("sidecores.cpus"))?;
        require(!owned || !cpus.is_empty(), || ConfigErrorKind::NothingOwned)
    }
}

/// Checks the path of a service's socket.
///
/// # Errors
/// It is empty.
pub fn check_socket(path: &Path) -> Result<(), ConfigError> {
    require(!path.as_os_str().is_empty(), || ConfigErrorKind::EmptyPath.at("socket"))
}

/// Reads a whole file, up to the limit: an endless device is refused.
///
/// # Errors
/// It cannot be read, is too large, or is no text.
pub fn text_of(path: &Path) -> Result<String, ConfigErrorKind> {
    let mut bytes = Vec::new();
    let read = NamedFile::open(path).and_then(|file| file.take(MAX_FILE + 1).read_to_end(&mut bytes));
    read.map_err(ConfigErrorKind::Unreadable)?;
    if bytes.len() as u64 > MAX_FILE {
        return Err(ConfigErrorKind::TooLarge);
    }
    String::from_utf8(bytes).map_err(|_| ConfigErrorKind::NoText)
}

/// Adds the file to an error.
pub fn in_file<E: Into<ConfigError>>(path: &Path) -> impl Fn(E) -> ConfigError {
    move |error| ConfigError { file: Some(path.to_owned()), ..error.into() }
}

/// Whether a text in TOML has this key outside of all sections, or this section.
pub fn names(text: &str, key: &str) -> bool {
    toml::from_str::<toml::Table>(text).is_ok_and(|keys| keys.contains_key(key))
}

/// Reads the mode of a file, octal digits in quotes.
///
/// # Errors
/// It is no such mode.
pub fn octal<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    let text = String::deserialize(deserializer)?;
    u32::from_str_radix(&text, 8)
        .ok()
        .filter(|mode| *mode <= 0o777)
        .ok_or_else(|| serde::de::Error::custom(format!("{text:?}: write an octal mode from \"000\" to \"777\"")))
}
