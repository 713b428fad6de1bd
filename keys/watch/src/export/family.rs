//! Metric families, ready for encoding.

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};
use sidecore_core::histogram::bucket;
use sidecore_counters::{Histogram, Kind};
use std::fmt;

/// Prefix of each metric's name.
const PREFIX: &str = "sidecore";
/// Bounds of the exported histograms, as powers of two of nanoseconds: 256 ns to 268 ms by octaves, then up to 4.3 s.
/// Each is also a bound of the counter file's buckets, so no value is estimated.
const BOUNDS: [u32; 23] = [8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 30, 32];

pub(super) type Labels = Vec<(&'static str, String)>;

#[derive(Clone, Debug)]
pub(super) enum Value {
    Number(u64),
    /// Nanoseconds of a level; may be negative.
    Balance(i64),
    Times(Box<Histogram>),
}

#[derive(Debug)]
pub(super) struct Family {
    pub(super) name: String,
    pub(super) help: &'static str,
    pub(super) kind: Kind,
    pub(super) samples: Vec<(Labels, Value)>,
}

#[derive(Debug)]
struct Families(Vec<Family>);

pub(super) fn encode(families: Vec<Family>) -> String {
    let mut registry = Registry::with_prefix(PREFIX);
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

impl Family {
    pub(super) fn new(
        name: impl Into<String>,
        help: &'static str,
        kind: Kind,
        samples: impl IntoIterator<Item = (Labels, Value)>,
    ) -> Self {
        Self { name: name.into(), help, kind, samples: samples.into_iter().collect() }
    }

    fn encode(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let (metric_type, unit) = (metric_type(self.kind), unit(self.kind));
        let mut metric = encoder.encode_descriptor(&self.name, self.help, unit.as_ref(), metric_type)?;
        for (labels, value) in &self.samples {
            match self.kind {
                kind if labels.is_empty() => write(&mut metric, kind, value)?,
                kind => write(&mut metric.encode_family(labels)?, kind, value)?,
            }
        }
        Ok(())
    }
}

/// Nanoseconds are exported in seconds.
fn unit(kind: Kind) -> Option<Unit> {
    match kind {
        Kind::Time | Kind::TimeLevel | Kind::Times => Some(Unit::Seconds),
        Kind::Bytes => Some(Unit::Bytes),
        Kind::Count | Kind::Level | Kind::Code => None,
    }
}

fn metric_type(kind: Kind) -> MetricType {
    match kind {
        Kind::Times => MetricType::Histogram,
        kind if kind.is_level() => MetricType::Gauge,
        _ => MetricType::Counter,
    }
}

fn write(metric: &mut MetricEncoder<'_>, kind: Kind, value: &Value) -> fmt::Result {
    match value {
        Value::Times(times) => {
            let buckets = coarse(times);
            let count = buckets.iter().map(|(_, count)| count).sum();
            metric.encode_histogram::<NoLabelSet>(seconds(times.sum()), count, &buckets, None)
        }
        Value::Balance(nanos) => metric.encode_gauge(&(*nanos as f64 / 1e9)),
        Value::Number(number) => match kind {
            Kind::Time => metric.encode_counter::<NoLabelSet, f64, f64>(&seconds(*number), None),
            Kind::TimeLevel => metric.encode_gauge(&seconds(*number)),
            Kind::Level | Kind::Code => metric.encode_gauge(number),
            Kind::Count | Kind::Bytes | Kind::Times => metric.encode_counter::<NoLabelSet, u64, f64>(number, None),
        },
    }
}

/// Number of values between each bound and the one before; the last bucket has no bound. A value equal to a bound
/// counts for the next bucket, an error of 1 ns.
fn coarse(times: &Histogram) -> Vec<(f64, u64)> {
    let mut from = 0;
    let ends = BOUNDS.iter().map(|octave| (seconds(1 << octave), bucket(1 << octave)));
    let all = ends.chain([(f64::INFINITY, times.counts().len())]);
    all.map(|(bound, end)| (bound, times.counts()[std::mem::replace(&mut from, end)..end].iter().sum())).collect()
}

fn seconds(nanos: u64) -> f64 {
    nanos as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_count_is_lost_and_none_is_moved_across_a_bound() {
        assert!(BOUNDS.iter().all(|octave| bucket((1 << octave) - 1) < bucket(1 << octave)));
        let buckets = coarse(&Histogram::default());
        assert_eq!((buckets.len(), buckets[0].0, buckets.last().unwrap().0), (24, 2.56e-7, f64::INFINITY));
        assert!(buckets.windows(2).all(|two| two[0].0 < two[1].0));
    }
}
