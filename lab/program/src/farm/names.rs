//! What every client of a farm knows: its streams, subjects and headers (docs/farm.md).

/// Of a dead letter: why it is one.
pub(crate) const REASON: &str = "Farm-Reason";

/// The streams in the order in which a farm makes them.
pub(crate) fn streams(farm: &str) -> [String; 4] {
    ["events", "results", "dead", "places"].map(|what| format!("{farm}-{what}"))
}

/// The stream that is made last.
pub(crate) fn last(streams: &[String; 4]) -> &str {
    &streams[3]
}

/// Where an event of that kind is published.
pub(crate) fn event(farm: &str, kind: &str) -> String {
    format!("farm.{farm}.events.{kind}")
}
