//! The process at the other end of a Unix socket, by the kernel's credentials from the time when it connected.

use nix::sys::socket::getsockopt;
use nix::sys::socket::sockopt::PeerPidfd;
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::ffi::c_void;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

pub use sidecore_ipc::sys::peer::{Credentials, credentials};

/// Most supplementary groups that Linux lets a process have.
const MAX_GROUPS: usize = 65_536;

/// The processes behind a request: the connecting one, and the present sender if it has become
/// another user. Each of them must have the right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asker(Vec<Peer>);

impl Asker {
    /// Those of a connection, and the sender of its last message.
    ///
    /// # Errors
    /// Those of the system.
    pub fn of(socket: impl AsFd, speaker: Option<Credentials>) -> io::Result<Self> {
        let connected = credentials(&socket)?;
        let now = speaker.filter(|speaker| speaker.uid != connected.uid);
        let mut gids = vec![connected.gid];
        gids.extend(supplementary(&socket)?);
        let mut peers = vec![Peer { uid: connected.uid, gids }];
        peers.extend(now.map(|now| Peer { uid: now.uid, gids: vec![now.gid] }));
        Ok(Self(peers))
    }

    /// Each of them.
    pub fn peers(&self) -> impl Iterator<Item = &Peer> {
        self.0.iter()
    }
}

impl From<Peer> for Asker {
    fn from(peer: Peer) -> Self {
        Self(vec![peer])
    }
}

/// A process, as far as rights go by it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its user.
    pub uid: u32,
    /// Its groups: the primary one first.
    pub gids: Vec<u32>,
}

/// A descriptor of the very process that connected this socket, whose number may be reused by now. It becomes
/// readable when the process has ended. From Linux 6.5 on.
///
/// # Errors
/// Those of the socket.
pub fn process(socket: impl AsFd) -> io::Result<OwnedFd> {
    Ok(getsockopt(&socket, PeerPidfd)?)
}

/// As [`process`], where the kernel is older by its number.
///
/// # Errors
/// Those of the system.
pub fn process_of(socket: impl AsFd) -> io::Result<OwnedFd> {
    process(&socket).or_else(|error| match Errno::from_io_error(&error) {
        // Before Linux 6.5 there is its number only.
        Some(Errno::NOPROTOOPT) => {
            let pid = credentials(&socket)?.pid;
            Ok(pidfd_open(Pid::from_raw(pid.cast_signed()).ok_or(Errno::SRCH)?, PidfdFlags::empty())?)
        }
        _ => Err(error),
    })
}

/// `SO_PEERGROUPS`. If the room is too small the kernel returns the necessary size.
fn supplementary(socket: &impl AsFd) -> io::Result<Vec<u32>> {
    let mut groups = vec![0_u32; 32];
    loop {
        let mut bytes = (groups.len() * size_of::<u32>()) as libc::socklen_t;
        // SAFETY: `groups` is writable for `bytes`, which is writable itself, and the descriptor is borrowed, so open.
        let code = unsafe {
            let (fd, to) = (socket.as_fd().as_raw_fd(), groups.as_mut_ptr().cast::<c_void>());
            libc::getsockopt(fd, libc::SOL_SOCKET, libc::SO_PEERGROUPS, to, &raw mut bytes)
        };
        let count = bytes as usize / size_of::<u32>();
        if code == 0 {
            groups.truncate(count);
            return Ok(groups);
        }
        let error = io::Error::last_os_error();
        if error.raw_os_error() != Some(libc::ERANGE) || count <= groups.len() || count > MAX_GROUPS {
            return Err(error);
        }
        groups.resize(count, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    #[test]
    fn a_peer_is_who_the_kernel_says() {
        let (one, _other) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
        let asker = Asker::of(&one, None).unwrap();
        let peer = asker.peers().next().unwrap();
        assert_eq!(peer.uid, rustix::process::geteuid().as_raw());
        assert_eq!(peer.gids[0], rustix::process::getegid().as_raw());
        let own: Vec<u32> = rustix::process::getgroups().unwrap().iter().map(|gid| gid.as_raw()).collect();
        assert_eq!(peer.gids[1..], own);
    }

    #[test]
    fn the_process_of_a_peer_is_the_one_that_connected() {
        let (one, _other) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
        assert_eq!(credentials(&one).unwrap().pid, std::process::id());
        // From Linux 6.5 on.
        if let Ok(own) = process(&one) {
            let mut set = [rustix::event::PollFd::new(&own, rustix::event::PollFlags::IN)];
            let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
            assert_eq!(rustix::event::poll(&mut set, Some(&now)), Ok(0), "it has not ended");
        }
    }

    #[test]
    fn who_became_another_user_asks_for_both() {
        let (one, _other) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
        let own = credentials(&one).unwrap();
        let users = |speaker| -> Vec<u32> { Asker::of(&one, speaker).unwrap().peers().map(|peer| peer.uid).collect() };
        assert_eq!(users(Some(own)), [own.uid]);
        let dropped = Credentials { uid: own.uid + 7, ..own };
        assert_eq!(users(Some(dropped)), [own.uid, own.uid + 7]);
    }
}
