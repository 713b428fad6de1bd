//! Waiting for the service's messages.

use sidecore_client::gateway::Gateway;
use std::io;
use tokio::io::unix::AsyncFd;

pub(crate) fn watch_gateway(gateway: Gateway) -> io::Result<AsyncFd<Gateway>> {
    // SAFETY: the `AsyncFd` owns the gateway, which has one descriptor for as long as it lives; both end the watch.
    Ok(unsafe { AsyncFd::register(gateway) }?)
}
