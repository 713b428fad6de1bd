//! Crypto cards on one bus of a machine with one processor: the OpenBSD Cryptographic Framework, and sidecore on the same
//! hardware.
//!
//! Source of the framework and of what was measured: Keromytis, Wright and de Raadt, "The Design of the OpenBSD
//! Cryptographic Framework", USENIX ATC 2003. `docs/models/ocf.md` describes the model.

mod cards;
mod kernel;
mod machine;
mod parameters;
mod service;
#[cfg(test)]
mod tests;

use super::{Metric, Model, Outcome, Rule, fullest, metric};
use kernel::Kernel;
use machine::Counters;
pub(super) use parameters::Ocf;
use parameters::Software;
use service::Service;

pub(super) const METRICS: &[Metric] = &[
    metric("mbit_per_s", "Mbit/s", "payload encrypted in a second"),
    metric("ops_per_s", "1/s", "requests done in a second"),
    metric("latency_us", "us", "mean time from a client's submission to its reply"),
    metric("cpu_percent", "%", "processor in the kernel, in interrupts and in the sidecore"),
    metric("user_percent", "%", "processor in the clients' programs"),
    metric("interrupts_per_s", "1/s", "interrupts in a second"),
    metric("switches_per_s", "1/s", "context switches in a second"),
    metric("card_percent", "%", "part of the time in which a card has requests, also while it waits for bus or memory"),
    metric("bus_percent", "%", "part of the shared bus that is used"),
    metric("memory_percent", "%", "part of the memory's write bandwidth that is used"),
    metric("rated_percent", "%", "throughput as a part of what the vendor rates all cards at"),
];

/// From this utilisation on a part is said to be what limits, %.
const LIMITING: f64 = 90.0;

impl Model for Ocf {
    fn rules(&self) -> Vec<Rule> {
        self.what_cannot_be()
    }

    fn run(&self, seed: u64) -> Outcome {
        let (counted, trace) = match self.service.software {
            Software::Sidecore => machine::run(self, Service::new(self), seed),
            Software::Ocf => machine::run(self, Kernel::new(self.clients()), seed),
        };
        let (values, limit) = found(self, counted);
        Outcome { values, limit, trace }
    }
}

/// The metrics, and what limited.
fn found(set: &Ocf, counted: Counters) -> (Vec<f64>, String) {
    let [elapsed, done, latency, interrupts, switches, user, kernel, bus, memory, card] = counted;
    let per_second = |count: f64| count * 1e9 / elapsed.max(1.0);
    let percent = |used: f64, capacity: f64| used * 100.0 / (capacity * elapsed.max(1.0));
    let ops = per_second(done);
    let mbit = ops * set.bytes() * 8.0 / 1e6;
    let (kernel, user) = (percent(kernel, 1.0), percent(user, 1.0));
    let (hardware, cards) = (set.hardware(), f64::from(set.card.count.get()));
    let (bus, memory, card) = (percent(bus, hardware.bus), percent(memory, hardware.memory), percent(card, cards));
    let rated = mbit * 100.0 / (set.card.rated_mbit_per_s.get() * cards);
    let (interrupts, switches) = (per_second(interrupts), per_second(switches));
    let limit = limit(&[("cpu", kernel + user), ("bus", bus), ("memory", memory)], ("card", card));
    (vec![mbit, ops, latency / done / 1e3, kernel, user, interrupts, switches, card, bus, memory, rated], limit)
}

/// The part that limits: of those that all share the one with the highest utilisation, else the cards, which are busy
/// also while they wait for those; too few threads, where none is near its end.
fn limit(shared: &[(&str, f64)], card: (&str, f64)) -> String {
    let shared = fullest(shared);
    if let Some((part, percent)) = [shared, card].into_iter().find(|(_, percent)| *percent >= LIMITING) {
        return format!("{part} {percent:.0} %");
    }
    let (part, percent) = fullest(&[shared, card]);
    format!("threads ({part} {percent:.0} %)")
}
