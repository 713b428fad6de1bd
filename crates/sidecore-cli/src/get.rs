//! `sidecore get`: what is in force in a running service, in the words of `sidecore set` and of its configuration.

use crate::args::Get;
use crate::output;
use crate::set::connect;
use sidecore::client::Admin;
use sidecore::config::counters_beside;
use sidecore::core::dispatch::DeviceState;
use sidecore::counters::Snapshot;
use std::fmt::Write;
use std::path::Path;

/// Key and value of a setting.
pub(crate) type Setting = (String, String);

/// Prints `key=value`, one setting a line.
pub(crate) fn run(args: &Get) -> Result<(), String> {
    let all = in_force(&mut connect(&args.socket)?, &args.socket)?;
    let mut text = String::new();
    for (key, value) in chosen(&all, &args.keys)? {
        // A string takes all that is written to it.
        let _ = writeln!(text, "{key}={value}");
    }
    output::print(&text)
}

/// Policies, limits, and devices where the counters are beside the socket.
pub(crate) fn in_force(service: &mut Admin, socket: &Path) -> Result<Vec<Setting>, String> {
    let mut settings = service.settings().map_err(|error| error.to_string())?;
    let now = Snapshot::read(&counters_beside(socket));
    for device in now.iter().flat_map(|now| &now.devices) {
        let state = match device.state() {
            Some(DeviceState::Active) => "active",
            Some(DeviceState::Draining) => "drain",
            Some(DeviceState::Gone) | None => continue,
        };
        let setting = (format!("device.{}", device.name), state.to_owned());
        // Each sidecore has one of this name.
        if !settings.contains(&setting) {
            settings.push(setting);
        }
    }
    Ok(settings)
}

/// Those of these keys or sections, in their order.
fn chosen<'s>(all: &'s [Setting], keys: &[String]) -> Result<Vec<&'s Setting>, String> {
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
            return Err(format!("no setting {key:?} is in force: `sidecore get` alone prints all"));
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
        assert!(keys(&["balance", "limit"]).unwrap_err().contains("\"limit\""));
    }
}
