//! Crypto cards on one bus of a machine with one processor: the OpenBSD Cryptographic Framework, and sidecore on the same
//! hardware.
//!
//! Source of the framework and of the measurements: Keromytis, Wright and de Raadt, "The Design of the OpenBSD
//! Cryptographic Framework", USENIX ATC 2003. `docs/models/ocf.md` describes the model.

mod cards;
mod event;
mod kernel;
mod machine;
mod parameters;
mod service;
#[cfg(test)]
mod tests;

use super::{Metric, Model, Rule, fullest, metric};
use crate::outcome::Outcome;
use kernel::Kernel;
pub(super) use parameters::Ocf;
use parameters::{Kind, Software, Wait};
use service::Service;

pub(super) const METRICS: &[Metric] = &[
    metric("mbit_per_s", "Mbit/s", "payload encrypted in a second"),
    metric("ops_per_s", "1/s", "requests done in a second"),
    metric(
        "latency_us",
        "us",
        "mean time of a request: from a client's submission, or since it came by itself, to its reply",
    ),
    metric("p99_us", "us", "99th percentile of it"),
    metric("cpu_percent", "%", "processor in the kernel, in interrupts and in the sidecore"),
    metric("user_percent", "%", "processor in the clients' programs"),
    metric("interrupts_per_s", "1/s", "interrupts in a second"),
    metric("switches_per_s", "1/s", "context switches in a second"),
    metric("card_percent", "%", "part of the time in which a card has requests, also while it waits for bus or memory"),
    metric("bus_percent", "%", "part of the shared bus that is used"),
    metric("memory_percent", "%", "part of the memory's write bandwidth that is used"),
    metric("rated_percent", "%", "throughput as a part of what the vendor rates all cards at"),
];

/// A part with at least this utilisation is reported as the limit, %.
const LIMITING: f64 = 90.0;

impl Model for Ocf {
    fn rules(&self) -> Vec<Rule> {
        let Self { client, service, bus, card, .. } = self;
        let (widths, card_clocks) = ([32, 64], [33, 66, 100, 133]);
        let (kind, clocks) = if bus.kind == Kind::Pci { ("pci", &[33, 66][..]) } else { ("pci-x", &card_clocks[1..]) };
        let no_width = |width| format!("PCI has no width of {width} bit: write 32 or 64");
        let (slot_width, card_width) = (bus.width_bits.get(), card.width_bits.get());
        let (slot_clock, card_clock) = (bus.clock_mhz.get(), card.clock_mhz.get());
        let no_clock = format!("{kind} has no clock of {slot_clock} MHz: write one of {clocks:?}");
        let no_card_clock = format!("no PCI card has {card_clock} MHz: write 33, 66, 100 or 133");
        let (size, longest, in_flight) = (client.size.get(), card.longest_bytes.get(), client.in_flight.get());
        let (record, most) = (service.record.get(), card.record.get());
        let too_long = format!("the card takes at most {most} requests in a record, not {record}");
        let is_sidecore = service.software == Software::Sidecore;
        let blocked = "a thread is blocked in its `ioctl`, so it has 1 request in flight".to_owned();
        let arena = client.arena_kib.get() * 1024;
        let too_full = format!("{in_flight} requests of {size} bytes do not fit into an arena of {arena}");
        let count = service.coalesce_count.get();
        let never = format!("a client with {in_flight} in flight never has {count} completions: write at most that");
        let coalesces = is_sidecore && service.notify == Wait::Coalesce;
        vec![
            (!widths.contains(&slot_width), "bus.width_bits", no_width(slot_width)),
            (!widths.contains(&card_width), "card.width_bits", no_width(card_width)),
            (!clocks.contains(&slot_clock), "bus.clock_mhz", no_clock),
            (!card_clocks.contains(&card_clock), "card.clock_mhz", no_card_clock),
            (size % 8 != 0, "client.size", format!("3DES has blocks of 8 bytes, and {size} is no multiple of 8")),
            (size > longest, "client.size", format!("the card takes at most {longest} bytes at a time, not {size}")),
            (record > most, "service.record", too_long),
            (!is_sidecore && in_flight != 1, "client.in_flight", blocked),
            (is_sidecore && in_flight * size > arena, "client.arena_kib", too_full),
            (coalesces && count > in_flight, "service.coalesce_count", never),
        ]
    }

    fn run(&self, seed: u64) -> Outcome {
        let (counted, p99, trace) = match self.service.software {
            Software::Sidecore => machine::run(self, Service::new(self), seed),
            Software::Ocf => machine::run(self, Kernel::new(self), seed),
        };
        let [elapsed, done, latency, interrupts, switches, user, kernel, bus, memory, card] = counted;
        let per_second = |count: f64| count * 1e9 / elapsed.max(1.0);
        let percent = |used: f64, capacity: f64| used * 100.0 / (capacity * elapsed.max(1.0));
        let ops = per_second(done);
        let mbit = ops * self.bytes() * 8.0 / 1e6;
        let (kernel, user) = (percent(kernel, 1.0), percent(user, 1.0));
        let (hardware, cards) = (self.hardware(), f64::from(self.card.count.get()));
        let (bus, memory, card) = (percent(bus, hardware.bus), percent(memory, hardware.memory), percent(card, cards));
        let rated = mbit * 100.0 / (self.card.rated_mbit_per_s.get() * cards);
        let (interrupts, switches) = (per_second(interrupts), per_second(switches));
        let latency = latency / done / 1e3;
        let p99 = p99 / 1e3;
        let values = vec![mbit, ops, latency, p99, kernel, user, interrupts, switches, card, bus, memory, rated];
        let limit = limit(&[("cpu", kernel + user), ("bus", bus), ("memory", memory)], ("card", card));
        Outcome { values, limit, trace }
    }
}

/// The limiting part: the shared part with the highest utilisation, else the cards, which are also busy while they
/// wait for shared parts. If none is near its end, too few threads are the limit.
fn limit(shared: &[(&str, f64)], card: (&str, f64)) -> String {
    let shared = fullest(shared);
    if let Some((part, percent)) = [shared, card].into_iter().find(|(_, percent)| *percent >= LIMITING) {
        return format!("{part} {percent:.0} %");
    }
    let (part, percent) = fullest(&[shared, card]);
    format!("threads ({part} {percent:.0} %)")
}
