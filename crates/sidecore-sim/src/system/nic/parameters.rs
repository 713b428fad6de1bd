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
    /// How the interface is attached in this run.
    pub(super) fn attachment(&self) -> &Attachment {
        match self.nic.attachment {
            Attached::Integrated => &self.integrated,
            Attached::Discrete => &self.discrete,
        }
    }

    /// The processor waits for a line that the interface wrote, ns.
    pub(super) fn line(&self) -> f64 {
        let cached = self.attachment().cached_part.get();
        cached * self.cpu.l2_ns.get() + (1.0 - cached) * self.cpu.memory_ns.get()
    }

    /// Entry of an interrupt and the registers that are read then, ns.
    pub(super) fn interrupt(&self) -> f64 {
        self.driver.interrupt_ns.get() + f64::from(self.driver.reads.get()) * self.attachment().read_ns.get()
    }

    /// Time that a frame with so much payload holds the link, ns.
    pub(super) fn wire_time(&self, payload: u64) -> f64 {
        ((payload + IP_TCP + ETHERNET).max(SHORTEST_FRAME) + PREAMBLE_AND_GAP) as f64
            * (8.0 / self.link.gbit_per_s.get())
    }

    /// Time that a frame with so much payload and its completion hold the bus, ns.
    pub(super) fn bus_time(&self, payload: u64) -> f64 {
        let attachment = self.attachment();
        attachment.bus_time(payload + IP_TCP + ETHERNET) + attachment.bus_time(COMPLETION)
    }

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

    /// The published plan with these settings.
    pub(in super::super) fn set(settings: &[&str]) -> NetworkInterface {
        let mut plan = Plan::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../plans/inic.toml")).unwrap();
        plan.set_all(settings).unwrap();
        plan.settings.read().unwrap()
    }

    #[test]
    fn bursts_pay_for_their_heads() {
        // PCI Express of eight lanes, first generation: 2 bytes per ns, 128 bytes of payload for 24 of head and tail.
        let pci = *set(&["nic.attachment=discrete"]).attachment();
        assert_eq!((pci.bus_time(8), pci.bus_time(128), pci.bus_time(1514)), (16.0, 76.0, 901.0));
    }
}
