//! Unix sockets for whole messages, with file descriptors if needed.

use super::clock;
use super::verified_fd::{VerifiedFd, closed};
use rustix::io::{Errno, ioctl_fionbio, retry_on_intr};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, recvmsg, sendmsg, socket_with,
    sockopt,
};
use sidecore_core::time::Nanos;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

/// Largest control message, bytes.
pub const MAX_PACKET: usize = 16 * 1024;
/// Limit of descriptors with one message.
pub const MAX_FDS: usize = 4;

/// Makes a socket.
///
/// # Errors
/// No descriptor is left; `Unsupported`: this program may not make such sockets.
pub fn socket() -> io::Result<OwnedFd> {
    socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).map_err(|error| match error {
        Errno::AFNOSUPPORT | Errno::PERM | Errno::ACCESS | Errno::NOSYS => {
            io::Error::new(io::ErrorKind::Unsupported, io::Error::from(error))
        }
        other => other.into(),
    })
}

/// Sends one datagram to the socket at `path` without blocking. The descriptor for it is closed afterwards.
///
/// # Errors
/// No process reads there, or its queue is full.
pub fn send_datagram(path: &Path, message: &[u8]) -> io::Result<()> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let own = VerifiedFd::new(socket_with(AddressFamily::UNIX, SocketType::DGRAM, flags, None)?)?;
    let socket = own.get().ok_or_else(closed)?;
    connect(socket, &SocketAddrUnix::new(path)?)?;
    send(socket, message, &[])
}

/// As [`connect_own`], for a process where no other code reuses its number.
///
/// # Errors
/// As for [`connect_own`].
pub fn connect_by(path: &Path, deadline: Nanos) -> io::Result<OwnedFd> {
    connect_own(path, deadline)?.into_owned()
}

/// Connects to the service at `path`. The socket never blocks afterwards.
///
/// # Errors
/// `TimedOut`: the service accepted no connection before the deadline; else errors of the socket.
pub fn connect_own(path: &Path, deadline: Nanos) -> io::Result<VerifiedFd> {
    let (own, address) = (VerifiedFd::new(socket()?)?, SocketAddrUnix::new(path)?);
    loop {
        let left = deadline.saturating_sub(clock::now());
        if left == 0 {
            return Err(io::ErrorKind::TimedOut.into());
        }
        // A zero timeout would disable it. After a signal the socket is unchanged: sockets of this family connect
        // immediately or not at all.
        let left = Duration::from_nanos(left).max(Duration::from_micros(1));
        let socket = own.get().ok_or_else(closed)?;
        sockopt::set_socket_timeout(socket, sockopt::Timeout::Send, Some(left))?;
        match connect(socket, &address) {
            Ok(()) => break,
            Err(Errno::INTR | Errno::AGAIN) => {}
            Err(error) => return Err(error.into()),
        }
    }
    ioctl_fionbio(own.get().ok_or_else(closed)?, true)?;
    Ok(own)
}

/// Sends one message with descriptors.
///
/// # Errors
/// Errors of the socket.
pub fn send(socket: impl AsFd, message: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    retry_on_intr(|| sendmsg(&socket, &[IoSlice::new(message)], &mut control, SendFlags::NOSIGNAL))?;
    Ok(())
}

/// Receives one message into `buffer`. `Ok((0, …))`: the peer is gone.
///
/// # Errors
/// Errors of the socket, or `InvalidData` for a message or descriptors above the limits, `QuotaExceeded` at
/// this process's limit of descriptors; descriptors received with it are closed.
pub fn receive(socket: impl AsFd, buffer: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let got =
        retry_on_intr(|| recvmsg(&socket, &mut [IoSliceMut::new(buffer)], &mut control, RecvFlags::CMSG_CLOEXEC))?;
    let mut fds = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(received) = message {
            fds.extend(received);
        }
    }
    // The kernel cuts descriptors off for want of room here, too: then fewer than the limit arrive.
    if got.flags.contains(ReturnFlags::CTRUNC) && fds.len() < MAX_FDS {
        let why = "no room for the message's descriptors: raise the limits on files";
        return Err(io::Error::new(io::ErrorKind::QuotaExceeded, why));
    }
    if got.flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC) {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "message larger than the protocol allows"));
    }
    Ok((got.bytes, fds))
}
