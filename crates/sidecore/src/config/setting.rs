//! What `sidecore set` can change while the service runs.

use super::DeviceConfig;
use super::wrong::{self, unknown};
use serde::Deserialize;
use sidecore_core::policy::balance::Balance;
use sidecore_core::policy::notify::Notify;
use sidecore_core::policy::order::Order;

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
    /// `device.NAME=drain|remove|kill`.
    Device(String, DeviceAction),
    /// `record=off`: the record ends and is written.
    EndRecord,
}

/// What may be done with a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceAction {
    /// No more requests; what it has is finished.
    Drain,
    /// Drain, then take it away.
    Remove,
    /// It dies at once, with what it has.
    Kill,
}

/// The keys of the hops, in the order of the counter file, and the other keys.
pub(crate) const HOPS: [&str; 4] = ["notify.service", "notify.to_device", "notify.from_device", "notify.client"];
const OTHERS: [&str; 6] = ["notify", "balance", "order", "device", "device.NAME", "record"];

impl Setting {
    /// Reads `key=value`.
    ///
    /// # Errors
    /// What is wrong and what can be written.
    pub fn parse(text: &str) -> Result<Self, String> {
        let Some((key, value)) = text.split_once('=') else {
            return Err(format!("{text:?}: write key=value, e.g. notify=park or device.NAME=drain"));
        };
        if let Some(hop) = HOPS.iter().position(|name| *name == key) {
            return Ok(Self::Notify(Some(hop), Parse::parse_text(value)?));
        }
        match key {
            "notify" => Ok(Self::Notify(None, Parse::parse_text(value)?)),
            "balance" => Ok(Self::Balance(Parse::parse_text(value)?)),
            "order" => Ok(Self::Order(Parse::parse_text(value)?)),
            "device" => parse_device(value),
            "record" if value == "off" => Ok(Self::EndRecord),
            "record" => Err("record can only be set to off: to begin one, start the service with it".to_owned()),
            _ => match key.strip_prefix("device.") {
                Some(name) => Ok(Self::Device(name.to_owned(), Parse::parse_text(value)?)),
                None => Err(unknown("setting", key, HOPS.into_iter().chain(OTHERS))),
            },
        }
    }
}

fn parse_device(value: &str) -> Result<Setting, String> {
    #[derive(Deserialize)]
    struct One {
        device: DeviceConfig,
    }
    let text = format!("device={value}");
    let One { device } = wrong::read(&text)?;
    device.check()?;
    Ok(Setting::AddDevice(device))
}

/// Values that are written as text in the file and on the command line.
pub(super) trait Parse: Sized {
    fn parse_text(text: &str) -> Result<Self, String>;
}

macro_rules! policies {
    ($($policy:ty)*) => {
        $(impl Parse for $policy {
            fn parse_text(text: &str) -> Result<Self, String> {
                Self::parse(text).map_err(|error| error.to_string())
            }
        })*
    };
}

policies! { Notify Balance Order }

impl Parse for DeviceAction {
    fn parse_text(text: &str) -> Result<Self, String> {
        match text {
            "drain" => Ok(Self::Drain),
            "remove" => Ok(Self::Remove),
            "kill" => Ok(Self::Kill),
            _ => Err(unknown("action", text, ["drain", "remove", "kill"].into_iter())),
        }
    }
}
