//! Kinds of sockets that the service takes.

use rustix::net::getpeername;
use sidecore_sockets::sys::{tcp, udp};
use std::net::SocketAddr;
use std::os::fd::AsFd;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Content {
    /// Bytes, on a TCP connection.
    Bytes,
    /// Datagrams, on a connected UDP socket, or on one with this address as its only destination.
    Datagrams(Option<SocketAddr>),
}

impl Content {
    /// Determined from the kernel's information. `to` is the program's destination; without one the socket is
    /// connected. `None`: the service does not take such a socket.
    pub(super) fn of(socket: impl AsFd, to: Option<SocketAddr>) -> Option<Self> {
        let socket = socket.as_fd();
        match to {
            Some(to) => udp::may_send_to(socket, &to).then_some(Self::Datagrams(Some(to))),
            None if tcp::is_connected_tcp(socket) => Some(Self::Bytes),
            None => udp::is_connected_udp(socket).then_some(Self::Datagrams(None)),
        }
    }

    pub(super) fn peer(self, socket: impl AsFd) -> Option<SocketAddr> {
        match self {
            Self::Datagrams(Some(to)) => Some(to),
            _ => getpeername(socket).ok().flatten().and_then(|peer| peer.try_into().ok()),
        }
    }
}
