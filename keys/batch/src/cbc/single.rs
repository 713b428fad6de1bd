//! A block in each register: while one chain waits for its round, the others go on.

use std::arch::x86_64::{__m128i, _mm_aesenc_si128, _mm_aesenclast_si128, _mm_setzero_si128, _mm_xor_si128};

use zeroize::Zeroizing;

use super::job::Job;
use super::streams::{self, Stream};
use crate::MOST;
use crate::sys::registers::{load, store};

#[target_feature(enable = "aes,avx")]
pub(super) fn encrypt(rounds: usize, jobs: &mut [Job<'_>]) {
    if rounds == 11 {
        streams::encrypt(jobs, |streams, blocks| go_on::<11>(streams, blocks));
    } else {
        streams::encrypt(jobs, |streams, blocks| go_on::<15>(streams, blocks));
    }
}

#[target_feature(enable = "aes,avx")]
fn go_on<const ROUNDS: usize>(streams: &mut [Stream<'_>], blocks: usize) {
    match streams.len() {
        1 => chains::<ROUNDS, 1>(streams, blocks),
        2 => chains::<ROUNDS, 2>(streams, blocks),
        3 => chains::<ROUNDS, 3>(streams, blocks),
        4 => chains::<ROUNDS, 4>(streams, blocks),
        5 => chains::<ROUNDS, 5>(streams, blocks),
        6 => chains::<ROUNDS, 6>(streams, blocks),
        7 => chains::<ROUNDS, 7>(streams, blocks),
        _ => chains::<ROUNDS, MOST>(streams, blocks),
    }
}

#[target_feature(enable = "aes,avx")]
fn chains<const ROUNDS: usize, const STREAMS: usize>(streams: &mut [Stream<'_>], blocks: usize) {
    let Some(streams) = streams.first_chunk_mut::<STREAMS>() else { return };
    // Side by side, so that one address leads to all keys of a round.
    let mut keys = Zeroizing::new([[_mm_setzero_si128(); STREAMS]; ROUNDS]);
    for (lane, stream) in streams.iter().enumerate() {
        for (round, key) in keys.iter_mut().enumerate() {
            key[lane] = stream.key(round);
        }
    }
    let mut states: [__m128i; STREAMS] = std::array::from_fn(|lane| streams[lane].chained);
    for at in 0..blocks {
        for lane in 0..STREAMS {
            let block = load(&streams[lane].input[at]);
            states[lane] = _mm_xor_si128(states[lane], _mm_xor_si128(block, keys[0][lane]));
        }
        for key in &keys[1..ROUNDS - 1] {
            for lane in 0..STREAMS {
                states[lane] = _mm_aesenc_si128(states[lane], key[lane]);
            }
        }
        for lane in 0..STREAMS {
            states[lane] = _mm_aesenclast_si128(states[lane], keys[ROUNDS - 1][lane]);
            store(states[lane], &mut streams[lane].output[at]);
        }
    }
    for (stream, state) in streams.iter_mut().zip(states) {
        stream.advance(blocks, state);
    }
}
