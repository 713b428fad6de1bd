//! Messages between a dispatcher and its nodes.
//!
//! The first byte is the version; behind it is the postcard encoding of the enums below. Any program with access to the
//! farm's subjects can write anything: decoding is total, each size is checked, and nothing is copied before that.

mod names;
mod octets;
#[cfg(test)]
mod tests;

pub use names::{ID, is_token};
pub use octets::Octets;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use sidecore_core::time::Nanos;

const VERSION: u8 = 1;
/// Most events, answers or tickets of a message.
pub const MAX_LIST: usize = 4096;
/// Longest name of a node, bytes.
pub const MAX_NODE_BYTES: usize = 64;
/// Longest time between two beats of a node, ns.
pub const MAX_BEAT: Nanos = 10_000_000_000;
/// Longest name of a kind, bytes.
pub const MAX_KIND_BYTES: usize = 64;
/// Longest reason of a failure, bytes.
pub const MAX_REASON_BYTES: usize = 512;
const MAX_OFFERS: usize = 256;
/// Most bytes of a message in addition to its events or answers, and of each of these in addition to its texts and
/// octets.
pub const HEAD: usize = 32;

/// From a node to its dispatcher.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub enum NodeMessage<'a> {
    /// It wants to be one of the dispatcher's nodes.
    #[serde(borrow)]
    Join(Join<'a>),
    /// It is there.
    #[serde(borrow)]
    Beat(Beat<'a>),
    /// What became of events.
    #[serde(borrow)]
    Answers(Answers<'a>),
    /// It takes no more events, and answers its open ones.
    Leave {
        /// Its name.
        node: &'a str,
        /// Its incarnation.
        incarnation: u64,
    },
    /// It begins with one of these, and soon with the others, of its [`DispatcherMessage::ReportStart`].
    Started {
        /// Its incarnation.
        incarnation: u64,
        /// The attempts that it begins with.
        tickets: Vec<u64>,
    },
}

/// A node that wants to have events.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub struct Join<'a> {
    /// Its name.
    pub node: &'a str,
    /// A number that this process of the node has chosen, and no other has.
    pub incarnation: u64,
    /// The dispatcher that it means.
    pub dispatcher: u64,
    /// Events that it does at a time.
    pub slots: u16,
    /// Kinds that it does; empty: any.
    #[serde(borrow)]
    pub offers: Vec<&'a str>,
    /// Interval of its beats, up to [`MAX_BEAT`].
    pub beat_ns: Nanos,
}

/// A sign of life.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub struct Beat<'a> {
    /// Its name.
    pub node: &'a str,
    /// Its incarnation.
    pub incarnation: u64,
    /// Events that it has received so far.
    pub received: u64,
    /// Answers that it has sent so far.
    pub answered: u64,
    /// Events that it has begun with.
    pub running: u32,
}

/// Answers of a node.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub struct Answers<'a> {
    /// Its incarnation.
    pub incarnation: u64,
    /// At most [`MAX_LIST`].
    #[serde(borrow)]
    pub list: Vec<Answer<'a>>,
}

/// An answer.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub struct Answer<'a> {
    /// The attempt that is answered.
    pub ticket: u64,
    /// From the event's arrival at the node until this answer.
    pub held_ns: Nanos,
    /// Of that, the work itself, ns.
    pub work_ns: Nanos,
    /// What became of the event.
    #[serde(borrow)]
    pub outcome: Outcome<'a>,
}

/// What became of an event.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Outcome<'a> {
    /// It is done: its result.
    #[serde(borrow)]
    Done(Octets<'a>),
    /// It counts as a try.
    Failed {
        /// Why, up to [`MAX_REASON_BYTES`].
        reason: &'a str,
    },
    /// The node cannot do it; it is no try.
    Refused {
        /// Why, up to [`MAX_REASON_BYTES`].
        reason: &'a str,
    },
    /// The result is an object of the servers, and this the reference to it.
    #[serde(borrow)]
    DoneLarge(Octets<'a>),
}

/// From a dispatcher to a node.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub enum DispatcherMessage<'a> {
    /// It is one of the dispatcher's nodes.
    Welcome {
        /// The dispatcher.
        dispatcher: u64,
        /// The node's incarnation.
        incarnation: u64,
    },
    /// Events to do.
    #[serde(borrow)]
    Events(Vec<Event<'a>>),
    /// The node is not, or no longer, one of the dispatcher's.
    JoinAgain,
    /// The dispatcher takes no more nodes.
    Full {
        /// How many it has.
        most: u32,
    },
    /// The dispatcher ends: another one may follow.
    Gone,
    /// Events, each of which was with a node that died: the node reports when it begins with them.
    #[serde(borrow)]
    ReportStart(Vec<Event<'a>>),
    /// As the two others, of events that are objects: their bodies are the references.
    LargeEvents {
        /// As with [`Self::ReportStart`].
        report_start: bool,
        /// The events.
        #[serde(borrow)]
        list: Vec<Event<'a>>,
    },
}

/// An event for a node.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub struct Event<'a> {
    /// Names the attempt: the answer bears it.
    pub ticket: u64,
    /// What the event is, for the node's program.
    pub kind: &'a str,
    /// Its id.
    pub id: &'a str,
    /// What the program gets.
    #[serde(borrow)]
    pub body: Octets<'a>,
    /// How long the attempt may take, ns.
    pub limit_ns: Nanos,
}

/// Published by the active dispatcher again and again, so that nodes join it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lead {
    /// The dispatcher; a later one's is larger.
    pub dispatcher: u64,
}

/// The message with its version. `size`: how many bytes are expected, without [`HEAD`].
pub fn encode(message: &impl Serialize, size: usize) -> Bytes {
    let mut out = Vec::with_capacity(size + HEAD);
    out.push(VERSION);
    // Serialising to memory does not fail: lengths are known, and memory grows.
    postcard::to_extend(message, out).map(Bytes::from).unwrap_or_default()
}

impl<'a> NodeMessage<'a> {
    /// `None`: no node sends such a message.
    pub fn decode(message: &'a [u8]) -> Option<Self> {
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
            Outcome::Done(_) | Outcome::DoneLarge(_) => self.work_ns <= self.held_ns,
            Outcome::Failed { reason } | Outcome::Refused { reason } => reason.len() <= MAX_REASON_BYTES,
        }
    }
}

impl<'a> DispatcherMessage<'a> {
    /// `None`: no dispatcher sends such a message.
    pub fn decode(message: &'a [u8]) -> Option<Self> {
        let down = decode::<Self>(message)?;
        let sound = match &down {
            Self::Events(list) | Self::ReportStart(list) | Self::LargeEvents { list, .. } => {
                list.len() <= MAX_LIST && list.iter().all(Event::is_sound)
            }
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
    /// `None`: no dispatcher sends such a message.
    pub fn decode(message: &[u8]) -> Option<Self> {
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
