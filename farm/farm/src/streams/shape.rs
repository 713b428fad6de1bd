//! Required settings of each stream, and the differences of an existing one.

use super::error::StreamError;
use super::names;
use crate::args::{Durability, Storage};
use crate::measures;
use async_nats::jetstream::stream::{Config, DiscardPolicy, RetentionPolicy, StorageType};
use sidecore_nodes::pending::Priority;
use std::time::Duration;

/// Default limit of waiting events and of kept results, bytes.
const MAX_BYTES: u64 = 1 << 30;
/// Dead letters are few, and places are smaller still.
const DEAD_PART: u64 = 8;
const PLACES_BYTES: i64 = 16 << 20;
const RESULTS_AGE: Duration = Duration::from_secs(24 * 3_600);
/// What killed feeders leave of large events ends after this time.
const LARGE_AGE: Duration = Duration::from_secs(7 * 24 * 3_600);
/// Time that servers recognise an event's id, and keep it in memory.
const REMEMBERED: Duration = Duration::from_secs(120);

/// The streams of a farm, with those of large events and results if it is to have room for them.
pub(super) fn all(farm: &str, durability: &Durability) -> Vec<Config> {
    let [events, results, dead, places] = names::streams(farm);
    let bytes = durability.max_bytes.unwrap_or(MAX_BYTES);
    let kept = |name, subjects, bytes: u64| Config {
        max_bytes: whole(i64::try_from(bytes).unwrap_or(i64::MAX)),
        ..common(name, subjects, durability)
    };
    let once = |config: Config| Config { max_messages_per_subject: 1, discard_new_per_subject: true, ..config };
    let age = durability.results_age.unwrap_or(RESULTS_AGE);
    let mut all = vec![
        Config {
            retention: RetentionPolicy::WorkQueue,
            duplicate_window: REMEMBERED,
            ..kept(events, Priority::ALL.map(|priority| names::all_of(farm, priority)).to_vec(), bytes)
        },
        Config {
            max_age: age,
            duplicate_window: REMEMBERED.min(age),
            ..once(kept(results, vec![names::result(farm, "*")], bytes))
        },
        once(kept(dead, vec![names::dead(farm, "*")], (bytes / DEAD_PART).max(1))),
        Config {
            max_bytes: PLACES_BYTES,
            max_messages_per_subject: 1,
            // By subject, which servers can permit one by one.
            allow_direct: true,
            ..common(places, vec![names::place(farm, "*"), names::place(farm, "*.*")], durability)
        },
    ];
    if let Some(bytes) = durability.large_bytes {
        let [events, results] = names::stores(farm);
        // As NATS's object stores are made.
        let store = |name: String, max_age, allow_rollup| Config {
            max_age,
            allow_rollup,
            allow_direct: true,
            ..kept(names::stream_of(&name), ["C", "M"].map(|part| format!("$O.{name}.{part}.>")).to_vec(), bytes)
        };
        // A node that may replace what the store has could remove all of it.
        all.extend([store(events, LARGE_AGE, true), store(results, age, false)]);
    }
    all
}

/// The durability of a farm that lacks some streams, from what was asked and from the streams that are there.
pub(super) fn as_others_have_it(farm: &str, asked: &Durability, there: &[Config]) -> Durability {
    let [events, results, dead, _] = names::streams(farm);
    let of = |name: &str| there.iter().find(|config| config.name == name);
    let bytes = |name: &str, parts| Some(u64::try_from(of(name)?.max_bytes).ok()?.saturating_mul(parts));
    let other = there.first();
    Durability {
        storage: asked.storage.or(other.map(|config| match config.storage {
            StorageType::File => Storage::File,
            StorageType::Memory => Storage::Memory,
        })),
        replicas: asked.replicas.or(other.map(|config| config.num_replicas)),
        max_bytes: asked.max_bytes.or(bytes(&events, 1)).or(bytes(&results, 1)).or(bytes(&dead, DEAD_PART)),
        large_bytes: asked.large_bytes,
        results_age: asked.results_age.or(of(&results).map(|config| config.max_age)),
    }
}

/// Whether an existing stream fits. Durability counts only if its option was given.
pub(super) fn check(there: &Config, wanted: &Config, asked: &Durability) -> Result<(), StreamError> {
    let name = wanted.name.clone();
    if let Some(odd) = foreign(there, wanted) {
        return Err(StreamError::Foreign { name, odd });
    }
    let Some((option, is, fix)) = other_than_asked(there, wanted, asked) else { return Ok(()) };
    Err(StreamError::Differs { name, option, is, fix })
}

fn foreign(there: &Config, wanted: &Config) -> Option<String> {
    if there.retention != wanted.retention {
        return Some(format!("its retention is {}, not {}", retention(there.retention), retention(wanted.retention)));
    }
    if !is_earlier(there, wanted) && there.subjects != wanted.subjects {
        return Some(format!("it takes {}, not {}", there.subjects.join(", "), wanted.subjects.join(", ")));
    }
    if there.discard != wanted.discard {
        return Some("it drops old messages when it is full, instead of refusing new ones".into());
    }
    if there.max_messages_per_subject != wanted.max_messages_per_subject && wanted.max_messages_per_subject == 1
        || there.discard_new_per_subject != wanted.discard_new_per_subject
    {
        return Some("it does not keep exactly one message for each subject".into());
    }
    None
}

/// Whether an earlier version made it: of its events none was urgent or of a batch, and the earliest knew no feeders in
/// accounts of their own.
pub(super) fn is_earlier(there: &Config, wanted: &Config) -> bool {
    let Some(first) = wanted.subjects.first() else { return false };
    there.subjects != wanted.subjects
        && there.subjects.first() == Some(&first.replace('>', "*"))
        && (there.subjects.len() == 1 || has_former_layout(there))
}

pub(super) fn is_queue(wanted: &Config) -> bool {
    wanted.retention == RetentionPolicy::WorkQueue
}

/// Whether events of accounts have subjects there that no dispatcher of this version looks at.
pub(super) fn has_former_layout(there: &Config) -> bool {
    there.subjects.get(1).is_some_and(|subject| subject.split('.').nth(2) == Some("fed"))
}

fn other_than_asked(there: &Config, wanted: &Config, asked: &Durability) -> Option<(&'static str, String, String)> {
    let name = &wanted.name;
    if asked.storage.is_some() && there.storage != wanted.storage {
        let is = format!("is kept in {}", if there.storage == StorageType::File { "files" } else { "memory" });
        let fix = format!("storage cannot be changed, so when nothing waits in it remove it (`nats stream rm {name}`)");
        return Some(("--storage", is, fix));
    }
    if asked.replicas.is_some() && there.num_replicas != wanted.num_replicas {
        let is = format!("has {} replicas", there.num_replicas);
        return Some((
            "--replicas",
            is,
            format!("change it (`nats stream edit {name} --replicas {}`)", wanted.num_replicas),
        ));
    }
    let is_store = names::is_store(&wanted.name);
    let (option, asked_bytes) =
        if is_store { ("--large-bytes", asked.large_bytes) } else { ("--max-bytes", asked.max_bytes) };
    if asked_bytes.is_some() && whole(there.max_bytes) != wanted.max_bytes {
        let is = u64::try_from(there.max_bytes)
            .map_or("has no limit".into(), |bytes| format!("holds {}", measures::shown(bytes)));
        return Some((option, is, format!("change it (`nats stream edit {name} --max-bytes {}`)", wanted.max_bytes)));
    }
    if asked.results_age.is_some() && !is_store && there.max_age != wanted.max_age {
        let is = format!("keeps results for {} s", there.max_age.as_secs());
        return Some((
            "--results-age",
            is,
            format!("change it (`nats stream edit {name} --max-age {}s`)", wanted.max_age.as_secs()),
        ));
    }
    None
}

/// A limit that padded messages fill to the last byte.
fn whole(bytes: i64) -> i64 {
    let quantum = i64::from(sidecore_nats::QUANTUM);
    (bytes / quantum * quantum).max(quantum)
}

fn common(name: String, subjects: Vec<String>, durability: &Durability) -> Config {
    Config {
        name,
        subjects,
        discard: DiscardPolicy::New,
        storage: match durability.storage {
            Some(Storage::Memory) => StorageType::Memory,
            _ => StorageType::File,
        },
        num_replicas: durability.replicas.unwrap_or(1),
        ..Config::default()
    }
}

fn retention(policy: RetentionPolicy) -> &'static str {
    match policy {
        RetentionPolicy::Limits => "limits",
        RetentionPolicy::Interest => "interest",
        RetentionPolicy::WorkQueue => "a work queue",
    }
}
