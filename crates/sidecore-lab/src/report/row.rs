//! One row of results: what was run, with what, and what came out.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Mean and percentiles of a time, in microseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Times {
    /// Mean.
    pub(crate) mean: f64,
    /// Median.
    pub(crate) p50: f64,
    /// 99th percentile.
    pub(crate) p99: f64,
}

/// CPU time that one operation costs, in microseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct CpuPerOp {
    /// In the processes that ask.
    pub(crate) client: f64,
    /// In the service.
    pub(crate) service: f64,
}

impl CpuPerOp {
    /// Of both sides together.
    pub(crate) fn total(self) -> f64 {
        self.client + self.service
    }
}

/// What a ratio is to reach.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Reach {
    /// It is at least this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) at_least: Option<f64>,
    /// It is at most this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) at_most: Option<f64>,
}

impl Reach {
    /// At least so much.
    pub(crate) fn at_least(ratio: f64) -> Self {
        Self { at_least: Some(ratio), at_most: None }
    }

    /// At most so much.
    pub(crate) fn at_most(ratio: f64) -> Self {
        Self { at_least: None, at_most: Some(ratio) }
    }

    /// Whether the ratio is there.
    pub(crate) fn holds(self, ratio: f64) -> bool {
        self.at_least.is_none_or(|least| ratio >= least) && self.at_most.is_none_or(|most| ratio <= most)
    }
}

/// Changes from one set-up to another, in percent of the first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Changes {
    /// Of the mean time submitted to handed over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) queue: Option<f64>,
    /// Of the mean time on the device.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) device: Option<f64>,
    /// Of the mean time submitted to received.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) total: Option<f64>,
    /// Of the operations a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) throughput: Option<f64>,
}

/// A row. What a scenario does not have is `None` and left out of the JSON; numbers must be finite.
///
/// One writes `Row { op: Some("sha-256".into()), size: Some(64), ..Row::new("crypto", "sidecore") }`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Row {
    /// The scenario: `lane`, `crypto`, `ocf`, `notify`, `balance`, `scaling`, or a plan's name.
    pub(crate) scenario: String,
    /// What tells this row's set-up from others of the scenario, e.g. `sidecore` or `in process`.
    pub(crate) variant: String,
    /// Operation, by the name of its class.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) op: Option<String>,
    /// Crypto library and its version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) library: Option<String>,
    /// Notification policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) notify: Option<String>,
    /// Balancing policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) balance: Option<String>,
    /// Devices in words, e.g. `2 worker` or `4 hifn-7751`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) devices: Option<String>,
    /// Number of clients that submit at the same time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) clients: Option<u32>,
    /// Operations that each client has in flight at a time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) jobs: Option<u32>,
    /// Size of a message in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) size: Option<u64>,
    /// Completed operations a second, of all clients together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ops_per_s: Option<f64>,
    /// Payload, in million bits a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) mbit_per_s: Option<f64>,
    /// Submitted to received.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) total_us: Option<Times>,
    /// Submitted to handed to the device.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) queue_us: Option<Times>,
    /// Handed to the device to reply taken from it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) device_us: Option<Times>,
    /// Submitted to reply taken from the device.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) host_us: Option<Times>,
    /// Reply taken to received.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) deliver_us: Option<Times>,
    /// CPU time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cpu_us_per_op: Option<CpuPerOp>,
    /// Polls that found nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) empty_polls: Option<u64>,
    /// Wake-ups sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) wakeups_sent: Option<u64>,
    /// Wake-ups that were not needed because the other side was awake.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) wakeups_saved: Option<u64>,
    /// This row's figure divided by the baseline's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ratio: Option<f64>,
    /// What `ratio` divides by: a variant measured in the same run, or a bound by its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) baseline: Option<String>,
    /// What `ratio` is to be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reach: Option<Reach>,
    /// What changed against another row.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) changes: Option<Changes>,
    /// Seed of everything random in the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) seed: Option<u64>,
    /// Commit that ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) commit: Option<String>,
    /// Machine it ran on, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) machine: Option<String>,
    /// Offered load as a fraction of the capacity, where requests arrive on their own schedule.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) load: Option<f64>,
    /// Where threads were pinned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) pinned: Option<String>,
    /// How often the measurement was repeated; the row is the median of the repeats.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) repeats: Option<u32>,
    /// Largest less smallest of the repeats, divided by their median.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) spread: Option<f64>,
    /// What a simulated case sets beside its plan, by parameter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) settings: Option<BTreeMap<String, String>>,
    /// What else was found, by metric, each in its own unit: of a simulated case all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) metrics: Option<BTreeMap<String, f64>>,
    /// The part that limited a simulated case, with its utilisation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) limit: Option<String>,
}

impl Row {
    /// A row with nothing but its names.
    pub(crate) fn new(scenario: impl Into<String>, variant: impl Into<String>) -> Self {
        Self { scenario: scenario.into(), variant: variant.into(), ..Self::default() }
    }

    /// Reads a row back from a line of JSON. Fields it does not know are passed over.
    pub(crate) fn from_json_line(line: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(line)
    }

    /// Payload a second in million bits: as measured, or else from rate and size.
    pub(crate) fn throughput(&self) -> Option<f64> {
        self.mbit_per_s.or_else(|| Some(self.ops_per_s? * self.size? as f64 * 8.0 / 1e6))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_stand_in_the_documented_order_and_the_missing_are_left_out() {
        let times = Some(Times { mean: 1.5, p50: 1.0, p99: 4.0 });
        let row = Row {
            op: Some("aes-256-gcm".into()),
            size: Some(1024),
            total_us: times,
            cpu_us_per_op: Some(CpuPerOp { client: 0.5, service: 1.0 }),
            spread: Some(0.02),
            ..Row::new("crypto", "sidecore")
        };
        assert_eq!(
            serde_json::to_string(&row).unwrap(),
            r#"{"scenario":"crypto","variant":"sidecore","op":"aes-256-gcm","size":1024,"#.to_owned()
                + r#""total_us":{"mean":1.5,"p50":1.0,"p99":4.0},"#
                + r#""cpu_us_per_op":{"client":0.5,"service":1.0},"spread":0.02}"#
        );
    }

    #[test]
    fn unknown_fields_are_passed_over_and_broken_lines_refused() {
        let row = Row::from_json_line(r#"{"scenario":"lane","variant":"ring","colour":"red","clients":2}"#).unwrap();
        assert_eq!(row, Row { clients: Some(2), ..Row::new("lane", "ring") });
        assert!(Row::from_json_line(r#"{"variant":"ring"}"#).is_err());
        assert!(Row::from_json_line("not json").is_err());
    }

    #[test]
    fn throughput_follows_from_rate_and_size() {
        let row = Row { ops_per_s: Some(1e6), size: Some(1000), ..Row::new("ocf", "a") };
        assert_eq!(row.throughput(), Some(8000.0));
        assert_eq!(Row { mbit_per_s: Some(5.0), ..row }.throughput(), Some(5.0));
        assert_eq!(Row::new("ocf", "a").throughput(), None);
    }
}
