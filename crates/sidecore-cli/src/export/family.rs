//! Metrics of one name, ready to be written.

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};
use sidecore::core::histogram::bucket;
use sidecore::counters::{Histogram, Kind};
use std::fmt;

/// Before each name.
const PREFIX: &str = "sidecore";
/// Bounds of the exported histograms, as powers of two of nanoseconds: from 256 ns by octaves to 268 ms, then to 4.3 s.
/// Each is a bound of the counter file's buckets too, so nothing is guessed.
const BOUNDS: [u32; 23] = [8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 30, 32];

pub(super) type Labels = Vec<(&'static str, String)>;

/// A number, with a sign perhaps, or a histogram.
#[derive(Clone, Debug)]
pub(super) enum Value {
    Number(u64),
    /// Nanoseconds that may be less than nothing: of a level.
    Balance(i64),
    Times(Box<Histogram>),
}

/// All metrics of one name.
#[derive(Debug)]
pub(super) struct Family {
    pub(super) name: String,
    pub(super) help: &'static str,
    pub(super) kind: Kind,
    pub(super) samples: Vec<(Labels, Value)>,
}

#[derive(Debug)]
struct Families(Vec<Family>);

/// The whole page, as text of `OpenMetrics`.
pub(super) fn encode(families: Vec<Family>) -> String {
    let mut registry = Registry::with_prefix(PREFIX);
    registry.register_collector(Box::new(Families(families)));
    let mut text = String::new();
    // Only a writer can fail, and a string does not.
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

/// How many were below each bound and not below the one before; the last has no bound. What took exactly as long as a
/// bound counts for the next one, by 1 ns.
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
