//! Meaning of the seven words of a slot.
//!
//! Submission:
//!
//! | word | bits | meaning |
//! |---|---|---|
//! | 0 | 0..32 | tag, chosen by the client, returned unchanged |
//! | 0 | 32..40 | operation |
//! | 0 | 40..48 | flags: 1 sampled, 2 urgent |
//! | 0 | 48..52, 52..56 | number of input and of output extents, at most 4 together |
//! | 0 | 56..64 | zero |
//! | 1 | 0..32, 32..64 | session handle; length of the input's head (additional data, or a signature to verify) |
//! | 2..6 | 0..32, 32..64 | extents: offset and length in the arena; inputs first, unused ones are not read |
//! | 6 | | time of submission, ns, if sampled, else not read |
//!
//! Completion:
//!
//! | word | bits | meaning |
//! |---|---|---|
//! | 0 | 0..32 | tag |
//! | 0 | 32..40 | status: 0 done, 1..=127 refused, 128 the device failed |
//! | 0 | 40..48 | device |
//! | 0 | 48 | sampled |
//! | 1 | 0..32 | bytes written to the output extents |
//! | 2, 3, 4 | | if sampled: submitted, handed to the device, reply taken, ns; else undefined |
//!
//! A submission comes from a process that may be hostile: [`Submission::parse`] is total, and each accepted one lies
//! inside the arena.

// Too many cases for an interpreter.
#[cfg(all(test, not(loom), not(miri)))]
mod exhaustive;
#[cfg(all(test, not(loom)))]
mod tests;

use crate::ring::{Consumer, MESSAGE_WORDS, Message, Producer};
use crate::session::{Op, Refusal};
use crate::stage::Stamps;
use crate::time::Nanos;
use crate::words::Line;
use core::fmt;

/// Most extents of one request, inputs and outputs together.
pub const MAX_EXTENTS: usize = 4;

/// Bits of word 0 where its fields begin.
const OP: u32 = 32;
const FLAGS: u32 = 40;
const COUNTS: u32 = 48;
const RESERVED: u32 = 56;
/// The word of the first extent, and that of the time of submission.
const EXTENTS: usize = 2;
const STAMP: usize = 6;

const FLAG_SAMPLED: u8 = 1;
const FLAG_URGENT: u8 = 2;
/// Bits of a submission's word 0.
const MUST_BE_ZERO: u64 = (!(FLAG_SAMPLED | FLAG_URGENT) as u64) << FLAGS | 0xff << RESERVED;
const STATUS_DEVICE_FAILED: u8 = 128;
/// Bit of a completion's word 0.
const SAMPLED: u64 = 1 << 48;

/// A range of the payload arena, bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extent {
    /// First byte, from the start of the arena.
    pub offset: u32,
    /// Number of bytes.
    pub len: u32,
}

/// One request as it crosses the lane: checked words, read through its methods.
///
/// It keeps its words, which are cheap to store and to copy. Its extents were walked once and their lengths added up.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Submission {
    words: Message,
    input_len: u64,
    output_len: u64,
}

/// One request as its client writes it.
#[derive(Clone, Copy, Debug)]
pub struct Request<'e> {
    /// The client's name for it.
    pub tag: u32,
    /// The operation.
    pub op: Op,
    /// Handle of the session.
    pub session: u32,
    /// Bytes of the input that are head: additional data, or a signature to verify.
    pub head_len: u32,
    /// Extents that the operation reads, in order.
    pub inputs: &'e [Extent],
    /// Extents that the operation writes, in order; with the inputs at most [`MAX_EXTENTS`].
    pub outputs: &'e [Extent],
    /// Its completion is announced immediately under any notify policy.
    pub urgent: bool,
    /// When it is submitted, if its completion is to carry stage times, ns.
    pub submitted: Option<Nanos>,
}

/// How a client broke the protocol. Its lane ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Fault {
    /// No operation has this number.
    UnknownOp,
    /// A bit that must be zero is not.
    ReservedBits,
    /// More than [`MAX_EXTENTS`] extents.
    TooManyExtents,
    /// An extent leaves the arena.
    ExtentOutsideArena,
    /// The head is longer than the input.
    HeadTooLong,
    /// More requests in flight than the lane has slots.
    TooManyInFlight,
}

impl Fault {
    /// All faults in order of their numbers.
    pub const ALL: [Self; 6] = [
        Self::UnknownOp,
        Self::ReservedBits,
        Self::TooManyExtents,
        Self::ExtentOutsideArena,
        Self::HeadTooLong,
        Self::TooManyInFlight,
    ];

    /// Name in counters and logs.
    pub fn name(self) -> &'static str {
        match self {
            Self::UnknownOp => "unknown-op",
            Self::ReservedBits => "reserved-bits",
            Self::TooManyExtents => "too-many-extents",
            Self::ExtentOutsideArena => "extent-outside-arena",
            Self::HeadTooLong => "head-too-long",
            Self::TooManyInFlight => "too-many-in-flight",
        }
    }
}

#[inline]
fn pack(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

#[inline]
fn byte(word: u64, shift: u32) -> u8 {
    (word >> shift) as u8
}

impl Extent {
    /// An extent of `len` bytes at `offset`.
    #[inline]
    pub fn new(offset: u32, len: u32) -> Self {
        Self { offset, len }
    }

    #[inline]
    fn is_inside(self, arena_bytes: u32) -> bool {
        u64::from(self.offset) + u64::from(self.len) <= u64::from(arena_bytes)
    }
}

impl Request<'_> {
    /// Whether its extents fit in a slot.
    #[inline]
    pub fn is_whole(&self) -> bool {
        self.inputs.len() + self.outputs.len() <= MAX_EXTENTS
    }

    /// Writes it to the next slot, where it must fit: only the words that it needs.
    #[inline]
    pub fn push(&self, producer: &mut Producer, slots: &[Line]) {
        producer.push_words(slots, |words| self.write(|number, value| words.put(number, value)));
    }

    #[inline]
    fn write(&self, mut put: impl FnMut(usize, u64)) {
        debug_assert!(self.is_whole());
        let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
        let flags = flag(self.submitted.is_some(), FLAG_SAMPLED) | flag(self.urgent, FLAG_URGENT);
        let counts = self.inputs.len() as u64 | (self.outputs.len() as u64) << 4;
        put(0, pack(self.tag, u32::from(self.op as u8)) | u64::from(flags) << FLAGS | counts << COUNTS);
        put(1, pack(self.session, self.head_len));
        for (number, extent) in self.inputs.iter().chain(self.outputs).enumerate() {
            put(EXTENTS + number, pack(extent.offset, extent.len));
        }
        if let Some(now) = self.submitted {
            put(STAMP, now);
        }
    }
}

impl Submission {
    /// A no-op, and an empty place for [`Submission::receive`].
    pub const EMPTY: Self = Self { words: [0; MESSAGE_WORDS], input_len: 0, output_len: 0 };

    /// A request without head, urgency or sampling. `None` if there are more than [`MAX_EXTENTS`] extents.
    pub fn new(tag: u32, op: Op, session: u32, inputs: &[Extent], outputs: &[Extent]) -> Option<Self> {
        Self::of(&Request { tag, op, session, head_len: 0, inputs, outputs, urgent: false, submitted: None })
    }

    /// Encodes the request. `None` if it does not fit in a slot.
    pub fn of(request: &Request<'_>) -> Option<Self> {
        if !request.is_whole() {
            return None;
        }
        let len = |extents: &[Extent]| extents.iter().map(|extent| u64::from(extent.len)).sum();
        let mut words = [0; MESSAGE_WORDS];
        request.write(|number, value| words[number] = value);
        Some(Self { words, input_len: len(request.inputs), output_len: len(request.outputs) })
    }

    /// The client's name for the request.
    #[inline]
    pub fn tag(&self) -> u32 {
        self.words[0] as u32
    }

    /// The operation.
    #[inline]
    pub fn op(&self) -> Op {
        // Checked when the words were received.
        Op::from_u8(byte(self.words[0], OP)).unwrap_or(Op::Noop)
    }

    /// Whether the completion is announced immediately.
    #[inline]
    pub fn is_urgent(&self) -> bool {
        byte(self.words[0], FLAGS) & FLAG_URGENT != 0
    }

    /// The client's time of submission, if it is sampled, ns; an allegation.
    #[inline]
    pub fn submitted(&self) -> Option<Nanos> {
        (byte(self.words[0], FLAGS) & FLAG_SAMPLED != 0).then_some(self.words[STAMP])
    }

    /// Handle of the session.
    #[inline]
    pub fn session(&self) -> u32 {
        self.words[1] as u32
    }

    /// Bytes of the input that are head.
    #[inline]
    pub fn head_len(&self) -> u32 {
        (self.words[1] >> 32) as u32
    }

    /// Extents that the operation reads, in order.
    #[inline]
    pub fn inputs(&self) -> impl ExactSizeIterator<Item = Extent> {
        self.extents(0, self.counts().0)
    }

    /// Extents that the operation writes, in order.
    #[inline]
    pub fn outputs(&self) -> impl ExactSizeIterator<Item = Extent> {
        let (inputs, outputs) = self.counts();
        self.extents(inputs, outputs)
    }

    /// Bytes of all inputs. Below 2^34 for any words of a client.
    #[inline]
    pub fn input_len(&self) -> u64 {
        self.input_len
    }

    /// Bytes of all outputs. Below 2^34 for any words of a client.
    #[inline]
    pub fn output_len(&self) -> u64 {
        self.output_len
    }

    /// Whether it differs from the other in tag and payload only: operation, session, lengths, head, urgency and
    /// sampling are the same.
    #[inline]
    pub fn is_like(&self, other: &Self) -> bool {
        let head = |submission: &Self| (submission.words[0] >> OP, submission.words[1], submission.input_len);
        head(self) == head(other)
    }

    /// The words of the slot; unused ones are undefined.
    #[inline]
    pub fn words(&self) -> &Message {
        &self.words
    }

    /// Reads the words of a slot, which the caller copied to private memory.
    ///
    /// # Errors
    /// The first rule that the words break. The lane of a client that does this ends.
    #[inline]
    pub fn parse(words: &Message, arena_bytes: u32) -> Result<Self, Fault> {
        let mut submission = Self::EMPTY;
        submission.take(|number| words[number], arena_bytes, |_, _| ()).map(|()| submission)
    }

    /// Takes the next request of a ring to this place, each word read once. `Ok(false)`: the ring is empty. `seen`
    /// gets each extent, which lies inside the arena, and whether it is written: outputs first.
    ///
    /// # Errors
    /// As for [`Submission::parse`]; the place is empty then.
    #[inline]
    pub fn receive(
        &mut self,
        consumer: &mut Consumer,
        slots: &[Line],
        arena_bytes: u32,
        seen: impl FnMut(Extent, bool),
    ) -> Result<bool, Fault> {
        match consumer.pop_words(slots, |words| self.take(|number| words.at(number), arena_bytes, seen)) {
            None => Ok(false),
            Some(Ok(())) => Ok(true),
            Some(Err(fault)) => {
                *self = Self::EMPTY;
                Err(fault)
            }
        }
    }

    #[inline]
    fn extents(&self, first: usize, count: usize) -> impl ExactSizeIterator<Item = Extent> {
        // In range since the counts were checked.
        let words = self.words[EXTENTS..STAMP].get(first..first + count).unwrap_or(&[]);
        words.iter().map(|word| extent(*word))
    }

    #[inline]
    fn counts(&self) -> (usize, usize) {
        let counts = byte(self.words[0], COUNTS);
        (usize::from(counts & 15), usize::from(counts >> 4))
    }

    #[inline]
    fn take(
        &mut self,
        word: impl Fn(usize) -> u64,
        arena_bytes: u32,
        mut seen: impl FnMut(Extent, bool),
    ) -> Result<(), Fault> {
        let head = word(0);
        if usize::from(byte(head, OP)) >= Op::COUNT {
            return Err(Fault::UnknownOp);
        }
        if head & MUST_BE_ZERO != 0 {
            return Err(Fault::ReservedBits);
        }
        (self.words[0], self.words[1]) = (head, word(1));
        let (inputs, outputs) = self.counts();
        let Some(places) = self.words[EXTENTS..STAMP].get_mut(..inputs + outputs) else {
            return Err(Fault::TooManyExtents);
        };
        let (mut all, mut output_len) = (0, 0);
        for (number, place) in places.iter_mut().enumerate().rev() {
            *place = word(EXTENTS + number);
            let extent = extent(*place);
            if !extent.is_inside(arena_bytes) {
                return Err(Fault::ExtentOutsideArena);
            }
            all += u64::from(extent.len);
            if number >= inputs {
                output_len = all;
            }
            seen(extent, number >= inputs);
        }
        let input_len = all - output_len;
        (self.input_len, self.output_len) = (input_len, output_len);
        if byte(head, FLAGS) & FLAG_SAMPLED != 0 {
            self.words[STAMP] = word(STAMP);
        }
        if u64::from(self.head_len()) > input_len {
            return Err(Fault::HeadTooLong);
        }
        Ok(())
    }
}

impl fmt::Debug for Submission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Submission({:?}, tag {}, session {:#x}", self.op(), self.tag(), self.session())?;
        self.inputs().try_for_each(|e| write!(f, ", from {}+{}", e.offset, e.len))?;
        self.outputs().try_for_each(|e| write!(f, ", to {}+{}", e.offset, e.len))?;
        f.write_str(")")
    }
}

#[inline]
fn extent(word: u64) -> Extent {
    Extent::new(word as u32, (word >> 32) as u32)
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// The output extents hold this many bytes of result.
    Done {
        /// Bytes written.
        len: u32,
    },
    /// The request was not done; nothing was written.
    Refused(Refusal),
    /// The device with this number died and no other could take the request over.
    DeviceFailed {
        /// Number of the device, as in the service's list.
        device: u8,
    },
}

/// The answer to one request as it crosses the lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The tag of the request.
    pub tag: u32,
    /// How it ended.
    pub status: Status,
    /// The service's stage times, if the request was sampled.
    pub stamps: Option<Stamps>,
}

/// The words are no completion: the service has another version or is faulty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoCompletion;

impl Completion {
    /// The words of one without stage times.
    #[inline]
    pub fn words(tag: u32, status: Status) -> [u64; 2] {
        let (status, device, len) = match status {
            Status::Done { len } => (0, 0, len),
            Status::Refused(refusal) => (refusal as u8, 0, 0),
            Status::DeviceFailed { device } => (STATUS_DEVICE_FAILED, device, 0),
        };
        [pack(tag, u32::from(status) | u32::from(device) << 8), u64::from(len)]
    }

    /// The words of one with stage times.
    pub fn sampled_words(tag: u32, status: Status, stamps: &Stamps) -> [u64; 5] {
        let [head, len] = Self::words(tag, status);
        [head | SAMPLED, len, stamps.submitted, stamps.handed, stamps.taken]
    }

    /// Takes the next one of a ring, each word read once. `None`: the ring is empty.
    #[inline]
    pub fn receive(consumer: &mut Consumer, slots: &[Line]) -> Option<Result<Self, NoCompletion>> {
        consumer.pop_words(slots, |words| {
            let (head, len) = (words.at(0), words.at(1) as u32);
            let status = match byte(head, 32) {
                0 => Status::Done { len },
                STATUS_DEVICE_FAILED => Status::DeviceFailed { device: byte(head, 40) },
                refusal => Status::Refused(Refusal::from_u8(refusal).ok_or(NoCompletion)?),
            };
            let stamps = (head & SAMPLED != 0).then(|| Stamps {
                submitted: words.at(2),
                handed: words.at(3),
                taken: words.at(4),
            });
            Ok(Self { tag: head as u32, status, stamps })
        })
    }
}
