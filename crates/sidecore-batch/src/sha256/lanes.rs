//! Eight messages in lanes of 32 bits, on registers of 256 bits with two operations of AVX-512: rotations, and any
//! function of three bits.

use std::arch::x86_64::{
    __m256i, _mm256_add_epi32, _mm256_permute2x128_si256, _mm256_ror_epi32, _mm256_set_epi64x, _mm256_set1_epi32,
    _mm256_setzero_si256, _mm256_shuffle_epi8, _mm256_srli_epi32, _mm256_ternarylogic_epi32, _mm256_unpackhi_epi32,
    _mm256_unpackhi_epi64, _mm256_unpacklo_epi32, _mm256_unpacklo_epi64,
};
use std::array;

use super::{Block, CONSTANTS, Stream};
use crate::MOST;
use crate::sys::registers::{load_bytes, load_eight, store_eight};

/// A word of each message.
type Word = __m256i;

/// Functions of three bits: their sum, a choice of the second or third by the first, and their majority.
const SUM: i32 = 0x96;
const CHOICE: i32 = 0xca;
const MAJORITY: i32 = 0xe8;

/// Calls a macro with each number below sixteen, so that words stay in registers of their own.
macro_rules! sixteen_times {
    ($round:ident) => {
        sixteen_times!($round, 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15)
    };
    ($round:ident, $($at:literal)*) => {
        $($round!($at);)*
    };
}

/// Compresses `blocks` blocks of each. Lanes beyond the last stream repeat its message.
#[target_feature(enable = "avx512f,avx512vl")]
pub(crate) fn compress(streams: &mut [Stream<'_>], blocks: usize) {
    let Some(last) = streams.len().checked_sub(1) else { return };
    let lanes: [&[Block]; MOST] = array::from_fn(|lane| &streams[lane.min(last)].blocks[..blocks]);
    let mut state = turned(array::from_fn(|lane| load_eight(streams[lane.min(last)].state)));
    for block in 0..blocks {
        rounds(&mut state, lanes.map(|lane| &lane[block]));
    }
    for (stream, state) in streams.iter_mut().zip(turned(state)) {
        *stream.state = store_eight(state);
    }
}

#[target_feature(enable = "avx512f,avx512vl")]
#[inline]
fn rounds(state: &mut [Word; 8], blocks: [&Block; MOST]) {
    let (before, mut words) = (*state, words_of(blocks));
    let (constants, _) = CONSTANTS.as_flattened().as_chunks::<16>();
    for (quarter, constants) in constants.iter().enumerate() {
        macro_rules! begin {
            ($at:literal) => {
                round::<$at>(state, words[$at], constants[$at]);
            };
        }
        macro_rules! go_on {
            ($at:literal) => {
                words[$at] = scheduled::<$at>(&words);
                begin!($at);
            };
        }
        if quarter == 0 {
            sixteen_times!(begin);
        } else {
            sixteen_times!(go_on);
        }
    }
    for (word, before) in state.iter_mut().zip(before) {
        *word = _mm256_add_epi32(*word, before);
    }
}

/// The round `AT` of sixteen: the state's words keep their registers and change their roles.
#[target_feature(enable = "avx512f,avx512vl")]
#[inline]
fn round<const AT: usize>(state: &mut [Word; 8], word: Word, constant: u32) {
    let name = |at: usize| (at + 16 - AT) % 8;
    let named = |at: usize| state[name(at)];
    let chosen = _mm256_ternarylogic_epi32::<CHOICE>(named(4), named(5), named(6));
    let word = _mm256_add_epi32(word, _mm256_set1_epi32(constant.cast_signed()));
    let sum = _mm256_add_epi32(_mm256_add_epi32(named(7), word), chosen);
    let sum = _mm256_add_epi32(sum, rotated::<6, 11, 25>(named(4)));
    let most = _mm256_ternarylogic_epi32::<MAJORITY>(named(0), named(1), named(2));
    let other = _mm256_add_epi32(rotated::<2, 13, 22>(named(0)), most);
    (state[name(3)], state[name(7)]) = (_mm256_add_epi32(named(3), sum), _mm256_add_epi32(other, sum));
}

/// The schedule's word that replaces this one.
#[target_feature(enable = "avx512f,avx512vl")]
#[inline]
fn scheduled<const AT: usize>(words: &[Word; 16]) -> Word {
    let [first, second, tenth, last] = [0, 1, 9, 14].map(|at| words[(AT + at) % 16]);
    let low = shifted::<7, 18, 3>(second);
    let high = shifted::<17, 19, 10>(last);
    _mm256_add_epi32(_mm256_add_epi32(first, low), _mm256_add_epi32(tenth, high))
}

/// The sum of three rotations, by bits.
#[target_feature(enable = "avx512f,avx512vl")]
#[inline]
fn rotated<const X: i32, const Y: i32, const Z: i32>(word: Word) -> Word {
    let (x, y, z) = (_mm256_ror_epi32::<X>(word), _mm256_ror_epi32::<Y>(word), _mm256_ror_epi32::<Z>(word));
    _mm256_ternarylogic_epi32::<SUM>(x, y, z)
}

/// The sum of two rotations and a shift, by bits.
#[target_feature(enable = "avx512f,avx512vl")]
#[inline]
fn shifted<const X: i32, const Y: i32, const Z: i32>(word: Word) -> Word {
    let (x, y, z) = (_mm256_ror_epi32::<X>(word), _mm256_ror_epi32::<Y>(word), _mm256_srli_epi32::<Z>(word));
    _mm256_ternarylogic_epi32::<SUM>(x, y, z)
}

/// The big-endian words of a block of each message.
#[target_feature(enable = "avx512f,avx512vl")]
#[inline]
fn words_of(blocks: [&Block; MOST]) -> [Word; 16] {
    let order = [0x0c0d_0e0f_0809_0a0b, 0x0405_0607_0001_0203];
    let order = _mm256_set_epi64x(order[0], order[1], order[0], order[1]);
    let mut words = [_mm256_setzero_si256(); 16];
    for (half, words) in words.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        let rows = blocks.map(|block| _mm256_shuffle_epi8(load_bytes(&block.as_chunks().0[half]), order));
        *words = turned(rows);
    }
    words
}

/// Transposes eight rows of eight words.
#[target_feature(enable = "avx512f,avx512vl")]
#[inline]
fn turned(rows: [Word; 8]) -> [Word; 8] {
    let pair = |at: usize| {
        let [x, y] = [rows[at], rows[at + 1]];
        [_mm256_unpacklo_epi32(x, y), _mm256_unpackhi_epi32(x, y)]
    };
    let four = |at: usize| {
        let ([a, b], [c, d]) = (pair(at), pair(at + 2));
        let low = [_mm256_unpacklo_epi64(a, c), _mm256_unpackhi_epi64(a, c)];
        [low[0], low[1], _mm256_unpacklo_epi64(b, d), _mm256_unpackhi_epi64(b, d)]
    };
    let (upper, lower) = (four(0), four(4));
    array::from_fn(|at| {
        let (x, y) = (upper[at % 4], lower[at % 4]);
        if at < 4 { _mm256_permute2x128_si256::<0x20>(x, y) } else { _mm256_permute2x128_si256::<0x31>(x, y) }
    })
}
