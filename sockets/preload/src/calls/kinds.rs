//! Effects of system calls on a connection in a ring, by request and option numbers.

use libc::{c_int, c_ulong};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Needs {
    /// None: it concerns the kernel's socket, or receiving.
    Nothing,
    /// All bytes sent before must be with the kernel. After the call the connection may continue in a ring.
    Drained,
    /// The connection must be on the kernel's path, from then on permanently.
    Kernel,
    /// The connection leaves its ring permanently as soon as the kernel has the bytes before, and the call does not wait
    /// for that. Nothing if the value is zero or begins with zero.
    KernelSoonUnlessOff,
}

const SIOCINQ: c_ulong = 0x541B;
/// Queries for bytes that the kernel holds for the peer: all, and those not sent yet.
pub(crate) const SIOCOUTQ: c_ulong = 0x5411;
pub(crate) const SIOCOUTQNSD: c_ulong = 0x894B;
pub(crate) const FIONCLEX: c_ulong = 0x5450;
const FIOCLEX: c_ulong = 0x5451;
const FIOASYNC: c_ulong = 0x5452;
const FIONBIO: c_ulong = 0x5421;
/// Affects only receiving.
const UDP_GRO: c_int = 104;
/// Queries that programs use to detect a terminal.
const TCGETS: c_ulong = 0x5401;
const TCGETS2: c_ulong = 0x802C_542A;
const TIOCGWINSZ: c_ulong = 0x5413;
const SIOCATMARK: c_ulong = 0x8905;
/// Queries about addresses and interfaces, which accept any socket.
const SIOC_INTERFACES: std::ops::RangeInclusive<c_ulong> = 0x890B..=0x894A;

pub(crate) fn ioctl(request: c_ulong) -> Needs {
    match request {
        SIOCINQ | SIOCOUTQ | SIOCOUTQNSD | FIONCLEX | FIOCLEX | FIONBIO | TCGETS | TCGETS2 | TIOCGWINSZ
        | SIOCATMARK => Needs::Nothing,
        // Signals would continue while the service has it open.
        FIOASYNC => Needs::KernelSoonUnlessOff,
        request if SIOC_INTERFACES.contains(&request) => Needs::Nothing,
        _ => Needs::Drained,
    }
}

pub(crate) fn option(level: c_int, name: c_int) -> Needs {
    match (level, name) {
        (libc::SOL_SOCKET, libc::SO_LINGER) | (libc::IPPROTO_TCP, libc::TCP_CORK) => Needs::KernelSoonUnlessOff,
        // The kernel applies the sending ones to all bytes it sends from then on, whenever the program gave them.
        (
            libc::SOL_SOCKET,
            libc::SO_PRIORITY
            | libc::SO_MARK
            | libc::SO_SNDBUF
            | libc::SO_SNDBUFFORCE
            | libc::SO_MAX_PACING_RATE
            | libc::SO_REUSEADDR
            | libc::SO_REUSEPORT
            | libc::SO_KEEPALIVE
            | libc::SO_RCVBUF
            | libc::SO_RCVBUFFORCE
            | libc::SO_RCVLOWAT
            | libc::SO_RCVTIMEO
            | libc::SO_SNDTIMEO
            | libc::SO_BROADCAST
            | libc::SO_OOBINLINE
            | libc::SO_TIMESTAMP
            | libc::SO_TIMESTAMPNS
            | libc::SO_BINDTODEVICE
            | libc::SO_INCOMING_CPU
            | libc::SO_BUSY_POLL
            | libc::SO_ATTACH_FILTER
            | libc::SO_DETACH_FILTER,
        )
        | (
            libc::IPPROTO_TCP,
            libc::TCP_NODELAY
            | libc::TCP_NOTSENT_LOWAT
            | libc::TCP_KEEPIDLE
            | libc::TCP_KEEPINTVL
            | libc::TCP_KEEPCNT
            | libc::TCP_SYNCNT
            | libc::TCP_LINGER2
            | libc::TCP_DEFER_ACCEPT
            | libc::TCP_WINDOW_CLAMP
            | libc::TCP_QUICKACK
            | libc::TCP_USER_TIMEOUT
            | libc::TCP_FASTOPEN
            | libc::TCP_CONGESTION
            | libc::TCP_MAXSEG,
        )
        | (libc::IPPROTO_IP | libc::IPPROTO_IPV6, _) => Needs::Nothing,
        _ => Needs::Kernel,
    }
}

/// Requirement of a `setsockopt` on a socket for datagrams: changes to sending affect only later datagrams.
pub(crate) fn option_of_datagrams(level: c_int, name: c_int) -> Needs {
    match (level, name) {
        (libc::IPPROTO_IP, libc::IP_RECVERR) | (libc::IPPROTO_IPV6, libc::IPV6_RECVERR) => Needs::Kernel,
        (
            libc::SOL_SOCKET,
            libc::SO_BINDTODEVICE | libc::SO_PRIORITY | libc::SO_MARK | libc::SO_SNDBUF | libc::SO_SNDBUFFORCE,
        )
        | (libc::IPPROTO_IP | libc::IPPROTO_IPV6, _) => Needs::Drained,
        (libc::IPPROTO_UDP, UDP_GRO) => Needs::Nothing,
        _ => option(level, name),
    }
}

pub(crate) fn question(level: c_int, name: c_int) -> Needs {
    match (level, name) {
        (libc::IPPROTO_TCP, libc::TCP_INFO) => Needs::Drained,
        _ => Needs::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_is_the_kernels() {
        assert_eq!(ioctl(0x1234_5678), Needs::Drained);
        assert_eq!((option(libc::SOL_SOCKET, 999), option(999, 1)), (Needs::Kernel, Needs::Kernel));
        for name in [libc::SO_ZEROCOPY, libc::SO_TXTIME] {
            assert_eq!(option(libc::SOL_SOCKET, name), Needs::Kernel);
        }
        for name in [libc::TCP_ULP, libc::TCP_REPAIR] {
            assert_eq!(option(libc::IPPROTO_TCP, name), Needs::Kernel);
        }
    }

    #[test]
    fn what_makes_more_of_a_datagram_than_its_packet_is_the_kernels() {
        const UDP_CORK: c_int = 1;
        const UDP_SEGMENT: c_int = 103;
        for name in [UDP_CORK, UDP_SEGMENT] {
            assert_eq!(option_of_datagrams(libc::IPPROTO_UDP, name), Needs::Kernel);
        }
        for name in [libc::SO_ZEROCOPY, libc::SO_TXTIME, libc::SO_TIMESTAMPING] {
            assert_eq!(option_of_datagrams(libc::SOL_SOCKET, name), Needs::Kernel);
        }
        assert_eq!(option_of_datagrams(libc::IPPROTO_IP, libc::IP_RECVERR), Needs::Kernel);
        assert_eq!(option_of_datagrams(libc::IPPROTO_IP, libc::IP_TTL), Needs::Drained, "it is for what follows");
    }

    #[test]
    fn what_programs_set_on_every_connection_is_known() {
        assert_eq!(option(libc::IPPROTO_TCP, libc::TCP_NODELAY), Needs::Nothing);
        assert_eq!(option(libc::SOL_SOCKET, libc::SO_KEEPALIVE), Needs::Nothing);
        assert_eq!(ioctl(FIONBIO), Needs::Nothing);
        for name in [libc::SO_SNDBUF, libc::SO_PRIORITY, libc::SO_MARK] {
            assert_eq!(option(libc::SOL_SOCKET, name), Needs::Nothing);
            assert_eq!(option_of_datagrams(libc::SOL_SOCKET, name), Needs::Drained, "it is for what follows");
        }
        assert_eq!(option(libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT), Needs::Nothing);
        for (level, name) in [(libc::SOL_SOCKET, libc::SO_LINGER), (libc::IPPROTO_TCP, libc::TCP_CORK)] {
            assert_eq!(option(level, name), Needs::KernelSoonUnlessOff);
        }
    }
}
