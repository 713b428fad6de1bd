//! Measured sums, and the metrics computed from them.

use super::parameters::Zvm;
use crate::system::{Metric, fullest, metric};

/// Names are those of the report.
pub(in crate::system) const METRICS: &[Metric] = &[
    metric("NSERV", "us", "from the guest's queue to an adapter"),
    metric("RSERV", "us", "from the adapter's queue back to the host"),
    metric("HSERV", "us", "time in the host: NSERV and RSERV"),
    metric("DSERV", "us", "a reply waits until the guest takes it"),
    metric("VSERV", "us", "from the guest's queue back to the guest: HSERV and DSERV"),
    metric("total_busy_per_1000", "%", "CPU time for 1000 requests in a second, of one CPU"),
    metric("guest_busy_per_1000", "%", "of it, in guests"),
    metric("cp_busy_per_1000", "%", "of it, in the host"),
    metric("ETR", "1/s", "requests done in a second"),
    metric(
        "p99_us",
        "us",
        "99th percentile of a request's time, since it was made or came by itself, until the guest has its reply",
    ),
];

/// Sums over all blocks, times in ns.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Totals {
    pub(super) time: f64,
    pub(super) handed: u64,
    pub(super) returned: u64,
    pub(super) taken: u64,
    pub(super) waited: f64,
    pub(super) served: f64,
    pub(super) rested: f64,
    pub(super) guest: f64,
    pub(super) cp: f64,
    pub(super) engines: f64,
    pub(super) tasks: [f64; 2],
}

/// A part with at least this utilisation is the limit.
const BUSY: f64 = 0.9;

impl Totals {
    /// In the order of [`METRICS`], all except the last.
    pub(super) fn values(&self) -> Vec<f64> {
        let mean = |sum: f64, count: u64| sum / count as f64 / 1e3;
        let queue = mean(self.waited, self.handed);
        let device = mean(self.served, self.returned);
        let deliver = mean(self.rested, self.taken);
        // A microsecond per request is a thousandth of a CPU at a thousand requests per second.
        let busy = |time: f64| mean(time, self.taken) / 10.0;
        let (guest, cp) = (busy(self.guest), busy(self.cp));
        let host = queue + device;
        vec![queue, device, host, deliver, host + deliver, guest + cp, guest, cp, self.taken as f64 * 1e9 / self.time]
    }

    pub(super) fn limit(&self, set: &Zvm) -> String {
        let of = |time: f64, servers: u32| time / (self.time * f64::from(servers));
        let (name, busiest) = fullest(&[
            ("adapters", of(self.engines, set.adapter.count.get() * set.adapter.engines.get())),
            ("enqueue task", of(self.tasks[0], 1)),
            ("dequeue task", of(self.tasks[1], 1)),
            ("cpu", of(self.guest + self.cp, set.host.cores.get())),
        ]);
        let part = format!("{name} {:.0} %", busiest * 100.0);
        if busiest >= BUSY { part } else { format!("waiting of guests ({part})") }
    }
}
