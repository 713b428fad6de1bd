//! Events of the service of sockets alone. The others are those of [`sidecore::events`].

use crate::SocketsConfig;
use sidecore::config::Config;
use sidecore::events::{TARGET, inside};

/// A service of sockets of this version starts with this configuration.
pub fn start(version: &str, config: &Config, limits: &SocketsConfig) {
    let Config { sandbox, sidecores, .. } = config;
    tracing::info!(
        target: TARGET,
        event = "start",
        version,
        pid = std::process::id(),
        socket = %config.socket.display(),
        cores = ?sidecores.cpus,
        owned = sidecores.owned,
        sockets = inside(&format!("{limits:?}")),
        sandbox = %inside(&format!("{sandbox:?}")),
        "the service starts"
    );
}
