//! `sidecore set`: changes a running service, all of it or nothing, and says what is in force afterwards.

use crate::args::Set;
use crate::output;
use crate::top::in_force;
use sidecore::client::{Admin, Options};
use sidecore::config::{Setting, counters_beside};
use sidecore::counters::Snapshot;
use std::path::Path;

/// Applies the settings.
pub(crate) fn run(args: &Set) -> Result<(), String> {
    apply(&mut connect(&args.socket)?, &args.settings)?;
    match Snapshot::read(&counters_beside(&args.socket)) {
        Ok(now) => output::print(&format!("{}\n", in_force(&now)))
            .map_err(|error| format!("what was set is in force, but this could not be said: {error}")),
        // Its counters may be elsewhere, as its configuration says.
        Err(_) => Ok(()),
    }
}

/// Reaches the service at this socket.
pub(crate) fn connect(socket: &Path) -> Result<Admin, String> {
    Admin::connect(&Options { socket: socket.to_owned(), ..Options::default() }).map_err(|error| error.to_string())
}

/// Has the service change all of this or nothing, and passes its warnings on.
pub(crate) fn apply(service: &mut Admin, settings: &[String]) -> Result<(), String> {
    settings.iter().try_for_each(|text| Setting::parse(text).map(drop))?;
    let refused = |error| format!("{error}; nothing was changed");
    if let Some(note) = service.set_all(settings.to_vec()).map_err(refused)? {
        output::tell(format_args!("warning: {note}"));
    }
    Ok(())
}
