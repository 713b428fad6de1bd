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

use super::{Impossible, Metric, Model, Outcome};
use kernel::Kernel;
use machine::Counters;
pub(super) use parameters::Ocf;
use parameters::Software;
use service::Service;

pub(super) const METRICS: &[Metric] = &[
    Metric { name: "mbit_per_s", unit: "Mbit/s", meaning: "payload encrypted in a second" },
    Metric { name: "ops_per_s", unit: "1/s", meaning: "requests done in a second" },
    Metric { name: "latency_us", unit: "us", meaning: "mean time from a client's submission to its reply" },
    Metric { name: "cpu_percent", unit: "%", meaning: "processor in the kernel, in interrupts and in the sidecore" },
    Metric { name: "user_percent", unit: "%", meaning: "processor in the clients' programs" },
    Metric { name: "interrupts_per_s", unit: "1/s", meaning: "interrupts in a second" },
    Metric { name: "switches_per_s", unit: "1/s", meaning: "context switches in a second" },
    Metric {
        name: "card_percent",
        unit: "%",
        meaning: "part of the time in which a card has requests, also while it waits for bus or memory",
    },
    Metric { name: "bus_percent", unit: "%", meaning: "part of the shared bus that is used" },
    Metric { name: "memory_percent", unit: "%", meaning: "part of the memory's write bandwidth that is used" },
    Metric { name: "rated_percent", unit: "%", meaning: "throughput as a part of what the vendor rates all cards at" },
];

/// From this utilisation on a part is said to be what limits, %.
const LIMITING: f64 = 90.0;

impl Model for Ocf {
    fn check(&self) -> Result<(), Impossible> {
        self.check_bus()?;
        self.check_request()?;
        self.check_software()
    }

    fn run(&self, seed: u64) -> Outcome {
        let (before, after, engine) = match self.service.software {
            Software::Sidecore => machine::run(self, Service::new(self), seed),
            Software::Ocf => machine::run(self, Kernel::new(self.clients()), seed),
        };
        let (values, limit) = found(self, before, after);
        Outcome { values, limit, events: engine.events(), trace: engine.trace() }
    }
}

/// The metrics between two instants, and what limited.
fn found(set: &Ocf, before: Counters, after: Counters) -> (Vec<f64>, String) {
    let elapsed = (after.at - before.at).max(1) as f64;
    let done = (after.done - before.done) as f64;
    let per_second = |count: u64| count as f64 * 1e9 / elapsed;
    let percent = |used: f64, capacity: f64| used * 100.0 / (capacity * elapsed);
    let used = |index: usize| after.used[index] - before.used[index];
    let ops = per_second(after.done - before.done);
    let mbit = ops * set.bytes() * 8.0 / 1e6;
    let kernel = percent(after.kernel - before.kernel, 1.0);
    let clients = percent(after.user - before.user, 1.0);
    let (hardware, cards) = (set.hardware(), f64::from(set.card.count.get()));
    let bus = percent(used(0), hardware.bus);
    let memory = percent(used(1), hardware.memory);
    let card = percent(used(2), cards);
    let rated = mbit * 100.0 / (set.card.rated_mbit_per_s.get() * cards);
    let latency = (after.latency - before.latency) / done / 1e3;
    let interrupts = per_second(after.interrupts - before.interrupts);
    let switches = per_second(after.switches - before.switches);
    let limit = limit([("cpu", kernel + clients), ("bus", bus), ("memory", memory)], ("card", card));
    let values = vec![mbit, ops, latency, kernel, clients, interrupts, switches, card, bus, memory, rated];
    (values, limit)
}

/// The part that limits: of those that all share the one with the highest utilisation, else the cards, which are busy
/// also while they wait for those; too few threads, where none is near its end.
fn limit(shared: [(&'static str, f64); 3], card: (&'static str, f64)) -> String {
    let most = |a: (&'static str, f64), b: (&'static str, f64)| if b.1 > a.1 { b } else { a };
    let fullest = shared.into_iter().fold(("cpu", 0.0), most);
    for (part, percent) in [fullest, card] {
        if percent >= LIMITING {
            return format!("{part} {percent:.0} %");
        }
    }
    let (part, percent) = most(fullest, card);
    format!("threads ({part} {percent:.0} %)")
}
