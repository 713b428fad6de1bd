//! Messages between a dispatcher and its nodes.
//!
//! The first byte is the version; behind it is the postcard encoding of the enums below. Any program with access to the
//! farm's subjects can write anything: decoding is total, each size is checked, and nothing is copied before that.

mod names;
mod octets;
#[cfg(test)]
mod tests;

pub(crate) use names::{ID, is_token};
pub(crate) use octets::Octets;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use sidecore_core::time::Nanos;

const VERSION: u8 = 1;
pub(crate) const MAX_LIST: usize = 4096;
pub(crate) const MAX_NODE_BYTES: usize = 64;
/// Longest time between two beats of a node, ns.
pub(crate) const MAX_BEAT: Nanos = 10_000_000_000;
pub(crate) const MAX_KIND_BYTES: usize = 64;
pub(crate) const MAX_REASON_BYTES: usize = 512;
const MAX_OFFERS: usize = 256;
/// Most bytes of a message in addition to its events or answers, and of each of these in addition to its texts and
/// octets.
pub(crate) const HEAD: usize = 32;

#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum NodeMessage<'a> {
    #[serde(borrow)]
    Join(Join<'a>),
    #[serde(borrow)]
    Beat(Beat<'a>),
    #[serde(borrow)]
    Answers(Answers<'a>),
    /// It takes no more events, and answers its open ones.
    Leave { node: &'a str, incarnation: u64 },
    /// It begins with one of these, and soon with the others, of its [`DispatcherMessage::ReportStart`].
    Started { incarnation: u64, tickets: Vec<u64> },
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Join<'a> {
    pub(crate) node: &'a str,
    pub(crate) incarnation: u64,
    pub(crate) dispatcher: u64,
    pub(crate) slots: u16,
    /// Kinds that it does; empty: any.
    #[serde(borrow)]
    pub(crate) offers: Vec<&'a str>,
    /// Interval of its beats, up to [`MAX_BEAT`].
    pub(crate) beat_ns: Nanos,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Beat<'a> {
    pub(crate) node: &'a str,
    pub(crate) incarnation: u64,
    pub(crate) received: u64,
    pub(crate) answered: u64,
    pub(crate) running: u32,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Answers<'a> {
    pub(crate) incarnation: u64,
    #[serde(borrow)]
    pub(crate) list: Vec<Answer<'a>>,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Answer<'a> {
    pub(crate) ticket: u64,
    /// From the event's arrival at the node until this answer.
    pub(crate) held_ns: Nanos,
    pub(crate) work_ns: Nanos,
    #[serde(borrow)]
    pub(crate) outcome: Outcome<'a>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Outcome<'a> {
    #[serde(borrow)]
    Done(Octets<'a>),
    /// It counts as a try.
    Failed { reason: &'a str },
    /// The node cannot do it; it is no try.
    Refused { reason: &'a str },
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum DispatcherMessage<'a> {
    Welcome {
        dispatcher: u64,
        incarnation: u64,
    },
    #[serde(borrow)]
    Events(Vec<Event<'a>>),
    /// The node is not, or no longer, one of the dispatcher's.
    JoinAgain,
    Full {
        most: u32,
    },
    /// The dispatcher ends: another one may follow.
    Gone,
    /// Events, each of which was with a node that died: the node reports when it begins with them.
    #[serde(borrow)]
    ReportStart(Vec<Event<'a>>),
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Event<'a> {
    pub(crate) ticket: u64,
    pub(crate) kind: &'a str,
    pub(crate) id: &'a str,
    #[serde(borrow)]
    pub(crate) body: Octets<'a>,
    pub(crate) limit_ns: Nanos,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Lead {
    /// The dispatcher; a later one's is larger.
    pub(crate) dispatcher: u64,
}

pub(crate) fn encode(message: &impl Serialize, size: usize) -> Bytes {
    let mut out = Vec::with_capacity(size + HEAD);
    out.push(VERSION);
    // Serialising to memory does not fail: lengths are known, and memory grows.
    postcard::to_extend(message, out).map(Bytes::from).unwrap_or_default()
}

impl<'a> NodeMessage<'a> {
    /// `None`: no node sends such a message.
    pub(crate) fn decode(message: &'a [u8]) -> Option<Self> {
        let up = decode::<Self>(message)?;
        let sound = match &up {
            Self::Join(join) => join.is_sound(),
            Self::Beat(beat) => is_node(beat.node),
            Self::Answers(answers) => answers.list.len() <= MAX_LIST && answers.list.iter().all(Answer::is_sound),
            Self::Leave { node, .. } => is_node(node),
            Self::Started { tickets, .. } => tickets.len() <= MAX_LIST,
        };
        sound.then_some(up)
    }
}

impl Join<'_> {
    fn is_sound(&self) -> bool {
        is_node(self.node) && self.slots > 0 && are_offers(&self.offers) && self.beat_ns <= MAX_BEAT
    }
}

impl Answer<'_> {
    fn is_sound(&self) -> bool {
        match self.outcome {
            Outcome::Done(_) => self.work_ns <= self.held_ns,
            Outcome::Failed { reason } | Outcome::Refused { reason } => reason.len() <= MAX_REASON_BYTES,
        }
    }
}

impl<'a> DispatcherMessage<'a> {
    pub(crate) fn decode(message: &'a [u8]) -> Option<Self> {
        let down = decode::<Self>(message)?;
        let sound = match &down {
            Self::Events(list) | Self::ReportStart(list) => list.len() <= MAX_LIST && list.iter().all(Event::is_sound),
            _ => true,
        };
        sound.then_some(down)
    }
}

impl Event<'_> {
    fn is_sound(&self) -> bool {
        is_token(self.id, ID) && is_token(self.kind, MAX_KIND_BYTES)
    }
}

impl Lead {
    pub(crate) fn decode(message: &[u8]) -> Option<Self> {
        decode(message)
    }
}

fn decode<'a, T: Deserialize<'a>>(message: &'a [u8]) -> Option<T> {
    let (version, rest) = message.split_first()?;
    if *version != VERSION {
        return None;
    }
    let (decoded, behind) = postcard::take_from_bytes(rest).ok()?;
    behind.is_empty().then_some(decoded)
}

fn is_node(name: &str) -> bool {
    is_token(name, MAX_NODE_BYTES)
}

fn are_offers(offers: &[&str]) -> bool {
    offers.len() <= MAX_OFFERS && offers.iter().all(|kind| is_token(kind, MAX_KIND_BYTES))
}
