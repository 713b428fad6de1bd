//! How the interface is attached: what it costs to reach its registers, and how it reaches memory.

use crate::settings::Settings;
use sidecore_core::time::Nanos;

/// One way to attach an interface.
#[derive(Clone, Copy, Debug)]
pub(super) struct Attachment {
    /// Time that a thread waits for a register, ns.
    pub(super) read: f64,
    /// Time of a posted write to a register, ns.
    pub(super) write: f64,
    /// One way between the interface and memory or a hardware thread, ns.
    pub(super) latency: Nanos,
    /// Time for the driver to make one received buffer visible to the processor, ns.
    pub(super) sync: f64,
    /// Time that the processor waits for a line that the interface wrote, ns.
    pub(super) line: f64,
    /// Time of one byte on the bus, ns.
    byte: f64,
    /// Payload of one burst on the bus, bytes.
    burst: u64,
    /// What a burst carries beside its payload, bytes.
    overhead: u64,
}

impl Attachment {
    /// The attachment that `nic.attachment` names.
    pub(super) fn new(settings: &Settings) -> Self {
        let part = settings.word("nic.attachment");
        let number = |name: &str| settings.number(&format!("{part}.{name}"));
        let cached = number("cached_part");
        Self {
            read: number("read_ns"),
            write: number("write_ns"),
            latency: number("latency_ns").round() as Nanos,
            sync: number("sync_ns"),
            line: cached * settings.number("cpu.l2_ns") + (1.0 - cached) * settings.number("cpu.memory_ns"),
            byte: 8.0 / number("bus_gbit_per_s"),
            burst: number("burst_bytes") as u64,
            overhead: number("burst_overhead_bytes") as u64,
        }
    }

    /// Time that a transfer of so many bytes holds the bus, ns.
    pub(super) fn bus_time(&self, bytes: u64) -> f64 {
        (bytes + bytes.div_ceil(self.burst) * self.overhead) as f64 * self.byte
    }
}

/// Something that carries one transfer after another, in the order in which they come.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Serial {
    free: f64,
    busy: f64,
}

impl Serial {
    /// A transfer that takes so long comes now: when it ends.
    pub(super) fn carry(&mut self, now: Nanos, time: f64) -> Nanos {
        self.free = self.free.max(now as f64) + time;
        self.busy += time;
        self.free.ceil() as Nanos
    }

    /// Time of all transfers that came so far, ns.
    pub(super) fn busy(&self) -> f64 {
        self.busy
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bursts_pay_for_their_heads() {
        // PCI Express of eight lanes, first generation: 2 bytes per ns, 128 bytes of payload for 24 of head and tail.
        let pci =
            Attachment { read: 0.0, write: 0.0, latency: 0, sync: 0.0, line: 0.0, byte: 0.5, burst: 128, overhead: 24 };
        assert_eq!((pci.bus_time(8), pci.bus_time(128), pci.bus_time(1514)), (16.0, 76.0, 901.0));
    }

    #[test]
    fn transfers_wait_for_each_other() {
        let mut link = Serial::default();
        assert_eq!((link.carry(100, 10.5), link.carry(100, 10.5), link.carry(200, 1.0)), (111, 121, 201));
        assert!((link.busy() - 22.0).abs() < 1e-9);
    }
}
