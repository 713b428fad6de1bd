//! Numbers of eight lanes and their Montgomery products in multiplications of 52 bits (AVX-512-IFMA).
//!
//! One instruction adds the lower half of a product of two digits to a column, another the upper half. Digits are below
//! `2^52`; a column holds the sum of some hundred halves before it is carried over (S. Gueron, V. Krasnov, "Software
//! Implementation of Modular Exponentiation, Using Advanced Vector Instructions Architectures", WAIFI 2012).
//!
//! A reduction after P. L. Montgomery (1985) on whole numbers: `Q = T · (-1/n) mod R`, then `(T + Q n) / R`. Of the second
//! product only the upper half is made. The lower half comes to a multiple of `R`: what its highest column alone comes to,
//! rounded up, is how many times `R` it is, since the carry from below is less than a digit.

use std::arch::x86_64::{
    __m512i, _mm512_add_epi64, _mm512_and_si512, _mm512_madd52hi_epu64, _mm512_madd52lo_epu64, _mm512_mask_blend_epi64,
    _mm512_mask_reduce_add_epi64, _mm512_set_epi64, _mm512_set1_epi64, _mm512_setzero_si512, _mm512_slli_epi64,
    _mm512_srli_epi64, _mm512_test_epi64_mask,
};

use super::{Modulus, POWERS, Work};
use crate::MOST;
use crate::number::Radix;

/// Of digits.
pub(crate) const RADIX: Radix = Radix(52);
/// Its bits, as shifts take them.
const SHIFT: u32 = 52;

/// A digit in each lane.
pub(crate) type Digit = __m512i;
/// A sum of halves of products in each lane.
pub(crate) type Column = __m512i;
/// A number in each lane.
type Number<const N: usize> = [Digit; N];

/// Rows of digits that stay in registers while they meet the digits of the other number. Each length of numbers is a
/// multiple of it.
const ROWS: usize = 5;

/// Nothing in each lane.
#[target_feature(enable = "avx512f,avx512ifma")]
pub(crate) fn zero() -> (Digit, Column) {
    (_mm512_setzero_si512(), _mm512_setzero_si512())
}

/// `x²/R`, below `x²/R + n`.
#[target_feature(enable = "avx512f,avx512ifma")]
pub(crate) fn square<const N: usize>(
    x: &mut Number<N>,
    modulus: &Modulus<Digit, N>,
    work: &mut Work<Digit, Column, N>,
) {
    work.columns = [[_mm512_setzero_si512(); N]; 2];
    let columns = work.columns.as_flattened_mut();
    for i in (0..N).step_by(ROWS) {
        let rows = rows(x, i);
        among(&rows, &mut columns[2 * i..]);
        sweep(&rows, &x[i + ROWS..], &mut columns[2 * i + ROWS..]);
    }
    for (digit, pair) in x.iter().zip(columns.as_chunks_mut::<2>().0) {
        *pair = [
            _mm512_madd52lo_epu64(_mm512_slli_epi64::<1>(pair[0]), *digit, *digit),
            _mm512_madd52hi_epu64(_mm512_slli_epi64::<1>(pair[1]), *digit, *digit),
        ];
    }
    reduce(x, modulus, work);
}

/// `x y/R`, below `x y/R + n`.
#[target_feature(enable = "avx512f,avx512ifma")]
pub(crate) fn multiply<const N: usize>(
    x: &mut Number<N>,
    y: &Number<N>,
    modulus: &Modulus<Digit, N>,
    work: &mut Work<Digit, Column, N>,
) {
    work.columns = [[_mm512_setzero_si512(); N]; 2];
    let columns = work.columns.as_flattened_mut();
    for i in (0..N).step_by(ROWS) {
        sweep(&rows(x, i), y, &mut columns[i..]);
    }
    reduce(x, modulus, work);
}

/// `x/R`: out of Montgomery's form.
#[target_feature(enable = "avx512f,avx512ifma")]
pub(crate) fn divide<const N: usize>(
    x: &mut Number<N>,
    modulus: &Modulus<Digit, N>,
    work: &mut Work<Digit, Column, N>,
) {
    work.columns = [*x, [_mm512_setzero_si512(); N]];
    reduce(x, modulus, work);
}

/// `x + y`.
#[target_feature(enable = "avx512f,avx512ifma")]
pub(crate) fn sum<const N: usize>(x: &mut Number<N>, y: &Number<N>) {
    let columns = std::array::from_fn(|k| _mm512_add_epi64(x[k], y[k]));
    normalise(x, &columns, _mm512_setzero_si512());
}

/// The columns' number by `R`, modulo `n`, to `x`.
#[target_feature(enable = "avx512f,avx512ifma")]
fn reduce<const N: usize>(x: &mut Number<N>, modulus: &Modulus<Digit, N>, work: &mut Work<Digit, Column, N>) {
    let Work { columns, quotient, digits } = work;
    let carry = normalise(x, &columns[0], _mm512_setzero_si512());
    lower_half(x, &modulus.inverse, quotient);
    normalise(digits, quotient, _mm512_setzero_si512());
    columns[0][N - 1] = x[N - 1];
    upper_half(digits, &modulus.value, columns.as_flattened_mut());
    let times = _mm512_srli_epi64::<SHIFT>(_mm512_add_epi64(columns[0][N - 1], constant(RADIX.mask())));
    normalise(x, &columns[1], _mm512_add_epi64(carry, times));
}

/// The lower `N` columns of a product.
#[target_feature(enable = "avx512f,avx512ifma")]
fn lower_half<const N: usize>(x: &Number<N>, y: &Number<N>, columns: &mut [Column; N]) {
    *columns = [_mm512_setzero_si512(); N];
    for i in (0..N).step_by(ROWS) {
        let (rows, whole_rows) = (rows(x, i), N - ROWS - i);
        sweep(&rows, &y[..whole_rows], &mut columns[i..]);
        lower_corner(&rows, &y[whole_rows..], &mut columns[N - ROWS..]);
    }
}

/// The columns of a product from the `N`th on, one-based.
#[target_feature(enable = "avx512f,avx512ifma")]
fn upper_half<const N: usize>(x: &Number<N>, y: &Number<N>, columns: &mut [Column]) {
    for i in (0..N).step_by(ROWS) {
        let (rows, whole_rows) = (rows(x, i), N - 1 - i);
        // Beyond the number's beginning its digits are zero.
        let zero = _mm512_setzero_si512();
        let y_before = std::array::from_fn(|k| (whole_rows + k).checked_sub(ROWS).map_or(zero, |j| y[j]));
        upper_corner(&rows, &y_before, &mut columns[N - 1..]);
        sweep(&rows, &y[whole_rows..], &mut columns[N - 1..]);
    }
}

/// Adds the products of different rows, that of the first two to the second column on.
#[target_feature(enable = "avx512f,avx512ifma")]
#[inline]
fn among(rows: &[Digit; ROWS], columns: &mut [Column]) {
    let columns = &mut columns[..2 * ROWS];
    let (mut low, mut high) = ([_mm512_setzero_si512(); 2 * ROWS], [_mm512_setzero_si512(); 2 * ROWS]);
    for r in 0..ROWS {
        for s in r + 1..ROWS {
            low[r + s] = _mm512_madd52lo_epu64(low[r + s], rows[r], rows[s]);
            high[r + s + 1] = _mm512_madd52hi_epu64(high[r + s + 1], rows[r], rows[s]);
        }
    }
    for (k, column) in columns.iter_mut().enumerate() {
        *column = _mm512_add_epi64(*column, _mm512_add_epi64(low[k], high[k]));
    }
}

/// Adds those products of rows and digits that begin in these columns.
#[target_feature(enable = "avx512f,avx512ifma")]
#[inline]
fn lower_corner(rows: &[Digit; ROWS], y: &[Digit], columns: &mut [Column]) {
    let (y, columns) = (&y[..ROWS], &mut columns[..ROWS]);
    let (mut low, mut high) = ([_mm512_setzero_si512(); ROWS], [_mm512_setzero_si512(); ROWS + 1]);
    for r in 0..ROWS {
        for j in 0..ROWS - r {
            low[r + j] = _mm512_madd52lo_epu64(low[r + j], rows[r], y[j]);
            if r + j + 1 < ROWS {
                high[r + j + 1] = _mm512_madd52hi_epu64(high[r + j + 1], rows[r], y[j]);
            }
        }
    }
    for (k, column) in columns.iter_mut().enumerate() {
        *column = _mm512_add_epi64(*column, _mm512_add_epi64(low[k], high[k]));
    }
}

/// Adds the products of rows with the digits before those that they are swept over, as far as they end in these columns.
#[target_feature(enable = "avx512f,avx512ifma")]
#[inline]
fn upper_corner(rows: &[Digit; ROWS], y: &[Digit; ROWS], columns: &mut [Column]) {
    let columns = &mut columns[..ROWS];
    let (mut low, mut high) = ([_mm512_setzero_si512(); ROWS], [_mm512_setzero_si512(); ROWS]);
    for (r, row) in rows.iter().enumerate() {
        for (j, digit) in y.iter().enumerate().skip(ROWS - 1 - r) {
            let column = r + j + 1 - ROWS;
            high[column] = _mm512_madd52hi_epu64(high[column], *row, *digit);
            if column > 0 {
                low[column - 1] = _mm512_madd52lo_epu64(low[column - 1], *row, *digit);
            }
        }
    }
    for (k, column) in columns.iter_mut().enumerate() {
        *column = _mm512_add_epi64(*column, _mm512_add_epi64(low[k], high[k]));
    }
}

#[target_feature(enable = "avx512f,avx512ifma")]
#[inline]
fn rows<const N: usize>(x: &Number<N>, from: usize) -> [Digit; ROWS] {
    std::array::from_fn(|r| x[from + r])
}

/// Adds the products of some rows with a number, the first of them to the first column on. Lower and upper halves are added
/// up apart, so that no addition waits for the one before it.
#[target_feature(enable = "avx512f,avx512ifma")]
#[inline]
fn sweep(rows: &[Digit; ROWS], y: &[Digit], columns: &mut [Column]) {
    let columns = &mut columns[..y.len() + ROWS];
    let zero = _mm512_setzero_si512();
    let (mut low, mut high) = ([columns[0], columns[1], columns[2], columns[3], columns[4]], [zero; ROWS]);
    for (j, digit) in y.iter().enumerate() {
        let next = columns[j + ROWS];
        // Written out: an array that is shifted in a loop does not stay in registers.
        columns[j] = _mm512_add_epi64(_mm512_madd52lo_epu64(low[0], rows[0], *digit), high[0]);
        low = [
            _mm512_madd52lo_epu64(low[1], rows[1], *digit),
            _mm512_madd52lo_epu64(low[2], rows[2], *digit),
            _mm512_madd52lo_epu64(low[3], rows[3], *digit),
            _mm512_madd52lo_epu64(low[4], rows[4], *digit),
            next,
        ];
        high = [
            _mm512_madd52hi_epu64(high[1], rows[0], *digit),
            _mm512_madd52hi_epu64(high[2], rows[1], *digit),
            _mm512_madd52hi_epu64(high[3], rows[2], *digit),
            _mm512_madd52hi_epu64(high[4], rows[3], *digit),
            _mm512_madd52hi_epu64(zero, rows[4], *digit),
        ];
    }
    for (column, (low, high)) in columns[y.len()..].iter_mut().zip(low.into_iter().zip(high)) {
        *column = _mm512_add_epi64(low, high);
    }
}

/// Columns to digits, with a carry into the first. Returns the carry out of the last.
#[target_feature(enable = "avx512f,avx512ifma")]
fn normalise<const N: usize>(x: &mut Number<N>, columns: &[Column; N], mut carry: Column) -> Column {
    for (digit, column) in x.iter_mut().zip(columns) {
        let column = _mm512_add_epi64(*column, carry);
        *digit = _mm512_and_si512(column, constant(RADIX.mask()));
        carry = _mm512_srli_epi64::<SHIFT>(column);
    }
    carry
}

#[target_feature(enable = "avx512f,avx512ifma")]
#[inline]
fn constant(value: u64) -> Column {
    _mm512_set1_epi64(value.cast_signed())
}

/// Numbers side by side.
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

/// One lane's digits.
#[target_feature(enable = "avx512f,avx512ifma")]
pub(crate) fn lane<const N: usize>(number: &Number<N>, lane: usize, digits: &mut [i64]) {
    for (digit, of_lanes) in digits.iter_mut().zip(number) {
        *digit = _mm512_mask_reduce_add_epi64(1 << lane, *of_lanes);
    }
}

/// Takes one of sixteen numbers in each lane, and reads all of them.
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
