//! Signatures, a lane for each.

use std::arch::x86_64::{
    _mm_cvtsi64_si128, _mm512_add_epi64, _mm512_and_si512, _mm512_mask_blend_epi64, _mm512_or_si512, _mm512_sll_epi64,
    _mm512_srl_epi64, _mm512_sub_epi64, _mm512_testn_epi64_mask, _mm512_xor_si512,
};
use std::hint::black_box;

use zeroize::{Zeroize, Zeroizing};

use super::curve::{self, Field, Order, Point};
use super::table::{self, ROWS, WINDOW};
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

/// Signs. `disturbed`: lanes where a bit is flipped on the way, like a fault of the machine.
#[target_feature(enable = "avx512f,avx512ifma")]
pub(crate) fn sign(inputs: &[Input; MOST], disturbed: u8) -> [Outcome; MOST] {
    let load = |of: fn(&Input) -> &Digits| Zeroizing::new(side_by_side(&inputs.each_ref().map(|input| *of(input))));
    let nonce = load(|input| &input.nonce);
    let point = Zeroizing::new(multiple(&inputs.each_ref().map(|input| words(&input.nonce)), disturbed));
    let (depth, inverse) = invert::<Field, Order>(&point.z, &enter::<Order>(&nonce));
    let inverse = Zeroizing::new(inverse);
    let depth_squared = square::<Field>(&depth);
    let x = leave::<Field>(&multiply::<Field>(&point.x, &depth_squared));
    let y = multiply::<Field>(&point.y, &multiply::<Field>(&depth_squared, &depth));
    let x: [Digits; MOST] = std::array::from_fn(|at| least::<Field>(lane(&x, at)));
    // The point's test uses the coordinate in the signature.
    let off = curve::error(&enter::<Field>(&side_by_side(&x)), &y);
    let r = x.map(least::<Order>);
    let r_lanes = side_by_side(&r);
    let (private, digest) = (load(|input| &input.private), load(|input| &input.digest));
    let product = Zeroizing::new(multiply::<Order>(&enter::<Order>(&r_lanes), &private));
    let sum = Zeroizing::new(carry(sum(&product, &digest)));
    let s = multiply::<Order>(&inverse, &sum);
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
#[target_feature(enable = "avx512f,avx512ifma")]
fn multiple(multipliers: &[[u64; WORDS]; MOST], disturbed: u8) -> Point {
    let words: Zeroizing<[Digit; WORDS]> =
        Zeroizing::new(std::array::from_fn(|at| eight(multipliers.map(|words| words[at]))));
    let rows = table::rows();
    let (index, negated) = digit(&words, 0);
    let [x, y] = table::choose(&rows[0], index);
    let mut point = Point { x, y, z: constant(Field::ONE) };
    // Negative coordinates are not available: the sign of the first is moved to all others.
    let first = negated;
    for (at, row) in rows.iter().enumerate().skip(1) {
        let (index, negated) = digit(&words, at);
        point = curve::add(&point, &table::choose(row, index), negated ^ first);
        if at == ROWS / 2 {
            let turned = std::array::from_fn(|lane| u64::from(disturbed >> lane & 1));
            point.x[0] = _mm512_xor_si512(point.x[0], eight(turned));
        }
    }
    point
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
