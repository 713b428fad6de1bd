//! The duty of the service of sockets, which its sandbox permits.

use crate::Sockets;
use libc::{c_int, c_long, c_ulong};
use sidecore_daemon::sandbox::Duty;
use sidecore_daemon::sys::message::SO_PASSRIGHTS;

/// The peer of a program's connection.
const CALLS: &[c_long] = &[libc::SYS_getpeername];
/// A program's connection to the service hands descriptors over, and a program's socket is reset.
const OPTIONS: &[c_int] = &[libc::SO_PASSCRED, SO_PASSRIGHTS, libc::SO_LINGER];
/// Bytes in the kernel's queue of a socket.
const REQUESTS: &[c_ulong] = &[libc::TIOCOUTQ];

impl Sockets {
    /// It opens no file, and has no keys to keep out of swap.
    pub const DUTY: Duty = Duty { calls: CALLS, options: OPTIONS, requests: REQUESTS, ..Duty::NONE };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_serves_sockets_opens_no_file() {
        let files = [libc::SYS_openat, libc::SYS_openat2, libc::SYS_open_by_handle_at, libc::SYS_renameat2];
        assert!(files.iter().all(|call| !Sockets::DUTY.permits(*call)));
        assert!(Duty { files: true, ..Sockets::DUTY }.permits(libc::SYS_openat));
    }

    #[test]
    fn it_makes_no_socket_and_its_own_calls_are_not_deadly() {
        let network = [libc::SYS_socket, libc::SYS_connect, libc::SYS_bind, libc::SYS_socketpair];
        assert!(network.iter().all(|call| !Sockets::DUTY.permits(*call)));
        let own = [libc::SYS_setsockopt, libc::SYS_ioctl];
        assert!(CALLS.iter().chain(&own).all(|call| Sockets::DUTY.permits(*call)));
    }
}
