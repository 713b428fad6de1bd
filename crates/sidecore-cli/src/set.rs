//! `sidecore set`: changes a running service, and says what does not take effect.

use crate::args::Set;
use sidecore::client::{Client, Options};
use sidecore::config::Setting;

/// Applies the settings in order, after all of them were read.
pub(crate) fn run(args: &Set) -> Result<(), String> {
    for setting in &args.settings {
        Setting::parse(setting).map_err(|error| error.to_string())?;
    }
    let options = Options { socket: args.socket.clone(), slots: 2, arena_bytes: 4096, ..Options::default() };
    let mut client = Client::connect(&options).map_err(|error| error.to_string())?;
    for setting in &args.settings {
        if let Some(note) = client.set(setting).map_err(|error| format!("{setting}: {error}"))? {
            eprintln!("sidecore: warning: {note}");
        }
    }
    Ok(())
}
