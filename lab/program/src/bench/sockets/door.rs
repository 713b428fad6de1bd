//! The socket that receives the measured program's messages.

use super::ffi::backlog;
use super::peer::{Peer, PeerReport};
use super::receiver;
use crate::bench::task::{Sending, Traffic};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::sync::atomic::AtomicU64;

/// Connections that may wait to be accepted, because other load may delay this process: more than any program opens
/// simultaneously.
const MAX_WAITING: i32 = 16_384;

pub(super) enum Door {
    Connections(TcpListener),
    Datagrams(UdpSocket),
}

impl Door {
    pub(super) fn open(traffic: Traffic) -> io::Result<Self> {
        let here = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        if traffic == Traffic::Datagrams {
            let socket = UdpSocket::bind(here)?;
            receiver::prepare(&socket)?;
            return Ok(Self::Datagrams(socket));
        }
        let listener = TcpListener::bind(here)?;
        backlog(&listener, MAX_WAITING)?;
        Ok(Self::Connections(listener))
    }

    pub(super) fn address(&self) -> io::Result<SocketAddr> {
        match self {
            Self::Connections(listener) => listener.local_addr(),
            Self::Datagrams(socket) => socket.local_addr(),
        }
    }

    /// Receives until the program ends. Datagrams: until the bytes of `sent` arrived, once it is known.
    pub(super) fn hear(&self, sending: &Sending, sent: &AtomicU64) -> io::Result<PeerReport> {
        match self {
            Self::Connections(listener) => Peer::accept(listener, sending)?.run(),
            Self::Datagrams(socket) => receiver::receive(socket, sending, sent),
        }
    }
}
