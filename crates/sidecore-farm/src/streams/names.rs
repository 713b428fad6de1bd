//! What streams and their subjects are called.

/// Names of a farm's streams: events, results, dead letters, places.
pub(crate) fn streams(farm: &str) -> [String; 4] {
    ["events", "results", "dead", "places"].map(|what| format!("{farm}-{what}"))
}

/// Where events of a kind are published.
pub(crate) fn event(farm: &str, kind: &str) -> String {
    format!("farm.{farm}.events.{kind}")
}

/// Where the result of an event is committed.
pub(crate) fn result(farm: &str, id: &str) -> String {
    format!("farm.{farm}.results.{id}")
}

/// Where an event goes that was given up.
pub(crate) fn dead(farm: &str, id: &str) -> String {
    format!("farm.{farm}.dead.{id}")
}

/// Where a feeder's place is kept.
pub(crate) fn place(farm: &str, feeder: &str) -> String {
    format!("farm.{farm}.places.{feeder}")
}

/// Headers of an event, a result and a dead letter.
pub(crate) const ID: &str = "Nats-Msg-Id";
pub(crate) const KIND: &str = "Farm-Kind";
pub(crate) const FED: &str = "Farm-Fed";
pub(crate) const REASON: &str = "Farm-Reason";
pub(crate) const TRIES: &str = "Farm-Tries";
/// Octets of the event of a dead letter that has only some of them.
pub(crate) const WHOLE: &str = "Farm-Whole";
