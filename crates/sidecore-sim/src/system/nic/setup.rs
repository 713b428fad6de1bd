//! What can be set, and the times that follow from it.

use crate::settings::{Bytes, Count, Gbit, Ns, NsPerByte, Ratio, Us, settings};
use sidecore_core::policy::notify::Notify;
use sidecore_core::time::Nanos;

/// Heads of IP and TCP without options, bytes.
const IP_TCP: u64 = 40;
/// Head and check sequence of an Ethernet frame, and with them preamble and gap, bytes.
const ETHERNET: u64 = 18;
const PREAMBLE_AND_GAP: u64 = 20;
/// Shortest Ethernet frame, bytes.
const SHORTEST_FRAME: u64 = 64;
/// A line of the cache, and an entry of the completion ring, bytes.
pub(super) const LINE: f64 = 64.0;
const COMPLETION: u64 = 8;

/// Time of a step.
type Step = Ns<0, 1_000_000>;

settings! {
    /// The system `nic`.
    NetworkInterface {
        nic: Interface {
            attachment: Attached,
            queues: Count<1, 64>,
            ring: Count<2, 65_536>,
            moderation_count: Count<1, 4096>,
            moderation_us: Us<1_000, 1_000_000_000>,
        }
        /// Ways to attach an interface.
        integrated: Attachment {
            /// A thread waits for a register.
            read_ns: Ns<0, 100_000>,
            /// A posted write to a register.
            write_ns: Ns<0, 100_000>,
            latency_ns: Ns<0, 100_000>,
            bus_gbit_per_s: Gbit<1_000, 10_000_000>,
            /// Payload of one burst on the bus.
            burst_bytes: Bytes<16, 4096>,
            /// What a burst carries beside its payload.
            burst_overhead_bytes: Bytes<0, 4096>,
            /// The driver makes one received buffer visible to the processor.
            sync_ns: Ns<0, 100_000>,
            /// Part of the lines that the interface wrote which the processor finds in its cache.
            cached_part: Ratio<0, 100>,
        }
        discrete: Attachment;
        cpu: Cpu {
            cores: Count<1, 64>,
            threads: Count<1, 16>,
            /// Waits for a line.
            l2_ns: Ns<0, 10_000>,
            memory_ns: Ns<0, 10_000>,
        }
        link: Link {
            gbit_per_s: Gbit<100, 1_000_000>,
            mtu_bytes: Bytes<576, 16_000>,
        }
        client: Client {
            connections: Count<1, 1024>,
            io_bytes: Bytes<1, { 1 << 30 }>,
            window_bytes: Bytes<1, { 1 << 30 }>,
            turnaround_us: Us<0, 100_000_000>,
            call_ns: Step,
            segment_ns: Step,
            ping_bytes: Bytes<1, 65_536>,
        }
        driver: Driver {
            wait: Wait,
            interrupt_ns: Step,
            /// Registers that an interrupt reads, and that are written after a batch.
            reads: Count<0, 64>,
            writes: Count<0, 64>,
            kick: Count<1, 1024>,
            packet_ns: Step,
            lines: Ratio<0, 100_000>,
        }
        stack: Stack {
            packet_ns: Step,
            lines: Ratio<0, 100_000>,
            send_ns: Step,
        }
        reader: Reader {
            #![expect(clippy::struct_field_names, reason = "names of plans")]
            call_ns: Step,
            wake_ns: Step,
            packet_ns: Step,
            byte_ns: NsPerByte<0, 100_000>,
        }
    }
    Attached = Integrated | Discrete;
    Wait = Moderated | Spin | Park | BreakEven | Learn | Timer;
}

/// What the clients send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Traffic {
    /// As much as their windows allow.
    Stream,
    /// One client sends one message and waits for the answer.
    PingPong,
}

/// One run, times in ns.
#[derive(Clone, Debug)]
pub(super) struct Setup {
    pub(super) set: NetworkInterface,
    pub(super) traffic: Traffic,
    pub(super) attachment: Attachment,
    /// Bytes of a call, and of a message.
    pub(super) io: u64,
    /// Payload of a full frame, bytes.
    pub(super) segment: u64,
    /// The processor waits for a line that the interface wrote.
    pub(super) line: f64,
}

impl Setup {
    pub(super) fn new(set: &NetworkInterface, traffic: Traffic) -> Self {
        let attachment = match set.nic.attachment {
            Attached::Integrated => set.integrated,
            Attached::Discrete => set.discrete,
        };
        let cached = attachment.cached_part.get();
        let io = if traffic == Traffic::PingPong { set.client.ping_bytes.get() } else { set.client.io_bytes.get() };
        Self {
            set: *set,
            traffic,
            attachment,
            io: u64::from(io),
            segment: set.segment(),
            line: cached * set.cpu.l2_ns.get() + (1.0 - cached) * set.cpu.memory_ns.get(),
        }
    }

    /// Hardware threads that are left for readers.
    pub(super) fn processors(&self) -> u32 {
        self.set.processors() - self.set.nic.queues.get()
    }

    /// Entry of an interrupt and the registers that are read then.
    pub(super) fn interrupt(&self) -> f64 {
        self.set.driver.interrupt_ns.get() + f64::from(self.set.driver.reads.get()) * self.attachment.read_ns.get()
    }

    /// Time that a frame with so much payload holds the link.
    pub(super) fn wire_time(&self, payload: u64) -> f64 {
        ((payload + IP_TCP + ETHERNET).max(SHORTEST_FRAME) + PREAMBLE_AND_GAP) as f64
            * (8.0 / self.set.link.gbit_per_s.get())
    }

    /// Time that a message of `io` bytes holds bus and link, one after the other.
    pub(super) fn message_time(&self) -> f64 {
        let (full, rest) = ((self.io - 1) / self.segment, (self.io - 1) % self.segment + 1);
        let time = |payload| self.wire_time(payload) + self.bus_time(payload);
        full as f64 * time(self.segment) + time(rest)
    }

    /// Time that a frame with so much payload and its completion hold the bus.
    pub(super) fn bus_time(&self, payload: u64) -> f64 {
        self.attachment.bus_time(payload + IP_TCP + ETHERNET) + self.attachment.bus_time(COMPLETION)
    }
}

impl Attachment {
    /// One way between the interface and memory or a hardware thread, ns.
    pub(super) fn latency(&self) -> Nanos {
        self.latency_ns.get().round() as Nanos
    }

    /// Time that a transfer of so many bytes holds the bus, ns.
    fn bus_time(&self, bytes: u64) -> f64 {
        let bursts = bytes.div_ceil(u64::from(self.burst_bytes.get()));
        (bytes + bursts * u64::from(self.burst_overhead_bytes.get())) as f64 * (8.0 / self.bus_gbit_per_s.get())
    }
}

impl NetworkInterface {
    /// Payload of a full frame, bytes.
    pub(super) fn segment(&self) -> u64 {
        u64::from(self.link.mtu_bytes.get()) - IP_TCP
    }

    /// Hardware threads.
    pub(super) fn processors(&self) -> u32 {
        self.cpu.cores.get() * self.cpu.threads.get()
    }

    /// The policy of the hop from the interface to the driver.
    pub(super) fn policy(&self) -> Notify {
        let period = self.nic.moderation_us.nanos();
        match self.driver.wait {
            Wait::Moderated => Notify::Coalesce { count: self.nic.moderation_count.get(), delay: period },
            Wait::Timer => Notify::Timer { period },
            Wait::Spin => Notify::Spin,
            Wait::Park => Notify::Park,
            Wait::BreakEven => Notify::BreakEven,
            Wait::Learn => Notify::Learn,
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::plan::Plan;
    use std::path::Path;

    /// The stream of the published plan with these settings.
    pub(in super::super) fn setup(settings: &[&str]) -> Setup {
        let mut plan = Plan::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../plans/inic.toml")).unwrap();
        plan.set_all(settings).unwrap();
        Setup::new(&plan.settings.read().unwrap(), Traffic::Stream)
    }

    #[test]
    fn bursts_pay_for_their_heads() {
        // PCI Express of eight lanes, first generation: 2 bytes per ns, 128 bytes of payload for 24 of head and tail.
        let pci = setup(&["nic.attachment=discrete"]).attachment;
        assert_eq!((pci.bus_time(8), pci.bus_time(128), pci.bus_time(1514)), (16.0, 76.0, 901.0));
    }
}
