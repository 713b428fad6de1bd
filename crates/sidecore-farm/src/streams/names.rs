//! Names of streams, subjects and headers.

pub(crate) fn streams(farm: &str) -> [String; 4] {
    ["events", "results", "dead", "places"].map(|what| format!("{farm}-{what}"))
}

pub(crate) fn event(farm: &str, kind: &str) -> String {
    format!("farm.{farm}.events.{kind}")
}

/// The subject of an event whose feeder has an account of its own: its servers put the namespace there.
pub(crate) fn fed(farm: &str, namespace: &str, kind: &str) -> String {
    format!("farm.{farm}.fed.{namespace}.{kind}")
}

/// The namespace in the subject of an event. A dispatcher puts it before the id, with a hyphen, which no namespace has.
pub(crate) fn namespace(subject: &str) -> Option<&str> {
    let mut tokens = subject.split('.').skip(2);
    (tokens.next()? == "fed").then(|| tokens.next())?
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

/// What servers recognise a message by for two minutes: the event's id, a dot, and for events a tag of feeder and
/// content, for results a digest of the event.
pub(crate) const ID: &str = "Nats-Msg-Id";
pub(crate) const KIND: &str = "Farm-Kind";
pub(crate) const FED: &str = "Farm-Fed";
/// Of an event: when its result is worth nothing any more, ns since 1970.
pub(crate) const DEADLINE: &str = "Farm-Deadline";
/// Of an event: when it may be done at the earliest, ns since 1970.
pub(crate) const NOT_BEFORE: &str = "Farm-Not-Before";
pub(crate) const REASON: &str = "Farm-Reason";
pub(crate) const TRIES: &str = "Farm-Tries";
/// Digest of a dead letter's event.
pub(crate) const EVENT: &str = "Farm-Event";
/// Distinguishes a dead letter on its way back into the queue.
pub(crate) const AGAIN: &str = "Farm-Again";
/// Octets of the original event, in a dead letter that has only some of them.
pub(crate) const WHOLE: &str = "Farm-Whole";
