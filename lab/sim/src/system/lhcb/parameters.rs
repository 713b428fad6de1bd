//! Parameters, and the times and sizes derived from them.

use crate::settings::{Bytes, Count, Gbit, Ns, NsPerByte, Us, settings};
use sidecore_core::policy::notify::Notify;

/// Headers of IP and UDP, and of IP and TCP with the time stamp option, bytes.
const IP_UDP: u64 = 28;
const IP_TCP: u64 = 52;
/// Header of an Ethernet frame; check sequence, preamble and gap, which exist only on the link; bytes.
const ETHERNET: u64 = 14;
const ON_THE_LINK: u64 = 24;
/// Shortest Ethernet frame without its check sequence, bytes.
const SHORTEST_FRAME: u64 = 60;

type Step = Ns<0, 1_000_000>;
type Room = Bytes<1, { 1 << 30 }>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Traffic {
    /// One sends, as fast as the other's window allows.
    Tcp,
    /// One sends, as fast as its interface accepts.
    Udp,
    /// One sends a datagram and waits for the answer.
    PingPong,
}

settings! {
    Lhcb {
        nic: Interface {
            ring: Count<2, 65_536>,
            moderation_count: Count<1, 4096>,
            moderation_us: Us<1_000, 1_000_000_000>,
        }
        bus: Bus {
            gbit_per_s: Gbit<10, 10_000_000>,
        }
        link: Link {
            gbit_per_s: Gbit<10, 1_000_000>,
            mtu_bytes: Bytes<576, 16_000>,
            latency_us: Us<0, 100_000_000>,
        }
        kernel: Kernel {
            #![expect(clippy::struct_field_names, reason = "names of plans")]
            interrupt_ns: Step,
            complete_ns: Step,
            ack_ns: Step,
            wake_ns: Step,
        }
        send: Send {
            packet_ns: Step,
            byte_ns: NsPerByte<0, 100_000>,
        }
        receive: Receive {
            #![expect(clippy::struct_field_names, reason = "names of plans")]
            packet_ns: Step,
            call_ns: Step,
            byte_ns: NsPerByte<0, 100_000>,
        }
        socket: Socket {
            #![expect(clippy::struct_field_names, reason = "names of plans")]
            send_bytes: Room,
            receive_bytes: Room,
            window_bytes: Room,
            ping_bytes: Bytes<1, 16_000>,
        }
    }
}

impl Lhcb {
    /// Payload of a packet, bytes.
    pub(super) fn payload(&self, traffic: Traffic) -> u64 {
        let mtu = u64::from(self.link.mtu_bytes.get());
        match traffic {
            Traffic::Tcp => mtu - IP_TCP,
            Traffic::Udp => mtu - IP_UDP,
            Traffic::PingPong => self.socket.ping_bytes.get().into(),
        }
    }

    pub(super) fn bus_bytes_per_ns(&self) -> f64 {
        self.bus.gbit_per_s.get() / 8.0
    }

    /// A frame in memory with this payload, bytes.
    pub(super) fn frame(traffic: Traffic, payload: u64) -> u64 {
        let heads = if traffic == Traffic::Tcp { IP_TCP } else { IP_UDP };
        (payload + heads + ETHERNET).max(SHORTEST_FRAME)
    }

    /// Time that such a frame occupies the link, ns.
    pub(super) fn wire_time(&self, frame: u64) -> f64 {
        (frame + ON_THE_LINK) as f64 * (8.0 / self.link.gbit_per_s.get())
    }

    pub(super) fn policy(&self) -> Notify {
        Notify::Coalesce { count: self.nic.moderation_count.get(), delay: self.nic.moderation_us.nanos() }
    }
}
