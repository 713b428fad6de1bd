//! Eight numbers modulo a prime of 256 bits, side by side in multiplications of 52 bits (AVX-512-IFMA).
//!
//! Numbers have five digits of 52 bits and are below sixteen times the prime, which is about `R = 2^260`. Products
//! are Montgomery's (1985), digit by digit. Instead of the prime a multiple is added that is `-1` modulo a digit, so
//! that each digit itself is the factor: no multiplication is needed to find it (H. Orup, "Simplifying quotient
//! determination in high-radix modular multiplication", 1995).

use std::arch::x86_64::{
    __m512i, _mm512_add_epi64, _mm512_and_si512, _mm512_madd52hi_epu64, _mm512_madd52lo_epu64,
    _mm512_mask_reduce_add_epi64, _mm512_set_epi64, _mm512_set1_epi64, _mm512_setzero_si512, _mm512_srai_epi64,
    _mm512_srli_epi64,
};

use crate::MOST;
use crate::number::Radix;

pub(crate) const DIGITS: usize = 5;

pub(crate) const RADIX: Radix = Radix(BITS as usize);
pub(crate) const BITS: u32 = 52;

pub(crate) type Digit = __m512i;
pub(crate) type Element = [Digit; DIGITS];
type Columns = [Digit; 2 * DIGITS];
const WINDOW: usize = 4;
const WINDOWS: usize = BITS as usize / WINDOW;

pub(crate) trait Prime {
    const VALUE: [u64; DIGITS];
    /// `-1/p` modulo a digit.
    const INVERSE: u64;
    /// `(p · INVERSE + 1) / 2^52`.
    const FOLDED: [u64; DIGITS];
    /// `R` modulo `p`: one in Montgomery's form.
    const ONE: [u64; DIGITS];
    /// `R²` modulo `p`: leads into Montgomery's form.
    const SQUARE: [u64; DIGITS];
}

/// A digit in each lane, lowest lane first.
#[target_feature(enable = "avx512f,avx512ifma")]
pub(crate) fn eight(of: [u64; MOST]) -> Digit {
    let of = of.map(u64::cast_signed);
    _mm512_set_epi64(of[7], of[6], of[5], of[4], of[3], of[2], of[1], of[0])
}

#[target_feature(enable = "avx512f,avx512ifma")]
pub(crate) fn lane(number: &Element, lane: usize) -> [u64; DIGITS] {
    let mut digits = [0; DIGITS];
    for (digit, of_lanes) in digits.iter_mut().zip(number) {
        *digit = _mm512_mask_reduce_add_epi64(1 << lane, *of_lanes).cast_unsigned();
    }
    digits
}

#[target_feature(enable = "avx512f,avx512ifma")]
#[inline]
pub(crate) fn of_all(number: u64) -> Digit {
    _mm512_set1_epi64(number.cast_signed())
}

#[target_feature(enable = "avx512f,avx512ifma")]
#[inline]
pub(crate) fn constant(digits: [u64; DIGITS]) -> Element {
    let mut element = [_mm512_setzero_si512(); DIGITS];
    for (lanes, digit) in element.iter_mut().zip(digits) {
        *lanes = of_all(digit);
    }
    element
}

/// `a b/R`, below `a b/R + p`, and `p` more where the prime's inverse is not one.
#[target_feature(enable = "avx512f,avx512ifma")]
#[inline]
pub(crate) fn multiply<P: Prime>(a: &Element, b: &Element) -> Element {
    let (mut low, mut high) = nothing();
    for k in 0..DIGITS {
        row(&mut low[k..], &mut high[k..], a[k], b);
    }
    let mut columns = sum(&low, &high);
    for k in 0..DIGITS - 1 {
        fold::<P>(&mut columns, k);
    }
    last::<P>(columns)
}

#[target_feature(enable = "avx512f,avx512ifma")]
#[inline]
pub(crate) fn square<P: Prime>(a: &Element) -> Element {
    let (mut low, mut high) = nothing();
    for k in 0..DIGITS {
        row(&mut low[2 * k + 1..], &mut high[2 * k + 1..], a[k], &a[k + 1..]);
    }
    for k in 0..DIGITS {
        for half in [&mut low, &mut high] {
            half[2 * k] = _mm512_add_epi64(half[2 * k], half[2 * k]);
            half[2 * k + 1] = _mm512_add_epi64(half[2 * k + 1], half[2 * k + 1]);
        }
        row(&mut low[2 * k..], &mut high[2 * k..], a[k], &a[k..=k]);
    }
    let mut columns = sum(&low, &high);
    for k in 0..DIGITS - 1 {
        fold::<P>(&mut columns, k);
    }
    last::<P>(columns)
}

#[target_feature(enable = "avx512f,avx512ifma")]
pub(crate) fn enter<P: Prime>(a: &Element) -> Element {
    multiply::<P>(a, &constant(P::SQUARE))
}

/// Out of Montgomery's form: at most `p`, and `p` more where the prime's inverse is not one.
#[target_feature(enable = "avx512f,avx512ifma")]
pub(crate) fn leave<P: Prime>(a: &Element) -> Element {
    multiply::<P>(a, &constant([1, 0, 0, 0, 0]))
}

/// `1/a` modulo one prime and `1/b` modulo another in Montgomery's form, and zero for zero. Each waits for its own
/// results most of the time: two take little longer than one.
#[target_feature(enable = "avx512f,avx512ifma")]
pub(crate) fn invert<P: Prime, Q: Prime>(a: &Element, b: &Element) -> (Element, Element) {
    let mut powers = [(constant(P::ONE), constant(Q::ONE)); 1 << WINDOW];
    for at in 1..powers.len() {
        powers[at] = (multiply::<P>(&powers[at - 1].0, a), multiply::<Q>(&powers[at - 1].1, b));
    }
    let (mut x, mut y) = powers[0];
    for window in (0..DIGITS * WINDOWS).rev() {
        for _ in 0..WINDOW {
            (x, y) = (square::<P>(&x), square::<Q>(&y));
        }
        x = multiply::<P>(&x, &powers[exponent::<P>(window)].0);
        y = multiply::<Q>(&y, &powers[exponent::<Q>(window)].1);
    }
    (x, y)
}

/// A window of the public exponent `p - 2`, whose power is the inverse.
fn exponent<P: Prime>(window: usize) -> usize {
    let digit = P::VALUE[window / WINDOWS] - if window < WINDOWS { 2 } else { 0 };
    (digit >> (window % WINDOWS * WINDOW)) as usize % (1 << WINDOW)
}

/// Digits that may have signs and be too large, of a number from zero on, to digits of 52 bits.
#[target_feature(enable = "avx512f,avx512ifma")]
#[inline]
pub(crate) fn carry(mut number: Element) -> Element {
    for k in 0..DIGITS - 1 {
        number[k + 1] = _mm512_add_epi64(number[k + 1], _mm512_srai_epi64::<BITS>(number[k]));
        number[k] = _mm512_and_si512(number[k], of_all(RADIX.mask()));
    }
    number
}

/// The residue of a number below three times the prime.
pub(crate) fn least<P: Prime>(mut digits: [u64; DIGITS]) -> [u64; DIGITS] {
    RADIX.reduce_once(&mut digits, &P::VALUE);
    RADIX.reduce_once(&mut digits, &P::VALUE);
    digits
}

#[target_feature(enable = "avx512f,avx512ifma")]
#[inline]
fn nothing() -> (Columns, Columns) {
    let none = [_mm512_setzero_si512(); 2 * DIGITS];
    (none, none)
}

#[target_feature(enable = "avx512f,avx512ifma")]
#[inline]
fn sum(low: &Columns, high: &Columns) -> Columns {
    let mut columns = *low;
    for (column, high) in columns.iter_mut().zip(high) {
        *column = _mm512_add_epi64(*column, *high);
    }
    columns
}

#[target_feature(enable = "avx512f,avx512ifma")]
#[inline]
fn row(low: &mut [Digit], high: &mut [Digit], digit: Digit, others: &[Digit]) {
    for (k, other) in others.iter().enumerate() {
        low[k] = _mm512_madd52lo_epu64(low[k], digit, *other);
        high[k + 1] = _mm512_madd52hi_epu64(high[k + 1], digit, *other);
    }
}

/// The columns' number by `R`, when all but one of the lower digits are zero.
#[target_feature(enable = "avx512f,avx512ifma")]
#[inline]
fn last<P: Prime>(mut columns: Columns) -> Element {
    if P::INVERSE == 1 {
        fold::<P>(&mut columns, DIGITS - 1);
    } else {
        // The multiple is a digit longer than the prime: added here as well, it would make the result too long.
        fold_exactly::<P>(&mut columns);
    }
    let mut number = [_mm512_setzero_si512(); DIGITS];
    number.copy_from_slice(&columns[DIGITS..]);
    carry(number)
}

/// Makes a digit zero by adding the multiple as often as the digit's value.
#[target_feature(enable = "avx512f,avx512ifma")]
#[inline]
fn fold<P: Prime>(columns: &mut Columns, at: usize) {
    let digit = columns[at];
    columns[at + 1] = _mm512_add_epi64(columns[at + 1], _mm512_srli_epi64::<BITS>(digit));
    for k in 0..DIGITS {
        if P::FOLDED[k] != 0 {
            let factor = of_all(P::FOLDED[k]);
            columns[at + 1 + k] = _mm512_madd52lo_epu64(columns[at + 1 + k], digit, factor);
            columns[at + 2 + k] = _mm512_madd52hi_epu64(columns[at + 2 + k], digit, factor);
        }
    }
}

/// Makes the last digit zero by adding the prime itself.
#[target_feature(enable = "avx512f,avx512ifma")]
#[inline]
fn fold_exactly<P: Prime>(columns: &mut Columns) {
    let at = DIGITS - 1;
    let times = _mm512_madd52lo_epu64(_mm512_setzero_si512(), columns[at], of_all(P::INVERSE));
    for k in 0..DIGITS {
        let digit = of_all(P::VALUE[k]);
        columns[at + k] = _mm512_madd52lo_epu64(columns[at + k], times, digit);
        columns[at + 1 + k] = _mm512_madd52hi_epu64(columns[at + 1 + k], times, digit);
    }
    columns[at + 1] = _mm512_add_epi64(columns[at + 1], _mm512_srli_epi64::<BITS>(columns[at]));
}
