//! Messages of the work queue that this dispatcher has or had: a new consumer delivers them again.

use async_nats::Subject;
use sidecore_core::time::Nanos;
use std::collections::{HashMap, VecDeque};

/// Acknowledged messages that are remembered: an acknowledgement may have been lost with a connection.
const REMEMBERED: usize = 65_536;

/// Identity of a message in the queue. A recreated stream repeats numbers, but not times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Place {
    pub(super) number: u64,
    pub(super) published: u64,
}

impl Place {
    /// Parses the subject of an acknowledgement: `$JS.ACK.STREAM.CONSUMER.DELIVERED.NUMBER.SEQUENCE.TIME.PENDING`, or
    /// with domain and account behind `ACK`.
    pub(super) fn of(acknowledge: &str) -> Option<Self> {
        let tokens = acknowledge.strip_prefix("$JS.ACK.")?.split('.');
        let count = tokens.clone().count();
        let mut tokens = tokens.skip(if count >= 9 { 5 } else { 3 });
        let number = tokens.next()?.parse().ok()?;
        let published = tokens.nth(1)?.parse().ok()?;
        Some(Self { number, published })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum At {
    /// Held under this tag.
    Held(u32),
    /// Its result is under way, with this index.
    Committing(u32),
    Done,
}

#[derive(Debug, Default)]
pub(super) struct Known {
    at: HashMap<Place, At>,
    done: VecDeque<Place>,
}

impl Known {
    pub(super) fn get(&self, place: Place) -> Option<At> {
        self.at.get(&place).copied()
    }

    pub(super) fn put(&mut self, place: Place, at: At) {
        self.at.insert(place, at);
        if at == At::Done {
            self.done.push_back(place);
            if self.done.len() > REMEMBERED {
                self.done.pop_front().and_then(|oldest| self.at.remove(&oldest));
            }
        }
    }
}

/// The queue's data for one event.
#[derive(Clone, Debug)]
pub(super) struct Origin {
    pub(super) place: Place,
    /// Subject of its acknowledgement.
    pub(super) acknowledge: Subject,
    /// When it was taken, ns.
    pub(super) taken: Nanos,
    /// When it was fed by its feeder's clock, ns since 1970; 0: unknown.
    pub(super) fed: Nanos,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_has_its_number_and_time_from_old_and_new_servers() {
        let place = Some(Place { number: 17, published: 1_795_398_095_088_542_727 });
        assert_eq!(Place::of("$JS.ACK.F-events.F-dispatch.1.17.2.1795398095088542727.2"), place);
        assert_eq!(Place::of("$JS.ACK._.hash.F-events.F-dispatch.1.17.2.1795398095088542727.2.token"), place);
        for wrong in ["", "$JS.ACK.", "_INBOX.a", "$JS.ACK.a.b.1.x.2.3.4", "$JS.ACK.a.b.1.2"] {
            assert_eq!(Place::of(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn of_what_is_done_so_much_is_remembered() {
        let mut known = Known::default();
        let place = |number| Place { number, published: 1 };
        known.put(place(0), At::Held(3));
        for number in 0..=REMEMBERED as u64 {
            known.put(place(number), At::Done);
        }
        assert_eq!((known.get(place(0)), known.get(place(1))), (None, Some(At::Done)));
    }
}
