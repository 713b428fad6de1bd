//! The steps of a signature with one bit of one lane turned between two of them, as a fault of the machine would.

use std::arch::x86_64::_mm512_xor_si512;

use super::{Element, Input, MOST, Multiplier, Outcome, Point, ROWS, Zeroizing, eight, finish, inverses};

#[derive(Clone, Copy, Debug)]
pub(crate) struct Fault {
    pub(crate) place: Place,
    pub(crate) lane: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// The point's `X`, `Y` or `Z`, half the way through the additions.
    HalfWay(usize),
    /// The same after the last addition.
    Sum(usize),
    /// The inverse of `Z`, which leads to the affine coordinates.
    Depth,
    /// The inverse of the nonce, a factor of `s`.
    Inverse,
}

impl Place {
    pub(crate) const ALL: [Self; 8] = [
        Self::HalfWay(0),
        Self::HalfWay(1),
        Self::HalfWay(2),
        Self::Sum(0),
        Self::Sum(1),
        Self::Sum(2),
        Self::Depth,
        Self::Inverse,
    ];
}

/// As [`super::sign`], with the fault.
#[target_feature(enable = "avx512f,avx512ifma")]
pub(crate) fn sign(inputs: &[Input; MOST], fault: Fault) -> [Outcome; MOST] {
    let multiplier = Multiplier::new(inputs);
    let mut point = Zeroizing::new(multiplier.first());
    multiplier.add(&mut point, 1..ROWS / 2);
    if let Place::HalfWay(coordinate) = fault.place {
        turn(coordinate_of(&mut point, coordinate), fault.lane);
    }
    multiplier.add(&mut point, ROWS / 2..ROWS);
    if let Place::Sum(coordinate) = fault.place {
        turn(coordinate_of(&mut point, coordinate), fault.lane);
    }
    let (mut depth, mut inverse) = inverses(inputs, &point);
    match fault.place {
        Place::Depth => turn(&mut depth, fault.lane),
        Place::Inverse => turn(&mut inverse, fault.lane),
        Place::HalfWay(_) | Place::Sum(_) => {}
    }
    finish(inputs, &point, &depth, &inverse)
}

fn coordinate_of(point: &mut Point, number: usize) -> &mut Element {
    [&mut point.x, &mut point.y, &mut point.z].into_iter().nth(number).expect("one of three")
}

#[target_feature(enable = "avx512f,avx512ifma")]
fn turn(number: &mut Element, lane: usize) {
    let bits = std::array::from_fn(|at| u64::from(at == lane));
    number[0] = _mm512_xor_si512(number[0], eight(bits));
}
