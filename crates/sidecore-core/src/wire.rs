//! What the seven words of a slot mean.
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
//! | 2..6 | 0..32, 32..64 | extents: offset and length in the arena; inputs first, unused ones zero |
//! | 6 | | time of submission, ns, if sampled, else zero |
//!
//! Completion:
//!
//! | word | bits | meaning |
//! |---|---|---|
//! | 0 | 0..32 | tag |
//! | 0 | 32..40 | status: 0 done, 1..=127 refused, 128 the device failed |
//! | 0 | 40..48 | device |
//! | 1 | 0..32 | bytes written to the output extents |
//! | 2, 3, 4 | | if sampled: submitted, handed to the device, reply taken, ns; else zero |
//!
//! A submission comes from a process that may be hostile: [`Submission::parse`] is total, and whatever it accepts
//! lies inside the arena.

use crate::ring::{MESSAGE_WORDS, Message};
use crate::session::{Op, Refusal};
use crate::stage::Stamps;
use crate::time::Nanos;

/// Most extents of one request, inputs and outputs together.
pub const MAX_EXTENTS: usize = 4;

const FLAG_SAMPLED: u8 = 1;
const FLAG_URGENT: u8 = 2;
const STATUS_DEVICE_FAILED: u8 = 128;

/// A range of the payload arena, bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extent {
    /// First byte, from the start of the arena.
    pub offset: u32,
    /// Number of bytes.
    pub len: u32,
}

/// One request as it crosses the lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Submission {
    /// The client's name for the request.
    pub tag: u32,
    /// What to do.
    pub op: Op,
    /// The completion is announced at once whatever the notify policy.
    pub urgent: bool,
    /// When the client submitted it, if it is sampled; an allegation.
    pub submitted: Option<Nanos>,
    /// Handle of the session.
    pub session: u32,
    /// Bytes of the input that are head: additional data, or a signature to verify.
    pub head_len: u32,
    extents: [Extent; MAX_EXTENTS],
    inputs: u8,
    outputs: u8,
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
    pub fn new(offset: u32, len: u32) -> Self {
        Self { offset, len }
    }

    #[inline]
    fn is_inside(self, arena_bytes: u32) -> bool {
        u64::from(self.offset) + u64::from(self.len) <= u64::from(arena_bytes)
    }
}

impl Submission {
    /// A request without urgency or sampling. `None` if there are more than [`MAX_EXTENTS`] extents.
    #[inline]
    pub fn new(tag: u32, op: Op, session: u32, inputs: &[Extent], outputs: &[Extent]) -> Option<Self> {
        let mut extents = [Extent::default(); MAX_EXTENTS];
        extents.get_mut(..inputs.len())?.copy_from_slice(inputs);
        extents.get_mut(inputs.len()..inputs.len() + outputs.len())?.copy_from_slice(outputs);
        let (inputs, outputs) = (inputs.len() as u8, outputs.len() as u8);
        Some(Self { tag, op, urgent: false, submitted: None, session, head_len: 0, extents, inputs, outputs })
    }

    /// Extents that the operation reads, in order.
    #[inline]
    pub fn inputs(&self) -> &[Extent] {
        &self.extents[..usize::from(self.inputs)]
    }

    /// Extents that the operation writes, in order.
    #[inline]
    pub fn outputs(&self) -> &[Extent] {
        &self.extents[usize::from(self.inputs)..usize::from(self.inputs + self.outputs)]
    }

    /// Bytes of all inputs. Below 2^34, whatever the client wrote.
    #[inline]
    pub fn input_len(&self) -> u64 {
        self.inputs().iter().map(|e| u64::from(e.len)).sum()
    }

    /// Bytes of all outputs. Below 2^34, whatever the client wrote.
    #[inline]
    pub fn output_len(&self) -> u64 {
        self.outputs().iter().map(|e| u64::from(e.len)).sum()
    }

    /// The words of the slot.
    #[inline]
    pub fn encode(&self) -> Message {
        let flags = if self.submitted.is_some() { FLAG_SAMPLED } else { 0 } | if self.urgent { FLAG_URGENT } else { 0 };
        let counts = u32::from(self.inputs) << 16 | u32::from(self.outputs) << 20;
        let mut words = [0; MESSAGE_WORDS];
        words[0] = pack(self.tag, u32::from(self.op as u8) | u32::from(flags) << 8 | counts);
        words[1] = pack(self.session, self.head_len);
        for (word, extent) in words[2..].iter_mut().zip(&self.extents) {
            *word = pack(extent.offset, extent.len);
        }
        words[6] = self.submitted.unwrap_or(0);
        words
    }

    /// Reads the words of a slot, which the caller copied to private memory.
    ///
    /// # Errors
    /// The first rule that the words break. The lane of a client that does this ends.
    #[inline]
    pub fn parse(words: &Message, arena_bytes: u32) -> Result<Self, Fault> {
        let op = Op::from_u8(byte(words[0], 32)).ok_or(Fault::UnknownOp)?;
        let flags = byte(words[0], 40);
        if flags & !(FLAG_SAMPLED | FLAG_URGENT) != 0 || byte(words[0], 56) != 0 {
            return Err(Fault::ReservedBits);
        }
        let (inputs, outputs) = (byte(words[0], 48) & 15, byte(words[0], 48) >> 4);
        if usize::from(inputs + outputs) > MAX_EXTENTS {
            return Err(Fault::TooManyExtents);
        }
        let extents = core::array::from_fn(|i| Extent::new(words[2 + i] as u32, (words[2 + i] >> 32) as u32));
        if !extents.iter().all(|extent: &Extent| extent.is_inside(arena_bytes)) {
            return Err(Fault::ExtentOutsideArena);
        }
        let submission = Self {
            tag: words[0] as u32,
            op,
            urgent: flags & FLAG_URGENT != 0,
            submitted: (flags & FLAG_SAMPLED != 0).then_some(words[6]),
            session: words[1] as u32,
            head_len: (words[1] >> 32) as u32,
            extents,
            inputs,
            outputs,
        };
        if u64::from(submission.head_len) > submission.input_len() {
            return Err(Fault::HeadTooLong);
        }
        Ok(submission)
    }
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

impl Completion {
    /// The words of the slot.
    #[inline]
    pub fn encode(&self) -> Message {
        let (status, device, len) = match self.status {
            Status::Done { len } => (0, 0, len),
            Status::Refused(refusal) => (refusal as u8, 0, 0),
            Status::DeviceFailed { device } => (STATUS_DEVICE_FAILED, device, 0),
        };
        let mut words = [0; MESSAGE_WORDS];
        words[0] = pack(self.tag, u32::from(status) | u32::from(device) << 8);
        words[1] = u64::from(len);
        if let Some(stamps) = self.stamps {
            [words[2], words[3], words[4]] = [stamps.submitted, stamps.handed, stamps.taken];
        }
        words
    }

    /// Reads the words of a slot. `None` if they are no completion: the service is of another version, or ill.
    #[inline]
    pub fn parse(words: &Message) -> Option<Self> {
        let status = match byte(words[0], 32) {
            0 => Status::Done { len: words[1] as u32 },
            STATUS_DEVICE_FAILED => Status::DeviceFailed { device: byte(words[0], 40) },
            refusal => Status::Refused(Refusal::from_u8(refusal)?),
        };
        let stamps = (words[4] != 0).then_some(Stamps { submitted: words[2], handed: words[3], taken: words[4] });
        Some(Self { tag: words[0] as u32, status, stamps })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ARENA: u32 = 1 << 20;

    prop_compose! {
        fn extent()(offset in 0..ARENA / 2, len in 0..ARENA / 2) -> Extent { Extent::new(offset, len) }
    }

    proptest! {
        #[test]
        fn submissions_survive_the_wire(
            tag: u32, op in 0u8..10, session: u32, urgent: bool, submitted: Option<u64>,
            extents in proptest::collection::vec(extent(), 0..=MAX_EXTENTS), split in 0usize..=MAX_EXTENTS,
        ) {
            let (inputs, outputs) = extents.split_at(split.min(extents.len()));
            let mut sent = Submission::new(tag, Op::from_u8(op).unwrap(), session, inputs, outputs).unwrap();
            (sent.urgent, sent.submitted, sent.head_len) = (urgent, submitted, sent.input_len() as u32 / 2);
            prop_assert_eq!(Submission::parse(&sent.encode(), ARENA), Ok(sent));
        }

        #[test]
        fn whatever_is_accepted_lies_inside(words: Message, arena in 0u32..=u32::MAX) {
            if let Ok(got) = Submission::parse(&words, arena) {
                for extent in got.inputs().iter().chain(got.outputs()) {
                    prop_assert!(u64::from(extent.offset) + u64::from(extent.len) <= u64::from(arena));
                }
                prop_assert!(u64::from(got.head_len) <= got.input_len());
                prop_assert!(got.inputs().len() + got.outputs().len() <= MAX_EXTENTS);
            }
        }

        #[test]
        fn completions_survive_the_wire(tag: u32, which in 0u8..3, number: u32, stamp in 1u64.., sampled: bool) {
            let status = match which {
                0 => Status::Done { len: number },
                1 => Status::Refused(Refusal::from_u8(number as u8 % 9 + 1).unwrap()),
                _ => Status::DeviceFailed { device: number as u8 },
            };
            let stamps = sampled.then_some(Stamps { submitted: 1, handed: stamp / 2, taken: stamp });
            let sent = Completion { tag, status, stamps };
            prop_assert_eq!(Completion::parse(&sent.encode()), Some(sent));
        }

        #[test]
        fn any_completion_words_are_parsed_or_rejected(words: Message) {
            if let Some(got) = Completion::parse(&words) {
                prop_assert_eq!(got.tag, words[0] as u32);
            }
        }
    }

    fn valid() -> Message {
        Submission::new(7, Op::Encrypt, 3, &[Extent::new(0, 76)], &[Extent::new(0, 80)]).unwrap().encode()
    }

    #[test]
    fn each_fault_has_its_name() {
        type Breakage = (fn(&mut Message), Fault);
        let breakages: [Breakage; 6] = [
            (|w| w[0] |= 255 << 32, Fault::UnknownOp),
            (|w| w[0] |= 4 << 40, Fault::ReservedBits),
            (|w| w[0] |= 1 << 63, Fault::ReservedBits),
            (|w| w[0] |= 15 << 48, Fault::TooManyExtents),
            (|w| w[2] = u64::MAX, Fault::ExtentOutsideArena),
            (|w| w[1] |= 77 << 32, Fault::HeadTooLong),
        ];
        assert!(Submission::parse(&valid(), ARENA).is_ok());
        for (break_it, fault) in breakages {
            let mut words = valid();
            break_it(&mut words);
            assert_eq!(Submission::parse(&words, ARENA), Err(fault));
        }
    }

    #[test]
    fn too_many_extents_cannot_be_built() {
        let extents = [Extent::new(0, 1); 5];
        assert!(Submission::new(0, Op::Noop, 0, &extents, &[]).is_none());
        assert!(Submission::new(0, Op::Noop, 0, &extents[..3], &extents[..2]).is_none());
    }
}
