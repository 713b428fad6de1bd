//! Replays a recorded run of the service.
//!
//! The record has every call into `Dispatch` with its time and its decision (see [`sidecore_core::dispatch::record`]).
//! Here the same code gets the same calls, and each decision is compared bit for bit. A record is untrusted: any bytes
//! give a result or a [`ReplayError`].

mod again;
mod traffic;

pub use again::{Again, Pool, again};
pub use traffic::{ClosedLoop, Request, Traffic, traffic};

use sidecore_core::dispatch::record::{Call, Decision, END, MAGIC, Start, apply, hash, is_possible};
use sidecore_core::dispatch::{Dispatch, Limits};
use std::ops::ControlFlow;
use strum::Display;

const WORD: usize = size_of::<u64>();
const TRAILER: usize = 2;
const MAX_TABLE: u32 = 1 << 20;

/// Result of a replay.
#[derive(Debug)]
pub struct Replayed {
    /// Number of calls in the record.
    pub events: u64,
    /// Number of calls with a decision.
    pub decisions: u64,
    /// The first decision that differs from the record.
    pub first_difference: Option<Difference>,
    /// The record ran out of room before the run ended.
    pub cut_off: bool,
}

/// A decision that differs from the record.
#[derive(Debug)]
pub struct Difference {
    /// Number of the call, from 0.
    pub event: u64,
    /// The call, in words.
    pub call: String,
    /// The decision in the record.
    pub recorded: Decision,
    /// The decision now.
    pub made: Decision,
}

/// Reason why bytes cannot be replayed.
#[derive(Clone, Debug, Display, PartialEq, Eq)]
pub enum ReplayError {
    /// They do not begin as a record of this version.
    #[strum(
        to_string = "this is no record of this version: a service with record = \"FILE\" in its configuration writes one"
    )]
    NoRecord,
    /// The end is missing.
    #[strum(to_string = "the record has no end: the file was cut, or is still being written")]
    Truncated,
    /// The hash at the end does not match the words before it.
    #[strum(to_string = "the record was changed or damaged: its hash is wrong")]
    Damaged,
    /// Tables of this size are not supported.
    #[strum(to_string = "the record begins with tables of an impossible size")]
    Limits,
    /// The call with this number is of a kind unknown to this version.
    #[strum(to_string = "call {0} is of unknown kind {1}")]
    Unknown(u64, u8),
    /// The call with this number has arguments that do not match its kind.
    #[strum(to_string = "call {0}, of kind {1}, has the wrong arguments")]
    Arguments(u64, u8),
    /// The call with this number refers to a missing object, or is out of order.
    #[strum(to_string = "call {0} cannot come here: {1}")]
    Impossible(u64, String),
}

impl std::error::Error for ReplayError {}

/// Replays a record, to its end or to the first decision that differs.
///
/// # Errors
/// For bytes that are not a complete record.
pub fn replay(bytes: &[u8]) -> Result<Replayed, ReplayError> {
    let mut replayed = Replayed { events: 0, decisions: 0, first_difference: None, cut_off: false };
    replayed.cut_off = walk(bytes, |step| {
        let event = replayed.events;
        replayed.events += 1;
        replayed.decisions += u64::from(step.decided);
        if step.made == step.recorded {
            return ControlFlow::Continue(());
        }
        let Step { call, recorded, made, .. } = step;
        replayed.first_difference = Some(Difference { event, call: in_words(call), recorded, made });
        ControlFlow::Break(())
    })?
    .cut_off;
    Ok(replayed)
}

struct Step<'a> {
    call: &'a Call,
    /// The recorded decision, and the one made now by the same code.
    recorded: Decision,
    made: Decision,
    decided: bool,
}

struct Walked {
    start: Start,
    /// It ends before its run did.
    cut_off: bool,
}

/// Repeats each call of a record, until its end or until `visit` breaks.
fn walk(bytes: &[u8], mut visit: impl FnMut(Step<'_>) -> ControlFlow<()>) -> Result<Walked, ReplayError> {
    let words = words(bytes)?;
    let (start, rest) = words.split_first_chunk::<{ Start::WORDS }>().ok_or(ReplayError::NoRecord)?;
    let start = Start::from_words(start).ok_or(ReplayError::NoRecord)?;
    let (calls, cut_off) = calls(&words, rest)?;
    let Limits { lanes, clients, in_flight, .. } = start.limits;
    if lanes.max(clients).max(in_flight) > MAX_TABLE {
        return Err(ReplayError::Limits);
    }
    let mut dispatch = Dispatch::new(start.limits, start.balance);
    let (mut left, mut event) = (calls, 0);
    while let Some((head, rest)) = left.split_first() {
        let kind = *head as u8;
        let (arguments, recorded, rest) = split(*head, rest).ok_or(ReplayError::Truncated)?;
        let call = Call::decode(kind, (head >> 32) as u32, arguments).ok_or(match kind {
            1..=Call::KINDS => ReplayError::Arguments(event, kind),
            _ => ReplayError::Unknown(event, kind),
        })?;
        if !is_possible(&dispatch, &call) {
            return Err(ReplayError::Impossible(event, in_words(&call)));
        }
        let decision = apply(&mut dispatch, &call);
        (left, event) = (rest, event + 1);
        let made = decision.unwrap_or_default();
        if visit(Step { call: &call, recorded, made, decided: decision.is_some() }).is_break() {
            break;
        }
    }
    Ok(Walked { start, cut_off })
}

fn words(bytes: &[u8]) -> Result<Vec<u64>, ReplayError> {
    let (words, rest) = bytes.as_chunks::<WORD>();
    if words.first() != Some(&MAGIC.to_le_bytes()) {
        return Err(ReplayError::NoRecord);
    }
    if !rest.is_empty() {
        return Err(ReplayError::Truncated);
    }
    Ok(words.iter().map(|word| u64::from_le_bytes(*word)).collect())
}

fn calls<'a>(all: &[u64], rest: &'a [u64]) -> Result<(&'a [u64], bool), ReplayError> {
    let (calls, end) = rest.split_last_chunk::<TRAILER>().ok_or(ReplayError::Truncated)?;
    let [end, found] = *end;
    let cut_off = end >> 32;
    if end as u32 != u32::from(END) || cut_off > 1 {
        return Err(ReplayError::Truncated);
    }
    if hash(&all[..all.len() - 1]) != found {
        return Err(ReplayError::Damaged);
    }
    Ok((calls, cut_off == 1))
}

fn split(head: u64, rest: &[u64]) -> Option<(&[u64], Decision, &[u64])> {
    let (arguments, decided) = ((head >> 8) as u16, (head >> 24) as u8);
    let (arguments, rest) = rest.split_at_checked(usize::from(arguments))?;
    let (words, rest) = rest.split_at_checked(usize::from(decided))?;
    let mut decision = Decision::default();
    decision.get_mut(..words.len())?.copy_from_slice(words);
    Some((arguments, decision, rest))
}

/// The call, without the table of rates that a device brings.
fn in_words(call: &Call) -> String {
    match call {
        Call::AddDevice(device) => {
            format!(
                "AddDevice(classes {:x?}, depth {}, weight {})",
                device.classes.to_words(),
                device.depth,
                device.weight
            )
        }
        call => format!("{call:?}"),
    }
}
