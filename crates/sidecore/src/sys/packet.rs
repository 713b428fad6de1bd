//! Unix sockets that carry whole messages, with file descriptors when needed.

use super::message;
use rustix::io::{Errno, ioctl_fionbio};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, connect, listen,
    recvmsg, sendmsg, socket_with, sockopt,
};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

/// Largest control message, bytes.
pub(crate) const MAX_PACKET: usize = 16 * 1024;
/// Most descriptors beside one message.
pub(crate) const MAX_FDS: usize = 3;
const BACKLOG: i32 = 128;
/// How long a client waits for room in the service's queues.
const SEND_TIMEOUT: Duration = Duration::from_secs(10);

fn socket() -> io::Result<OwnedFd> {
    Ok(socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?)
}

/// A socket that accepts clients at `path`.
pub(crate) fn listen_at(path: &Path) -> io::Result<OwnedFd> {
    let socket = socket()?;
    message::identify_speakers(&socket)?;
    bind(&socket, &SocketAddrUnix::new(path)?)?;
    listen(&socket, BACKLOG)?;
    // A client that is gone again must not make the service wait for the next.
    ioctl_fionbio(&socket, true)?;
    Ok(socket)
}

/// A connection to the service at `path`. A service that accepts nothing any more is waited for as long as one that does
/// not take a message: [`SEND_TIMEOUT`].
pub(crate) fn connect_to(path: &Path) -> io::Result<OwnedFd> {
    let socket = socket()?;
    sockopt::set_socket_timeout(&socket, sockopt::Timeout::Send, Some(SEND_TIMEOUT))?;
    connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket)
}

/// The next client of a listening socket, never blocking on it afterwards.
pub(crate) fn accept(listener: impl AsFd) -> Result<OwnedFd, Errno> {
    accept_with(listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK)
}

/// Sends one message with descriptors.
pub(crate) fn send(socket: impl AsFd, message: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    sendmsg(socket, &[IoSlice::new(message)], &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Receives one message into `buffer`. `Ok((0, …))`: the peer is gone. A message or descriptors beyond the limits are
/// an error; descriptors that were received with it are closed.
pub(crate) fn receive(socket: impl AsFd, buffer: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let got = recvmsg(socket, &mut [IoSliceMut::new(buffer)], &mut control, RecvFlags::CMSG_CLOEXEC)?;
    let mut fds = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(received) = message {
            fds.extend(received);
        }
    }
    within_limits(got.flags)?;
    Ok((got.bytes, fds))
}

fn within_limits(flags: ReturnFlags) -> io::Result<()> {
    if flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC) {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "message larger than the protocol allows"));
    }
    Ok(())
}
