//! A recorded run of the service, gone through again.
//!
//! The record has every call into `Dispatch` with its time and its decision (see [`sidecore_core::dispatch::record`]).
//! The same code gets the same calls here, and each decision is compared bit for bit. A record may come from anywhere:
//! whatever its bytes are, there is an answer or a [`ReplayError`].

mod checked;
#[cfg(test)]
mod tests;

use checked::Checked;
use sidecore_core::dispatch::record::{Call, Decision, END, MAGIC, Malformed, Start, hash};
use std::fmt;

/// Bytes of a word.
const WORD: usize = size_of::<u64>();
/// Words of the end.
const TRAILER: usize = 2;

/// What going through a record came to.
#[derive(Debug)]
pub struct Replayed {
    /// Calls in the record.
    pub events: u64,
    /// Those among them that are answered with a decision.
    pub decisions: u64,
    /// Whether every decision was made again, bit for bit.
    pub identical: bool,
    /// The first one that was not.
    pub first_difference: Option<Difference>,
    /// The record ends before the run did: its room was used up.
    pub cut_off: bool,
}

/// A decision that came out otherwise.
#[derive(Debug)]
pub struct Difference {
    /// Number of the call, from 0.
    pub event: u64,
    /// The call in words.
    pub call: String,
    /// The decision in the record.
    pub recorded: Decision,
    /// The decision now.
    pub made: Decision,
}

/// Why bytes cannot be gone through.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplayError {
    /// They do not begin as a record of this version does.
    NoRecord,
    /// The end is missing: the file was cut.
    Truncated,
    /// The hash at the end is not that of the words before it.
    Damaged,
    /// Tables of this size are not made.
    Limits,
    /// The call of this number is none that this version knows.
    Call(u64, Malformed),
    /// The call of this number names what is not there, or cannot come where it stands.
    Impossible(u64, String),
}

impl fmt::Display for ReplayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoRecord => f.write_str("this is no record of this version"),
            Self::Truncated => f.write_str("the record has no end: the file was cut, or is still being written"),
            Self::Damaged => f.write_str("the record was changed or damaged: its hash is wrong"),
            Self::Limits => f.write_str("the record begins with tables of an impossible size"),
            Self::Call(number, Malformed::Unknown(kind)) => write!(f, "call {number} is of unknown kind {kind}"),
            Self::Call(number, Malformed::Arguments(kind)) => {
                write!(f, "call {number}, of kind {kind}, has the wrong arguments")
            }
            Self::Impossible(number, call) => write!(f, "call {number} cannot come here: {call}"),
        }
    }
}

impl std::error::Error for ReplayError {}

/// Goes through a record, to its end or to the first decision that comes out otherwise.
///
/// # Errors
/// For bytes that are no whole record.
pub fn replay(bytes: &[u8]) -> Result<Replayed, ReplayError> {
    let words = words(bytes)?;
    let (start, rest) = words.split_first_chunk::<{ Start::WORDS }>().ok_or(ReplayError::NoRecord)?;
    let start = Start::from_words(start).ok_or(ReplayError::NoRecord)?;
    let (calls, cut_off) = calls(&words, rest)?;
    let mut checked = Checked::new(start).ok_or(ReplayError::Limits)?;
    let mut replayed = Replayed { events: 0, decisions: 0, identical: true, first_difference: None, cut_off };
    let mut left = calls;
    while let Some((head, rest)) = left.split_first() {
        let event = replayed.events;
        let (arguments, recorded, rest) = split(*head, rest).ok_or(ReplayError::Truncated)?;
        let call = Call::decode(*head as u8, (head >> 32) as u32, arguments);
        let call = call.map_err(|wrong| ReplayError::Call(event, wrong))?;
        let decides = checked::decides(&call);
        let Some(made) = checked.apply(call.clone()) else {
            return Err(ReplayError::Impossible(event, in_words(&call)));
        };
        left = rest;
        replayed.events += 1;
        replayed.decisions += u64::from(decides);
        if made != recorded {
            let call = in_words(&call);
            replayed.identical = false;
            replayed.first_difference = Some(Difference { event, call, recorded, made });
            break;
        }
    }
    Ok(replayed)
}

/// Bytes as words, the first in the lowest bits.
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

/// The calls without the end, and whether the record was cut off, if end and hash are right.
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

/// Arguments and decision of a call, and what follows them.
fn split(head: u64, rest: &[u64]) -> Option<(&[u64], Decision, &[u64])> {
    let (arguments, decided) = ((head >> 8) as u16, (head >> 24) as u8);
    let (arguments, rest) = rest.split_at_checked(usize::from(arguments))?;
    let (words, rest) = rest.split_at_checked(usize::from(decided))?;
    let mut decision = Decision::default();
    decision.get_mut(..words.len())?.copy_from_slice(words);
    Some((arguments, decision, rest))
}

/// The call, without the table of rates that a device brings along.
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
