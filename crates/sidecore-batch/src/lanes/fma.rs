//! Numbers of four lanes and their Montgomery products in fused operations on doubles.
//!
//! A product of two digits has 102 bits, a double 53. Two fused operations give both halves exactly (N. Emmart, F.
//! Zheng, C. Weems, "Faster Modular Exponentiation Using Double Precision Floating Point Arithmetic on the GPU",
//! ARITH 2018). Added to `1.5 · 2^103` the product is rounded to a multiple of `2^51`; subtracted from that, it
//! leaves the rest. The rounding is to nearest, so the rest has a sign. Both halves are added up as the bits of their
//! doubles. The sum of the constants' exponents is known beforehand and subtracted at the end.
//!
//! A reduction after P. L. Montgomery (1985) on whole numbers: `Q = T · (-1/n) mod R`, then `(T + Q n) / R`. Of the
//! second product only the upper half is made. The lower half is a multiple of `R`, and its highest column gives the
//! factor: the sum of all columns below it is less than `2^-44` of `R`.
//!
//! Digits have signs, -2^50 to 2^50 and a little beyond: then a carry moves one place only, and all carries move
//! simultaneously.

use std::arch::x86_64::{
    __m256d, __m256i, _mm_cvtsd_f64, _mm_unpackhi_pd, _mm256_add_epi64, _mm256_add_pd, _mm256_and_si256,
    _mm256_blendv_pd, _mm256_castpd_si256, _mm256_castpd256_pd128, _mm256_castsi256_pd, _mm256_extractf128_pd,
    _mm256_fmadd_pd, _mm256_set_epi64x, _mm256_set_pd, _mm256_set1_epi64x, _mm256_set1_pd, _mm256_setzero_pd,
    _mm256_setzero_si256, _mm256_slli_epi64, _mm256_srli_epi64, _mm256_sub_pd,
};

use super::{Modulus, POWERS, Work};
use crate::MOST;
use crate::number::Radix;

pub(crate) const RADIX: Radix = Radix(51);
const BITS: usize = RADIX.0;
const MASK: u64 = RADIX.mask();
/// [`BITS`] in the type of shifts.
const SHIFT: i32 = 51;
const _: () = assert!(SHIFT as usize == BITS);

/// A digit in each lane.
pub(crate) type Digit = __m256d;
/// A sum of halves of products in each lane.
pub(crate) type Column = __m256i;
/// A number in each lane.
type Number<const N: usize> = [Digit; N];

/// Rows of digits that stay in registers while they meet the digits of the other number. Each length of numbers is a
/// multiple of it and one more.
const ROWS: usize = 5;

/// Bits of `1.5 · 2^103`: a sum with it is rounded to a multiple of `2^51`.
const HIGH: u64 = 0x4668 << 48;
/// Bits of `1.5 · 2^52`: a sum of it with a whole number is exact.
const LOW: u64 = 0x4338 << 48;
/// Added to a column it makes the column positive, and its division by a digit's range one to the nearest.
const OFFSET: u64 = (1 << 62) + (1 << (BITS - 1));
/// Bits of `2^52`, whose lower bits hold a smaller whole number.
const WHOLE: u64 = 0x433 << 52;
/// Subtracted from a digit with [`WHOLE`] and a carry: `2^52` and the parts of [`OFFSET`] in both.
const OWED: f64 = ((1u64 << 52) + (1 << (BITS - 1)) + (1 << (62 - BITS))) as f64;

/// Negated contributions of the constants to the columns of each product, plus [`OFFSET`].
struct Biases<const N: usize>;

impl<const N: usize> Biases<N> {
    const SQUARE: [[u64; N]; 2] = biases(true, 0);
    const PRODUCT: [[u64; N]; 2] = biases(false, 0);
    /// Of the upper half of a product and the column below it.
    const UPPER: [[u64; N]; 2] = biases(false, N - 1);
    /// Of a square, or a product, and the upper half of another.
    const SQUARE_UPPER: [u64; N] = both(&Self::SQUARE[1], &Self::UPPER[1]);
    const PRODUCT_UPPER: [u64; N] = both(&Self::PRODUCT[1], &Self::UPPER[1]);
    /// Of digits as they stand.
    const DIGITS: [u64; N] = [OFFSET.wrapping_sub(LOW); N];
    /// Of two digits.
    const SUMS: [u64; N] = [OFFSET.wrapping_sub(LOW).wrapping_sub(LOW); N];
}

/// For all columns from `lowest` on.
const fn biases<const N: usize>(square: bool, lowest: usize) -> [[u64; N]; 2] {
    let mut biases = [[OFFSET; N]; 2];
    let mut i = 0;
    while i < N {
        let mut j = if square { i } else { 0 };
        while j < N {
            let (low, high) = (i + j, i + j + 1);
            if low >= lowest {
                biases[low / N][low % N] = biases[low / N][low % N].wrapping_sub(LOW);
            }
            if high >= lowest {
                biases[high / N][high % N] = biases[high / N][high % N].wrapping_sub(HIGH);
            }
            j += 1;
        }
        i += 1;
    }
    biases
}

const fn both<const N: usize>(a: &[u64; N], b: &[u64; N]) -> [u64; N] {
    let mut sum = [0; N];
    let mut i = 0;
    while i < N {
        sum[i] = a[i].wrapping_add(b[i]).wrapping_sub(OFFSET);
        i += 1;
    }
    sum
}

#[target_feature(enable = "avx2,fma")]
pub(crate) fn zero() -> (Digit, Column) {
    (_mm256_setzero_pd(), _mm256_setzero_si256())
}

/// `x²/R`, below `x²/R + n`.
#[target_feature(enable = "avx2,fma")]
pub(crate) fn square<const N: usize>(
    x: &mut Number<N>,
    modulus: &Modulus<Digit, N>,
    work: &mut Work<Digit, Column, N>,
) {
    work.columns = [[_mm256_setzero_si256(); N]; 2];
    let columns = work.columns.as_flattened_mut();
    for i in (0..N - 1).step_by(ROWS) {
        let (rows, doubled) = (rows(x, i), rows(x, i).map(|row| _mm256_add_pd(row, row)));
        for r in 0..ROWS {
            add(&mut columns[2 * (i + r)..], rows[r], rows[r]);
            for s in r + 1..ROWS {
                add(&mut columns[2 * i + r + s..], doubled[r], rows[s]);
            }
        }
        sweep(doubled, &x[i + ROWS..], &mut columns[2 * i + ROWS..]);
    }
    add(&mut columns[2 * (N - 1)..], x[N - 1], x[N - 1]);
    reduce(x, &Biases::<N>::SQUARE[0], &Biases::<N>::SQUARE_UPPER, modulus, work);
}

/// `x y/R`, below `x y/R + n`.
#[target_feature(enable = "avx2,fma")]
pub(crate) fn multiply<const N: usize>(
    x: &mut Number<N>,
    y: &Number<N>,
    modulus: &Modulus<Digit, N>,
    work: &mut Work<Digit, Column, N>,
) {
    work.columns = [[_mm256_setzero_si256(); N]; 2];
    let columns = work.columns.as_flattened_mut();
    for i in (0..N - 1).step_by(ROWS) {
        sweep(rows(x, i), y, &mut columns[i..]);
    }
    row(x[N - 1], y, &mut columns[N - 1..]);
    reduce(x, &Biases::<N>::PRODUCT[0], &Biases::<N>::PRODUCT_UPPER, modulus, work);
}

/// `x/R`: out of Montgomery's form.
#[target_feature(enable = "avx2,fma")]
pub(crate) fn divide<const N: usize>(
    x: &mut Number<N>,
    modulus: &Modulus<Digit, N>,
    work: &mut Work<Digit, Column, N>,
) {
    work.columns = [[_mm256_setzero_si256(); N]; 2];
    work.columns[0] = x.map(|digit| whole(digit));
    reduce(x, &Biases::<N>::DIGITS, &Biases::<N>::UPPER[1], modulus, work);
}

/// `x + y`, with digits in their range again.
#[target_feature(enable = "avx2,fma")]
pub(crate) fn sum<const N: usize>(x: &mut Number<N>, y: &Number<N>) {
    let columns: [Column; N] = std::array::from_fn(|k| _mm256_add_epi64(whole(x[k]), whole(y[k])));
    let carry = normalise(x, &columns, &Biases::<N>::SUMS, no_carry());
    keep(&mut x[N - 1], carry);
}

/// The columns' number by `R`, modulo `n`, to `x`.
#[target_feature(enable = "avx2,fma")]
fn reduce<const N: usize>(
    x: &mut Number<N>,
    lower: &[u64; N],
    upper: &[u64; N],
    modulus: &Modulus<Digit, N>,
    work: &mut Work<Digit, Column, N>,
) {
    let Work { columns, quotient, digits } = work;
    let carry = normalise(x, &columns[0], lower, no_carry());
    lower_half(x, &modulus.inverse, quotient);
    normalise(digits, quotient, &Biases::<N>::PRODUCT[0], no_carry());
    columns[0][N - 1] = whole(x[N - 1]);
    upper_half(digits, &modulus.value, columns.as_flattened_mut());
    let highest = _mm256_add_epi64(columns[0][N - 1], constant(Biases::<N>::UPPER[0][N - 1].wrapping_sub(LOW)));
    let carry = _mm256_add_epi64(carry, _mm256_srli_epi64::<SHIFT>(highest));
    let carry = _mm256_add_epi64(carry, constant((1u64 << (62 - BITS)).wrapping_neg()));
    let carry = normalise(x, &columns[1], upper, carry);
    keep(&mut x[N - 1], carry);
}

/// The lower `N` columns of a product.
#[target_feature(enable = "avx2,fma")]
fn lower_half<const N: usize>(x: &Number<N>, y: &Number<N>, columns: &mut [Column; N]) {
    *columns = [_mm256_setzero_si256(); N];
    for i in (0..N - 1).step_by(ROWS) {
        let (rows, whole_rows) = (rows(x, i), N - ROWS - i);
        sweep(rows, &y[..whole_rows], &mut columns[i..]);
        for (r, row) in rows.into_iter().enumerate() {
            for (j, digit) in y.iter().enumerate().take(N - i - r).skip(whole_rows) {
                let (low, high) = product(row, *digit);
                let at = i + r + j;
                columns[at] = _mm256_add_epi64(columns[at], low);
                if at + 1 < N {
                    columns[at + 1] = _mm256_add_epi64(columns[at + 1], high);
                }
            }
        }
    }
    let (low, _) = product(x[N - 1], y[0]);
    columns[N - 1] = _mm256_add_epi64(columns[N - 1], low);
}

/// The columns of a product from the `N`th on, counted from one.
#[target_feature(enable = "avx2,fma")]
fn upper_half<const N: usize>(x: &Number<N>, y: &Number<N>, columns: &mut [Column]) {
    for i in (0..N - 1).step_by(ROWS) {
        let (rows, whole_rows) = (rows(x, i), N - 1 - i);
        for r in 0..ROWS {
            let first = whole_rows - r;
            if let Some(below) = first.checked_sub(1) {
                let (_, high) = product(rows[r], y[below]);
                columns[N - 1] = _mm256_add_epi64(columns[N - 1], high);
            }
            for j in first..whole_rows {
                add(&mut columns[i + r + j..], rows[r], y[j]);
            }
        }
        sweep(rows, &y[whole_rows..], &mut columns[N - 1..]);
    }
    row(x[N - 1], y, &mut columns[N - 1..]);
}

#[target_feature(enable = "avx2,fma")]
#[inline]
fn rows<const N: usize>(x: &Number<N>, from: usize) -> [Digit; ROWS] {
    std::array::from_fn(|r| x[from + r])
}

/// Adds the products of some rows with a number, the first of them to the first column on.
#[target_feature(enable = "avx2,fma")]
#[inline]
fn sweep(rows: [Digit; ROWS], y: &[Digit], columns: &mut [Column]) {
    let columns = &mut columns[..y.len() + ROWS];
    let mut open: [Column; ROWS] = std::array::from_fn(|r| columns[r]);
    for (j, digit) in y.iter().enumerate() {
        let next = columns[j + ROWS];
        // Written out: an array that is shifted in a loop does not stay in registers.
        let (low0, high0) = product(rows[0], *digit);
        let (low1, high1) = product(rows[1], *digit);
        let (low2, high2) = product(rows[2], *digit);
        let (low3, high3) = product(rows[3], *digit);
        let (low4, high4) = product(rows[4], *digit);
        columns[j] = _mm256_add_epi64(open[0], low0);
        open = [
            _mm256_add_epi64(_mm256_add_epi64(open[1], high0), low1),
            _mm256_add_epi64(_mm256_add_epi64(open[2], high1), low2),
            _mm256_add_epi64(_mm256_add_epi64(open[3], high2), low3),
            _mm256_add_epi64(_mm256_add_epi64(open[4], high3), low4),
            _mm256_add_epi64(next, high4),
        ];
    }
    columns[y.len()..].copy_from_slice(&open);
}

/// As [`sweep`] for one row.
#[target_feature(enable = "avx2,fma")]
#[inline]
fn row(x: Digit, y: &[Digit], columns: &mut [Column]) {
    let columns = &mut columns[..=y.len()];
    let mut open = columns[0];
    for (j, digit) in y.iter().enumerate() {
        let (low, high) = product(x, *digit);
        columns[j] = _mm256_add_epi64(open, low);
        open = _mm256_add_epi64(columns[j + 1], high);
    }
    columns[y.len()] = open;
}

/// Adds one product to the first two columns.
#[target_feature(enable = "avx2,fma")]
#[inline]
fn add(columns: &mut [Column], x: Digit, y: Digit) {
    let (low, high) = product(x, y);
    columns[0] = _mm256_add_epi64(columns[0], low);
    columns[1] = _mm256_add_epi64(columns[1], high);
}

/// The halves of a product, with their constants.
#[target_feature(enable = "avx2,fma")]
#[inline]
fn product(x: Digit, y: Digit) -> (Column, Column) {
    let rounds = f64::from_bits(HIGH);
    let high = _mm256_fmadd_pd(x, y, _mm256_set1_pd(rounds));
    let rest = _mm256_sub_pd(_mm256_set1_pd(rounds + f64::from_bits(LOW)), high);
    (_mm256_castpd_si256(_mm256_fmadd_pd(x, y, rest)), _mm256_castpd_si256(high))
}

/// Columns to digits, each with the carry of the column below it. Returns the carry out of the last.
#[target_feature(enable = "avx2,fma")]
fn normalise<const N: usize>(x: &mut Number<N>, columns: &[Column; N], biases: &[u64; N], mut carry: Column) -> Column {
    for k in 0..N {
        let column = _mm256_add_epi64(columns[k], constant(biases[k]));
        let digit = _mm256_add_epi64(_mm256_and_si256(column, constant(MASK)), carry);
        let digit = _mm256_castsi256_pd(_mm256_add_epi64(digit, constant(WHOLE)));
        x[k] = _mm256_sub_pd(digit, _mm256_set1_pd(OWED));
        carry = _mm256_srli_epi64::<SHIFT>(column);
    }
    carry
}

/// Puts the carry out of the last digit back into it: there is room, or it is a sign.
#[target_feature(enable = "avx2,fma")]
fn keep(last: &mut Digit, carry: Column) {
    let carry = _mm256_castsi256_pd(_mm256_add_epi64(carry, constant(WHOLE)));
    let carry = _mm256_sub_pd(carry, _mm256_set1_pd(((1u64 << 52) + (1 << (62 - BITS))) as f64));
    *last = _mm256_fmadd_pd(carry, _mm256_set1_pd((1u64 << BITS) as f64), *last);
}

/// The carry into a number's first digit: only the part of [`OFFSET`].
#[target_feature(enable = "avx2,fma")]
#[inline]
fn no_carry() -> Column {
    constant(1 << (62 - BITS))
}

/// A digit as a column, with [`LOW`].
#[target_feature(enable = "avx2,fma")]
#[inline]
fn whole(digit: Digit) -> Column {
    _mm256_castpd_si256(_mm256_add_pd(digit, _mm256_set1_pd(f64::from_bits(LOW))))
}

#[target_feature(enable = "avx2,fma")]
#[inline]
fn constant(value: u64) -> Column {
    _mm256_set1_epi64x(value.cast_signed())
}

/// Numbers side by side.
#[target_feature(enable = "avx2,fma")]
#[expect(clippy::cast_precision_loss, reason = "digits have fewer bits than a double holds")]
pub(crate) fn load<const N: usize>(numbers: [&[u64]; MOST]) -> Number<N> {
    let [a, b, c, d, ..] = numbers.map(|number| &number[..N]);
    std::array::from_fn(|k| _mm256_set_pd(d[k] as f64, c[k] as f64, b[k] as f64, a[k] as f64))
}

/// One lane's digits, which have signs.
#[target_feature(enable = "avx2,fma")]
pub(crate) fn lane<const N: usize>(number: &Number<N>, lane: usize, digits: &mut [i64]) {
    for (digit, of_lanes) in digits.iter_mut().zip(number) {
        let (lower, upper) = (_mm256_castpd256_pd128(*of_lanes), _mm256_extractf128_pd::<1>(*of_lanes));
        let pair = [lower, upper][lane / 2];
        *digit = [_mm_cvtsd_f64(pair), _mm_cvtsd_f64(_mm_unpackhi_pd(pair, pair))][lane % 2] as i64;
    }
}

/// Takes one of sixteen numbers in each lane, and reads all of them, so that no address depends on the choice.
#[target_feature(enable = "avx2,fma")]
pub(crate) fn choose<const N: usize>(chosen: &mut Number<N>, powers: &[Number<N>; POWERS], indices: [u8; MOST]) {
    let [a, b, c, d, ..] = indices.map(i64::from);
    let index = _mm256_set_epi64x(d, c, b, a);
    // A blend takes the highest bit of each lane.
    let bits = [
        _mm256_castsi256_pd(_mm256_slli_epi64::<63>(index)),
        _mm256_castsi256_pd(_mm256_slli_epi64::<62>(index)),
        _mm256_castsi256_pd(_mm256_slli_epi64::<61>(index)),
        _mm256_castsi256_pd(_mm256_slli_epi64::<60>(index)),
    ];
    for (k, chosen) in chosen.iter_mut().enumerate() {
        let of = |at: usize| _mm256_blendv_pd(powers[at][k], powers[at + 1][k], bits[0]);
        let two = |at: usize| _mm256_blendv_pd(of(at), of(at + 2), bits[1]);
        let four = |at: usize| _mm256_blendv_pd(two(at), two(at + 4), bits[2]);
        *chosen = _mm256_blendv_pd(four(0), four(8), bits[3]);
    }
}
