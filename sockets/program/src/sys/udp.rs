//! Properties of a UDP socket, and sending datagrams from shared memory on it. Several of one length take one call,
//! and the kernel makes packets of them (`UDP_SEGMENT`).
//!
//! The system calls are made directly, as in [`super::tcp`].

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::sockopt::{socket_domain, socket_protocol, socket_type};
use rustix::net::{AddressFamily, SocketType, getpeername};
use rustix::time::Timespec;
use sidecore_ipc::shm::span::Span;
use sidecore_streams::datagrams;
use std::marker::PhantomData;
use std::mem::offset_of;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use syscalls::{Sysno, syscall};

/// Limit of pieces of one call: one per datagram of a run, and one more for a datagram that wraps.
const PIECES: usize = datagrams::MAX_RUN_DATAGRAMS as usize + 1;
/// Options of Linux's `udp.h`.
const UDP_CORK: i32 = 1;
const UDP_SEGMENT: i32 = 103;
/// Headers of a datagram with IPv4 and IPv6, bytes.
const HEADERS_4: u32 = 28;
const HEADERS_6: u32 = 48;
/// Packet size of most networks, bytes.
const ETHERNET: u32 = 1500;

/// Whether it is a connected UDP socket of the kernel's own.
pub fn is_connected_udp(socket: impl AsFd) -> bool {
    family(&socket).is_some() && is_connected(socket)
}

/// Whether it is an unconnected UDP socket of the kernel's own that may send to this address.
pub fn may_send_to(socket: impl AsFd, to: &SocketAddr) -> bool {
    let is_of_family = match family(&socket) {
        Some(AddressFamily::INET) => to.is_ipv4(),
        Some(_) => to.is_ipv6(),
        None => false,
    };
    is_of_family && !is_connected(socket)
}

/// Whether it is a UDP socket of the kernel's own.
pub fn is_udp(socket: impl AsFd) -> bool {
    family(socket).is_some()
}

fn is_connected(socket: impl AsFd) -> bool {
    getpeername(&socket).is_ok_and(|peer| peer.is_some())
}

fn family(socket: impl AsFd) -> Option<AddressFamily> {
    let is_udp = socket_type(&socket).ok() == Some(SocketType::DGRAM)
        && socket_protocol(&socket).ok().flatten() == Some(rustix::net::ipproto::UDP);
    let family = if is_udp { socket_domain(&socket).ok() } else { None };
    family.filter(|family| matches!(*family, AddressFamily::INET | AddressFamily::INET6))
}

/// Bytes of the largest datagram that the socket sends as one packet; for an unconnected socket, the size that most
/// networks carry. `None`: unknown, or the socket has an option that adds to a message.
pub fn most_bytes(socket: impl AsFd, to: Option<&SocketAddr>) -> Option<u32> {
    let socket = socket.as_fd();
    let special = [
        (libc::IPPROTO_UDP, UDP_CORK),
        (libc::IPPROTO_UDP, UDP_SEGMENT),
        (libc::IPPROTO_IP, libc::IP_RECVERR),
        (libc::IPPROTO_IPV6, libc::IPV6_RECVERR),
        (libc::SOL_SOCKET, libc::SO_TIMESTAMPING),
        (libc::SOL_SOCKET, libc::SO_ZEROCOPY),
        (libc::SOL_SOCKET, libc::SO_TXTIME),
    ];
    if special.into_iter().any(|(level, name)| number(socket, level, name).is_some_and(|value| value != 0)) {
        return None;
    }
    let (level, name, headers) = match socket_domain(socket).ok()? {
        AddressFamily::INET => (libc::IPPROTO_IP, libc::IP_MTU, HEADERS_4),
        _ => (libc::IPPROTO_IPV6, libc::IPV6_MTU, HEADERS_6),
    };
    if to.is_some() { Some(ETHERNET) } else { number(socket, level, name) }?.checked_sub(headers)
}

fn number(socket: BorrowedFd<'_>, level: i32, name: i32) -> Option<u32> {
    let (mut value, mut len) = (0_u32, size_of::<u32>() as libc::socklen_t);
    // SAFETY: the call writes `len` bytes to `value` at most; the descriptor is borrowed.
    unsafe { syscall!(Sysno::getsockopt, socket.as_raw_fd(), level, name, &raw mut value, &raw mut len) }.ok()?;
    Some(value)
}

/// The pieces of one call, by address.
pub struct Pieces<'a> {
    parts: [libc::iovec; PIECES],
    count: usize,
    _spans: PhantomData<Span<'a>>,
}

impl<'a> Pieces<'a> {
    /// These spans in order, without empty ones. `None`: there are too many.
    pub fn new(spans: impl Iterator<Item = Span<'a>>) -> Option<Self> {
        let nothing = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
        let mut pieces = Self { parts: [nothing; PIECES], count: 0, _spans: PhantomData };
        for span in spans.filter(|span| !span.is_empty()) {
            let part = pieces.parts.get_mut(pieces.count)?;
            *part = libc::iovec { iov_base: span.as_mut_ptr().cast(), iov_len: span.len() };
            pieces.count += 1;
        }
        Some(pieces)
    }
}

#[repr(C)]
struct Control {
    header: libc::cmsghdr,
    value: u16,
    _rest: [u16; 3],
}

#[repr(C)]
union Address {
    four: libc::sockaddr_in,
    six: libc::sockaddr_in6,
}

impl Address {
    /// The address and its length in bytes. Flow and scope are 0.
    fn of(to: &SocketAddr) -> (Self, usize) {
        match to {
            SocketAddr::V4(to) => {
                let four = libc::sockaddr_in {
                    sin_family: libc::AF_INET as libc::sa_family_t,
                    sin_port: to.port().to_be(),
                    sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(to.ip().octets()) },
                    sin_zero: [0; 8],
                };
                (Self { four }, size_of::<libc::sockaddr_in>())
            }
            SocketAddr::V6(to) => {
                let six = libc::sockaddr_in6 {
                    sin6_family: libc::AF_INET6 as libc::sa_family_t,
                    sin6_port: to.port().to_be(),
                    sin6_flowinfo: 0,
                    sin6_addr: libc::in6_addr { s6_addr: to.ip().octets() },
                    sin6_scope_id: 0,
                };
                (Self { six }, size_of::<libc::sockaddr_in6>())
            }
        }
    }
}

/// Sends the pieces as one datagram, or as datagrams of `segment` bytes each, except a shorter last one. Never blocks
/// or raises a signal; `to`: the receiver for an unconnected socket. The kernel accepts all of them or none.
///
/// # Errors
/// Errors of `sendmsg`; `Errno::AGAIN`: the kernel has no room now.
pub fn send(
    socket: impl AsFd,
    pieces: &Pieces<'_>,
    segment: Option<u16>,
    to: Option<&SocketAddr>,
) -> Result<(), Errno> {
    // SAFETY: all-zero bytes are a valid header without address, data and control messages.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_iov = pieces.parts.as_ptr().cast_mut();
    header.msg_iovlen = pieces.count;
    let mut address = to.map(Address::of);
    if let Some((address, len)) = &mut address {
        header.msg_name = std::ptr::from_mut(address).cast();
        header.msg_namelen = *len as libc::socklen_t;
    }
    let cut = libc::cmsghdr {
        cmsg_len: offset_of!(Control, value) + size_of::<u16>(),
        cmsg_level: libc::IPPROTO_UDP,
        cmsg_type: UDP_SEGMENT,
    };
    let mut control = Control { header: cut, value: segment.unwrap_or_default(), _rest: [0; 3] };
    if segment.is_some() {
        header.msg_control = (&raw mut control).cast();
        header.msg_controllen = size_of::<Control>();
    }
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    loop {
        // SAFETY: the header and the memory it refers to live until the call returns; the kernel only reads the spans'
        // memory, which stays mapped; the descriptor is borrowed.
        match unsafe { syscall!(Sysno::sendmsg, socket.as_fd().as_raw_fd(), &raw const header, flags) } {
            Ok(_) => return Ok(()),
            Err(syscalls::Errno::EINTR) => {}
            Err(error) => return Err(Errno::from_raw_os_error(error.into_raw())),
        }
    }
}

/// Whether the kernel has no room for this socket now.
pub fn is_full(socket: impl AsFd) -> bool {
    let mut room = [PollFd::new(&socket, PollFlags::OUT)];
    poll(&mut room, Some(&Timespec::default())) == Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream, UdpSocket};

    fn pair(address: &str) -> (UdpSocket, UdpSocket) {
        let (here, there) = (UdpSocket::bind(address).unwrap(), UdpSocket::bind(address).unwrap());
        here.connect(there.local_addr().unwrap()).unwrap();
        (here, there)
    }

    fn send_all(socket: &UdpSocket, bytes: &mut [&mut [u8]], segment: Option<u16>) -> Result<(), Errno> {
        send(socket, &Pieces::new(bytes.iter_mut().map(|bytes| Span::of(bytes))).unwrap(), segment, None)
    }

    #[test]
    fn who_is_connected_to_nobody_sends_to_an_address() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let (connected, there) = pair(address);
            let (here, to) = (UdpSocket::bind(address).unwrap(), there.local_addr().unwrap());
            assert!(may_send_to(&here, &to) && !may_send_to(connected, &to));
            assert_eq!(most_bytes(&here, Some(&to)), Some(if to.is_ipv4() { 1_472 } else { 1_452 }));
            let mut bytes = [1; 100];
            send(&here, &Pieces::new([Span::of(&mut bytes)].into_iter()).unwrap(), Some(50), Some(&to)).unwrap();
            assert_eq!([(); 2].map(|()| there.recv(&mut [0; 200]).unwrap()), [50, 50]);
        }
        let four = UdpSocket::bind("127.0.0.1:0").unwrap();
        assert!(!may_send_to(four, &"[::1]:1".parse().unwrap()));
    }

    #[test]
    fn one_call_sends_datagrams_of_one_length() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let (here, there) = pair(address);
            send_all(&here, &mut [&mut [1; 30], &mut [2; 34], &mut [], &mut [3; 64], &mut [4; 9]], Some(64)).unwrap();
            send_all(&here, &mut [&mut [5; 3], &mut [6; 4]], None).unwrap();
            send_all(&here, &mut [], None).unwrap();
            let mut bytes = [0; 100];
            let lens = [(); 5].map(|()| there.recv(&mut bytes).unwrap());
            assert_eq!(lens, [64, 64, 9, 7, 0]);
        }
    }

    #[test]
    fn what_the_peer_refused_is_told_once() {
        let (here, there) = pair("127.0.0.1:0");
        drop(there);
        let one = || send_all(&here, &mut [&mut [1]], None);
        assert_eq!((one(), one(), one()), (Ok(()), Err(Errno::CONNREFUSED), Ok(())));
    }

    #[test]
    fn only_connected_udp_is_one() {
        let (here, there) = pair("127.0.0.1:0");
        assert!(is_connected_udp(&here) && is_connected_udp(pair("[::1]:0").0));
        assert!(!is_connected_udp(there), "connected to nobody");
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        assert!(!is_connected_udp(TcpStream::connect(listener.local_addr().unwrap()).unwrap()));
        assert!(!is_connected_udp(std::os::unix::net::UnixDatagram::pair().unwrap().0));
        assert!(!is_connected_udp(std::fs::File::open("/dev/null").unwrap()));
    }

    #[test]
    fn a_datagram_is_as_large_as_a_packet_and_none_where_options_say_more() {
        let (here, there) = pair("127.0.0.1:0");
        assert!(most_bytes(&here, None).is_some_and(|most| most >= 1_000));
        assert_eq!(most_bytes(there, None), None, "connected to nobody");
        let yes = 1_i32;
        // SAFETY: the call reads an `int` at that address.
        unsafe { syscall!(Sysno::setsockopt, here.as_raw_fd(), libc::IPPROTO_IP, libc::IP_RECVERR, &raw const yes, 4) }
            .unwrap();
        assert_eq!(most_bytes(&here, None), None);
    }

    #[test]
    fn more_pieces_than_a_call_takes_are_not_sent_by_halves() {
        let mut bytes = [[1_u8; 1]; PIECES + 1];
        assert!(Pieces::new(bytes.iter_mut().map(|byte| Span::of(byte))).is_none());
        assert!(Pieces::new(bytes[1..].iter_mut().map(|byte| Span::of(byte))).is_some());
    }
}
