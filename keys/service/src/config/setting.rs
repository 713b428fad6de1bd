//! Settings that `sidecore set` can change while the service runs.

use super::error::{KeysConfigError, SettingError};
use super::{Config, DeviceConfig, FOREIGN, LimitsConfig};
use serde::Deserialize;
use sidecore_core::policy::balance::Balance;
use sidecore_core::policy::notify::Notify;
use sidecore_core::policy::order::Order;
use sidecore_daemon::config::{ConfigError, ConfigErrorKind, read, unknown};
use sidecore_daemon::tenants::Subordinates;

/// One change.
#[derive(Clone, Debug, PartialEq)]
pub enum Setting {
    /// `notify=POLICY` or `notify.HOP=POLICY`: the number of the hop among the four, or all of them.
    Notify(Option<usize>, Notify),
    /// `balance=POLICY`.
    Balance(Balance),
    /// `order=POLICY`.
    Order(Order),
    /// `device={name="…",kind="…",…}`: one more device.
    AddDevice(DeviceConfig),
    /// `device.NAME=drain|active|remove|kill`.
    Device(String, DeviceAction),
    /// `limits.KEY=NUMBER`: one of [`LimitsConfig::LIVE`].
    Limit(&'static str, u64),
    /// `record=off`: the record ends and is written.
    EndRecord,
    /// `subordinates=USER:FIRST:COUNT,…`: the subordinate users from now on, as `sidecore reload` sends them.
    Subordinates(Subordinates),
}

/// An action on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceAction {
    /// No more requests; what it has is finished.
    Drain,
    /// Ends draining: it gets requests again.
    Activate,
    /// Drains, then removes it.
    Remove,
    /// It dies immediately, with its requests.
    Kill,
}

/// The keys of the hops, in the order of the counter file, and the other keys.
pub(crate) const HOPS: [&str; 4] = ["notify.service", "notify.to_device", "notify.from_device", "notify.client"];
const OTHERS: [&str; 8] =
    ["notify", "balance", "order", "device", "device.NAME", "limits.KEY", "record", "subordinates"];

impl Setting {
    /// Reads `key=value`.
    ///
    /// # Errors
    /// Names the error and the accepted values.
    pub fn parse(text: &str) -> Result<Self, SettingError> {
        Self::read(text).map_err(|why| SettingError { setting: text.to_owned(), why })
    }

    fn read(text: &str) -> Result<Self, ConfigError> {
        let (key, value) = text.split_once('=').ok_or(KeysConfigError::NoSetting)?;
        if let Some(hop) = HOPS.iter().position(|name| *name == key) {
            return Ok(Self::Notify(Some(hop), Parse::parse_text(value)?));
        }
        match key {
            "notify" => Ok(Self::Notify(None, Parse::parse_text(value)?)),
            "balance" => Ok(Self::Balance(Parse::parse_text(value)?)),
            "order" => Ok(Self::Order(Parse::parse_text(value)?)),
            "device" => parse_device(value),
            "record" if value == "off" => Ok(Self::EndRecord),
            "record" => Err(KeysConfigError::NoRecord.into()),
            "subordinates" => value.parse().map(Self::Subordinates).map_err(|why| ConfigErrorKind::Invalid(why).into()),
            _ => match key.split_once('.') {
                Some(("device", name)) => Ok(Self::Device(name.to_owned(), Parse::parse_text(value)?)),
                Some(("limits", name)) => parse_limit(name, value),
                _ => Err(unknown("setting", key, HOPS.into_iter().chain(OTHERS)).into()),
            },
        }
    }
}

impl Config {
    /// Key and value of each setting except devices, cores and files, as the file and `sidecore set` write them.
    pub fn settings(&self) -> Vec<(String, String)> {
        let hops = HOPS.into_iter().zip(self.notify.hops()).map(|(key, notify)| (key.to_owned(), notify.to_string()));
        let policies = [("balance", self.balance.name()), ("order", self.order.name())];
        let policies = policies.into_iter().map(|(key, name)| (key.to_owned(), name.to_owned()));
        let limits = self.limits.values().map(|(key, value)| (format!("limits.{key}"), value.to_string()));
        hops.chain(policies).chain(limits).collect()
    }
}

impl DeviceConfig {
    /// The argument of `sidecore set` that adds it.
    pub fn setting(&self) -> String {
        let device = toml::Value::try_from(self).map_or_else(|error| error.to_string(), |value| value.to_string());
        format!("device={device}")
    }
}

fn parse_limit(name: &str, value: &str) -> Result<Setting, ConfigError> {
    let Some(key) = LimitsConfig::LIVE.into_iter().find(|key| *key == name) else {
        if LimitsConfig::KEYS.contains(&name) {
            return Err(KeysConfigError::AtStart(name.to_owned()).into());
        }
        return Err(unknown("limit", name, LimitsConfig::LIVE.into_iter()).into());
    };
    let number = value.parse().map_err(|_| KeysConfigError::NoNumber)?;
    LimitsConfig::default().set(key, number)?;
    Ok(Setting::Limit(key, number))
}

fn parse_device(value: &str) -> Result<Setting, ConfigError> {
    #[derive(Deserialize)]
    struct One {
        device: DeviceConfig,
    }
    if !value.trim_start().starts_with('{') {
        return Err(KeysConfigError::NoNewDevice.into());
    }
    // The text has one line, so its number is noise.
    let one = read(&format!("device={value}"), &FOREIGN);
    let One { device } = one.map_err(|why| ConfigError { line: None, ..why })?;
    device.check()?;
    Ok(Setting::AddDevice(device))
}

pub(super) trait Parse: Sized {
    fn parse_text(text: &str) -> Result<Self, ConfigErrorKind>;
}

macro_rules! policies {
    ($($policy:ty)*) => {
        $(impl Parse for $policy {
            fn parse_text(text: &str) -> Result<Self, ConfigErrorKind> {
                Self::parse(text).map_err(|error| ConfigErrorKind::Invalid(error.to_string()))
            }
        })*
    };
}

policies! { Notify Balance Order }

impl Parse for DeviceAction {
    fn parse_text(text: &str) -> Result<Self, ConfigErrorKind> {
        match text {
            "drain" => Ok(Self::Drain),
            "active" => Ok(Self::Activate),
            "remove" => Ok(Self::Remove),
            "kill" => Ok(Self::Kill),
            _ => Err(unknown("action", text, ["drain", "active", "remove", "kill"].into_iter())),
        }
    }
}
