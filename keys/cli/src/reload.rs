//! `sidecore reload`: brings a running service in line with its configuration file, as far as `sidecore set` can.
//!
//! The service's sandbox denies it access to the file. This command reads the file with the caller's rights and reports
//! errors in it immediately.

use crate::args::Reload;
use crate::error::CliError;
use crate::get::{self, Device, InForce};
use crate::set::{apply, connect};
use sidecore::config::{Config, DeviceConfig, DeviceKind, Setting, socket_of_environment};
use sidecore_terminal::output;

/// Longest list of subordinate users that is sent, bytes: a message has room for it beside other changes.
const MOST_SUBORDINATES: usize = 48 << 10;

#[derive(Debug, Default, PartialEq, Eq)]
struct Differences {
    now: Vec<String>,
    at_next_start: Vec<String>,
}

pub(crate) fn run(args: &Reload) -> Result<(), CliError> {
    let mut config = Config::read(&args.config, socket_of_environment()).map_err(CliError::library)?;
    if let Some(socket) = &args.socket {
        config.socket.clone_from(socket);
    }
    for wrong in config.read_subordinates().map_err(CliError::library)? {
        output::tell(format_args!("warning: {wrong}"));
    }
    let mut service = connect(&config.socket)?;
    let settings = service.settings()?;
    let devices = get::devices(&config.counters_path());
    if let Err(why) = &devices {
        output::tell(format_args!("warning: devices are not compared: {why}"));
    }
    let mut differences = differences(&config, &settings, devices.ok().as_deref());
    // The service does not say which it has: they may be thousands.
    let subordinates = config.subordinate_users.map(|users| format!("subordinates={users}"));
    let fits = subordinates.as_ref().is_some_and(|text| text.len() <= MOST_SUBORDINATES);
    if !fits {
        differences.at_next_start.push("subordinates, which are too many for one message,".to_owned());
    }
    let now: Vec<String> = differences.now.iter().cloned().chain(subordinates.filter(|_| fits)).collect();
    if !now.is_empty() {
        apply(&mut service, &now)?;
    }
    for later in &differences.at_next_start {
        output::tell(format_args!("warning: {later} takes effect at the next start"));
    }
    let changed =
        if differences.now.is_empty() { "nothing was changed".to_owned() } else { differences.now.join("\n") };
    Ok(output::print(&format!("{changed}\n"))?)
}

/// `devices` is `None`: devices are not compared.
fn differences(config: &Config, in_force: &[InForce], devices: Option<&[Device]>) -> Differences {
    let mut differences = Differences::default();
    for (key, value) in config.settings() {
        if in_force.contains(&(key.clone(), value.clone())) {
            continue;
        }
        let text = format!("{key}={value}");
        let can_be_set = Setting::parse(&text).is_ok();
        let list = if can_be_set { &mut differences.now } else { &mut differences.at_next_start };
        list.push(text);
    }
    if let Some(devices) = devices {
        // A gateway adds and removes its remote device.
        let here = config.devices.iter().filter(|device| device.kind != DeviceKind::Remote);
        let is_there = |name: &str| devices.iter().any(|device| device.name == name);
        differences.now.extend(here.filter(|device| !is_there(&device.name)).map(DeviceConfig::setting));
        let is_named = |name: &str| config.devices.iter().any(|device| device.name == name);
        let gone = devices.iter().filter(|device| !device.is_remote && !is_named(&device.name));
        differences.now.extend(gone.map(|device| format!("device.{}=remove", device.name)));
    }
    differences
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_is_set_or_waits_for_a_start() {
        let before = Config::default();
        let device = |name: &str, state, is_remote| Device { name: name.to_owned(), state, is_remote };
        let devices =
            [device("inline", "active", false), device("old", "drain", false), device("farm", "active", true)];
        let file = "balance = \"sed\"\n[limits]\nlanes = 64\nclients_per_uid = 300\n[[device]]\nname = \"inline\"\nkind = \"inline\"\n\
                    [[device]]\nname = \"w\"\nkind = \"worker\"\n[[device]]\nname = \"far\"\nkind = \"remote\"\nfarm = \"keys\"";
        let file = Config::parse(file).unwrap();
        let Differences { now, at_next_start } = differences(&file, &before.settings(), Some(&devices));
        let [balance, limit, added, removed] = &now[..] else { panic!("{now:?}") };
        assert_eq!([balance, limit, removed], ["balance=sed", "limits.clients_per_uid=300", "device.old=remove"]);
        assert!(added.starts_with("device=") && added.contains("\"w\""), "{added}");
        assert_eq!(at_next_start, ["limits.lanes=64"]);
        assert_eq!(differences(&file, &before.settings(), None).now, now[..2]);
    }

    #[test]
    fn what_is_the_same_is_left_alone() {
        let config = Config::default();
        assert_eq!(differences(&config, &config.settings(), None), Differences::default());
    }
}
