//! Four blocks of different chains in each register (VAES with AVX-512): a round of all four is one instruction, and
//! eight chains take no longer than one.

use std::arch::x86_64::{
    __m128i, __m512i, _mm_setzero_si128, _mm512_aesenc_epi128, _mm512_aesenclast_epi128, _mm512_castsi128_si512,
    _mm512_castsi512_si128, _mm512_extracti32x4_epi32, _mm512_inserti32x4, _mm512_setzero_si512, _mm512_xor_si512,
};

use zeroize::Zeroizing;

use super::job::Job;
use super::streams::{self, Stream};
use crate::sys::registers::{load, store};

const BLOCKS: usize = 4;

#[target_feature(enable = "avx512f,vaes")]
pub(super) fn encrypt(rounds: usize, jobs: &mut [Job<'_>]) {
    if rounds == 11 {
        streams::encrypt(jobs, |streams, blocks| go_on::<11>(streams, blocks));
    } else {
        streams::encrypt(jobs, |streams, blocks| go_on::<15>(streams, blocks));
    }
}

#[target_feature(enable = "avx512f,vaes")]
fn go_on<const ROUNDS: usize>(streams: &mut [Stream<'_>], blocks: usize) {
    if streams.len() > BLOCKS { chains::<ROUNDS, 2>(streams, blocks) } else { chains::<ROUNDS, 1>(streams, blocks) }
}

/// Encrypts `blocks` blocks of each message, in `REGISTERS` registers. Unused parts are zero at first and are not
/// stored.
#[target_feature(enable = "avx512f,vaes")]
fn chains<const ROUNDS: usize, const REGISTERS: usize>(streams: &mut [Stream<'_>], blocks: usize) {
    let mut keys = Zeroizing::new([[_mm512_setzero_si512(); REGISTERS]; ROUNDS]);
    for (round, key) in keys.iter_mut().enumerate() {
        *key = side_by_side(streams, |stream| stream.key(round));
    }
    let mut states = side_by_side::<REGISTERS>(streams, |stream| stream.chained);
    for at in 0..blocks {
        let inputs = side_by_side::<REGISTERS>(streams, |stream| load(&stream.input[at]));
        for (state, (input, key)) in states.iter_mut().zip(inputs.iter().zip(keys[0])) {
            *state = _mm512_xor_si512(*state, _mm512_xor_si512(*input, key));
        }
        for key in &keys[1..ROUNDS - 1] {
            for (state, key) in states.iter_mut().zip(key) {
                *state = _mm512_aesenc_epi128(*state, *key);
            }
        }
        for (state, key) in states.iter_mut().zip(keys[ROUNDS - 1]) {
            *state = _mm512_aesenclast_epi128(*state, key);
        }
        for (stream, block) in streams.iter_mut().zip(apart(&states).as_flattened()) {
            store(*block, &mut stream.output[at]);
        }
    }
    for (stream, block) in streams.iter_mut().zip(apart(&states).as_flattened()) {
        stream.advance(blocks, *block);
    }
}

#[target_feature(enable = "avx512f")]
#[inline]
fn side_by_side<const REGISTERS: usize>(
    streams: &[Stream<'_>],
    block: impl Fn(&Stream<'_>) -> __m128i,
) -> [__m512i; REGISTERS] {
    std::array::from_fn(|register| {
        let of = |lane| streams.get(register * BLOCKS + lane).map_or(_mm_setzero_si128(), &block);
        let low = _mm512_inserti32x4::<1>(_mm512_castsi128_si512(of(0)), of(1));
        _mm512_inserti32x4::<3>(_mm512_inserti32x4::<2>(low, of(2)), of(3))
    })
}

#[target_feature(enable = "avx512f")]
#[inline]
fn apart<const REGISTERS: usize>(states: &[__m512i; REGISTERS]) -> [[__m128i; BLOCKS]; REGISTERS] {
    states.map(|state| {
        [
            _mm512_castsi512_si128(state),
            _mm512_extracti32x4_epi32::<1>(state),
            _mm512_extracti32x4_epi32::<2>(state),
            _mm512_extracti32x4_epi32::<3>(state),
        ]
    })
}
