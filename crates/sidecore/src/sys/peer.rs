//! Who is at the other end of a Unix socket, as the kernel vouches for: as it was when the peer connected.

use rustix::net::sockopt;
use std::ffi::c_void;
use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// Most supplementary groups that Linux lets a process have.
const MAX_GROUPS: usize = 65_536;

/// A process's user and groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Peer {
    /// Its user.
    pub(crate) uid: u32,
    /// Its groups: the primary one first.
    pub(crate) gids: Vec<u32>,
}

/// The process that connected this socket.
///
/// # Errors
/// Those of the socket.
pub(crate) fn peer(socket: impl AsFd) -> io::Result<Peer> {
    let credentials = sockopt::socket_peercred(&socket)?;
    let mut gids = vec![credentials.gid.as_raw()];
    gids.extend(supplementary(&socket)?);
    Ok(Peer { uid: credentials.uid.as_raw(), gids })
}

/// `SO_PEERGROUPS`. Where the room is too small the kernel says how much it takes.
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
        let peer = peer(&one).unwrap();
        assert_eq!(peer.uid, rustix::process::geteuid().as_raw());
        assert_eq!(peer.gids[0], rustix::process::getegid().as_raw());
        let own: Vec<u32> = rustix::process::getgroups().unwrap().iter().map(|gid| gid.as_raw()).collect();
        assert_eq!(peer.gids[1..], own);
    }
}
