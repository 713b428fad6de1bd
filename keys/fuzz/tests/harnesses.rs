//! Each harness on some thousand inputs: arbitrary bytes, and nearly valid bytes, which reach deeper code.

use proptest::collection::vec;
use proptest::prelude::*;
use sidecore::keys::uri::Uri;
use sidecore_fuzz::{completion, config, control, notify, ring, submission, uri};

/// Words as bytes; the masks clear bits of the first words that are seldom valid by chance.
fn masked(masks: &'static [u64], words: usize) -> impl Strategy<Value = Vec<u8>> {
    let mask = |i: usize| masks.get(i).copied().unwrap_or(u64::MAX);
    vec(any::<u64>(), words)
        .prop_map(move |words| words.iter().enumerate().flat_map(|(i, word)| (word & mask(i)).to_le_bytes()).collect())
}

/// Operations 0 to 7, the two flags, up to 7 inputs and 7 outputs, which are short.
const SUBMISSION: [u64; 7] = {
    let extent = 0x0000_ffff_7fff_ffff;
    [u64::MAX, 0x0077_0307_ffff_ffff, 0x0000_0fff_ffff_ffff, extent, extent, extent, extent]
};
/// Status 0 to 3 or 128 to 131.
const COMPLETION: [u64; 1] = [0xffff_ff83_ffff_ffff];
/// Kinds 0 to 7, counts up to 8191, intervals up to 2^29 ns.
const NOTIFY: [u64; 1] = [0x1fff_ffff_001f_ff07];

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    vec(any::<u8>(), 0..200)
}

prop_compose! {
    /// A submission of one input that ends at the arena's end, or one byte before or after it, modulo 2^32.
    fn at_the_edge()(arena: u32, offset: u32, beyond in -1..=1_i32) -> Vec<u8> {
        let len = arena.wrapping_sub(offset).wrapping_add_signed(beyond);
        let words = [u64::from(arena), 1 << 48, 0, u64::from(len) << 32 | u64::from(offset)];
        words.into_iter().flat_map(u64::to_le_bytes).collect()
    }
}

fn spelling() -> impl Strategy<Value = Vec<u8>> {
    let name = "(spin|park|timer|coalesce|break-even)";
    let arguments = r"( ?\(([0-9]{1,4}, ?)?[0-9]{1,4}(\.[0-9])?(ns|us|ms|s)\)?)?";
    (name, arguments).prop_map(|(name, arguments)| (name + &arguments).into_bytes())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    #[test]
    fn submissions(data in prop_oneof![bytes(), masked(&SUBMISSION, 8), at_the_edge()]) {
        submission(&data);
    }

    #[test]
    fn completions(data in prop_oneof![bytes(), masked(&COMPLETION, 7)]) {
        completion(&data);
    }

    #[test]
    fn rings(data in vec(any::<u8>(), 0..2_000)) {
        ring(&data);
    }

    #[test]
    fn policies(data in prop_oneof![bytes(), masked(&NOTIFY, 1), spelling()]) {
        notify(&data);
    }

    #[test]
    fn control_packets(data in bytes(), kind in 0..7_u8) {
        control(&data);
        control(&[&[kind], &data[..]].concat());
    }

    #[test]
    fn configurations(data in bytes(), text in "[a-z_.]{1,12} ?= ?[-0-9a-z'\"{}\\[\\]]{0,12}\n?") {
        config(&data);
        config(text.as_bytes());
    }

    #[test]
    fn key_uris(data in bytes(), name in "[-_.%/A-Za-z0-9]{0,66}", place in any::<usize>(), value: u8) {
        uri(&data);
        let text = format!("sidecore:{name}");
        uri(text.as_bytes());
        // A file of a key with one changed byte.
        let Ok(key) = Uri::parse(&text) else { return Ok(()) };
        let full = key.clone().with_public(vec![0x30, 3, 2, 1, 7]).expect("a sequence");
        for mut file in [key.to_der(), key.to_pem().into_bytes(), full.to_der(), full.to_pem().into_bytes()] {
            uri(&file);
            let place = place % file.len();
            file[place] = value;
            uri(&file);
        }
    }
}
