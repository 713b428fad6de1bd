//! Requests and completions on the wire, and words that are neither.

use super::*;
use crate::sync::Ordering;
use alloc::vec::Vec;
use proptest::prelude::*;

const ARENA: u32 = 1 << 20;

prop_compose! {
    fn extent()(offset in 0..ARENA / 2, len in 0..ARENA / 2) -> Extent { Extent::new(offset, len) }
}

/// Mostly up to half of the arena; nothing of it, all, one byte more, or any number.
fn of_arena() -> impl Strategy<Value = fn(u32, u32) -> u32> {
    let half: fn(u32, u32) -> u32 = |arena, any| any % (arena / 2 + 1);
    let rare: [fn(u32, u32) -> u32; 4] = [|_, _| 0, |arena, _| arena, |arena, _| arena.wrapping_add(1), |_, any| any];
    prop_oneof![7 => Just(half), 1 => proptest::sample::select(rare.to_vec())]
}

prop_compose! {
    /// Words and the arena's size, drawn so that each rule is kept as often as not: random words keep none.
    fn nearly_a_request()(
        arena in prop_oneof![Just(0), 1u32..64, Just(ARENA), Just(u32::MAX)],
        op in 0u8..=Op::COUNT as u8,
        flags in prop_oneof![4 => 0u8..4, 1 => any::<u8>()],
        counts in (prop_oneof![4 => 0u8..=2, 1 => 0u8..16], prop_oneof![4 => 0u8..=2, 1 => 0u8..16]),
        reserved in prop_oneof![8 => Just(0), 1 => any::<u8>()],
        head in prop_oneof![Just(0u64), Just(1), any::<u64>()],
        whole_input: bool,
        parts in proptest::array::uniform8((of_arena(), any::<u32>())),
        rest: (u32, u32, u64),
    ) -> (Message, u32) {
        let (tag, session, stamp) = rest;
        let header = [op, flags, counts.0 | counts.1 << 4, reserved];
        let parts = parts.map(|(part, number)| part(arena, number));
        let extent = |i: usize| pack(parts[2 * i], parts[2 * i + 1]);
        let input_len: u64 = (0..usize::from(counts.0).min(4)).map(|i| u64::from(parts[2 * i + 1])).sum();
        let head = if whole_input { input_len.wrapping_add(head) } else { head } as u32;
        let header = pack(tag, u32::from_le_bytes(header));
        ([header, pack(session, head), extent(0), extent(1), extent(2), extent(3), stamp], arena)
    }
}

proptest! {
    #[test]
    fn submissions_survive_the_wire(
        tag: u32, op in 0u8..10, session: u32, urgent: bool, submitted: Option<u64>,
        extents in proptest::collection::vec(extent(), 0..=MAX_EXTENTS), split in 0usize..=MAX_EXTENTS,
    ) {
        let (inputs, outputs) = extents.split_at(split.min(extents.len()));
        let op = Op::from_u8(op).unwrap();
        let head_len = inputs.iter().map(|extent| extent.len).sum::<u32>() / 2;
        let sent = Request { tag, op, session, head_len, inputs, outputs, urgent, submitted };
        let slots = [Line::default(), Line::default()];
        // A slot still holds an earlier message.
        slots[0].0.iter().for_each(|word| word.store(u64::MAX, Ordering::Relaxed));
        sent.push(&mut Producer::new(), &slots);
        // The place still holds an earlier request.
        let (mut got, mut seen) = (Submission { words: [u64::MAX; MESSAGE_WORDS], ..Submission::EMPTY }, Vec::new());
        prop_assert_eq!(got.receive(&mut Consumer::new(), &slots, ARENA, |extent, _| seen.push(extent)), Ok(true));
        let of = Submission::of(&sent).unwrap();
        prop_assert_eq!((got.input_len(), got.output_len()), (of.input_len(), of.output_len()));
        prop_assert_eq!(Submission::parse(of.words(), ARENA), Ok(of));
        prop_assert!(seen.iter().rev().eq(inputs.iter().chain(outputs)), "outputs first, each once");
        prop_assert_eq!((got.tag(), got.op(), got.session(), got.head_len()), (tag, op, session, head_len));
        prop_assert_eq!((got.is_urgent(), got.submitted()), (urgent, submitted));
        prop_assert!(got.inputs().eq(inputs.iter().copied()) && got.outputs().eq(outputs.iter().copied()));
    }

    /// Words that break at most a few rules of a request are accepted exactly if they keep them all.
    #[test]
    fn whatever_is_accepted_lies_inside((words, arena) in nearly_a_request()) {
        let field = |shift: u32, bits: u32| words[0] >> shift & ((1 << bits) - 1);
        let (inputs, outputs) = (field(48, 4) as usize, field(52, 4) as usize);
        let whole = field(32, 8) < Op::COUNT as u64 && field(40, 8) < 4 && field(56, 8) == 0 && inputs + outputs <= 4;
        let inside = words[2..6].iter().take(inputs + outputs).all(|word| (word & 0xffff_ffff) + (word >> 32) <= u64::from(arena));
        let input_len: u64 = words[2..6].iter().take(inputs).map(|word| word >> 32).sum();
        let got = Submission::parse(&words, arena);
        prop_assert_eq!(got.is_ok(), whole && inside && words[1] >> 32 <= input_len, "{:?}", got);
        if let Ok(got) = got {
            let is_inside = |extent: Extent| u64::from(extent.offset) + u64::from(extent.len) <= u64::from(arena);
            prop_assert!(got.inputs().chain(got.outputs()).all(is_inside));
            prop_assert!(u64::from(got.head_len()) <= got.input_len());
            prop_assert_eq!((got.inputs().len(), got.outputs().len()), (inputs, outputs));
        }
    }

    #[test]
    fn completions_survive_the_wire(tag: u32, which in 0u8..3, number: u32, stamp in 1u64.., sampled: bool) {
        let status = match which {
            0 => Status::Done { len: number },
            1 => Status::Refused(Refusal::from_u8(number as u8 % 9 + 1).unwrap()),
            _ => Status::DeviceFailed { device: number as u8 },
        };
        let stamps = Stamps { submitted: 1, handed: stamp / 2, taken: stamp };
        let sent = Completion { tag, status, stamps: sampled.then_some(stamps) };
        let slots = [Line::default(), Line::default()];
        let (mut producer, mut consumer) = (Producer::new(), Consumer::new());
        let other = Stamps { submitted: 7, handed: 8, taken: 9 };
        for _ in 0..2 {
            producer.push(&slots, &Completion::sampled_words(tag, status, &other));
            let expected = Completion { stamps: Some(other), ..sent };
            prop_assert_eq!(Completion::receive(&mut consumer, &slots), Some(Ok(expected)));
        }
        match sent.stamps {
            Some(stamps) => producer.push(&slots, &Completion::sampled_words(tag, status, &stamps)),
            None => producer.push(&slots, &Completion::words(tag, status)),
        }
        prop_assert_eq!(Completion::receive(&mut consumer, &slots), Some(Ok(sent)));
        prop_assert_eq!(Completion::receive(&mut consumer, &slots), None);
    }

    #[test]
    fn any_completion_words_are_parsed_or_rejected(words: Message) {
        let slots = [Line::default(), Line::default()];
        Producer::new().push(&slots, &words);
        let known = matches!(words[0] >> 32 & 255, 0 | 128) || Refusal::from_u8((words[0] >> 32) as u8).is_some();
        match Completion::receive(&mut Consumer::new(), &slots) {
            Some(Ok(got)) => prop_assert!(known && got.tag == words[0] as u32),
            other => prop_assert!(!known && other == Some(Err(NoCompletion))),
        }
    }
}

fn valid() -> Message {
    *Submission::new(7, Op::Encrypt, 3, &[Extent::new(0, 76)], &[Extent::new(0, 80)]).unwrap().words()
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
