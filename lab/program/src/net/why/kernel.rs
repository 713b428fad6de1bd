//! Questions to the kernel over netlink: TCP's own account of each connection, and the number of firewall rules.

use netlink_packet_core::{Emitable, NLM_F_DUMP, NLM_F_REQUEST, NLMSG_DONE, NLMSG_ERROR, NetlinkBuffer, Parseable};
use netlink_packet_sock_diag::constants::{AF_INET, AF_INET6, IPPROTO_TCP};
use netlink_packet_sock_diag::inet::nlas::{MemInfo, Nla, TcpInfo};
use netlink_packet_sock_diag::inet::{ExtensionFlags, InetRequest, InetResponse, SocketId, StateFlags};
use netlink_packet_sock_diag::{SOCK_DIAG_BY_FAMILY, inet};
use rtnetlink::sys::Socket;
use rtnetlink::sys::protocols::{NETLINK_NETFILTER, NETLINK_SOCK_DIAG};
use serde::{Deserialize, Serialize};
use std::io;
use std::net::{IpAddr, SocketAddr};

const HEADER: usize = 16;
const ALIGNED_TO: usize = 4;
/// Most messages of an answer. A server may have a million connections.
const MAX_MESSAGES: usize = 1 << 21;
/// Numbers of the kernel's `linux/netfilter/nf_tables.h`: the subsystem, its request for rules, and their answer.
const GET_RULES: u16 = 10 << 8 | 7;
const RULE: u16 = 10 << 8 | 6;
/// `nfgenmsg`: all families.
const ALL_FAMILIES: [u8; 4] = [0; 4];

/// A TCP connection. Times and bytes are since its beginning: only differences are meaningful.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(in crate::net) struct Connection {
    pub(super) local: SocketAddr,
    pub(super) remote: SocketAddr,
    pub(super) inode: u64,
    pub(super) congestion: String,
    /// With unacknowledged or waiting bytes; limited by the receiver's window, by the sender's buffer.
    pub(super) busy_us: u64,
    pub(super) rwnd_us: u64,
    pub(super) sndbuf_us: u64,
    pub(super) sent: u64,
    pub(super) resent: u64,
    pub(super) acked: u64,
    pub(super) received: u64,
    /// Of now. Without a measurement `min_rtt_us` is 0.
    pub(super) rtt_us: u64,
    pub(super) min_rtt_us: u64,
    pub(super) pmtu: u64,
    pub(super) unacked_packets: u64,
    /// Bytes that the remote end permits in flight.
    pub(super) window: u64,
    /// Bytes that the local program has not read, and their limit with overhead.
    pub(super) unread: u64,
    pub(super) room: u64,
    /// Limit of unacknowledged and waiting bytes, with overhead.
    pub(super) buffer: u64,
}

/// Those of the thread's namespace that `is_own` accepts, and `most` at most.
pub(super) fn connections(most: usize, is_own: impl Fn(&Connection) -> bool) -> io::Result<Vec<Connection>> {
    let (mut all, mut short) = (Vec::new(), false);
    for family in [AF_INET, AF_INET6] {
        let request = InetRequest {
            family,
            protocol: IPPROTO_TCP,
            extensions: ExtensionFlags::INFO | ExtensionFlags::CONG | ExtensionFlags::SKMEMINFO,
            states: StateFlags::ESTABLISHED | StateFlags::FIN_WAIT1 | StateFlags::CLOSE_WAIT,
            socket_id: if family == AF_INET { SocketId::new_v4() } else { SocketId::new_v6() },
        };
        let mut payload = vec![0; request.buffer_len()];
        request.emit(&mut payload);
        dump(NETLINK_SOCK_DIAG, SOCK_DIAG_BY_FAMILY, &payload, |_, answer| {
            let own = InetResponse::parse(answer).ok().and_then(connection);
            short |= own.is_none();
            all.extend(own.filter(|own| all.len() < most && is_own(own)));
        })?;
    }
    if all.is_empty() && short {
        return Err(io::Error::other("this kernel's account of a connection is too short: 5.5 or later has all"));
    }
    Ok(all)
}

/// Rules of nftables, and of iptables in front of it. It takes `CAP_NET_ADMIN`.
pub(super) fn rules() -> io::Result<u64> {
    let mut rules = 0;
    let counted = dump(NETLINK_NETFILTER, GET_RULES, &ALL_FAMILIES, |kind, _| rules += u64::from(kind == RULE));
    match counted {
        // This kernel has no nftables.
        Err(error) if matches!(error.raw_os_error(), Some(libc::EINVAL | libc::EPROTONOSUPPORT)) => Ok(0),
        counted => counted.map(|()| rules),
    }
}

fn connection(answer: InetResponse) -> Option<Connection> {
    let inet::InetResponseHeader { socket_id: id, recv_queue, inode, .. } = answer.header;
    let (mut info, mut memory, mut congestion) = (None::<TcpInfo>, None::<MemInfo>, String::new());
    for attribute in answer.nlas {
        match attribute {
            Nla::TcpInfo(own) => info = Some(own),
            Nla::MemInfo(own) => memory = Some(own),
            Nla::Congestion(name) => congestion = name,
            _ => {}
        }
    }
    let info = info?;
    let end = |address: IpAddr, port| SocketAddr::new(address.to_canonical(), port);
    let known = |us: u32| if us == u32::MAX { 0 } else { u64::from(us) };
    Some(Connection {
        local: end(id.source_address, id.source_port),
        remote: end(id.destination_address, id.destination_port),
        inode: inode.into(),
        congestion,
        busy_us: info.busy_time,
        rwnd_us: info.rwnd_limited,
        sndbuf_us: info.sndbuf_limited,
        sent: info.bytes_sent,
        resent: info.bytes_retrans,
        acked: info.bytes_acked,
        received: info.bytes_received,
        rtt_us: info.rtt.into(),
        min_rtt_us: known(info.min_rtt),
        pmtu: info.pmtu.into(),
        unacked_packets: info.unacked.into(),
        window: info.snd_wnd.into(),
        unread: recv_queue.into(),
        room: memory.as_ref().map_or(0, |memory| memory.receive_queue_max.into()),
        buffer: memory.map_or(0, |memory| memory.send_queue_max.into()),
    })
}

/// Calls `each` with type and content of the messages of the answer.
fn dump(protocol: isize, kind: u16, payload: &[u8], mut each: impl FnMut(u16, &[u8])) -> io::Result<()> {
    let mut request = vec![0; HEADER + payload.len()];
    let length = request.len() as u32;
    let mut header = NetlinkBuffer::new(&mut request);
    header.set_length(length);
    header.set_message_type(kind);
    header.set_flags(NLM_F_REQUEST | NLM_F_DUMP);
    request[HEADER..].copy_from_slice(payload);
    let mut socket = Socket::new(protocol)?;
    socket.bind_auto()?;
    socket.connect(&rtnetlink::sys::SocketAddr::new(0, 0))?;
    socket.send(&request, 0)?;
    let mut messages = 0;
    while messages < MAX_MESSAGES {
        let (bytes, _) = socket.recv_from_full()?;
        let mut rest = &bytes[..];
        while let Ok(message) = NetlinkBuffer::new_checked(rest) {
            match message.message_type() {
                NLMSG_DONE => return Ok(()),
                NLMSG_ERROR => {
                    let code = message.payload().first_chunk().map_or(0, |code| i32::from_ne_bytes(*code));
                    return if code == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(code.saturating_neg())) };
                }
                kind => each(kind, message.payload()),
            }
            messages += 1;
            rest = rest.get((message.length() as usize).next_multiple_of(ALIGNED_TO)..).unwrap_or_default();
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::{Ipv6Addr, TcpListener, TcpStream};

    #[test]
    fn a_connection_of_this_process_is_found_with_its_bytes() {
        for listener in [TcpListener::bind("127.0.0.1:0"), TcpListener::bind((Ipv6Addr::UNSPECIFIED, 0))] {
            let Ok(listener) = listener else { continue };
            let port = listener.local_addr().unwrap().port();
            let mut here = TcpStream::connect(("127.0.0.1", port)).unwrap();
            let there = listener.accept().unwrap().0;
            here.write_all(&[0; 1_000]).unwrap();
            let found = || connections(1, |own| own.local.port() == port).unwrap().remove(0);
            while found().unread < 1_000 {}
            let found = found();
            assert_eq!((found.received, found.remote), (1_000, here.local_addr().unwrap()));
            assert!(found.room > 1_000 && found.inode > 0 && !found.congestion.is_empty(), "{found:?}");
            assert_eq!(
                found.local,
                SocketAddr::new([127, 0, 0, 1].into(), port),
                "a mapped address is written as IPv4"
            );
            drop(there);
        }
    }
}
