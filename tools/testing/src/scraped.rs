//! Metrics as a scraper reads them.

use prometheus_parse::{Scrape, Value};

/// Parses a page of `OpenMetrics`. Panics where it has no end mark.
pub fn parsed(text: &str) -> Scrape {
    assert!(text.ends_with("# EOF\n"), "{text}");
    Scrape::parse(text.lines().map(|line| Ok(line.to_owned()))).unwrap()
}

/// The value of the sample with this name and these labels.
pub fn number(scrape: &Scrape, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
    let sample = scrape.samples.iter().find(|sample| {
        sample.metric == name && labels.iter().all(|(label, value)| sample.labels.get(label) == Some(value))
    })?;
    match sample.value {
        Value::Counter(value) | Value::Gauge(value) | Value::Untyped(value) => Some(value),
        Value::Histogram(_) | Value::Summary(_) => None,
    }
}
