//! `sidecore reload`: changes a running service to what its configuration file says by now, as far as `sidecore set` can.
//!
//! The service itself could not: its sandbox keeps the file out of its reach. So the file is read here, with the rights of the
//! one who asks, who hears at once what is wrong with it.

use crate::args::Reload;
use crate::get::{self, Setting};
use crate::output;
use crate::set::{apply, connect};
use sidecore::config::{self, Config, DeviceConfig, DeviceKind};

/// What differs between file and service.
#[derive(Debug, Default, PartialEq, Eq)]
struct Differences {
    /// As `sidecore set` writes it.
    now: Vec<String>,
    /// What takes a start to be changed.
    at_next_start: Vec<String>,
}

/// Applies what differs, and says it.
pub(crate) fn run(args: &Reload) -> Result<(), String> {
    let config = Config::read(&args.config, args.socket.clone())?;
    let mut service = connect(&config.socket)?;
    let differences = differences(&config, &get::in_force(&mut service, &config.socket)?);
    if !differences.now.is_empty() {
        apply(&mut service, &differences.now)?;
    }
    for later in &differences.at_next_start {
        output::tell(format_args!("warning: {later} takes effect at the next start"));
    }
    let changed = if differences.now.is_empty() { "nothing differs".to_owned() } else { differences.now.join("\n") };
    output::print(&format!("{changed}\n"))
}

fn differences(config: &Config, in_force: &[Setting]) -> Differences {
    let mut differences = Differences::default();
    for (key, value) in config.settings() {
        if in_force.contains(&(key.clone(), value.clone())) {
            continue;
        }
        let text = format!("{key}={value}");
        let can_be_set = config::Setting::parse(&text).is_ok();
        let list = if can_be_set { &mut differences.now } else { &mut differences.at_next_start };
        list.push(text);
    }
    let there: Vec<&str> = in_force.iter().filter_map(|(key, _)| key.strip_prefix("device.")).collect();
    // Without any the counters are elsewhere. A remote device comes and goes with its gateway.
    if !there.is_empty() {
        let here = config.devices.iter().filter(|device| device.kind != DeviceKind::Remote);
        let new = here.filter(|device| !there.contains(&device.name.as_str())).map(DeviceConfig::setting);
        differences.now.extend(new);
        let named = |name: &str| config.devices.iter().any(|device| device.name == name);
        differences.now.extend(there.iter().filter(|name| !named(name)).map(|name| format!("device.{name}=remove")));
    }
    differences
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_is_set_or_waits_for_a_start() {
        let before = Config::default();
        let mut in_force = before.settings();
        in_force.push(("device.inline".to_owned(), "active".to_owned()));
        in_force.push(("device.old".to_owned(), "drain".to_owned()));
        let file = "balance = \"sed\"\n[limits]\nlanes = 64\nclients_per_uid = 300\n[[device]]\nname = \"inline\"\nkind = \"inline\"\n\
                    [[device]]\nname = \"w\"\nkind = \"worker\"\n[[device]]\nname = \"far\"\nkind = \"remote\"\nfarm = \"keys\"";
        let Differences { now, at_next_start } = differences(&Config::parse(file).unwrap(), &in_force);
        let [balance, limit, added, removed] = &now[..] else { panic!("{now:?}") };
        assert_eq!([balance, limit, removed], ["balance=sed", "limits.clients_per_uid=300", "device.old=remove"]);
        assert!(added.starts_with("device=") && added.contains("\"w\""), "{added}");
        assert_eq!(at_next_start, ["limits.lanes=64"]);
    }

    #[test]
    fn what_is_the_same_is_left_alone() {
        let config = Config::default();
        assert_eq!(differences(&config, &config.settings()), Differences::default());
    }
}
