//! Messages of clients, and their senders by the kernel's information.
//!
//! Descriptors in a client's message never become this process's. Closing one can take as long as its maker chooses
//! (a TCP socket lingers), and the kernel itself closes descriptors without room during the receive. So the kernel
//! refuses them where it can (`SO_PASSRIGHTS`, Linux 6.16). On older kernels they are detected before they are taken:
//! such a message stays in its socket, which is closed later by a thread that may block.

use super::peer::Credentials;
use nix::cmsg_space;
use nix::errno::Errno;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, UnixCredentials, recvmsg};
use rustix::net::sockopt;
use std::ffi::{c_int, c_void};
use std::io::{self, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd};

/// Number of the option in Linux's `socket.h`; not in the C library's headers yet.
pub const SO_PASSRIGHTS: c_int = 83;

/// A message, and who sent it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceivedMessage {
    /// Its length; 0: the peer is gone.
    pub len: usize,
    /// Its sender, by the kernel; `None`: the kernel named none.
    pub speaker: Option<Credentials>,
}

/// Makes the kernel name each message's sender, and refuse messages with descriptors where it can. Set on a listening
/// socket, it holds for its connections.
///
/// # Errors
/// Those of the system.
pub fn identify_speakers(socket: impl AsFd) -> io::Result<()> {
    sockopt::set_socket_passcred(&socket, true)?;
    // Where the kernel does not have the option, `receive` detects descriptors.
    let _ = pass_descriptors(&socket, false);
    Ok(())
}

/// Lets a connection of such a listening socket take descriptors from now on, without naming senders.
///
/// # Errors
/// Those of the socket.
pub fn take_descriptors(socket: impl AsFd) -> io::Result<()> {
    sockopt::set_socket_passcred(&socket, false)?;
    match pass_descriptors(&socket, true) {
        // There is no such option, and they pass.
        Err(error) if error.raw_os_error() == Some(libc::ENOPROTOOPT) => Ok(()),
        other => other,
    }
}

fn pass_descriptors(socket: &impl AsFd, pass: bool) -> io::Result<()> {
    let pass = c_int::from(pass);
    // SAFETY: the value is an integer that lives for the call, and the descriptor is borrowed, so open.
    let code = unsafe {
        let (fd, value) = (socket.as_fd().as_raw_fd(), (&raw const pass).cast::<c_void>());
        libc::setsockopt(fd, libc::SOL_SOCKET, SO_PASSRIGHTS, value, size_of::<c_int>() as libc::socklen_t)
    };
    if code == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Whether the kernel refuses messages with descriptors for this socket and its connections.
pub fn refuses_descriptors(socket: impl AsFd) -> bool {
    let (mut passes, mut bytes) = (1, size_of::<c_int>() as libc::socklen_t);
    // SAFETY: `passes` is writable for `bytes`, which is writable itself, and the descriptor is borrowed, so open.
    let code = unsafe {
        let (fd, to) = (socket.as_fd().as_raw_fd(), (&raw mut passes).cast::<c_void>());
        libc::getsockopt(fd, libc::SOL_SOCKET, SO_PASSRIGHTS, to, &raw mut bytes)
    };
    code == 0 && passes == 0
}

/// Receives one message without descriptors. One with descriptors stays unread.
///
/// # Errors
/// `InvalidData`: it has descriptors, or is longer than `buffer`; `WouldBlock`: there is no message.
pub fn receive(socket: impl AsFd, buffer: &mut [u8]) -> io::Result<ReceivedMessage> {
    let (_, flags) = receive_once(&socket, &mut [], MsgFlags::MSG_PEEK)?;
    if flags.contains(MsgFlags::MSG_CTRUNC) {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "descriptors come with the message"));
    }
    let (heard, flags) = receive_once(&socket, buffer, MsgFlags::empty())?;
    if flags.intersects(MsgFlags::MSG_CTRUNC | MsgFlags::MSG_TRUNC) {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "message larger than the protocol allows"));
    }
    Ok(heard)
}

fn receive_once(socket: &impl AsFd, buffer: &mut [u8], flags: MsgFlags) -> io::Result<(ReceivedMessage, MsgFlags)> {
    let (mut parts, mut room) = ([IoSliceMut::new(buffer)], cmsg_space!(UnixCredentials));
    let flags = flags | MsgFlags::MSG_CMSG_CLOEXEC | MsgFlags::MSG_DONTWAIT;
    let message = loop {
        match recvmsg::<()>(socket.as_fd().as_raw_fd(), &mut parts, Some(&mut room), flags) {
            Err(Errno::EINTR) => {}
            received => break received?,
        }
    };
    let speaker = message.cmsgs().ok().and_then(|mut said| {
        said.find_map(|said| match said {
            ControlMessageOwned::ScmCredentials(who) => {
                Some(Credentials { pid: who.pid().cast_unsigned(), uid: who.uid(), gid: who.gid() })
            }
            _ => None,
        })
    });
    Ok((ReceivedMessage { len: message.bytes, speaker }, message.flags))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::packet;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
    use std::os::fd::OwnedFd;

    fn pair() -> (OwnedFd, OwnedFd) {
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap()
    }

    #[test]
    fn the_kernel_says_who_speaks() {
        let (ours, theirs) = pair();
        assert!(!refuses_descriptors(&ours));
        identify_speakers(&ours).unwrap();
        if refuses_descriptors(&ours) {
            let refused = packet::send(&theirs, b"take this", &[theirs.as_fd()]).unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
        }
        packet::send(&theirs, b"hello", &[]).unwrap();
        let mut buffer = [0; 16];
        let heard = receive(&ours, &mut buffer).unwrap();
        let uid = rustix::process::getuid().as_raw();
        assert_eq!((heard.len, &buffer[..5]), (5, &b"hello"[..]));
        let speaker = heard.speaker.unwrap();
        assert_eq!((speaker.pid, speaker.uid), (std::process::id(), uid));
        drop(theirs);
        assert_eq!(receive(&ours, &mut buffer).unwrap().len, 0);
    }

    #[test]
    fn a_connection_can_be_told_to_take_descriptors() {
        let (ours, theirs) = pair();
        identify_speakers(&ours).unwrap();
        take_descriptors(&ours).unwrap();
        assert!(!refuses_descriptors(&ours));
        packet::send(&theirs, b"take this", &[theirs.as_fd()]).unwrap();
        let (len, fds) = sidecore_ipc::sys::packet::receive(&ours, &mut [0; 16]).unwrap();
        assert_eq!((len, fds.len()), (9, 1));
    }

    /// On a socket whose kernel passes descriptors: Linux before 6.16, and here a socket without the option.
    #[test]
    fn a_message_with_descriptors_stays_unread() {
        let (ours, theirs) = pair();
        sockopt::set_socket_passcred(&ours, true).unwrap();
        let (sent, kept) = pair();
        packet::send(&theirs, b"take this", &[sent.as_fd()]).unwrap();
        drop(sent);
        for _ in 0..3 {
            let refused = receive(&ours, &mut [0; 16]).unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::InvalidData);
        }
        // It was neither taken nor closed: its other end still has a peer.
        assert!(packet::send(&kept, b"x", &[]).is_ok());
        drop(ours);
        assert!(packet::send(&kept, b"x", &[]).is_err());
    }

    #[test]
    fn a_message_that_is_too_long_is_an_error_and_the_next_is_heard() {
        let (ours, theirs) = pair();
        identify_speakers(&ours).unwrap();
        packet::send(&theirs, &[1; 17], &[]).unwrap();
        packet::send(&theirs, &[2; 16], &[]).unwrap();
        let mut buffer = [0; 16];
        assert_eq!(receive(&ours, &mut buffer).unwrap_err().kind(), io::ErrorKind::InvalidData);
        assert_eq!(receive(&ours, &mut buffer).unwrap().len, 16);
        assert_eq!(receive(&ours, &mut buffer).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    }
}
