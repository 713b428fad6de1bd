//! One request, from the extents of its lane to the extents of its lane.
//!
//! Decisions on payload use a private copy: input is gathered into private memory, and only a whole, verified result
//! is scattered back. Bulk encryption of one extent into one extent goes without the copies, where the session offers
//! that: it makes no decision on the bytes.

use super::crypto::Session;
use crate::shm::LaneMemory;
use sidecore_core::session::Refusal;
use sidecore_core::wire::Submission;
use zeroize::Zeroizing;

/// Least input size where copies cost more than the library's loss on memory that another core just wrote, bytes.
const DIRECT_FROM: u64 = 256;
/// Most bytes of a result beyond the length of its input (signatures, encapsulations).
pub(crate) const OUTPUT_EXTRA: usize = 8 * 1024;

#[derive(Debug)]
pub(crate) struct Scratch {
    input: Zeroizing<Vec<u8>>,
    output: Zeroizing<Vec<u8>>,
}

impl Scratch {
    pub(crate) fn new(max_request: u32) -> Self {
        let max = max_request as usize;
        Self { input: vec![0; max].into(), output: vec![0; max + OUTPUT_EXTRA].into() }
    }
}

pub(crate) fn execute(
    session: &Session,
    memory: &LaneMemory,
    submission: &Submission,
    scratch: &mut Scratch,
) -> Result<u32, Refusal> {
    perform(session, memory, submission, room(session, submission)?, scratch)
}

/// For a request that writes at most `room` bytes by its session's output length.
#[inline(always)]
#[expect(clippy::inline_always, reason = "to enter and leave it costs a tenth of what a short request costs")]
pub(crate) fn perform(
    session: &Session,
    memory: &LaneMemory,
    submission: &Submission,
    room: usize,
    scratch: &mut Scratch,
) -> Result<u32, Refusal> {
    if submission.input_len() >= DIRECT_FROM
        && let Some(written) = direct(session, memory, submission, room)
    {
        return written.map(|written| written as u32);
    }
    let result = compute_sized(session, memory, submission, room, scratch)?;
    deliver(memory, submission, result);
    Ok(result.len() as u32)
}

pub(crate) fn compute<'s>(
    session: &Session,
    memory: &LaneMemory,
    submission: &Submission,
    scratch: &'s mut Scratch,
) -> Result<&'s [u8], Refusal> {
    compute_sized(session, memory, submission, room(session, submission)?, scratch)
}

#[inline(always)]
#[expect(clippy::inline_always, reason = "to enter and leave it costs a tenth of what a short request costs")]
fn compute_sized<'s>(
    session: &Session,
    memory: &LaneMemory,
    submission: &Submission,
    room: usize,
    scratch: &'s mut Scratch,
) -> Result<&'s [u8], Refusal> {
    if room as u64 > submission.output_len() {
        return Err(Refusal::OutputLength);
    }
    let input = scratch.input.get_mut(..submission.input_len() as usize).ok_or(Refusal::TooLarge)?;
    let output = scratch.output.get_mut(..room).ok_or(Refusal::TooLarge)?;
    gather(memory, submission, input);
    let written = session.run_sized(submission.op(), submission.head_len() as usize, input, output)?;
    Ok(&output[..written])
}

pub(crate) fn room_of(session: &Session, submission: &Submission) -> Result<usize, Refusal> {
    let room = room(session, submission)?;
    if room as u64 > submission.output_len() { Err(Refusal::OutputLength) } else { Ok(room) }
}

pub(crate) fn collect(memory: &LaneMemory, submission: &Submission, input: &mut Vec<u8>) {
    input.resize(submission.input_len() as usize, 0);
    gather(memory, submission, input);
}

fn room(session: &Session, submission: &Submission) -> Result<usize, Refusal> {
    let input_len = usize::try_from(submission.input_len()).map_err(|_| Refusal::TooLarge)?;
    session.output_len(submission.op(), submission.head_len() as usize, input_len)
}

#[inline]
pub(crate) fn deliver(memory: &LaneMemory, submission: &Submission, mut result: &[u8]) {
    if result.is_empty() {
        return;
    }
    for span in submission.outputs().filter_map(|extent| memory.span(extent)) {
        let (part, rest) = result.split_at(result.len().min(span.len()));
        span.copy_from(part);
        result = rest;
    }
}

fn direct(
    session: &Session,
    memory: &LaneMemory,
    submission: &Submission,
    room: usize,
) -> Option<Result<usize, Refusal>> {
    let (mut inputs, mut outputs) = (submission.inputs(), submission.outputs());
    if (inputs.len(), outputs.len()) != (1, 1) {
        return None;
    }
    let (input, output) = (memory.span(inputs.next()?)?, memory.span(outputs.next()?)?);
    let Some(output) = output.slice(0, room) else { return Some(Err(Refusal::OutputLength)) };
    session.run_spans(submission.op(), submission.head_len() as usize, input, output)
}

#[inline]
fn gather(memory: &LaneMemory, submission: &Submission, mut input: &mut [u8]) {
    if input.is_empty() {
        return;
    }
    for span in submission.inputs().filter_map(|extent| memory.span(extent)) {
        let (part, rest) = input.split_at_mut(span.len());
        span.copy_to(part);
        input = rest;
    }
}

#[cfg(test)]
mod tests {
    use super::super::crypto::sample::sample;
    use super::*;
    use sidecore_core::layout::Layout;
    use sidecore_core::session::{Class, Op};
    use sidecore_core::wire::Extent;

    #[test]
    fn lengths_are_refused_with_and_without_copies() {
        let class = Class::from_name("aes-256-cbc").unwrap();
        let session = Session::open(&sample(class, 0, 1).spec).unwrap();
        let (memory, _file) = LaneMemory::create(Layout::new(16, 1 << 16).unwrap()).unwrap();
        let mut scratch = Scratch::new(1024);
        let mut run = |op, input, output| {
            let (input, output) = (Extent { offset: 0, len: input }, Extent { offset: 1024, len: output });
            execute(&session, &memory, &Submission::new(1, op, 1, &[input], &[output]).unwrap(), &mut scratch)
        };
        // A vector of 16 bytes and whole blocks, below and above `DIRECT_FROM`.
        for len in [32, 528] {
            assert_eq!(run(Op::Encrypt, len, len - 16), Ok(len - 16));
            assert_eq!(run(Op::Encrypt, len, len), Ok(len - 16));
            assert_eq!(run(Op::Encrypt, len, len - 17), Err(Refusal::OutputLength));
            assert_eq!(run(Op::Encrypt, len + 1, len), Err(Refusal::InputLength));
            assert_eq!(run(Op::Sign, len, len), Err(Refusal::Unsupported));
        }
    }
}
