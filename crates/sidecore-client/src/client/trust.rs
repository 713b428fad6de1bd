//! Whom a client takes for its service: it hands keys over, so not whoever listens at a path.

use super::{ConnectError, Options};
use crate::sys::own::{Own, closed};
use crate::sys::secure::is_privileged;
use crate::sys::{packet, peer};
use rustix::process::{geteuid, getuid};
use sidecore_core::time::Nanos;

/// A connection to the service, of which nothing was asked yet, made by the deadline.
///
/// # Errors
/// Nobody answers, or somebody who is not trusted: nothing was said then.
pub(crate) fn connect(options: &Options, deadline: Nanos) -> Result<Own, ConnectError> {
    let socket = packet::connect_own(&options.socket, deadline);
    let socket = socket.map_err(|error| ConnectError::from_io(&options.socket, options.patience, error))?;
    // Of a listening socket the kernel keeps who made it listen.
    let user = peer::credentials(socket.get().ok_or_else(closed)?)?.uid;
    if is_trusted(user, &options.service_users) {
        Ok(socket)
    } else {
        Err(ConnectError::ForeignService { socket: options.socket.clone(), user })
    }
}

/// Whether a service of that user is taken for one: root's, the program's own user's, and those of the users named.
pub(crate) fn is_trusted(user: u32, service_users: &[String]) -> bool {
    user == 0 || is_own(user) || service_users.iter().any(|named| number_of(named) == Some(user))
}

/// The number of a user by number or name. `None`: there is no such user here.
pub(crate) fn number_of(user: &str) -> Option<u32> {
    user.parse().ok().or_else(|| Some(nix::unistd::User::from_name(user).ok()??.uid.as_raw()))
}

/// Whether it is this program's user, and not one who only started a program that has more rights than he.
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
