//! `sidecore set`: changes a running service, all settings or none, and prints the settings in force afterwards.

use crate::args::Set;
use crate::error::{CliError, failed};
use sidecore::client::{Admin, Options};
use sidecore::config::Setting;
use sidecore_counters::{Snapshot, counters_beside};
use sidecore_terminal::output;
use std::path::Path;

pub(crate) fn run(args: &Set) -> Result<(), CliError> {
    let mut service = connect(&args.socket)?;
    apply(&mut service, &args.settings)?;
    let unsaid = "what was set is in force, but this could not be said";
    let mut lines = limits(&mut service, &args.settings).map_err(failed(unsaid))?;
    // The configuration may name another counter file.
    lines.extend(Snapshot::read(&counters_beside(&args.socket)).ok().map(|now| now.policies()));
    let printed = lines.iter().try_for_each(|line| output::print(&format!("{line}\n")));
    printed.map_err(failed(unsaid))
}

fn limits(service: &mut Admin, set: &[String]) -> Result<Vec<String>, CliError> {
    let keys = set.iter().filter_map(|text| text.split_once('=').map(|(key, _)| key));
    let keys: Vec<&str> = keys.filter(|key| key.starts_with("limits.")).collect();
    if keys.is_empty() {
        return Ok(Vec::new());
    }
    let all = service.settings()?;
    let limits = all.into_iter().filter(|(key, _)| keys.contains(&key.as_str()));
    Ok(limits.map(|(key, value)| format!("{key}={value}")).collect())
}

pub(crate) fn connect(socket: &Path) -> Result<Admin, CliError> {
    Ok(Admin::connect(&Options { socket: socket.to_owned(), ..Options::default() })?)
}

pub(crate) fn apply(service: &mut Admin, settings: &[String]) -> Result<(), CliError> {
    settings.iter().try_for_each(|text| Setting::parse(text).map(drop).map_err(CliError::library))?;
    if let Some(note) = service.set_all(settings.to_vec())? {
        output::tell(format_args!("warning: {note}"));
    }
    Ok(())
}
