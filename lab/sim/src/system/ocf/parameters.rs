//! Parameters, and the values derived from them.

use super::cards::Hardware;
use crate::settings::{Bits, Bytes, Count, KiB, MHz, Mbit, NsPerByte, Rate, Ratio, Us, balance, settings};
use sidecore_core::policy::balance::Balance;
use sidecore_core::policy::notify::Notify;

type Time = Us<0, 10_000_000>;

settings! {
    Ocf {
        client: Client {
            threads: Count<1, 256>,
            size: Bytes<8, 65_536>,
            in_flight: Count<1, 64>,
            /// Rate of all threads together; 0: each sends its next request after the answer.
            rate_per_s: Rate<0, 1_000_000_000>,
            user_us: Time,
            copies: Count<0, 2>,
            arena_kib: KiB<1, 65_536>,
        }
        service: Service {
            software: Software,
            #[serde(deserialize_with = "balance")]
            balance: Balance,
            notify: Wait,
            coalesce_count: Count<1, { Notify::MAX_COUNT as u64 }>,
            coalesce_us: Us<1_000, 1_000_000_000>,
            record: Count<1, 64>,
            lane_us: Time,
            request_us: Time,
        }
        host: Host {
            variation: Ratio<0, 100>,
            submit_us: Time,
            dispatch_us: Time,
            driver_us: Time,
            reap_us: Time,
            return_us: Time,
            switch_us: Time,
            interrupt_us: Time,
            wake_us: Time,
            sleep_us: Time,
            /// Time of one copy.
            copy_ns_per_byte: NsPerByte<0, 100_000>,
            map_us: Time,
            map_above_bytes: Bytes<0, 1_048_576>,
        }
        memory: Memory {
            write_mbit_per_s: Mbit<1, 10_000_000>,
        }
        bus: Bus {
            kind: Kind,
            width_bits: Bits<1, 128>,
            clock_mhz: MHz<1, 1_000>,
            efficiency: Ratio<1, 100>,
        }
        card: Card {
            count: Count<1, 8>,
            rated_mbit_per_s: Mbit<1, 1_000_000>,
            width_bits: Bits<1, 128>,
            clock_mhz: MHz<1, 1_000>,
            depth: Count<1, 4096>,
            record: Count<1, 64>,
            longest_bytes: Bytes<8, 1_048_576>,
            fixed_us: Time,
            per_byte_ns: NsPerByte<1, 1_000_000>,
            buffer_bytes: Bytes<0, 65_536>,
            command_bytes: Bytes<0, 65_536>,
            register_us: Time,
        }
    }
    Software = Ocf | Sidecore;
    Wait = Park | Coalesce;
    Kind = Pci | PciX;
}

impl Ocf {
    /// Number of clients, each with a thread. The software's own sections use the owner numbers after them.
    pub(super) fn clients(&self) -> u32 {
        self.client.threads.get()
    }

    /// Mean time between two arrivals for a thread, ns; `None`: it sends its next request after the answer.
    pub(super) fn gap(&self) -> Option<f64> {
        let rate = self.client.rate_per_s.get();
        (rate > 0.0).then(|| 1e9 * f64::from(self.clients()) / rate)
    }

    /// Payload of a request, bytes.
    pub(super) fn bytes(&self) -> f64 {
        f64::from(self.client.size.get())
    }

    /// Bytes written per request by a client's own copies into and out of the arena.
    pub(super) fn copied(&self) -> f64 {
        f64::from(self.client.copies.get()) * self.bytes()
    }

    /// A client's own time for a request, with these copies and the use of its lane, ns.
    pub(super) fn user(&self) -> f64 {
        let lane = if self.service.software == Software::Sidecore { 2.0 * self.service.lane_us.ns() } else { 0.0 };
        self.client.user_us.ns() + self.copied() * self.host.copy_ns_per_byte.get() + lane
    }

    /// Time to map the buffer, if it is mapped for each request, ns.
    pub(super) fn map(&self) -> f64 {
        if self.client.size.get() > self.host.map_above_bytes.get() { self.host.map_us.ns() } else { 0.0 }
    }

    pub(super) fn notify(&self) -> Notify {
        let Service { notify, coalesce_count, coalesce_us, .. } = self.service;
        match notify {
            Wait::Coalesce => Notify::Coalesce { count: coalesce_count.get(), delay: coalesce_us.nanos() },
            Wait::Park => Notify::Park,
        }
    }

    /// The cards and their shared bus; width and clock are the lower of slot and card.
    pub(super) fn hardware(&self) -> Hardware {
        let (slot, card) = (&self.bus, &self.card);
        let width = f64::from(slot.width_bits.get().min(card.width_bits.get()));
        let clock = f64::from(slot.clock_mhz.get().min(card.clock_mhz.get()));
        Hardware {
            cards: card.count.get(),
            bus: width / 8.0 * clock / 1e3 * slot.efficiency.get(),
            memory: self.memory.write_mbit_per_s.get() / 8e3,
            fixed: card.fixed_us.ns(),
            variation: self.host.variation.get(),
            per_byte: card.per_byte_ns.get(),
            buffer: f64::from(card.buffer_bytes.get()),
            command: f64::from(card.command_bytes.get()),
            record: self.service.record.get() as usize,
        }
    }
}
