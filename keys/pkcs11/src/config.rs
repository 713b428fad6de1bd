//! Settings: of the file, then of the program that initialises the module, then of the environment.

use sidecore_client::client::Options;
use sidecore_client::keyops::digest::Digest;
use sidecore_client::keyops::hasher::Hasher;
use sidecore_client::keyops::key::{Family, Raw};
use sidecore_core::policy::ParseError;
use sidecore_core::policy::notify::Notify;
use sidecore_ipc::environment::{SERVICE_USER_VARIABLE, SOCKET_VARIABLE, named_users};
use std::fmt::Write;
use std::time::Duration;

/// The file of settings. A machine may have none.
pub(crate) const FILE: &str = "/etc/sidecore/pkcs11.conf";
/// Longest file, and longest text of a program, bytes.
pub(crate) const MAX_TEXT: usize = 64 << 10;
/// Room for the token's label, bytes.
pub(crate) const LABEL_LEN: usize = 32;

/// Where the reasons of failures are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Log {
    Syslog,
    Stderr,
    None,
}

/// Settings of the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Setup {
    pub(crate) options: Options,
    /// Label of the token.
    pub(crate) token: String,
    /// Names of the keys to show; empty: all.
    pub(crate) keys: Vec<String>,
    pub(crate) families: Families,
    /// Ed25519's curve is written as a printable name.
    pub(crate) printable_curve: bool,
    pub(crate) log: Log,
    /// Serial number of the token: hexadecimal digits of a digest of the socket's path.
    pub(crate) serial: String,
}

/// Types of keys to show: a set of bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Families(u8);

impl Families {
    const RSA: u8 = 1;
    const EC: u8 = 2;
    const EDWARDS: u8 = 4;
    const PQ: u8 = 8;

    pub(crate) fn have(self, family: Family) -> bool {
        let bit = match family {
            Family::Rsa => Self::RSA,
            Family::Ec => Self::EC,
            Family::Raw(Raw::Ed25519) => Self::EDWARDS,
            Family::Raw(Raw::MlDsa65) => Self::PQ,
            Family::Raw(_) => 0,
        };
        self.0 & bit != 0
    }

    fn read(text: &str) -> Option<Self> {
        let relative = |word: &str| word.starts_with(['+', '-']);
        let begin = if text.split(',').all(relative) { Self::default() } else { Self(0) };
        text.split(',').try_fold(begin, |Self(bits), word| {
            let bit = match word.trim_start_matches(['+', '-']) {
                "rsa" => Self::RSA,
                "ec" => Self::EC,
                "edwards" => Self::EDWARDS,
                "pq" => Self::PQ,
                _ => return None,
            };
            Some(Self(if word.starts_with('-') { bits & !bit } else { bits | bit }))
        })
    }
}

/// RSA and EC. One Ed25519 key more, and libp11's engine for OpenSSL finds no key at all, and Java's `KeyManagerFactory`
/// throws; other programs stop at types of post-quantum algorithms.
impl Default for Families {
    fn default() -> Self {
        Self(Self::RSA | Self::EC)
    }
}

/// A setting that cannot be read.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ConfigError {
    #[error("{0:?} is no setting: write KEY=VALUE")]
    NoSetting(String),
    #[error(
        "there is no setting {0:?}: use socket, service_user, notify, timeout_ms, restart_wait_ms, token, keys, families, \
         edwards or log"
    )]
    Unknown(String),
    #[error("{key} = {value}: {expected}")]
    Value { key: &'static str, value: String, expected: &'static str },
    #[error("notify = {0}: {1}")]
    Notify(String, ParseError),
    #[error("the settings are longer than {MAX_TEXT} bytes, or no text")]
    NoText,
}

impl Setup {
    /// `file`: lines, with comments from `#`. `reserved`: settings between blanks or semicolons. `variable`: the
    /// environment, as far as it is trusted.
    pub(crate) fn read(
        file: &str,
        reserved: &str,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, ConfigError> {
        let mut setup = Self {
            options: Options::default(),
            token: "sidecore".to_owned(),
            keys: Vec::new(),
            families: Families::default(),
            printable_curve: false,
            log: Log::Syslog,
            serial: String::new(),
        };
        let lines = file.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
        let words = reserved.split(|c: char| c.is_whitespace() || c == ';');
        for setting in lines.chain(words).filter(|setting| !setting.is_empty()) {
            let (key, value) = setting.split_once('=').ok_or_else(|| ConfigError::NoSetting(setting.to_owned()))?;
            setup.set(key.trim(), value.trim().trim_matches('"'))?;
        }
        if let Some(socket) = variable(SOCKET_VARIABLE).filter(|path| !path.is_empty()) {
            setup.options.socket = socket.into();
        }
        if let Some(users) = variable(SERVICE_USER_VARIABLE) {
            setup.options.service_users = named_users(&users);
        }
        let mut hasher = Hasher::new(Digest::Sha256);
        hasher.update(setup.options.socket.as_os_str().as_encoded_bytes());
        setup.serial = hex(&hasher.finish()[..8]);
        Ok(setup)
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), ConfigError> {
        let wrong = |key, expected| ConfigError::Value { key, value: value.to_owned(), expected };
        match key {
            "socket" => self.options.socket = value.into(),
            "service_user" => self.options.service_users = named_users(value),
            "notify" => {
                let policy = Notify::parse(value).map_err(|error| ConfigError::Notify(value.to_owned(), error))?;
                self.options.notify = Some(policy);
            }
            "timeout_ms" => {
                let time = milliseconds(value, 1);
                self.options.timeout = time.ok_or_else(|| wrong("timeout_ms", "give milliseconds from 1 to 600000"))?;
            }
            "restart_wait_ms" => {
                let time = milliseconds(value, 0);
                let time = time.ok_or_else(|| wrong("restart_wait_ms", "give milliseconds from 0 to 600000"))?;
                self.options.restart_wait = time;
            }
            "token" if (1..=LABEL_LEN).contains(&value.len()) => value.clone_into(&mut self.token),
            "token" => return Err(wrong("token", "give a label of 1 to 32 bytes")),
            "keys" => self.keys = named_users(value),
            "families" => {
                let families = Families::read(value);
                let expected = "write rsa, ec, edwards or pq with commas between them, or each with + or -";
                self.families = families.ok_or_else(|| wrong("families", expected))?;
            }
            "edwards" => {
                self.printable_curve = match value {
                    "oid" => false,
                    "printable" => true,
                    _ => return Err(wrong("edwards", "write oid or printable")),
                }
            }
            "log" => {
                self.log = match value {
                    "syslog" => Log::Syslog,
                    "stderr" => Log::Stderr,
                    "none" => Log::None,
                    _ => return Err(wrong("log", "write syslog, stderr or none")),
                }
            }
            other => return Err(ConfigError::Unknown(other.to_owned())),
        }
        Ok(())
    }

    /// Whether the program sees the key of this name and family. A user's own key, whose name and certificate that user
    /// chose, is shown to root's programs only if it is named.
    pub(crate) fn shows(&self, name: &str, family: Family, is_anothers: bool) -> bool {
        let is_named = self.keys.iter().any(|shown| shown == name);
        self.families.have(family) && (is_named || self.keys.is_empty() && !is_anothers)
    }
}

fn milliseconds(text: &str, least: u64) -> Option<Duration> {
    let given = text.parse().ok().filter(|given| (least..=600_000).contains(given));
    given.map(Duration::from_millis)
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(file: &str, reserved: &str) -> Result<Setup, ConfigError> {
        Setup::read(file, reserved, |_| None)
    }

    #[test]
    fn the_program_stands_above_the_file_and_the_environment_above_both() {
        let file = "# of the machine\nsocket = /run/one  # here\ntimeout_ms = 250\n\nkeys = www, api\n";
        let setup = read(file, "socket=/run/two;log=stderr families=+pq").unwrap();
        assert_eq!((setup.options.socket.to_str(), setup.log), (Some("/run/two"), Log::Stderr));
        assert_eq!(setup.options.timeout, Duration::from_millis(250));
        assert!(setup.shows("www", Family::Raw(Raw::MlDsa65), false) && !setup.shows("other", Family::Rsa, false));
        let variable = |name: &str| (name == SOCKET_VARIABLE).then(|| "/run/three".to_owned());
        let third = Setup::read(file, "socket=/run/two", variable).unwrap();
        assert_eq!(third.options.socket.to_str(), Some("/run/three"));
        assert!(third.serial.len() == 16 && third.serial != setup.serial);
    }

    #[test]
    fn a_key_of_another_user_is_shown_by_its_name_alone() {
        let (all, named) = (read("", "").unwrap(), read("", "keys=theirs").unwrap());
        assert!(all.shows("theirs", Family::Rsa, false) && !all.shows("theirs", Family::Rsa, true));
        assert!(named.shows("theirs", Family::Rsa, true) && !named.shows("others", Family::Rsa, true));
    }

    #[test]
    fn families_are_named_or_changed() {
        assert_eq!(Families::read("rsa"), Some(Families(Families::RSA)));
        let changed = Families(Families::RSA | Families::EC | Families::PQ);
        assert_eq!(Families::read("+edwards,-edwards,+pq"), Some(changed));
        assert!(Families::read("").is_none() && Families::read("rsa,x").is_none());
    }

    #[test]
    fn a_setting_that_cannot_be_read_is_named() {
        for (text, says) in [
            ("socket", "write KEY=VALUE"),
            ("color=red", "no setting \"color\""),
            ("timeout_ms=0", "from 1 to 600000"),
            ("log=file", "syslog, stderr or none"),
            ("families=dsa", "rsa, ec, edwards or pq"),
            ("notify=shout", "notify = shout"),
            ("edwards=der", "oid or printable"),
            ("token=", "1 to 32 bytes"),
        ] {
            let said = read("", text).unwrap_err().to_string();
            assert!(said.contains(says), "{said}");
        }
    }
}
