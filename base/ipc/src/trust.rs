//! Which service a program trusts: programs send keys and sockets, so not every listener will do.

use crate::sys::secure::is_privileged;
use rustix::process::{geteuid, getuid};
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

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

/// The kernel gives one error for a file that is no socket and for a socket without a listener. This tells them apart.
pub fn refused(socket: &Path, error: io::Error) -> io::Error {
    match socket.metadata() {
        Ok(found) if !found.file_type().is_socket() => io::Error::new(error.kind(), "it is no socket"),
        _ => error,
    }
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
