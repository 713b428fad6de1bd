//! Names of streams, subjects and headers.

/// Names of a farm's streams: events, results, dead letters, places.
pub(crate) fn streams(farm: &str) -> [String; 4] {
    ["events", "results", "dead", "places"].map(|what| format!("{farm}-{what}"))
}

/// Subject of events of a kind.
pub(crate) fn event(farm: &str, kind: &str) -> String {
    format!("farm.{farm}.events.{kind}")
}

/// Subject of an event's result.
pub(crate) fn result(farm: &str, id: &str) -> String {
    format!("farm.{farm}.results.{id}")
}

/// Subject of an event's dead letter.
pub(crate) fn dead(farm: &str, id: &str) -> String {
    format!("farm.{farm}.dead.{id}")
}

/// Subject of a feeder's place.
pub(crate) fn place(farm: &str, feeder: &str) -> String {
    format!("farm.{farm}.places.{feeder}")
}

/// Headers of an event, a result and a dead letter.
pub(crate) const ID: &str = "Nats-Msg-Id";
pub(crate) const KIND: &str = "Farm-Kind";
pub(crate) const FED: &str = "Farm-Fed";
pub(crate) const REASON: &str = "Farm-Reason";
pub(crate) const TRIES: &str = "Farm-Tries";
/// Octets of the original event, in a dead letter that has only some of them.
pub(crate) const WHOLE: &str = "Farm-Whole";
