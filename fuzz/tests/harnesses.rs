//! Each harness on some thousand inputs: any bytes, and bytes that are nearly right, which get further.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use sidecore_fuzz::{completion, notify, ring, submission};

/// Words as bytes, after masking of the first ones: a mask clears bits that are seldom right by chance.
fn masked(masks: &'static [u64], words: usize) -> impl Strategy<Value = Vec<u8>> {
    let mask = |i: usize| masks.get(i).copied().unwrap_or(u64::MAX);
    vec(any::<u64>(), words)
        .prop_map(move |words| words.iter().enumerate().flat_map(|(i, word)| (word & mask(i)).to_le_bytes()).collect())
}

/// An arena of up to 4 GiB; operations 0 to 7, the two flags, up to 2 inputs and as many outputs, which are short.
const SUBMISSION: [u64; 7] = {
    let extent = 0x0000_ffff_7fff_ffff;
    [u64::MAX, 0x0011_0307_ffff_ffff, 0x0000_0fff_ffff_ffff, extent, extent, extent, extent]
};
/// Status 0 to 3 or 128 to 131.
const COMPLETION: [u64; 1] = [0xffff_ff83_ffff_ffff];
/// Kinds 0 to 7, counts up to 4095, intervals up to 2^29 ns.
const NOTIFY: [u64; 1] = [0x1fff_ffff_000f_ff07];

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    vec(any::<u8>(), 0..200)
}

fn spelling() -> impl Strategy<Value = Vec<u8>> {
    let parts =
        ["spin", "park", "timer", "coalesce", "break-even", "(", ")", ",", ".", "32", "250", "us", "ms", "s", " "];
    vec(select(parts.to_vec()), 0..8).prop_map(|parts| parts.concat().into_bytes())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    #[test]
    fn submissions(data in prop_oneof![bytes(), masked(&SUBMISSION, 8)]) {
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
}
