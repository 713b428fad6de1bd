//! Multiples of the base point, made once: 43 rows of the odd multiples from 1 to 63 of `2^(6 row)` times the point.

use std::arch::x86_64::{
    _mm512_mask_blend_epi64, _mm512_permutex2var_epi64, _mm512_setzero_si512, _mm512_test_epi64_mask,
};
use std::sync::OnceLock;

use super::curve::{Field, Point, add, base, double};
use crate::MOST;
use crate::lanes::prime::{DIGITS, Digit, Element, eight, invert, lane, least, multiply, of_all, square};

/// Bits of a nonce that one row covers.
pub(crate) const WINDOW: usize = 6;
/// Rows: enough for 256 bits.
pub(crate) const ROWS: usize = 43;
const POINTS: usize = 1 << (WINDOW - 1);

/// A digit of one coordinate of all of a row's points.
type Digits = [Digit; POINTS / MOST];
/// Both coordinates of a row's points, in Montgomery's form and below `p`.
pub(crate) type Row = [[Digits; DIGITS]; 2];

#[target_feature(enable = "avx512f,avx512ifma")]
pub(crate) fn rows() -> &'static [Row] {
    static TABLE: OnceLock<Vec<Row>> = OnceLock::new();
    TABLE.get_or_init(|| make())
}

/// One of a row's points in each lane. All are read, so that no address depends on the index.
#[target_feature(enable = "avx512f,avx512ifma")]
#[inline]
pub(crate) fn choose(row: &Row, index: Digit) -> [Element; 2] {
    let is_upper = _mm512_test_epi64_mask(index, of_all(POINTS as u64 / 2));
    let mut point = [[_mm512_setzero_si512(); DIGITS]; 2];
    for (chosen, from) in point.as_flattened_mut().iter_mut().zip(row.as_flattened()) {
        // The permutation uses only the bits of an index that choose among these.
        let lower = _mm512_permutex2var_epi64(from[0], index, from[1]);
        let upper = _mm512_permutex2var_epi64(from[2], index, from[3]);
        *chosen = _mm512_mask_blend_epi64(is_upper, lower, upper);
    }
    point
}

#[target_feature(enable = "avx512f,avx512ifma")]
fn make() -> Vec<Row> {
    let nothing = [[[_mm512_setzero_si512(); POINTS / MOST]; DIGITS]; 2];
    let (mut rows, mut start) = (vec![nothing; ROWS], base());
    for some in rows.chunks_mut(MOST) {
        // The first point of each row in a lane.
        let mut firsts = start;
        for at in 1..MOST {
            for _ in 0..WINDOW {
                start = double(&start);
            }
            take(&mut firsts, &start, 0xff << at);
        }
        for _ in 0..WINDOW {
            start = double(&start);
        }
        fill(some, firsts);
    }
    rows
}

#[target_feature(enable = "avx512f,avx512ifma")]
fn fill(rows: &mut [Row], mut point: Point) {
    let two = coordinates(&double(&point));
    for at in (0..POINTS).step_by(MOST) {
        let mut points = [[[[0; MOST]; DIGITS]; 2]; MOST];
        for place in 0..MOST {
            for (which, coordinate) in coordinates(&point).iter().enumerate() {
                for (row, found) in points.iter_mut().enumerate() {
                    let digits = lane(coordinate, row);
                    for k in 0..DIGITS {
                        found[which][k][place] = digits[k];
                    }
                }
            }
            point = add(&point, &two, 0);
        }
        for (row, found) in rows.iter_mut().zip(points) {
            for (digits, found) in row.as_flattened_mut().iter_mut().zip(found.as_flattened()) {
                digits[at / MOST] = eight(*found);
            }
        }
    }
}

/// The affine coordinates, in Montgomery's form and below `p`.
#[target_feature(enable = "avx512f,avx512ifma")]
fn coordinates(point: &Point) -> [Element; 2] {
    let (inverse, _) = invert::<Field, Field>(&point.z, &point.z);
    let inverse_squared = square::<Field>(&inverse);
    let x = multiply::<Field>(&point.x, &inverse_squared);
    let y = multiply::<Field>(&point.y, &multiply::<Field>(&inverse_squared, &inverse));
    [x, y].map(|number| {
        let lanes: [_; MOST] = std::array::from_fn(|at| least::<Field>(lane(&number, at)));
        std::array::from_fn(|k| eight(lanes.map(|digits| digits[k])))
    })
}

#[target_feature(enable = "avx512f,avx512ifma")]
fn take(point: &mut Point, other: &Point, lanes: u8) {
    for (to, from) in [(&mut point.x, &other.x), (&mut point.y, &other.y), (&mut point.z, &other.z)] {
        for (to, from) in to.iter_mut().zip(from) {
            *to = _mm512_mask_blend_epi64(lanes, *to, *from);
        }
    }
}
