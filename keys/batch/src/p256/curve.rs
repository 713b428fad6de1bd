//! Points of P-256 (SP 800-186), eight side by side.

use std::arch::x86_64::{
    _mm512_add_epi64, _mm512_and_si512, _mm512_mask_sub_epi64, _mm512_setzero_si512, _mm512_slli_epi64,
    _mm512_srai_epi64, _mm512_sub_epi64,
};

use zeroize::Zeroize;

use crate::lanes::prime::{DIGITS, Element, Prime, carry, constant, multiply, of_all, square};

/// The field of coordinates, modulo `2^256 - 2^224 + 2^192 + 2^96 - 1`.
pub(crate) struct Field;
pub(crate) struct Order;

const LAST: u32 = 48;
/// `b` of the curve `y² = x³ - 3x + b`, in Montgomery's form.
const B: [u64; DIGITS] =
    [0xd_f622_9c4b_ddfd, 0xc_a884_3090_d89c, 0x2_12ed_6acf_005c, 0x8_3415_a220_abf7, 0x0_c300_61dd_4874];
/// The coordinates of the base point, whose multiples are all other points.
const BASE: [[u64; DIGITS]; 2] = [
    [0x1_3945_d898_c296, 0x8_12de_b33a_0f4a, 0x3_a440_f277_037d, 0x4_247f_8bce_6e56, 0x0_6b17_d1f2_e12c],
    [0x6_4068_37bf_51f5, 0x5_76b3_15ec_ecbb, 0xc_0f9e_162b_ce33, 0x7_f9b8_ee7e_b4a7, 0x0_4fe3_42e2_fe1a],
];

impl Prime for Field {
    const VALUE: [u64; DIGITS] = [0xf_ffff_ffff_ffff, 0x0_0fff_ffff_ffff, 0, 0x0_0010_0000_0000, 0x0_ffff_ffff_0000];
    const INVERSE: u64 = 1;
    const FOLDED: [u64; DIGITS] = [0x0_1000_0000_0000, 0, 0x0_0010_0000_0000, 0x0_ffff_ffff_0000, 0];
    const ONE: [u64; DIGITS] =
        [0x0_0000_0000_0010, 0xf_0000_0000_0000, 0xf_ffff_ffff_ffff, 0xf_feff_ffff_ffff, 0x0_0000_000f_ffff];
    const SQUARE: [u64; DIGITS] =
        [0x0_0000_0000_0300, 0xf_ffff_fff0_0000, 0xf_fffe_ffff_fffb, 0xf_dfff_ffff_ffff, 0x0_0000_04ff_ffff];
}

impl Prime for Order {
    const VALUE: [u64; DIGITS] =
        [0x9_cac2_fc63_2551, 0xa_da71_79e8_4f3b, 0xf_ffff_ffbc_e6fa, 0x0_000f_ffff_ffff, 0x0_ffff_ffff_0000];
    const INVERSE: u64 = 0x1_c8aa_ee00_bc4f;
    const FOLDED: [u64; DIGITS] =
        [0x1_84dd_63f9_1223, 0x1_8654_a564_c2ee, 0xb_c4ef_fff8_84ea, 0x4_1201_0c5b_ee00, 0x0_1c8a_aedf_ef3a];
    const ONE: [u64; DIGITS] =
        [0x3_53d0_39cd_aaf0, 0x2_58e8_617b_0c46, 0x0_0000_0431_9055, 0xf_ff00_0000_0000, 0x0_0000_000f_ffff];
    const SQUARE: [u64; DIGITS] =
        [0x5_cc0d_ea6d_c3ba, 0x1_92a0_67d8_a084, 0xb_ec59_6155_71bb, 0x1_fc24_5b23_92b6, 0x0_e12d_9559_d956];
}

/// A point by `x = X/Z²` and `y = Y/Z³`, in Montgomery's form, each below `2p` and `2^230`.
#[derive(Clone, Copy)]
pub(crate) struct Point {
    pub(crate) x: Element,
    pub(crate) y: Element,
    pub(crate) z: Element,
}

impl Zeroize for Point {
    fn zeroize(&mut self) {
        self.x.zeroize();
        self.y.zeroize();
        self.z.zeroize();
    }
}

#[target_feature(enable = "avx512f,avx512ifma")]
pub(crate) fn base() -> Point {
    let [x, y] = BASE;
    let enter = |number| multiply::<Field>(&constant(number), &constant(Field::SQUARE));
    Point { x: enter(x), y: enter(y), z: constant(Field::ONE) }
}

/// A point plus another, or in `negated` lanes plus the other's negative. The other is given by its coordinates. `Z`
/// becomes zero if the two are equal, or each other's negative, or the first is the point at infinity.
#[target_feature(enable = "avx512f,avx512ifma")]
#[inline]
pub(crate) fn add(point: &Point, other: &[Element; 2], negated: u8) -> Point {
    let z_squared = square::<Field>(&point.z);
    let z_cubed = multiply::<Field>(&point.z, &z_squared);
    let width = minus(&multiply::<Field>(&other[0], &z_squared), &point.x);
    let mut height = multiply::<Field>(&other[1], &z_cubed);
    for digit in &mut height {
        *digit = _mm512_mask_sub_epi64(*digit, negated, _mm512_setzero_si512(), *digit);
    }
    let height = minus(&height, &point.y);
    let squared = square::<Field>(&width);
    let cubed = multiply::<Field>(&width, &squared);
    let part = multiply::<Field>(&point.x, &squared);
    let mut x = square::<Field>(&height);
    for k in 0..DIGITS {
        let less = _mm512_add_epi64(cubed[k], _mm512_add_epi64(part[k], part[k]));
        x[k] = _mm512_sub_epi64(x[k], less);
    }
    let x = settle(x);
    let across = multiply::<Field>(&height, &minus(&part, &x));
    let y = settled_difference(&across, &multiply::<Field>(&point.y, &cubed));
    Point { x, y, z: multiply::<Field>(&point.z, &width) }
}

#[target_feature(enable = "avx512f,avx512ifma")]
pub(crate) fn double(point: &Point) -> Point {
    let (y_squared, z_squared) = (square::<Field>(&point.y), square::<Field>(&point.z));
    let four = twice(&twice(&multiply::<Field>(&point.x, &y_squared)));
    let product = multiply::<Field>(&settled_difference(&point.x, &z_squared), &settled_sum(&point.x, &z_squared));
    let slope = settled_sum(&product, &twice(&product));
    let x = settled_difference(&square::<Field>(&slope), &twice(&four));
    let eight = twice(&twice(&twice(&square::<Field>(&y_squared))));
    Point {
        x,
        y: settled_difference(&multiply::<Field>(&slope, &settled_difference(&four, &x)), &eight),
        z: twice(&multiply::<Field>(&point.y, &point.z)),
    }
}

/// Zero modulo `p` where coordinates in Montgomery's form are those of a point.
#[target_feature(enable = "avx512f,avx512ifma")]
pub(crate) fn error(x: &Element, y: &Element) -> Element {
    let three = settled_sum(x, &twice(x));
    let cube = multiply::<Field>(&square::<Field>(x), x);
    let right = settled_sum(&settled_difference(&cube, &three), &constant(B));
    settled_difference(&square::<Field>(y), &right)
}

/// `a - b + 4p`, of `a` above `-2p` and `b` below `2p`.
#[target_feature(enable = "avx512f,avx512ifma")]
#[inline]
fn minus(a: &Element, b: &Element) -> Element {
    let mut difference = *a;
    for k in 0..DIGITS {
        let more = _mm512_add_epi64(difference[k], of_all(4 * Field::VALUE[k]));
        difference[k] = _mm512_sub_epi64(more, b[k]);
    }
    carry(difference)
}

#[target_feature(enable = "avx512f,avx512ifma")]
#[inline]
fn settled_difference(a: &Element, b: &Element) -> Element {
    let mut difference = *a;
    for k in 0..DIGITS {
        difference[k] = _mm512_sub_epi64(difference[k], b[k]);
    }
    settle(difference)
}

#[target_feature(enable = "avx512f,avx512ifma")]
#[inline]
fn settled_sum(a: &Element, b: &Element) -> Element {
    let mut sum = *a;
    for k in 0..DIGITS {
        sum[k] = _mm512_add_epi64(sum[k], b[k]);
    }
    settle(sum)
}

#[target_feature(enable = "avx512f,avx512ifma")]
#[inline]
fn twice(a: &Element) -> Element {
    settled_sum(a, a)
}

/// Reduces a number of up to a few times `p`, of any sign, to one between zero and `2p + 2^230`. The part beyond 256
/// bits counts `2^224 - 2^192 - 2^96 + 1`. Pending carries make that inexact by a little, and one `p` more compensates
/// it.
#[target_feature(enable = "avx512f,avx512ifma")]
#[inline]
fn settle(mut number: Element) -> Element {
    let times = _mm512_srai_epi64::<LAST>(number[4]);
    number[4] = _mm512_and_si512(number[4], of_all((1 << LAST) - 1));
    number[0] = _mm512_add_epi64(number[0], times);
    number[1] = _mm512_sub_epi64(number[1], _mm512_slli_epi64::<44>(times));
    number[3] = _mm512_sub_epi64(number[3], _mm512_slli_epi64::<36>(times));
    number[4] = _mm512_add_epi64(number[4], _mm512_slli_epi64::<16>(times));
    for (digit, once) in number.iter_mut().zip(Field::VALUE) {
        *digit = _mm512_add_epi64(*digit, of_all(once));
    }
    carry(number)
}
