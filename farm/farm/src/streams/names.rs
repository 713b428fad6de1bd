//! Names of streams, subjects and headers.
//!
//! ```text
//! farm.FARM.events.KIND                    an event of another NATS client
//! farm.FARM.events.BATCH.KIND              of a feeder
//! farm.FARM.events.NAMESPACE.BATCH.KIND    of a feeder with an account of its own
//! ```
//!
//! Urgent events have `urgent` in the place of `events`. The dispatcher has a consumer for each of the two words, so that
//! it receives urgent events however many others wait.

use crate::args::MAX_NAME_BYTES;
use crate::wire::is_token;
use sidecore_nodes::pending::Priority;

pub(crate) fn streams(farm: &str) -> [String; 4] {
    ["events", "results", "dead", "places"].map(|what| format!("{farm}-{what}"))
}

/// The object stores of events and of results that are larger than a message.
pub(crate) fn stores(farm: &str) -> [String; 2] {
    ["events", "results"].map(|what| format!("{farm}-large-{what}"))
}

/// The stream of an object store.
pub(crate) fn stream_of(store: &str) -> String {
    format!("{STORE}{store}")
}

/// Whether this is the stream of an object store.
pub(crate) fn is_store(stream: &str) -> bool {
    stream.starts_with(STORE)
}

const STORE: &str = "OBJ_";

/// An event of no batch and of the usual priority, as other NATS clients publish it.
pub(crate) fn event(farm: &str, kind: &str) -> String {
    format!("farm.{farm}.events.{kind}")
}

/// An event of a feeder: its batch is the feeder's name. `namespace`: what the servers put there for a feeder with an
/// account of its own.
pub(crate) fn fed(farm: &str, priority: Priority, namespace: Option<&str>, batch: &str, kind: &str) -> String {
    let (word, namespace) = (word(priority), namespace.map_or(String::new(), |namespace| format!("{namespace}.")));
    format!("farm.{farm}.{word}.{namespace}{batch}.{kind}")
}

/// All events of a priority.
pub(crate) fn all_of(farm: &str, priority: Priority) -> String {
    format!("farm.{farm}.{}.>", word(priority))
}

fn word(priority: Priority) -> &'static str {
    match priority {
        Priority::Normal => "events",
        Priority::Urgent => "urgent",
    }
}

/// What the subject of an event says about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EventSubject<'a> {
    pub(crate) priority: Priority,
    /// A dispatcher puts it before the id, with a hyphen, which no namespace has.
    pub(crate) namespace: Option<&'a str>,
    /// What its feeder has fed, by the feeder's name.
    pub(crate) batch: Option<&'a str>,
    pub(crate) kind: &'a str,
}

impl<'a> EventSubject<'a> {
    pub(crate) fn of(subject: &'a str) -> Self {
        let mut tokens = subject.split('.').skip(2);
        let urgent = tokens.next().is_some_and(|token| token == word(Priority::Urgent));
        let priority = if urgent { Priority::Urgent } else { Priority::Normal };
        let (namespace, batch, kind) = match [tokens.next(), tokens.next(), tokens.next()] {
            [Some(namespace), Some(batch), Some(kind)] => (Some(namespace), Some(batch), kind),
            [Some(batch), Some(kind), None] => (None, Some(batch), kind),
            [kind, ..] => (None, None, kind.unwrap_or_default()),
        };
        Self { priority, namespace, batch, kind }
    }

    /// The batch with its namespace, as the subject of its feeder's place has it. `None`: there is none, or no feeder has
    /// such a name.
    pub(crate) fn whole_batch(&self) -> Option<Box<str>> {
        let is_name = |name: &&str| is_token(name, MAX_NAME_BYTES);
        let batch = self.batch.filter(is_name)?;
        match self.namespace {
            None => Some(batch.into()),
            Some(namespace) => is_name(&namespace).then(|| format!("{namespace}.{batch}").into()),
        }
    }
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
/// Of a dead letter: namespace, if there is one, a dot, and the event's batch.
pub(crate) const BATCH: &str = "Farm-Batch";
pub(crate) const TRIES: &str = "Farm-Tries";
/// Digest of a dead letter's event.
pub(crate) const EVENT: &str = "Farm-Event";
/// Marks an event or a result whose message has a reference to its object.
pub(crate) const LARGE: &str = "Farm-Large";
/// Distinguishes a dead letter on its way back into the queue.
pub(crate) const AGAIN: &str = "Farm-Again";
/// Octets of the original event, in a dead letter that has only some of them.
pub(crate) const WHOLE: &str = "Farm-Whole";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_subject_leaves_room_for_padding() {
        let longest = result(&"f".repeat(32), &"i".repeat(crate::wire::ID));
        assert!(longest.len() <= sidecore_nats::LONGEST_SUBJECT, "{}", longest.len());
    }

    #[test]
    fn a_subject_says_priority_namespace_batch_and_kind() {
        for priority in Priority::ALL {
            for namespace in [None, Some("camera")] {
                let subject = fed("urgent", priority, namespace, "job", "png");
                let said = EventSubject::of(&subject);
                assert_eq!(said, EventSubject { priority, namespace, batch: Some("job"), kind: "png" }, "{subject}");
                let whole = if namespace.is_some() { "camera.job" } else { "job" };
                assert_eq!(said.whole_batch().as_deref(), Some(whole));
            }
        }
        let plain = EventSubject::of("farm.f.events.png");
        assert_eq!((plain.kind, plain.whole_batch()), ("png", None));
        for odd in [
            "farm.f.events.a b.png",
            &format!("farm.f.events.{}.png", "x".repeat(33)),
            "farm.f.events.a$.b.png",
            "farm",
        ] {
            assert_eq!(EventSubject::of(odd).whole_batch(), None, "{odd}");
        }
    }
}
