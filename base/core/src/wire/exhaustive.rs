//! Each value of each field of a slot's first word, and each edge of an arena, against the table of the module.

use super::*;
use alloc::vec::Vec;

/// The rules as the module's table states them, in the order in which they are checked.
fn by_the_table(words: &Message, arena: u32) -> Result<(), Fault> {
    let field = |bits: core::ops::Range<u32>| words[0] >> bits.start & ((1 << bits.len()) - 1);
    let (op, flags, inputs, outputs, zero) =
        (field(32..40), field(40..48), field(48..52) as usize, field(52..56) as usize, field(56..64));
    let extents: Vec<(u64, u64)> = words[2..6].iter().map(|word| (word & 0xffff_ffff, word >> 32)).collect();
    if op >= Op::COUNT as u64 {
        Err(Fault::UnknownOp)
    } else if flags > 3 || zero != 0 {
        Err(Fault::ReservedBits)
    } else if inputs + outputs > 4 {
        Err(Fault::TooManyExtents)
    } else if extents[..inputs + outputs].iter().any(|(offset, len)| offset + len > u64::from(arena)) {
        Err(Fault::ExtentOutsideArena)
    } else if words[1] >> 32 > extents[..inputs].iter().map(|(_, len)| len).sum() {
        Err(Fault::HeadTooLong)
    } else {
        Ok(())
    }
}

fn agrees(words: &Message, arena: u32) {
    let taken = Submission::parse(words, arena);
    assert_eq!(taken.map(|_| ()), by_the_table(words, arena), "{words:x?} in {arena}");
}

#[test]
fn each_value_of_the_first_words_fields_is_taken_or_refused_by_the_table() {
    let extent = pack(8, 16);
    for fields in 0..1 << 24 {
        agrees(&[fields << 32, 0, extent, extent, extent, extent, 0], 64);
    }
    for zero in 1..1 << 8 {
        agrees(&[zero << 56, 0, extent, extent, extent, extent, 0], 64);
    }
}

#[test]
fn each_number_of_extents_with_each_edge_of_an_arena_is_taken_or_refused_by_the_table() {
    for arena in [0, 1, 64, u32::MAX] {
        let edge =
            [(0, 0), (0, arena), (arena, 0), (1, arena), (arena, 1), (arena / 2, arena / 2), (u32::MAX, u32::MAX)];
        let edge = edge.map(|(offset, len)| pack(offset, len));
        let heads = [0, 1, arena, arena.saturating_add(1), u32::MAX];
        for counts in 0..=u8::MAX {
            for chosen in 0..edge.len().pow(4) {
                let extent = |place: u32| edge[chosen / edge.len().pow(place) % edge.len()];
                for head in heads {
                    let first = u64::from(counts) << 48;
                    agrees(&[first, pack(7, head), extent(0), extent(1), extent(2), extent(3), 0], arena);
                }
            }
        }
    }
}

#[test]
fn each_value_of_a_completions_first_word_is_taken_or_refused_by_the_table() {
    for fields in 0..1_u64 << 17 {
        let slots = [Line::default(), Line::default()];
        let words = [fields << 32 | 7, 9, 1, 2, 3, 0, 0];
        Producer::new().push(&slots, &words);
        let (status, device, sampled) = (fields & 0xff, fields >> 8 & 0xff, fields >> 16 == 1);
        let status = match status {
            0 => Some(Status::Done { len: 9 }),
            128 => Some(Status::DeviceFailed { device: device as u8 }),
            refusal => Refusal::from_u8(refusal as u8).map(Status::Refused),
        };
        let stamps = sampled.then_some(Stamps { submitted: 1, handed: 2, taken: 3 });
        let expected = status.map(|status| Completion { tag: 7, status, stamps }).ok_or(NoCompletion);
        assert_eq!(Completion::receive(&mut Consumer::new(), &slots), Some(expected), "{fields:x}");
    }
}
