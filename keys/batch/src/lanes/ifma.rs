//! Numbers of eight lanes and their Montgomery products in multiplications of 52 bits (AVX-512-IFMA).
//!
//! Numbers are up to four times their modulus; results are below twice that. `R` is at least sixteen times a modulus.
//!
//! One instruction adds the lower half of a product of two digits to a column, another the upper half. Digits are below
//! `2^52`; a column holds the sum of some hundred halves before it is carried over (S. Gueron, V. Krasnov, "Software
//! Implementation of Modular Exponentiation, Using Advanced Vector Instructions Architectures", WAIFI 2012).
//! Multiplications ignore a digit's bits beyond 52, so these bits stay until another operation reads the digit.
//!
//! The whole product is made first, then reduced digit by digit after P. L. Montgomery (1985). A multiple of the
//! modulus is added that makes the lowest column zero, and its carry goes to the next.
//!
//! A core begins two multiplications in a cycle and has the result of each after four. Loads take from that rate and
//! stores take more, so sums stay in registers: ten rows of digits meet one digit after another of the other number,
//! and each step completes one column. A reduction's next quotient waits for the one before it. So two are made
//! together, before products without dependents.

use std::arch::x86_64::{
    __m512i, _mm512_add_epi64, _mm512_and_si512, _mm512_madd52hi_epu64, _mm512_madd52lo_epu64, _mm512_mask_blend_epi64,
    _mm512_mask_reduce_add_epi64, _mm512_set_epi64, _mm512_set1_epi64, _mm512_setzero_si512, _mm512_slli_epi64,
    _mm512_srli_epi64, _mm512_test_epi64_mask,
};
use std::hint::black_box;

use super::{Digit, Modulus, POWERS, Work};
use crate::MOST;
use crate::number::Radix;
use crate::sys::registers::in_order;

pub(crate) const RADIX: Radix = Radix(52);
/// Its bits, in the type of shifts.
const SHIFT: u32 = 52;

/// A sum of halves of products in each lane.
type Column = __m512i;
type Number<const N: usize> = [Digit; N];

/// Rows of digits that stay in registers while they meet the digits of the other number, ten at a time. Each length
/// of numbers is a multiple of it.
const ROWS: usize = 10;
/// Digits of a modulus that determine quotients, unless it has fewer.
const WIDE: usize = 2 * ROWS;

/// Repeats a step for each row, written out: arrays that loops shift or rotate do not stay in registers.
macro_rules! each {
    ($do:ident) => {
        each!($do: 0 1 2 3 4 5 6 7 8 9)
    };
    ($do:ident: $($at:literal)*) => {
        $($do!($at);)*
    };
}

/// Adds the products of rows with ten digits to sums; each step completes the first sum and takes one more. After the
/// ten steps each sum is in the register of its predecessor: none is moved.
macro_rules! ten_steps {
    ($sums:ident, $rows:expr, $digits:expr, |$j:ident| $next:expr, |$k:ident, $first:ident| $done:expr) => {{
        let digits: &[Digit; ROWS] = $digits.first_chunk().expect("so many");
        macro_rules! one {
            ($at:literal) => {
                let $j = $at;
                let ($first, others) = step(&$sums, $rows, digits[$j], $next);
                $sums = others;
                let $k = $at;
                $done;
            };
        }
        each!(one);
    }};
}

#[target_feature(enable = "avx512f,avx512ifma")]
pub(crate) fn zero() -> Digit {
    _mm512_setzero_si512()
}

/// `x²/R`, below `x²/R + n`.
#[target_feature(enable = "avx512f,avx512ifma")]
pub(crate) fn square<const N: usize>(x: &mut Number<N>, modulus: &Modulus<N>, work: &mut Work<N>) {
    let columns = work.columns.as_flattened_mut();
    if N == ROWS {
        square_rows::<N, true, true>(x, 0, columns);
    } else {
        square_rows::<N, true, false>(x, 0, columns);
        for i in (ROWS..N - ROWS).step_by(ROWS) {
            square_rows::<N, false, false>(x, i, columns);
        }
        square_rows::<N, false, true>(x, N - ROWS, columns);
    }
    reduce(x, modulus, work);
}

/// Adds the products of some rows with themselves and the following digits, where products of two different digits
/// count twice. Completes the columns that no other rows reach.
#[target_feature(enable = "avx512f,avx512ifma")]
#[inline]
fn square_rows<const N: usize, const FIRST: bool, const LAST: bool>(x: &Number<N>, at: usize, columns: &mut [Column]) {
    let zero = _mm512_setzero_si512();
    let rows = rows(x, at);
    let mut all: [Column; 2 * ROWS] =
        std::array::from_fn(|k| if FIRST || LAST && k >= ROWS { zero } else { columns[2 * at + k] });
    for r in 0..ROWS {
        for s in r + 1..ROWS {
            all[r + s] = _mm512_madd52lo_epu64(all[r + s], rows[r], rows[s]);
            all[r + s + 1] = _mm512_madd52hi_epu64(all[r + s + 1], rows[r], rows[s]);
        }
    }
    let columns = &mut columns[2 * at..];
    for k in 0..ROWS {
        columns[k] = twice_and_square(all[k], k, rows[k / 2]);
    }
    let columns = &mut columns[ROWS..];
    let mut sums: [Column; ROWS] = std::array::from_fn(|k| all[ROWS + k]);
    if LAST {
        for k in 0..ROWS {
            columns[k] = twice_and_square(sums[k], k, rows[ROWS / 2 + k / 2]);
        }
        return;
    }
    let next = |columns: &[Column], j: usize| if FIRST { zero } else { columns[ROWS + j] };
    ten_steps!(sums, &rows, x[at + ROWS..], |j| next(columns, j), |k, first| {
        columns[k] = twice_and_square(first, k, rows[ROWS / 2 + k / 2]);
    });
    let mut columns = &mut columns[ROWS..];
    for digits in x[at + 2 * ROWS..].chunks_exact(ROWS) {
        ten_steps!(sums, &rows, digits, |j| next(columns, j), |k, first| columns[k] = first);
        columns = &mut columns[ROWS..];
    }
    columns[..ROWS].copy_from_slice(&sums);
    if N > 2 * ROWS {
        columns[ROWS..2 * ROWS].fill(zero);
    }
}

/// Twice a column, plus the half of a digit's square with its weight.
#[target_feature(enable = "avx512f,avx512ifma")]
#[inline]
fn twice_and_square(column: Column, at: usize, digit: Digit) -> Column {
    let twice = _mm512_slli_epi64::<1>(column);
    if at.is_multiple_of(2) {
        _mm512_madd52lo_epu64(twice, digit, digit)
    } else {
        _mm512_madd52hi_epu64(twice, digit, digit)
    }
}

/// `x y/R`, below `x y/R + n`.
#[target_feature(enable = "avx512f,avx512ifma")]
pub(crate) fn multiply<const N: usize>(x: &mut Number<N>, y: &Number<N>, modulus: &Modulus<N>, work: &mut Work<N>) {
    let columns = work.columns.as_flattened_mut();
    multiply_rows::<N, true>(&rows(x, 0), y, columns);
    for i in (ROWS..N).step_by(ROWS) {
        multiply_rows::<N, false>(&rows(x, i), y, &mut columns[i..]);
    }
    reduce(x, modulus, work);
}

/// Adds the products of some rows with a number, the first of them to the first column on.
#[target_feature(enable = "avx512f,avx512ifma")]
#[inline]
fn multiply_rows<const N: usize, const FIRST: bool>(rows: &[Digit; ROWS], y: &Number<N>, columns: &mut [Column]) {
    let zero = _mm512_setzero_si512();
    let next = |columns: &[Column], j: usize| if FIRST { zero } else { columns[ROWS + j] };
    let mut sums: [Column; ROWS] = std::array::from_fn(|k| if FIRST { zero } else { columns[k] });
    let mut columns = columns;
    for digits in y.chunks_exact(ROWS) {
        ten_steps!(sums, rows, digits, |j| next(columns, j), |k, first| columns[k] = first);
        columns = &mut columns[ROWS..];
    }
    columns[..ROWS].copy_from_slice(&sums);
    if let Some(above) = columns.get_mut(ROWS..2 * ROWS) {
        above.fill(zero);
    }
}

/// `x/R`: out of Montgomery's form.
#[target_feature(enable = "avx512f,avx512ifma")]
pub(crate) fn divide<const N: usize>(x: &mut Number<N>, modulus: &Modulus<N>, work: &mut Work<N>) {
    work.columns = [std::array::from_fn(|k| bare(x[k])), [_mm512_setzero_si512(); N]];
    reduce(x, modulus, work);
}

#[target_feature(enable = "avx512f,avx512ifma")]
pub(crate) fn sum<const N: usize>(x: &mut Number<N>, y: &Number<N>) {
    let columns: Number<N> = std::array::from_fn(|k| _mm512_add_epi64(bare(x[k]), bare(y[k])));
    normalise(x, &columns);
}

/// The columns' number by `R`, modulo `n`, to `x`.
#[target_feature(enable = "avx512f,avx512ifma")]
#[inline]
fn reduce<const N: usize>(x: &mut Number<N>, modulus: &Modulus<N>, work: &mut Work<N>) {
    let (value, inverse) = (&modulus.value, modulus.inverse[0]);
    if N <= WIDE {
        // All of it in registers.
        let mut sums = work.columns[0];
        quotient(&mut sums, value, inverse, &work.columns[1]);
        normalise(x, &sums);
        return;
    }
    let columns = work.columns.as_flattened_mut();
    for i in (0..N).step_by(ROWS) {
        let mut all = *first_of::<WIDE>(&columns[i..]);
        let rows = quotient::<WIDE, ROWS>(&mut all, first_of(value), inverse, first_of(&columns[i + WIDE..]));
        let low: &[Column; ROWS] = first_of(&all);
        columns[i + ROWS..][..ROWS].copy_from_slice(low);
        let mut sums = *first_of::<ROWS>(&all[ROWS..]);
        let mut columns = &mut columns[i + WIDE..];
        for digits in value[WIDE..].chunks_exact(ROWS) {
            ten_steps!(sums, &rows, digits, |j| columns[ROWS + j], |k, first| columns[k] = first);
            columns = &mut columns[ROWS..];
        }
        columns[..ROWS].copy_from_slice(&sums);
    }
    normalise(x, &work.columns[1]);
}

fn first_of<const W: usize>(all: &[Digit]) -> &[Digit; W] {
    all.first_chunk().expect("so many")
}

/// The multiple of the modulus that makes the first `R` columns zero, digit by digit. Adds its products with the
/// modulus's first `W` digits, and leaves the `W` columns that follow.
#[target_feature(enable = "avx512f,avx512ifma")]
#[inline]
#[expect(unused_assignments, reason = "after the last digits there is no next one")]
fn quotient<const W: usize, const R: usize>(
    sums: &mut [Column; W],
    modulus: &[Digit; W],
    inverse: Digit,
    above: &[Column; R],
) -> [Digit; R] {
    let zero = _mm512_setzero_si512();
    let mut all = *sums;
    let mut quotient = [zero; R];
    let mut next = _mm512_madd52lo_epu64(zero, all[0], inverse);
    macro_rules! two_rows {
        ($at:literal) => {
            // There are more digits than registers: digits kept for the next rows would be spilled.
            let modulus = if W > ROWS { black_box(modulus) } else { modulus };
            let one = next;
            let second = first_two(_mm512_add_epi64(all[1], carry(all[0])), modulus, one);
            let two = _mm512_madd52lo_epu64(zero, second, inverse);
            let third = both(_mm512_add_epi64(all[2], carry(second)), modulus[2], modulus[1], one);
            all[0] = first_two(third, modulus, two);
            // The next quotient, since others wait for it, before products without dependents.
            let (first, [one, two]) = in_order(_mm512_madd52lo_epu64(zero, all[0], inverse), [one, two]);
            (next, quotient[$at], quotient[$at + 1]) = (first, one, two);
            for k in 1..W - 2 {
                all[k] = both(both(all[k + 2], modulus[k + 2], modulus[k + 1], one), modulus[k + 1], modulus[k], two);
            }
            let above_one = _mm512_madd52hi_epu64(above[$at], modulus[W - 1], one);
            all[W - 2] = both(above_one, modulus[W - 1], modulus[W - 2], two);
            all[W - 1] = _mm512_madd52hi_epu64(above[$at + 1], modulus[W - 1], two);
        };
    }
    each!(two_rows: 0 2 4 6 8);
    if R > ROWS {
        each!(two_rows: 10 12 14 16 18);
    }
    *sums = all;
    quotient
}

/// The carry of a column that becomes zero. The addition completes its digit to `2^52`, or leaves zero: the carry
/// need not wait for it.
#[target_feature(enable = "avx512f,avx512ifma")]
#[inline]
fn carry(column: Column) -> Column {
    _mm512_srli_epi64::<SHIFT>(_mm512_add_epi64(column, constant(RADIX.mask())))
}

/// A column plus the contributions of the first two digits of a modulus times `times`.
#[target_feature(enable = "avx512f,avx512ifma")]
#[inline]
fn first_two<const W: usize>(column: Column, modulus: &[Digit; W], times: Digit) -> Column {
    both(column, modulus[1], modulus[0], times)
}

#[target_feature(enable = "avx512f,avx512ifma")]
#[inline]
fn rows<const N: usize>(x: &Number<N>, from: usize) -> [Digit; ROWS] {
    std::array::from_fn(|r| x[from + r])
}

/// Adds the products of some rows with a digit. Returns the first column, which is complete then, and the others.
#[target_feature(enable = "avx512f,avx512ifma")]
#[inline]
fn step(sums: &[Column; ROWS], rows: &[Digit; ROWS], digit: Digit, next: Column) -> (Column, [Column; ROWS]) {
    let first = _mm512_madd52lo_epu64(sums[0], rows[0], digit);
    let others = [
        both(sums[1], rows[1], rows[0], digit),
        both(sums[2], rows[2], rows[1], digit),
        both(sums[3], rows[3], rows[2], digit),
        both(sums[4], rows[4], rows[3], digit),
        both(sums[5], rows[5], rows[4], digit),
        both(sums[6], rows[6], rows[5], digit),
        both(sums[7], rows[7], rows[6], digit),
        both(sums[8], rows[8], rows[7], digit),
        both(sums[9], rows[9], rows[8], digit),
        _mm512_madd52hi_epu64(next, rows[9], digit),
    ];
    (first, others)
}

/// The lower half of one product and the upper half of another, added to a column.
#[target_feature(enable = "avx512f,avx512ifma")]
#[inline]
fn both(column: Column, low: Digit, high: Digit, digit: Digit) -> Column {
    _mm512_madd52lo_epu64(_mm512_madd52hi_epu64(column, high, digit), low, digit)
}

/// Columns to digits. A digit's bits beyond 52 stay: multiplications ignore them.
#[target_feature(enable = "avx512f,avx512ifma")]
#[inline]
fn normalise(x: &mut [Digit], columns: &[Column]) {
    let mut carry = _mm512_setzero_si512();
    for (digit, column) in x.iter_mut().zip(columns) {
        *digit = _mm512_add_epi64(*column, carry);
        carry = _mm512_srli_epi64::<SHIFT>(*digit);
    }
}

#[target_feature(enable = "avx512f,avx512ifma")]
#[inline]
fn bare(digit: Digit) -> Digit {
    _mm512_and_si512(digit, constant(RADIX.mask()))
}

#[target_feature(enable = "avx512f,avx512ifma")]
#[inline]
fn constant(value: u64) -> Column {
    _mm512_set1_epi64(value.cast_signed())
}

#[target_feature(enable = "avx512f,avx512ifma")]
pub(crate) fn load<const N: usize>(numbers: [&[u64]; MOST]) -> Number<N> {
    std::array::from_fn(|k| eight(numbers.map(|number| number[k].cast_signed())))
}

/// A number in each lane, lowest lane first.
#[target_feature(enable = "avx512f,avx512ifma")]
#[inline]
fn eight(of: [i64; MOST]) -> Digit {
    _mm512_set_epi64(of[7], of[6], of[5], of[4], of[3], of[2], of[1], of[0])
}

#[target_feature(enable = "avx512f,avx512ifma")]
pub(crate) fn lane<const N: usize>(number: &Number<N>, lane: usize, digits: &mut [i64]) {
    for (digit, of_lanes) in digits.iter_mut().zip(number) {
        *digit = _mm512_mask_reduce_add_epi64(1 << lane, bare(*of_lanes));
    }
}

/// Takes one of sixteen numbers in each lane, and reads all of them, so that no address depends on the choice.
#[target_feature(enable = "avx512f,avx512ifma")]
pub(crate) fn choose<const N: usize>(chosen: &mut Number<N>, powers: &[Number<N>; POWERS], indices: [u8; MOST]) {
    let index = eight(indices.map(i64::from));
    let bits = [1, 2, 4, 8].map(|bit| _mm512_test_epi64_mask(index, constant(bit)));
    for (k, chosen) in chosen.iter_mut().enumerate() {
        let of = |at: usize| _mm512_mask_blend_epi64(bits[0], powers[at][k], powers[at + 1][k]);
        let two = |at: usize| _mm512_mask_blend_epi64(bits[1], of(at), of(at + 2));
        let four = |at: usize| _mm512_mask_blend_epi64(bits[2], two(at), two(at + 4));
        *chosen = _mm512_mask_blend_epi64(bits[3], four(0), four(8));
    }
}
