//! Prometheus's two text formats, and the choice between them.

use std::collections::HashSet;

/// A text format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Prometheus's own: every scraper and `promtool` read it.
    Prometheus,
    /// `OpenMetrics`: it has units, too.
    OpenMetrics,
}

const OPEN_METRICS: &str = "application/openmetrics-text";

impl Format {
    /// The format that the header `Accept` prefers, else Prometheus's own.
    pub fn accepted(accept: &str) -> Self {
        let weight = |kinds: &[&str]| {
            let ranges = accept.split(',').filter_map(range);
            ranges.filter(|(kind, _)| kinds.contains(kind)).map(|(_, weight)| weight).fold(0.0, f64::max)
        };
        let open = weight(&[OPEN_METRICS]);
        if open > 0.0 && open >= weight(&["text/plain", "text/*"]) { Self::OpenMetrics } else { Self::Prometheus }
    }

    /// Content type.
    pub fn kind(self) -> &'static str {
        match self {
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }

    /// Converts text of `OpenMetrics` to this format.
    pub fn of(self, text: String) -> String {
        match self {
            Self::Prometheus => prometheus(&text),
            Self::OpenMetrics => text,
        }
    }
}

fn range(text: &str) -> Option<(&str, f64)> {
    let mut parts = text.split(';').map(str::trim);
    let kind = parts.next()?;
    let weight = parts.find_map(|parameter| parameter.strip_prefix("q=")).map_or(Some(1.0), |q| q.parse().ok())?;
    Some((kind, weight))
}

/// Prometheus describes a counter under the name of its samples, with `_total`, and has neither units nor an end mark.
fn prometheus(text: &str) -> String {
    let described = |line: &str, what: &str| -> Option<(String, String)> {
        let (name, rest) = line.strip_prefix(what)?.split_once(' ')?;
        Some((name.to_owned(), rest.to_owned()))
    };
    let counters: HashSet<String> = text
        .lines()
        .filter_map(|line| described(line, "# TYPE "))
        .filter_map(|(name, kind)| (kind == "counter").then_some(name))
        .collect();
    let mut lines = String::with_capacity(text.len());
    for line in text.lines().filter(|line| !line.starts_with("# UNIT ") && *line != "# EOF") {
        let renamed = ["# HELP ", "# TYPE "].into_iter().find_map(|what| {
            let (name, rest) = described(line, what).filter(|(name, _)| counters.contains(name))?;
            Some(format!("{what}{name}_total {rest}"))
        });
        lines += renamed.as_deref().unwrap_or(line);
        lines.push('\n');
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_scraper_gets_the_format_that_it_prefers() {
        let prometheus_2_x =
            "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.1";
        for (accept, format) in [
            (prometheus_2_x, Format::OpenMetrics),
            ("application/openmetrics-text; version=1.0.0", Format::OpenMetrics),
            ("text/plain;version=0.0.4;q=0.5, application/openmetrics-text;q=0.2", Format::Prometheus),
            ("application/openmetrics-text;q=0", Format::Prometheus),
            ("text/plain", Format::Prometheus),
            ("*/*", Format::Prometheus),
            ("", Format::Prometheus),
            ("application/openmetrics-text;q=x", Format::Prometheus),
        ] {
            assert_eq!(Format::accepted(accept), format, "{accept}");
        }
    }

    #[test]
    fn counters_are_described_as_their_samples_are_called() {
        let open = "# HELP a_seconds Time.\n# TYPE a_seconds counter\n# UNIT a_seconds seconds\na_seconds_total 1.5\n\
                    # HELP b Level.\n# TYPE b gauge\nb{c=\"# EOF\"} 1\n# EOF\n";
        let plain = "# HELP a_seconds_total Time.\n# TYPE a_seconds_total counter\na_seconds_total 1.5\n\
                     # HELP b Level.\n# TYPE b gauge\nb{c=\"# EOF\"} 1\n";
        assert_eq!(Format::Prometheus.of(open.to_owned()), plain);
        assert_eq!(Format::OpenMetrics.of(open.to_owned()), open);
    }
}
