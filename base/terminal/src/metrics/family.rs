//! Metric families, ready for encoding.

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};
use sidecore_core::histogram::bucket;
use sidecore_core::time::Nanos;
use std::fmt;

/// Bounds of the exported histograms, as powers of two of nanoseconds: 256 ns to 268 ms by octaves, then up to 4.3 s.
/// Each is also a bound of [`sidecore_core::histogram`]'s buckets, so no value is estimated.
const BOUNDS: [u32; 23] = [8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 30, 32];

/// Names and values of a sample's labels.
pub type Labels = Vec<(&'static str, String)>;

/// What a metric counts or measures, and its unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A count that only grows.
    Count,
    /// Bytes, a sum that only grows.
    Bytes,
    /// Seconds, a sum that only grows.
    Time,
    /// A present amount.
    Level,
    /// A present amount of bytes.
    BytesLevel,
    /// A present amount of seconds.
    TimeLevel,
    /// A histogram of durations.
    Times,
}

/// The value of a sample.
#[derive(Clone, Debug)]
pub enum Value {
    /// A whole number.
    Number(u64),
    /// A number with decimal places, of whatever sign.
    Decimal(f64),
    /// Durations.
    Times {
        /// Their sum, seconds.
        sum: f64,
        /// Bounds in seconds, each with the number of durations between the bound before and this one. The last bound is
        /// infinite.
        buckets: Vec<(f64, u64)>,
    },
}

/// A metric with its samples.
#[derive(Clone, Debug)]
pub struct Family {
    name: String,
    help: &'static str,
    kind: Kind,
    samples: Vec<(Labels, Value)>,
}

#[derive(Debug)]
struct Families(Vec<Family>);

/// The text of these metrics as `OpenMetrics`. `prefix` and `_` stand before each name. Families without samples are left
/// out.
pub fn encode(prefix: &str, families: Vec<Family>) -> String {
    let mut registry = Registry::with_prefix(prefix);
    registry.register_collector(Box::new(Families(families)));
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = prometheus_client::encoding::text::encode(&mut text, &registry);
    text
}

impl Collector for Families {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        self.0.iter().filter(|family| !family.samples.is_empty()).try_for_each(|family| family.encode(&mut encoder))
    }
}

impl Value {
    /// A time as seconds, in which times are exported.
    pub fn time(nanos: Nanos) -> Self {
        Self::Decimal(seconds(nanos))
    }

    /// Durations with this sum, counted in the buckets of [`sidecore_core::histogram`].
    pub fn times(sum: Nanos, counts: &[u64]) -> Self {
        Self::Times { sum: seconds(sum), buckets: coarse(counts) }
    }
}

impl Family {
    /// A metric. `help` is a sentence; the kind adds the name's ending.
    pub fn new(
        name: impl Into<String>,
        help: &'static str,
        kind: Kind,
        samples: impl IntoIterator<Item = (Labels, Value)>,
    ) -> Self {
        Self { name: name.into(), help, kind, samples: samples.into_iter().collect() }
    }

    /// A metric with one sample, which has no labels.
    pub fn single(name: impl Into<String>, help: &'static str, kind: Kind, value: Value) -> Self {
        Self::new(name, help, kind, [(Labels::new(), value)])
    }

    /// The version of this program.
    pub fn build() -> Self {
        let help = "Always 1, labelled with the version of the exporter.";
        let labels = vec![("version", env!("CARGO_PKG_VERSION").to_owned())];
        Self::new("build_info", help, Kind::Level, [(labels, Value::Number(1))])
    }

    fn encode(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let unit = unit(self.kind);
        let mut metric = encoder.encode_descriptor(&self.name, self.help, unit.as_ref(), metric_type(self.kind))?;
        for (labels, value) in &self.samples {
            match self.kind {
                kind if labels.is_empty() => write(&mut metric, kind, value)?,
                kind => write(&mut metric.encode_family(labels)?, kind, value)?,
            }
        }
        Ok(())
    }
}

fn unit(kind: Kind) -> Option<Unit> {
    match kind {
        Kind::Time | Kind::TimeLevel | Kind::Times => Some(Unit::Seconds),
        Kind::Bytes | Kind::BytesLevel => Some(Unit::Bytes),
        Kind::Count | Kind::Level => None,
    }
}

fn metric_type(kind: Kind) -> MetricType {
    match kind {
        Kind::Times => MetricType::Histogram,
        Kind::Level | Kind::BytesLevel | Kind::TimeLevel => MetricType::Gauge,
        Kind::Count | Kind::Bytes | Kind::Time => MetricType::Counter,
    }
}

fn write(metric: &mut MetricEncoder<'_>, kind: Kind, value: &Value) -> fmt::Result {
    let is_level = matches!(metric_type(kind), MetricType::Gauge);
    match value {
        Value::Times { sum, buckets } => {
            let count = buckets.iter().map(|(_, count)| count).sum();
            metric.encode_histogram::<NoLabelSet>(*sum, count, buckets, None)
        }
        Value::Number(number) if is_level => metric.encode_gauge(number),
        Value::Number(number) => metric.encode_counter::<NoLabelSet, u64, f64>(number, None),
        Value::Decimal(number) if is_level => metric.encode_gauge(number),
        Value::Decimal(number) => metric.encode_counter::<NoLabelSet, f64, f64>(number, None),
    }
}

/// Number of values between each bound and the one before; the last bucket has no bound. A value equal to a bound
/// counts for the next bucket, an error of 1 ns.
fn coarse(counts: &[u64]) -> Vec<(f64, u64)> {
    let mut from = 0;
    let ends = BOUNDS.iter().map(|octave| (seconds(1 << octave), bucket(1 << octave)));
    let all = ends.chain([(f64::INFINITY, counts.len())]);
    all.map(|(bound, end)| (bound, counts[std::mem::replace(&mut from, end)..end].iter().sum())).collect()
}

fn seconds(nanos: Nanos) -> f64 {
    nanos as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;
    use sidecore_core::histogram::BUCKETS;

    #[test]
    fn no_count_is_lost_and_none_is_moved_across_a_bound() {
        assert!(BOUNDS.iter().all(|octave| bucket((1 << octave) - 1) < bucket(1 << octave)));
        let buckets = coarse(&[0; BUCKETS]);
        assert_eq!((buckets.len(), buckets[0].0, buckets.last().unwrap().0), (24, 2.56e-7, f64::INFINITY));
        assert!(buckets.windows(2).all(|two| two[0].0 < two[1].0));
        assert_eq!(coarse(&[1; BUCKETS]).iter().map(|(_, count)| count).sum::<u64>(), BUCKETS as u64);
    }
}
