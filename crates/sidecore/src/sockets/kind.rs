//! Which sockets the service takes.

use sidecore_client::sys::{tcp, udp};
use std::os::fd::AsFd;

/// What is sent on a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Bytes, on a TCP connection.
    Bytes,
    /// Datagrams, on a UDP socket that is connected to somebody.
    Datagrams,
}

impl Kind {
    /// By the kernel's word. `None`: it is none that is taken.
    pub(super) fn of(socket: impl AsFd) -> Option<Self> {
        let socket = socket.as_fd();
        if tcp::is_connected_tcp(socket) {
            return Some(Self::Bytes);
        }
        udp::is_connected_udp(socket).then_some(Self::Datagrams)
    }
}
