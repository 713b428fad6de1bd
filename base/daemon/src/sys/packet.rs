//! The service's packet sockets: the listening ones, and the connections that they accept.

use super::message;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::{Errno, ioctl_fionbio, retry_on_intr};
use rustix::net::{
    self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, getsockname, socket_with, sockopt,
};
use sidecore_core::policy::intake::WIDE;
use sidecore_core::time::Nanos;
use sidecore_ipc::sys::clock;
use sidecore_ipc::sys::clock::timespec;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

pub use sidecore_ipc::sys::packet::{MAX_PACKET, send};
use sidecore_ipc::sys::packet::{connect_by, socket};

/// Longest wait of a starting service for another one at its socket.
const CONNECT_TIMEOUT: Nanos = 10_000_000_000;

/// A socket at `path`, which refuses all until it [listens](listen).
///
/// # Errors
/// Those of the system.
pub fn bind_to(path: &Path) -> io::Result<OwnedFd> {
    let socket = socket()?;
    prepare(&socket)?;
    bind(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket)
}

/// Makes a socket that a service listens on: it names each sender, and never blocks.
///
/// # Errors
/// Those of the system.
pub fn prepare(socket: &OwnedFd) -> io::Result<()> {
    message::identify_speakers(socket)?;
    // A client that is gone again must not block the service until the next one.
    Ok(ioctl_fionbio(socket, true)?)
}

/// Whether this socket is bound to the path, and listens.
pub fn listens_at(socket: &OwnedFd, path: &Path) -> bool {
    let is_listening = || -> Result<bool, Errno> {
        let is_of_packets =
            sockopt::socket_type(socket)? == SocketType::SEQPACKET && sockopt::socket_acceptconn(socket)?;
        let own = SocketAddrUnix::try_from(getsockname(socket)?)?;
        Ok(is_of_packets && own.path_bytes() == SocketAddrUnix::new(path)?.path_bytes())
    };
    // A full queue is a socket that listens, too.
    is_listening().unwrap_or(false) && matches!(knock(path), Ok(()) | Err(Errno::AGAIN))
}

/// Connects without waiting, and hangs up.
fn knock(path: &Path) -> Result<(), Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
    net::connect(&socket, &SocketAddrUnix::new(path)?)
}

/// Lets clients connect.
///
/// # Errors
/// Those of the system.
pub fn listen(socket: impl AsFd) -> io::Result<()> {
    set_backlog(socket, WIDE)
}

/// Sets the length of the kernel's queue of clients. Further ones wait while they connect.
///
/// # Errors
/// Those of the system.
pub fn set_backlog(socket: impl AsFd, backlog: u32) -> io::Result<()> {
    Ok(net::listen(socket, backlog.cast_signed())?)
}

/// Whether the peer has closed its end.
pub fn has_hung_up(socket: impl AsFd) -> bool {
    let mut set = [PollFd::new(&socket, PollFlags::empty())];
    poll(&mut set, Some(&timespec(0))).is_ok() && set[0].revents().contains(PollFlags::HUP)
}

/// Connects to the service at this path, which may be slow to accept.
///
/// # Errors
/// Those of the system.
pub fn connect_to(path: &Path) -> io::Result<OwnedFd> {
    connect_by(path, clock::now().saturating_add(CONNECT_TIMEOUT))
}

/// The next client of a listening socket. Its socket does not block.
///
/// # Errors
/// Those of the system. `AGAIN`: there is none.
pub fn accept(listener: impl AsFd) -> Result<OwnedFd, Errno> {
    retry_on_intr(|| accept_with(&listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK))
}
