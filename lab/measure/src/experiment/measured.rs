//! Figures of one client.

use serde::{Deserialize, Serialize};

/// Figures of a client in one run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// Operations.
    pub ops: u64,
    /// Duration, ns.
    pub ns: u64,
    /// Beginning by the machine's clock, ns.
    pub began: u64,
    /// CPU time of the client, ns, without that of generating the load.
    pub cpu_ns: u64,
    /// Bytes sent over TCP or UDP, including uncounted messages and the warm-up.
    pub bytes: u64,
    /// Polls that found nothing.
    pub empty_polls: u64,
    /// Times by stage, as values in ns and their counts.
    pub total: Counts,
    /// From submission to the device.
    pub queue: Counts,
    /// In the device.
    pub device: Counts,
    /// From the reply to its reception.
    pub deliver: Counts,
    /// Whole operations in the program, from call to return.
    pub whole: Counts,
}

/// Values and their counts.
pub type Counts = Vec<(u64, u64)>;

impl Measured {
    /// Operations a second.
    pub fn per_s(&self) -> f64 {
        self.ops as f64 * 1e9 / (self.ns.max(1)) as f64
    }
}
