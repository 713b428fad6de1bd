//! Messages of the work queue that this dispatcher has or had: a new consumer delivers them again.

use async_nats::Subject;
use sidecore_core::time::Nanos;
use std::collections::{HashMap, VecDeque};

/// Acknowledged messages that are remembered: an acknowledgement may have been lost with a connection.
const REMEMBERED: usize = 65_536;

/// Identity of a message in the queue. A recreated stream repeats numbers, but not times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct StreamPosition {
    pub(super) number: u64,
    pub(super) published: u64,
}

impl StreamPosition {
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
pub(super) enum MessageState {
    Held(u32),
    Committing(u32),
    Done,
}

#[derive(Debug, Default)]
pub(super) struct Known {
    states: HashMap<StreamPosition, MessageState>,
    done: VecDeque<StreamPosition>,
}

impl Known {
    pub(super) fn get(&self, position: StreamPosition) -> Option<MessageState> {
        self.states.get(&position).copied()
    }

    pub(super) fn put(&mut self, position: StreamPosition, state: MessageState) {
        self.states.insert(position, state);
        if state == MessageState::Done {
            self.done.push_back(position);
            if self.done.len() > REMEMBERED {
                self.done.pop_front().and_then(|oldest| self.states.remove(&oldest));
            }
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Origin {
    pub(super) position: StreamPosition,
    pub(super) acknowledge: Subject,
    pub(super) taken: Nanos,
    /// When it was fed by its feeder's clock, ns since 1970; 0: unknown.
    pub(super) fed: Nanos,
    /// When its result is worth nothing any more, by the same clock; 0: never.
    pub(super) deadline: Nanos,
    /// When it may be done at the earliest, by the same clock.
    pub(super) not_before: Nanos,
    /// As [`EventSubject::whole_batch`](crate::streams::names::EventSubject::whole_batch).
    pub(super) batch: Option<Box<str>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_has_its_number_and_time_from_old_and_new_servers() {
        let position = Some(StreamPosition { number: 17, published: 1_795_398_095_088_542_727 });
        assert_eq!(StreamPosition::of("$JS.ACK.F-events.F-dispatch.1.17.2.1795398095088542727.2"), position);
        assert_eq!(
            StreamPosition::of("$JS.ACK._.hash.F-events.F-dispatch.1.17.2.1795398095088542727.2.token"),
            position
        );
        for wrong in ["", "$JS.ACK.", "_INBOX.a", "$JS.ACK.a.b.1.x.2.3.4", "$JS.ACK.a.b.1.2"] {
            assert_eq!(StreamPosition::of(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn of_what_is_done_so_much_is_remembered() {
        let mut known = Known::default();
        let position = |number| StreamPosition { number, published: 1 };
        known.put(position(0), MessageState::Held(3));
        for number in 0..=REMEMBERED as u64 {
            known.put(position(number), MessageState::Done);
        }
        assert_eq!((known.get(position(0)), known.get(position(1))), (None, Some(MessageState::Done)));
    }
}
