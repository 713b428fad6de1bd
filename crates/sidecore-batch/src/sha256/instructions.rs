//! The instructions of SHA on several messages in turn: each waits for the one before it in its own message only.

use std::arch::x86_64::{
    __m128i, _mm_add_epi32, _mm_alignr_epi8, _mm_set_epi64x, _mm_sha256msg1_epu32, _mm_sha256msg2_epu32,
    _mm_sha256rnds2_epu32, _mm_shuffle_epi8, _mm_shuffle_epi32,
};
use std::array;

use super::{Block, CONSTANTS, State, Stream};
use crate::sys::registers::{load, load_four, store_four};

/// Most messages in turn: more are no faster.
const TURN: usize = 3;

/// A state in two registers.
type Halves = [__m128i; 2];
/// Sixteen words of a message's schedule.
type Words = [__m128i; 4];

/// Order of a state's words in the two registers, lowest first.
const ORDER: [[usize; 4]; 2] = [[5, 4, 1, 0], [7, 6, 3, 2]];

/// Compresses `blocks` blocks of each stream.
#[target_feature(enable = "sha,sse4.1,avx")]
pub(crate) fn compress(streams: &mut [Stream<'_>], blocks: usize) {
    let turns = streams.len().div_ceil(TURN).max(1);
    for streams in streams.chunks_mut(streams.len().div_ceil(turns).max(1)) {
        match streams.len() {
            1 => in_turn::<1>(streams, blocks),
            2 => in_turn::<2>(streams, blocks),
            _ => in_turn::<TURN>(streams, blocks),
        }
    }
}

/// Compresses `blocks` blocks of each of `STREAMS` streams.
#[target_feature(enable = "sha,sse4.1,avx")]
fn in_turn<const STREAMS: usize>(streams: &mut [Stream<'_>], blocks: usize) {
    let Some(streams) = streams.first_chunk_mut::<STREAMS>() else { return };
    let mut states: [Halves; STREAMS] = array::from_fn(|at| halves(streams[at].state));
    for block in 0..blocks {
        let before = states;
        let mut words: [Words; STREAMS] = array::from_fn(|at| first_words(&streams[at].blocks[block]));
        for (quarter, constants) in CONSTANTS.as_chunks().0.iter().enumerate() {
            sixteen_rounds(&mut states, &mut words, constants, quarter < 3);
        }
        for (state, before) in states.iter_mut().zip(&before) {
            *state = array::from_fn(|half| _mm_add_epi32(state[half], before[half]));
        }
    }
    for (stream, state) in streams.iter_mut().zip(&states) {
        for (half, order) in state.iter().zip(ORDER) {
            for (word, at) in store_four(*half).into_iter().zip(order) {
                stream.state[at] = word;
            }
        }
    }
}

/// Also makes the words of the next sixteen rounds, if there `are_more`.
#[target_feature(enable = "sha,sse4.1,avx")]
#[inline]
fn sixteen_rounds<const STREAMS: usize>(
    states: &mut [Halves; STREAMS],
    words: &mut [Words; STREAMS],
    constants: &[[u32; 4]; 4],
    are_more: bool,
) {
    for four in 0..4 {
        let constant = load_four(&constants[four]);
        for (state, words) in states.iter_mut().zip(words.iter()) {
            let sums = _mm_add_epi32(words[four], constant);
            state[1] = _mm_sha256rnds2_epu32(state[1], state[0], sums);
            state[0] = _mm_sha256rnds2_epu32(state[0], state[1], _mm_shuffle_epi32::<0b00_00_11_10>(sums));
        }
        if are_more {
            for words in words.iter_mut() {
                let [next, second, third, last] = array::from_fn(|at| words[(four + at) % 4]);
                let sum = _mm_add_epi32(_mm_sha256msg1_epu32(next, second), _mm_alignr_epi8::<4>(last, third));
                words[four] = _mm_sha256msg2_epu32(sum, last);
            }
        }
    }
}

#[target_feature(enable = "avx")]
#[inline]
fn halves(state: &State) -> Halves {
    ORDER.map(|order| load_four(&order.map(|at| state[at])))
}

/// The big-endian words of a block.
#[target_feature(enable = "avx")]
#[inline]
fn first_words(block: &Block) -> Words {
    let turned = _mm_set_epi64x(0x0c0d_0e0f_0809_0a0b, 0x0405_0607_0001_0203);
    let (fours, _) = block.as_chunks();
    array::from_fn(|at| _mm_shuffle_epi8(load(&fours[at]), turned))
}
