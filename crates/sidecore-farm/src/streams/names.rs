//! Names of streams, subjects and headers.

pub(crate) fn streams(farm: &str) -> [String; 4] {
    ["events", "results", "dead", "places"].map(|what| format!("{farm}-{what}"))
}

pub(crate) fn event(farm: &str, kind: &str) -> String {
    format!("farm.{farm}.events.{kind}")
}

pub(crate) fn result(farm: &str, id: &str) -> String {
    format!("farm.{farm}.results.{id}")
}

pub(crate) fn dead(farm: &str, id: &str) -> String {
    format!("farm.{farm}.dead.{id}")
}

pub(crate) fn place(farm: &str, feeder: &str) -> String {
    format!("farm.{farm}.places.{feeder}")
}

pub(crate) const ID: &str = "Nats-Msg-Id";
pub(crate) const KIND: &str = "Farm-Kind";
pub(crate) const FED: &str = "Farm-Fed";
pub(crate) const REASON: &str = "Farm-Reason";
pub(crate) const TRIES: &str = "Farm-Tries";
/// Octets of the original event, in a dead letter that has only some of them.
pub(crate) const WHOLE: &str = "Farm-Whole";
