//! Events of the service of sockets alone. Those of any service are in `sidecore_daemon::events`.

use crate::Config;
use sidecore_daemon::events::{Level, inside};
use sidecore_daemon::say;

/// Events of a service of sockets, beside those of any service.
pub const EVENTS: [(Level, &str); 1] = [(Level::Notice, "start")];

/// A service of sockets of this version starts with this configuration.
pub fn start(version: &str, config: &Config) {
    let Config { sandbox, sidecores, sockets, .. } = config;
    say!(Notice "start",
        version,
        pid = std::process::id(),
        socket = %config.socket.display(),
        cores = ?sidecores.cpus,
        owned = sidecores.owned,
        sockets = inside(&format!("{sockets:?}")),
        sandbox = %inside(&format!("{sandbox:?}")),
        "the service starts"
    );
}
