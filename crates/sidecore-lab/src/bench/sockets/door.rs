//! Where the measured program's messages come to.

use super::ffi::backlog;
use super::peer::{Heard, Peer};
use super::receiver;
use crate::bench::task::{Sending, Traffic};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::sync::atomic::AtomicU64;

/// Connections that may wait for this process, which others keep from its core: more than any program opens at once.
const MOST_WAITING: i32 = 16_384;

/// For connections, or for datagrams.
pub(super) enum Door {
    Connections(TcpListener),
    Datagrams(UdpSocket),
}

impl Door {
    /// What that traffic comes to, at an address of loopback.
    pub(super) fn open(traffic: Traffic) -> io::Result<Self> {
        let here = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        if traffic == Traffic::Datagrams {
            let socket = UdpSocket::bind(here)?;
            receiver::prepare(&socket)?;
            return Ok(Self::Datagrams(socket));
        }
        let listener = TcpListener::bind(here)?;
        backlog(&listener, MOST_WAITING)?;
        Ok(Self::Connections(listener))
    }

    /// Where the program is to send to.
    pub(super) fn address(&self) -> io::Result<SocketAddr> {
        match self {
            Self::Connections(listener) => listener.local_addr(),
            Self::Datagrams(socket) => socket.local_addr(),
        }
    }

    /// Takes all that comes, until the program ends or, of datagrams, until so many bytes came as `sent` says by then.
    pub(super) fn hear(&self, sending: &Sending, sent: &AtomicU64) -> io::Result<Heard> {
        match self {
            Self::Connections(listener) => Peer::accept(listener, sending)?.run(),
            Self::Datagrams(socket) => receiver::receive(socket, sending, sent),
        }
    }
}
