//! Eight numbers modulo `2^255 - 19`, side by side in multiplications of 52 bits (AVX-512-IFMA).
//!
//! A number has five digits of 51 bits, which may be a little larger: below `2^51 + 2^17`. The part beyond 255 bits
//! is added back times nineteen, so that each operation ends with one round of carries (D. J. Bernstein and others,
//! "High-speed high-security signatures", 2011, for digits of that size; the halves of products are as in RSA's
//! multiplication).

use std::arch::x86_64::{
    __m512i, _mm512_add_epi64, _mm512_and_si512, _mm512_madd52hi_epu64, _mm512_madd52lo_epu64, _mm512_mask_blend_epi64,
    _mm512_mask_reduce_add_epi64, _mm512_set_epi64, _mm512_set1_epi64, _mm512_setzero_si512, _mm512_slli_epi64,
    _mm512_srli_epi64, _mm512_sub_epi64,
};

use crate::MOST;

pub(crate) const DIGITS: usize = 5;
pub(crate) const BITS: u32 = 51;
/// The lower bits of a digit.
pub(crate) const MASK: u64 = (1 << BITS) - 1;

/// A digit in each lane.
pub(crate) type Digit = __m512i;
/// A number in each lane.
pub(crate) type Element = [Digit; DIGITS];
/// Sums of lower or of upper halves of products, by the digits' places.
type Halves = [Digit; 2 * DIGITS - 1];

/// Twice the modulus: large enough to subtract any digit from.
const TWICE: [u64; DIGITS] = [2 * (MASK - 18), 2 * MASK, 2 * MASK, 2 * MASK, 2 * MASK];

/// The same small number in each lane, below `2^51`.
#[target_feature(enable = "avx512f,avx512ifma")]
pub(crate) fn small(number: u64) -> Element {
    let mut element = [_mm512_setzero_si512(); DIGITS];
    element[0] = of_all(number);
    element
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

/// `a b`.
#[target_feature(enable = "avx512f,avx512ifma")]
#[inline]
pub(crate) fn multiply(a: &Element, b: &Element) -> Element {
    let (mut low, mut high) = nothing();
    for i in 0..DIGITS {
        for j in 0..DIGITS {
            low[i + j] = _mm512_madd52lo_epu64(low[i + j], a[i], b[j]);
            high[i + j] = _mm512_madd52hi_epu64(high[i + j], a[i], b[j]);
        }
    }
    fold(&low, &high)
}

/// `a²`.
#[target_feature(enable = "avx512f,avx512ifma")]
#[inline]
pub(crate) fn square(a: &Element) -> Element {
    let (mut low, mut high) = nothing();
    for i in 0..DIGITS {
        for j in i + 1..DIGITS {
            low[i + j] = _mm512_madd52lo_epu64(low[i + j], a[i], a[j]);
            high[i + j] = _mm512_madd52hi_epu64(high[i + j], a[i], a[j]);
        }
    }
    for half in low.iter_mut().chain(&mut high) {
        *half = _mm512_slli_epi64::<1>(*half);
    }
    for i in 0..DIGITS {
        low[2 * i] = _mm512_madd52lo_epu64(low[2 * i], a[i], a[i]);
        high[2 * i] = _mm512_madd52hi_epu64(high[2 * i], a[i], a[i]);
    }
    fold(&low, &high)
}

/// Squares `a` `times` times.
#[target_feature(enable = "avx512f,avx512ifma")]
pub(crate) fn squares(a: &Element, times: u32) -> Element {
    let mut power = *a;
    for _ in 0..times {
        power = square(&power);
    }
    power
}

/// `a` times a number below `2^20`.
#[target_feature(enable = "avx512f,avx512ifma")]
#[inline]
pub(crate) fn scale(a: &Element, factor: u64) -> Element {
    let (mut low, mut high) = nothing();
    let factor = of_all(factor);
    for i in 0..DIGITS {
        low[i] = _mm512_madd52lo_epu64(low[i], a[i], factor);
        high[i] = _mm512_madd52hi_epu64(high[i], a[i], factor);
    }
    fold(&low, &high)
}

/// `a + b`.
#[target_feature(enable = "avx512f,avx512ifma")]
#[inline]
pub(crate) fn add(a: &Element, b: &Element) -> Element {
    let mut sum = *a;
    for (digit, other) in sum.iter_mut().zip(b) {
        *digit = _mm512_add_epi64(*digit, *other);
    }
    carry(&sum)
}

/// `a - b`.
#[target_feature(enable = "avx512f,avx512ifma")]
#[inline]
pub(crate) fn subtract(a: &Element, b: &Element) -> Element {
    let mut difference = *a;
    for ((digit, other), twice) in difference.iter_mut().zip(b).zip(TWICE) {
        *digit = _mm512_sub_epi64(_mm512_add_epi64(*digit, of_all(twice)), *other);
    }
    carry(&difference)
}

/// Exchanges the numbers of those lanes whose bit is set.
#[target_feature(enable = "avx512f,avx512ifma")]
#[inline]
pub(crate) fn swap(lanes: u8, a: &mut Element, b: &mut Element) {
    for (x, y) in a.iter_mut().zip(b) {
        let kept = *x;
        *x = _mm512_mask_blend_epi64(lanes, *x, *y);
        *y = _mm512_mask_blend_epi64(lanes, *y, kept);
    }
}

/// `a^(p - 2)`, which is `1/a`, and zero for zero.
#[target_feature(enable = "avx512f,avx512ifma")]
pub(crate) fn invert(a: &Element) -> Element {
    // From here on, names give the number of ones in the exponent; the final one is 2^255 - 21.
    let two = square(a);
    let nine = multiply(a, &squares(&two, 2));
    let eleven = multiply(&two, &nine);
    let five = multiply(&nine, &square(&eleven));
    let ten = multiply(&squares(&five, 5), &five);
    let twenty = multiply(&squares(&ten, 10), &ten);
    let forty = multiply(&squares(&twenty, 20), &twenty);
    let fifty = multiply(&squares(&forty, 10), &ten);
    let hundred = multiply(&squares(&fifty, 50), &fifty);
    let two_hundred = multiply(&squares(&hundred, 100), &hundred);
    let all_but_five = multiply(&squares(&two_hundred, 50), &fifty);
    multiply(&squares(&all_but_five, 5), &eleven)
}

#[target_feature(enable = "avx512f,avx512ifma")]
#[inline]
fn nothing() -> (Halves, Halves) {
    let none = [_mm512_setzero_si512(); 2 * DIGITS - 1];
    (none, none)
}

/// The number of a product's halves. An upper half has the weight of 52 bits, twice that of the next digit.
#[target_feature(enable = "avx512f,avx512ifma")]
#[inline]
fn fold(low: &Halves, high: &Halves) -> Element {
    let mut columns = [_mm512_setzero_si512(); 2 * DIGITS];
    for k in 0..low.len() {
        columns[k] = _mm512_add_epi64(columns[k], low[k]);
        columns[k + 1] = _mm512_slli_epi64::<1>(high[k]);
    }
    let mut sum = [_mm512_setzero_si512(); DIGITS];
    for k in 0..DIGITS {
        sum[k] = _mm512_add_epi64(columns[k], nineteen(columns[k + DIGITS]));
    }
    carry(&sum)
}

/// Digits below `2^63` to digits below `2^51 + 2^17`.
#[target_feature(enable = "avx512f,avx512ifma")]
#[inline]
fn carry(sum: &Element) -> Element {
    let mut number = [_mm512_setzero_si512(); DIGITS];
    for k in 0..DIGITS {
        let before = _mm512_srli_epi64::<BITS>(sum[(k + DIGITS - 1) % DIGITS]);
        let carried = if k == 0 { nineteen(before) } else { before };
        number[k] = _mm512_add_epi64(_mm512_and_si512(sum[k], of_all(MASK)), carried);
    }
    number
}

/// `19 x`.
#[target_feature(enable = "avx512f,avx512ifma")]
#[inline]
fn nineteen(x: Digit) -> Digit {
    let three = _mm512_add_epi64(x, _mm512_slli_epi64::<1>(x));
    _mm512_add_epi64(three, _mm512_slli_epi64::<4>(x))
}

#[target_feature(enable = "avx512f,avx512ifma")]
#[inline]
pub(crate) fn of_all(number: u64) -> Digit {
    _mm512_set1_epi64(number.cast_signed())
}
