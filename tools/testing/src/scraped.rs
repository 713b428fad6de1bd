//! Metrics as a scraper reads them, and as pages, dashboards and alerts name them.

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

/// The names of metrics in a text of any kind.
pub fn names(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|letter: char| !(letter.is_ascii_alphanumeric() || letter == '_'));
    words.filter(|word| word.starts_with("sidecore_"))
}

/// Panics unless a table of this page has each metric of these, with its type and in its own words, and the page names no
/// metric that is not among them.
pub fn explained(page: &str, metrics: &str) {
    let after = |start: &str| metrics.lines().find_map(|line| line.strip_prefix(start)).unwrap().to_lowercase();
    let types = metrics.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    for (name, kind) in types.map(|line| line.split_once(' ').unwrap()) {
        let full = if kind == "counter" { format!("{name}_total") } else { name.to_owned() };
        let row = page.lines().find(|line| line.starts_with(&format!("|`{full}`|{kind}|")));
        let row = row.unwrap_or_else(|| panic!("the page has no {full}, a {kind}"));
        let help = after(&format!("# HELP {name} "));
        assert!(row.to_lowercase().contains(help.trim_end_matches('.')), "{row}\ndoes not say: {help}");
    }
    for name in page.split('`').skip(1).step_by(2).filter(|code| names(code).next() == Some(*code)) {
        assert!(metrics.contains(&format!("\n{name}")), "{name} is explained and not exported");
    }
}
