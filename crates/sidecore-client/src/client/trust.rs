//! Decides which service a client trusts: clients send keys, so not every listener will do.

use super::{ConnectError, Options};
use crate::sys::secure::is_privileged;
use crate::sys::verified_fd::{VerifiedFd, closed};
use crate::sys::{packet, peer};
use rustix::process::{geteuid, getuid};
use sidecore_core::time::Nanos;

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

/// Trusted are root, the program's own user, and the users named.
pub fn is_trusted(user: u32, service_users: &[String]) -> bool {
    user == 0 || is_own(user) || service_users.iter().any(|named| number_of(named) == Some(user))
}

/// `None`: this machine has no such user.
pub fn number_of(user: &str) -> Option<u32> {
    user.parse().ok().or_else(|| Some(nix::unistd::User::from_name(user).ok()??.uid.as_raw()))
}

/// True if it is this program's effective user. False for the real user of a privileged (e.g. set-user-ID) program.
fn is_own(user: u32) -> bool {
    user == geteuid().as_raw() && !(is_privileged() && user == getuid().as_raw())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_known_by_number_and_by_name() {
        assert_eq!(number_of("64031"), Some(64_031));
        assert_eq!(number_of("root"), Some(0));
        assert_eq!(number_of("no-such-user-here"), None);
        assert_eq!(number_of(""), None);
        assert_eq!(number_of("-1"), None);
    }
}
