//! `sidecore get`: settings in force in a running service, in the form of `sidecore set` and of its configuration.

use crate::args::Get;
use crate::error::{CliError, failed};
use crate::set::connect;
use sidecore::config::DeviceKind;
use sidecore::core::dispatch::DeviceState;
use sidecore_counters::{Snapshot, counters_beside};
use sidecore_terminal::output;
use std::fmt::Write;
use std::path::Path;

pub(crate) type InForce = (String, String);

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Device {
    pub(crate) name: String,
    /// In the form of `sidecore set`.
    pub(crate) state: &'static str,
    pub(crate) is_remote: bool,
}

pub(crate) fn run(args: &Get) -> Result<(), CliError> {
    let mut all = connect(&args.socket)?.settings()?;
    // The configuration may name another counter file.
    let devices = devices(&counters_beside(&args.socket)).unwrap_or_default();
    all.extend(devices.into_iter().map(|device| (format!("device.{}", device.name), device.state.to_owned())));
    let mut text = String::new();
    for (key, value) in chosen(&all, &args.keys)? {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{key}={value}");
    }
    Ok(output::print(&text)?)
}

pub(crate) fn devices(counters: &Path) -> Result<Vec<Device>, CliError> {
    let now = Snapshot::read(counters).map_err(failed(counters.display()))?;
    let mut devices: Vec<Device> = Vec::new();
    for device in &now.devices {
        let state = match device.state() {
            Some(DeviceState::Active) => "active",
            Some(DeviceState::Draining) => "drain",
            Some(DeviceState::Gone) | None => continue,
        };
        let is_remote = device.kind == DeviceKind::Remote.name();
        let device = Device { name: device.name.clone(), state, is_remote };
        // Each sidecore has its own device of this name.
        if !devices.contains(&device) {
            devices.push(device);
        }
    }
    Ok(devices)
}

fn chosen<'s>(all: &'s [InForce], keys: &[String]) -> Result<Vec<&'s InForce>, CliError> {
    if keys.is_empty() {
        return Ok(all.iter().collect());
    }
    let mut chosen = Vec::new();
    for key in keys {
        let is_meant =
            |name: &str| name.strip_prefix(key.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
        let before = chosen.len();
        chosen.extend(all.iter().filter(|(name, _)| is_meant(name)));
        if chosen.len() == before {
            let devices = ", and devices where the service's counters are beside its socket";
            let devices = if key.starts_with("device") { devices } else { "" };
            let why = format!("no setting {key:?} is in force: `sidecore get` alone prints all{devices}");
            return Err(CliError::Usage(why));
        }
    }
    Ok(chosen)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_chosen_by_key_and_by_section() {
        let settings =
            [("notify.service", "spin"), ("balance", "eft"), ("limits.lanes", "8"), ("limits.lanes_per_uid", "4")];
        let all = settings.map(|(key, value)| (key.to_owned(), value.to_owned()));
        let keys = |wanted: &[&str]| {
            let wanted: Vec<String> = wanted.iter().map(|key| (*key).to_owned()).collect();
            chosen(&all, &wanted).map(|found| found.iter().map(|(key, _)| key.clone()).collect::<Vec<_>>())
        };
        assert_eq!(keys(&[]).unwrap().len(), 4);
        assert_eq!(keys(&["limits", "balance"]).unwrap(), ["limits.lanes", "limits.lanes_per_uid", "balance"]);
        assert_eq!(keys(&["limits.lanes"]).unwrap(), ["limits.lanes"]);
        assert!(keys(&["balance", "limit"]).unwrap_err().to_string().contains("\"limit\""));
    }
}
