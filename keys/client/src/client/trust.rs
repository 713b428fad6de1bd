//! Decides which service a client trusts: clients send keys, so not every listener will do.

use super::{ConnectError, Options};
use sidecore_core::time::Nanos;
use sidecore_ipc::sys::verified_fd::{VerifiedFd, closed};
use sidecore_ipc::sys::{packet, peer};
use sidecore_ipc::trust::is_trusted;

/// Connects to the service before the deadline, and sends nothing yet.
///
/// # Errors
/// No service, or one of a user who is not trusted. It received no message.
pub(crate) fn connect(options: &Options, deadline: Nanos) -> Result<VerifiedFd, ConnectError> {
    let socket = packet::connect_own(&options.socket, deadline);
    let socket = socket.map_err(|error| ConnectError::from_io(&options.socket, options.timeout, error))?;
    // The kernel stores the credentials of the process that called `listen`.
    let user = peer::credentials(socket.get().ok_or_else(closed)?)?.uid;
    if is_trusted(user, &options.service_users) {
        Ok(socket)
    } else {
        Err(ConnectError::ForeignService { socket: options.socket.clone(), user })
    }
}
