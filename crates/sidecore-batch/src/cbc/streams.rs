//! Several chains of blocks in the AES instructions at once: while one waits for its round, the others go on.

use std::arch::x86_64::{
    __m128i, _mm_aesenc_si128, _mm_aesenclast_si128, _mm_cvtsi128_si32, _mm_set_epi32, _mm_set1_epi32,
    _mm_setzero_si128, _mm_xor_si128,
};

use zeroize::Zeroizing;

use super::{BLOCK, Job, Key};
use crate::MOST;
use crate::sys::{load, store};

/// Bytes of a block.
type Block = [u8; BLOCK];

/// A message, from its next block on.
struct Stream<'a> {
    key: &'a Key,
    /// The block before.
    chained: __m128i,
    input: &'a [Block],
    output: &'a mut [Block],
}

/// Each byte of a word through the S-box: the last round on four equal columns, which its rotation of rows leaves as they are.
#[target_feature(enable = "aes,avx")]
pub(crate) fn substitute(word: u32) -> u32 {
    let columns = _mm_aesenclast_si128(_mm_set1_epi32(word.cast_signed()), _mm_setzero_si128());
    _mm_cvtsi128_si32(columns).cast_unsigned()
}

/// Encrypts messages whose keys have so many rounds.
#[target_feature(enable = "aes,avx")]
pub(crate) fn encrypt(rounds: usize, jobs: &mut [Job<'_>]) {
    let mut streams = Vec::with_capacity(MOST);
    streams.extend(jobs.iter_mut().map(|job| Stream {
        key: job.key,
        chained: load(job.vector),
        input: job.input.as_chunks().0,
        output: job.output.as_chunks_mut().0,
    }));
    streams.sort_by_key(|stream| std::cmp::Reverse(stream.input.len()));
    // All go on until the shortest ends, then the rest until the next one does.
    while let Some(shortest) = streams.last().map(|stream| stream.input.len()) {
        if rounds == 11 {
            go_on::<11>(&mut streams, shortest);
        } else {
            go_on::<15>(&mut streams, shortest);
        }
        streams.retain(|stream| !stream.input.is_empty());
    }
}

/// So many blocks of each.
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

/// So many blocks of each of so many streams.
#[target_feature(enable = "aes,avx")]
fn chains<const ROUNDS: usize, const STREAMS: usize>(streams: &mut [Stream<'_>], blocks: usize) {
    let Some(streams) = streams.first_chunk_mut::<STREAMS>() else { return };
    // Side by side, so that one address leads to all keys of a round.
    let mut keys = Zeroizing::new([[_mm_setzero_si128(); STREAMS]; ROUNDS]);
    for (lane, stream) in streams.iter().enumerate() {
        for (round, key) in keys.iter_mut().enumerate() {
            key[lane] = key_of(stream.key, round);
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
        stream.chained = state;
        stream.input = &stream.input[blocks..];
        stream.output = &mut std::mem::take(&mut stream.output)[blocks..];
    }
}

#[target_feature(enable = "aes,avx")]
fn key_of(key: &Key, round: usize) -> __m128i {
    let words = |at: usize| key.schedule[4 * round + at].cast_signed();
    _mm_set_epi32(words(3), words(2), words(1), words(0))
}
