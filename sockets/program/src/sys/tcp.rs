//! Properties of a connected TCP socket, and sending shared memory on it.
//!
//! The system calls are made directly: in a program with rings, the C library's functions of the same names are the
//! interposed ones.

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::SocketType;
use rustix::net::sockopt::{self, socket_protocol, socket_type};
use rustix::time::Timespec;
use sidecore_core::sync::AtomicU64;
use sidecore_ipc::shm::span::Span;
use std::io;
use std::mem::offset_of;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::atomic::Ordering;
use std::time::Duration;
use syscalls::{Sysno, syscall};

/// Of Linux's `sockios.h`.
const SIOCOUTQ: usize = 0x5411;

/// The beginning of Linux's `struct tcp_info`, since 4.1.
#[repr(C)]
#[derive(Default)]
struct TcpInfo {
    state: u8,
    _before: [u8; 7],
    _times: [u32; 24],
    _pacing: [u64; 2],
    bytes_acked: u64,
    bytes_received: u64,
}

const _: () = assert!(offset_of!(TcpInfo, bytes_acked) == 120);

/// Default of `net.core.wmem_max`, bytes: a larger send buffer may be cut.
const SURELY_ALLOWED: usize = 212_992;

/// Limit for a linger time read from shared memory, seconds.
const MAX_LINGER_S: u64 = 20_000_000;

/// States of `struct tcp_info` that allow sending.
const ESTABLISHED: u8 = 1;
const CLOSE_WAIT: u8 = 8;

/// Whether it is a TCP connection that can be sent on: of the kernel's own TCP, without a layer on top.
pub fn is_connected_tcp(socket: impl AsFd) -> bool {
    let is_tcp = socket_type(&socket).ok() == Some(SocketType::STREAM)
        && socket_protocol(&socket).ok().flatten() == Some(rustix::net::ipproto::TCP);
    is_tcp && info(socket.as_fd()).is_ok_and(|info| matches!(info.state, ESTABLISHED | CLOSE_WAIT))
}

/// Whether the socket has none of the options that keep a connection on the kernel's path. It may have them from a
/// listener that another program prepared.
pub fn has_usual_options(socket: impl AsFd) -> bool {
    const OFF: [(i32, i32); 4] = [
        (libc::SOL_SOCKET, libc::SO_LINGER),
        (libc::SOL_SOCKET, libc::SO_ZEROCOPY),
        (libc::SOL_SOCKET, libc::SO_TIMESTAMPING),
        (libc::IPPROTO_TCP, libc::TCP_CORK),
    ];
    let socket = socket.as_fd();
    let is_off = |(level, name)| {
        // All of them begin with a number that is zero if they are off.
        let mut value = [0_i32; 2];
        let mut len = size_of_val(&value) as libc::socklen_t;
        let (fd, to) = (socket.as_raw_fd(), value.as_mut_ptr());
        // SAFETY: the call writes at most `len` bytes there; the descriptor is borrowed. A kernel without the option
        // writes nothing.
        let _ = unsafe { syscall!(Sysno::getsockopt, fd, level, name, to, &raw mut len) };
        value[0] == 0
    };
    OFF.into_iter().all(is_off)
}

/// Bytes that the kernel has accepted for this connection since it began, up to a constant. Exact only while no
/// process sends on it.
///
/// # Errors
/// It is no TCP socket.
pub fn accepted(socket: impl AsFd) -> io::Result<u64> {
    let socket = socket.as_fd();
    let mut before = info(socket)?.bytes_acked;
    loop {
        // Bytes acknowledged between the two queries would count in neither or in both.
        let queued = waiting(socket)?;
        let after = info(socket)?.bytes_acked;
        if before == after {
            return Ok(after.wrapping_add(u64::from(queued)));
        }
        before = after;
    }
}

/// Bytes that the kernel holds for the peer (`SIOCOUTQ`).
///
/// # Errors
/// The socket does not support the query.
pub fn waiting(socket: impl AsFd) -> io::Result<u32> {
    let mut count: i32 = 0;
    // SAFETY: the call writes an `int` to that address, and the descriptor is borrowed.
    unsafe { syscall!(Sysno::ioctl, socket.as_fd().as_raw_fd(), SIOCOUTQ, &raw mut count) }.map_err(system)?;
    Ok(count.cast_unsigned())
}

/// Sends the two spans without blocking and without a signal; `more`: further bytes follow immediately. Returns the
/// bytes sent.
///
/// # Errors
/// Errors of `sendmsg`; `Errno::AGAIN`: the kernel has no room now.
pub fn send(socket: impl AsFd, pieces: [Span<'_>; 2], more: bool) -> Result<usize, Errno> {
    let parts = pieces.map(|piece| libc::iovec { iov_base: piece.as_mut_ptr().cast(), iov_len: piece.len() });
    // SAFETY: all-zero bytes are a valid header without address, data and control messages.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_iov = parts.as_ptr().cast_mut();
    header.msg_iovlen = if pieces[1].is_empty() { 1 } else { 2 };
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL | if more { libc::MSG_MORE } else { 0 };
    loop {
        // SAFETY: the header and the memory it refers to live until the call returns; the kernel only reads the spans'
        // memory, which stays mapped; the descriptor is borrowed.
        match unsafe { syscall!(Sysno::sendmsg, socket.as_fd().as_raw_fd(), &raw const header, flags) } {
            Ok(sent) => return Ok(sent),
            Err(syscalls::Errno::EINTR) => {}
            Err(error) => return Err(Errno::from_raw_os_error(error.into_raw())),
        }
    }
}

/// The program's socket with this number. It is open: a close first removes its stream.
pub(crate) fn program_socket(number: RawFd) -> BorrowedFd<'static> {
    // SAFETY: not closed here. If the program closed it by a call that the library does not see, a system call fails
    // or concerns the file that has the number now, as with the program's own calls.
    unsafe { BorrowedFd::borrow_raw(number) }
}

pub(crate) fn shut_sending(socket: BorrowedFd<'_>) {
    // The peer may have closed it already.
    let _ = rustix::net::shutdown(socket, rustix::net::Shutdown::Write);
}

/// Sets a linger of zero: the last close then resets the connection, so the peer sees no clean end. The word stores
/// the program's own linger, see [`LINGER`](sidecore_streams::layout::LINGER).
pub fn reset_at_close(socket: impl AsFd, word: &AtomicU64) {
    if word.load(Ordering::Relaxed) == 0 {
        // Both fail only if the connection is gone.
        let own = sockopt::socket_linger(&socket).unwrap_or(None).filter(|own| !own.is_zero());
        word.store(own.map_or(1, |own| own.as_secs().saturating_add(2)), Ordering::Relaxed);
        let _ = sockopt::set_socket_linger(&socket, Some(Duration::ZERO));
    }
}

/// Restores the program's own linger after the last byte was sent.
pub fn end_in_order(socket: impl AsFd, word: &AtomicU64) {
    let own = match word.swap(0, Ordering::Relaxed) {
        0 => return,
        1 => None,
        own => Some(Duration::from_secs((own - 2).min(MAX_LINGER_S))),
    };
    let _ = sockopt::set_socket_linger(&socket, own);
}

/// Whether the kernel has an error for the next call on the socket. The error stays.
pub fn has_error(socket: impl AsFd) -> bool {
    let mut one = [PollFd::new(&socket, PollFlags::empty())];
    poll(&mut one, Some(&Timespec::default())).is_ok() && one[0].revents().contains(PollFlags::ERR)
}

/// Has the kernel announce that the socket has room, to all who wait for an edge: sets of `epoll` in any process,
/// signals, rings of the kernel's. It does so whenever this option is set.
pub fn announce_room(socket: impl AsFd) {
    let socket = socket.as_fd().as_raw_fd();
    let (level, name) = (libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT);
    let mut limit: u32 = 0;
    let mut len = size_of::<u32>() as libc::socklen_t;
    // SAFETY: the first call writes a number of that length, and the second one reads it; both fail on sockets without
    // the option, and on a number that is closed.
    let _ = unsafe {
        syscall!(Sysno::getsockopt, socket, level, name, &raw mut limit, &raw mut len)
            .and_then(|_| syscall!(Sysno::setsockopt, socket, level, name, &raw const limit, len))
    };
}

/// Raises the send buffer by `bytes` before a close, up to [`SURELY_ALLOWED`].
pub(crate) fn make_room(socket: BorrowedFd<'_>, bytes: u32) {
    // The kernel doubles the value and cuts it to its limit: a cut value could be below the present one.
    let wanted = sockopt::socket_send_buffer_size(socket).unwrap_or(usize::MAX / 2) / 2 + bytes as usize;
    if wanted <= SURELY_ALLOWED {
        let _ = sockopt::set_socket_send_buffer_size(socket, wanted);
    }
}

/// Resets a connection, so that the peer detects the missing bytes.
pub fn abort(socket: BorrowedFd<'_>) {
    let nowhere: libc::sockaddr = libc::sockaddr { sa_family: libc::AF_UNSPEC as u16, sa_data: [0; 14] };
    // SAFETY: the call reads an address of the given length, and the descriptor is borrowed.
    let _ = unsafe { syscall!(Sysno::connect, socket.as_raw_fd(), &raw const nowhere, size_of::<libc::sockaddr>()) };
}

fn info(socket: BorrowedFd<'_>) -> io::Result<TcpInfo> {
    let mut info = TcpInfo::default();
    let mut len = size_of::<TcpInfo>() as libc::socklen_t;
    // SAFETY: `info` is plain numbers, writable for `len` bytes; the descriptor is borrowed.
    unsafe {
        let (fd, to) = (socket.as_raw_fd(), &raw mut info);
        syscall!(Sysno::getsockopt, fd, libc::IPPROTO_TCP, libc::TCP_INFO, to, &raw mut len)
    }
    .map_err(system)?;
    if (len as usize) < size_of::<TcpInfo>() {
        return Err(io::Error::new(io::ErrorKind::Unsupported, "the kernel does not count a connection's bytes"));
    }
    Ok(info)
}

fn system(error: syscalls::Errno) -> io::Error {
    io::Error::from_raw_os_error(error.into_raw())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream, UdpSocket};

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let here = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (here, listener.accept().unwrap().0)
    }

    #[test]
    fn the_kernel_counts_what_it_accepted() {
        let (mut here, mut there) = pair();
        let start = accepted(&here).unwrap();
        for round in 1..200_u64 {
            let sent = send(&here, [Span::of(&mut [1; 100]), Span::of(&mut [2; 11])], false).unwrap();
            assert_eq!(sent, 111);
            assert_eq!(accepted(&here).unwrap() - start, 111 * round);
            if round % 3 == 0 {
                there.read_exact(&mut [0; 333]).unwrap();
            }
        }
        here.write_all(b"x").unwrap();
        assert_eq!(accepted(&here).unwrap() - start, 111 * 199 + 1);
    }

    #[test]
    fn a_full_socket_does_not_block() {
        let (here, _there) = pair();
        let mut bytes = vec![0; 1 << 20];
        let last =
            (0..100).map(|_| send(&here, [Span::of(&mut bytes[..]), Span::of(&mut [])], false)).find(Result::is_err);
        assert_eq!(last, Some(Err(Errno::AGAIN)));
    }

    #[test]
    fn only_connected_tcp_is_one() {
        let (here, there) = pair();
        assert!(is_connected_tcp(&here));
        drop(there);
        assert!(is_connected_tcp(&here), "half closed");
        assert!(!is_connected_tcp(TcpListener::bind("127.0.0.1:0").unwrap()));
        assert!(!is_connected_tcp(UdpSocket::bind("127.0.0.1:0").unwrap()));
        assert!(!is_connected_tcp(std::fs::File::open("/dev/null").unwrap()));
        let (unix, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        assert!(!is_connected_tcp(unix));
    }
}
