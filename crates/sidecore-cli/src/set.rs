//! `sidecore set`: changes a running service, and says what does not take effect.

use crate::args::Set;
use crate::output;
use sidecore::client::{Admin, Options};
use sidecore::config::Setting;

/// Applies the settings in order, after all of them were read.
pub(crate) fn run(args: &Set) -> Result<(), String> {
    for setting in &args.settings {
        Setting::parse(setting)?;
    }
    let options = Options { socket: args.socket.clone(), ..Options::default() };
    let mut service = Admin::connect(&options).map_err(|error| error.to_string())?;
    for setting in &args.settings {
        if let Some(note) = service.set(setting).map_err(|error| format!("{setting}: {error}"))? {
            output::tell(format_args!("warning: {note}"));
        }
    }
    Ok(())
}
