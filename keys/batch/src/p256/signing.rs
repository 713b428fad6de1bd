//! Signatures, a lane for each.

use std::arch::x86_64::{
    _mm_cvtsi64_si128, _mm512_add_epi64, _mm512_and_si512, _mm512_mask_blend_epi64, _mm512_or_si512, _mm512_sll_epi64,
    _mm512_srl_epi64, _mm512_sub_epi64, _mm512_testn_epi64_mask, _mm512_xor_si512,
};
use std::hint::black_box;
use std::ops::Range;

use zeroize::{Zeroize, Zeroizing};

use super::curve::{self, Field, Order, Point};
use super::table::{self, ROWS, Row, WINDOW};
use crate::MOST;
use crate::lanes::prime::{
    DIGITS, Digit, Element, Prime, RADIX, carry, constant, eight, enter, invert, lane, least, leave, multiply, of_all,
    square,
};

pub(crate) type Digits = [u64; DIGITS];
const WORD: usize = 64;
const WORDS: usize = 4;

#[derive(Clone, Copy, Default)]
pub(crate) struct Input {
    pub(crate) private: Digits,
    /// The secret number of this signature, from 1 to `n - 1`.
    pub(crate) nonce: Digits,
    pub(crate) digest: Digits,
}

impl Zeroize for Input {
    fn zeroize(&mut self) {
        self.private.zeroize();
        self.nonce.zeroize();
        self.digest.zeroize();
    }
}

pub(crate) struct Outcome {
    pub(crate) numbers: [Digits; 2],
    /// Zero without a fault: of the point, and of the signature's equation.
    pub(crate) faults: [Digits; 2],
}

#[target_feature(enable = "avx512f,avx512ifma")]
pub(crate) fn sign(inputs: &[Input; MOST]) -> [Outcome; MOST] {
    let multiplier = Multiplier::new(inputs);
    let mut point = Zeroizing::new(multiplier.first());
    multiplier.add(&mut point, 1..ROWS);
    let (depth, inverse) = inverses(inputs, &point);
    finish(inputs, &point, &depth, &inverse)
}

/// Of the point's `Z` in the field, and of the nonces modulo the order.
#[target_feature(enable = "avx512f,avx512ifma")]
#[inline]
fn inverses(inputs: &[Input; MOST], point: &Point) -> (Element, Zeroizing<Element>) {
    let nonce = Zeroizing::new(side_by_side(&inputs.each_ref().map(|input| input.nonce)));
    let (depth, inverse) = invert::<Field, Order>(&point.z, &enter::<Order>(&nonce));
    (depth, Zeroizing::new(inverse))
}

/// Makes the signatures of these points, and tests them.
#[target_feature(enable = "avx512f,avx512ifma")]
#[inline]
fn finish(inputs: &[Input; MOST], point: &Point, depth: &Element, inverse: &Element) -> [Outcome; MOST] {
    let load = |of: fn(&Input) -> &Digits| Zeroizing::new(side_by_side(&inputs.each_ref().map(|input| *of(input))));
    let depth_squared = square::<Field>(depth);
    let x = leave::<Field>(&multiply::<Field>(&point.x, &depth_squared));
    let y = multiply::<Field>(&point.y, &multiply::<Field>(&depth_squared, depth));
    let x: [Digits; MOST] = std::array::from_fn(|at| least::<Field>(lane(&x, at)));
    // The point's test uses the coordinate in the signature.
    let off = curve::error(&enter::<Field>(&side_by_side(&x)), &y);
    let r = x.map(least::<Order>);
    let r_lanes = side_by_side(&r);
    let (private, digest) = (load(|input| &input.private), load(|input| &input.digest));
    let product = Zeroizing::new(multiply::<Order>(&enter::<Order>(&r_lanes), &private));
    let sum = Zeroizing::new(carry(sum(&product, &digest)));
    let s = multiply::<Order>(inverse, &sum);
    let s: [Digits; MOST] = std::array::from_fn(|at| least::<Order>(lane(&s, at)));
    let unequal = inequality(black_box(inputs), &r_lanes, &side_by_side(&s));
    let (off, unequal) = (leave::<Field>(&off), leave::<Order>(&unequal));
    std::array::from_fn(|at| Outcome {
        numbers: [r[at], s[at]],
        faults: [least::<Field>(lane(&off, at)), least::<Order>(lane(&unequal, at))],
    })
}

/// Zero modulo `n` where `s k = z + r d`. Everything is computed again.
#[target_feature(enable = "avx512f,avx512ifma")]
fn inequality(inputs: &[Input; MOST], r: &Element, s: &Element) -> Element {
    let load = |of: fn(&Input) -> &Digits| Zeroizing::new(side_by_side(&inputs.each_ref().map(|input| *of(input))));
    let left = multiply::<Order>(&enter::<Order>(&load(|input| &input.nonce)), s);
    let product = Zeroizing::new(multiply::<Order>(&enter::<Order>(&load(|input| &input.private)), r));
    let right = sum(&product, &load(|input| &input.digest));
    let mut difference = left;
    for k in 0..DIGITS {
        // Four times the order exceeds the subtracted number.
        let more = _mm512_add_epi64(left[k], of_all(4 * Order::VALUE[k]));
        difference[k] = _mm512_sub_epi64(more, right[k]);
    }
    carry(difference)
}

/// Multiples of the base point, or their negatives, which have the same `x`.
///
/// An even multiplier is made odd by subtracting it from `n`. An odd one is a sum of odd digits from -63 to 63, one
/// in each row of the table; no digit is zero (M. Joye, M. Tunstall, "Exponent recoding and regular exponentiation
/// algorithms", 2009). The sum from the lowest row on is less than the next row's smallest point. So no addition is
/// of equal or opposite points, but for one multiplier: with the last row's digit 15 the sum may be the digit's point
/// again, beyond `n`. `Z` is zero then, and the resulting point is not on any curve.
struct Multiplier {
    words: Zeroizing<[Digit; WORDS]>,
    rows: &'static [Row],
    /// Lanes where the first digit is negative. Negative coordinates are not available: its sign is moved to all others.
    negated: u8,
}

impl Multiplier {
    #[target_feature(enable = "avx512f,avx512ifma")]
    #[inline]
    fn new(inputs: &[Input; MOST]) -> Self {
        let words = inputs.each_ref().map(|input| words(&input.nonce));
        let words = Zeroizing::new(std::array::from_fn(|at| eight(words.map(|words| words[at]))));
        let (_, negated) = digit(&words, 0);
        Self { words, rows: table::rows(), negated }
    }

    /// The point of the lowest row.
    #[target_feature(enable = "avx512f,avx512ifma")]
    #[inline]
    fn first(&self) -> Point {
        let [x, y] = table::choose(&self.rows[0], digit(&self.words, 0).0);
        Point { x, y, z: constant(Field::ONE) }
    }

    /// Adds the points of these rows.
    #[target_feature(enable = "avx512f,avx512ifma")]
    #[inline]
    fn add(&self, point: &mut Point, rows: Range<usize>) {
        for (row, at) in self.rows[rows.clone()].iter().zip(rows) {
            let (index, negated) = digit(&self.words, at);
            *point = curve::add(point, &table::choose(row, index), negated ^ self.negated);
        }
    }
}

/// The index of a digit's point in its row, and the lanes where it is negative.
#[target_feature(enable = "avx512f,avx512ifma")]
#[inline]
fn digit(words: &[Digit; WORDS], row: usize) -> (Digit, u8) {
    let bit = row * WINDOW + 1;
    let shift = |by: usize| _mm_cvtsi64_si128(by.cast_signed() as i64);
    let mut bits = _mm512_srl_epi64(words[bit / WORD], shift(bit % WORD));
    if let Some(next) = words.get(bit / WORD + 1) {
        bits = _mm512_or_si512(bits, _mm512_sll_epi64(*next, shift(WORD - bit % WORD)));
    }
    let half = 1 << (WINDOW - 1);
    // The last row's digit is the rest, and positive.
    let negative = if row == ROWS - 1 { 0 } else { _mm512_testn_epi64_mask(bits, of_all(half)) };
    let index = _mm512_and_si512(bits, of_all(half - 1));
    let turned = _mm512_xor_si512(index, of_all(half - 1));
    (_mm512_mask_blend_epi64(negative, index, turned), negative)
}

/// A nonce, or the order minus an even nonce, in words.
fn words(nonce: &Digits) -> [u64; WORDS] {
    let (mut rest, mut odd) = (Zeroizing::new(Order::VALUE), Zeroizing::new(*nonce));
    RADIX.subtract(&mut rest[..], nonce);
    let is_odd = black_box(0u64.wrapping_sub(nonce[0] & 1));
    for (digit, rest) in odd.iter_mut().zip(rest.iter()) {
        *digit = *digit & is_odd | rest & !is_odd;
    }
    let bits = |at: usize| {
        // Two digits hold 64 bits from that position on.
        let (digit, shift) = (at * WORD / RADIX.0, at * WORD % RADIX.0);
        odd[digit] >> shift | odd[digit + 1] << (RADIX.0 - shift)
    };
    std::array::from_fn(bits)
}

#[target_feature(enable = "avx512f,avx512ifma")]
fn side_by_side(numbers: &[Digits; MOST]) -> Element {
    std::array::from_fn(|k| eight(numbers.each_ref().map(|digits| digits[k])))
}

#[target_feature(enable = "avx512f,avx512ifma")]
fn sum(a: &Element, b: &Element) -> Element {
    std::array::from_fn(|k| _mm512_add_epi64(a[k], b[k]))
}

#[cfg(test)]
pub(crate) mod faults;
