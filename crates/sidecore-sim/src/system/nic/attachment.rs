//! How the interface is attached: what it costs to reach its registers, and how it reaches memory.

use crate::settings::{Bytes, Gbit, Ns, Ratio};
use serde::Deserialize;
use sidecore_core::time::Nanos;

/// One way to attach an interface.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(in crate::system) struct Attachment {
    /// A thread waits for a register.
    pub(super) read_ns: Ns<0, 100_000>,
    /// A posted write to a register.
    pub(super) write_ns: Ns<0, 100_000>,
    latency_ns: Ns<0, 100_000>,
    bus_gbit_per_s: Gbit<1_000, 10_000_000>,
    /// Payload of one burst on the bus.
    burst_bytes: Bytes<16, 4096>,
    /// What a burst carries beside its payload.
    burst_overhead_bytes: Bytes<0, 4096>,
    /// The driver makes one received buffer visible to the processor.
    pub(super) sync_ns: Ns<0, 100_000>,
    /// Part of the lines that the interface wrote which the processor finds in its cache.
    pub(super) cached_part: Ratio<0, 100>,
}

impl Attachment {
    /// One way between the interface and memory or a hardware thread, ns.
    pub(super) fn latency(&self) -> Nanos {
        self.latency_ns.get().round() as Nanos
    }

    /// Time that a transfer of so many bytes holds the bus, ns.
    pub(super) fn bus_time(&self, bytes: u64) -> f64 {
        let bursts = bytes.div_ceil(u64::from(self.burst_bytes.get()));
        (bytes + bursts * u64::from(self.burst_overhead_bytes.get())) as f64 * (8.0 / self.bus_gbit_per_s.get())
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
    use super::super::setup::tests::setup;
    use super::*;

    #[test]
    fn bursts_pay_for_their_heads() {
        // PCI Express of eight lanes, first generation: 2 bytes per ns, 128 bytes of payload for 24 of head and tail.
        let pci = setup(&["nic.attachment=discrete"]).attachment;
        assert_eq!((pci.bus_time(8), pci.bus_time(128), pci.bus_time(1514)), (16.0, 76.0, 901.0));
    }

    #[test]
    fn transfers_wait_for_each_other() {
        let mut link = Serial::default();
        assert_eq!((link.carry(100, 10.5), link.carry(100, 10.5), link.carry(200, 1.0)), (111, 121, 201));
        assert!((link.busy() - 22.0).abs() < 1e-9);
    }
}
