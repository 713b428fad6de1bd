//! Montgomery's ladder, eight scalars on eight points side by side.
//!
//! After each of its steps the ladder holds two points whose difference is its first point. A check of that
//! difference at the end detects a fault on the way, at a hundredth of the ladder's time. P.-A. Fouque and others
//! explain why it must be checked ("Fault attack on elliptic curve Montgomery ladder implementation", 2008).

use std::arch::x86_64::{_mm512_set1_epi64, _mm512_test_epi64_mask, _mm512_xor_si512};

use zeroize::{Zeroize, Zeroizing};

use crate::MOST;
use crate::lanes::field::{self, DIGITS, Element, add, eight, invert, multiply, scale, square, subtract, swap};

/// `A` of the curve `y² = x³ + A x² + x`.
const A: u64 = 486_662;
/// Bits of a word of a scalar.
const WORD: usize = 64;
/// Words of a scalar.
const WORDS: usize = 4;

/// A number, as the field counts its digits.
pub(crate) type Digits = [u64; DIGITS];
/// A scalar by words, the lowest first. The highest bit is not part of it.
pub(crate) type Scalar = [u64; WORDS];

pub(crate) struct Outcome {
    /// The shared secret.
    pub(crate) secret: Zeroizing<Digits>,
    /// Zero without a fault: of the ladder, and of the division after it.
    pub(crate) faults: [Digits; 2],
}

/// A point by `x = X/Z`.
#[derive(Clone, Copy)]
struct Point {
    x: Element,
    z: Element,
}

impl Zeroize for Point {
    fn zeroize(&mut self) {
        self.x.zeroize();
        self.z.zeroize();
    }
}

/// Scalars times points. `disturbed`: lanes where a bit is flipped on the way, like a fault of the machine.
#[target_feature(enable = "avx512f,avx512ifma")]
pub(crate) fn ladder(scalars: &[Scalar; MOST], points: &[Digits; MOST], disturbed: u8) -> [Outcome; MOST] {
    let start = std::array::from_fn(|k| eight(points.map(|digits| digits[k])));
    let mut low = Zeroizing::new(Point { x: field::small(1), z: field::small(0) });
    let mut high = Zeroizing::new(Point { x: start, z: field::small(1) });
    let mut swapped = 0;
    for at in (0..WORDS).rev() {
        let word = eight(scalars.map(|scalar| scalar[at]));
        for bit in (0..WORD - usize::from(at == WORDS - 1)).rev() {
            let set = _mm512_test_epi64_mask(word, _mm512_set1_epi64(1 << bit));
            exchange(swapped ^ set, &mut low, &mut high);
            swapped = set;
            step(&mut low, &mut high, &start);
        }
        if at == WORDS / 2 {
            let turned = std::array::from_fn(|lane| u64::from(disturbed >> lane & 1));
            low.x[0] = _mm512_xor_si512(low.x[0], eight(turned));
        }
    }
    exchange(swapped, &mut low, &mut high);
    let secret = Zeroizing::new(multiply(&low.x, &invert(&low.z)));
    // Not x = s z, which does not hold for the point at infinity: its secret is zero.
    let division = subtract(&multiply(&low.x, &low.z), &multiply(&secret, &square(&low.z)));
    let faults = [incoherence(&low, &high, &start), division];
    std::array::from_fn(|lane| Outcome {
        secret: Zeroizing::new(field::lane(&secret, lane)),
        faults: [field::lane(&faults[0], lane), field::lane(&faults[1], lane)],
    })
}

/// Doubles the one, and adds it to the other (RFC 7748, section 5).
#[target_feature(enable = "avx512f,avx512ifma")]
#[inline]
fn step(low: &mut Point, high: &mut Point, start: &Element) {
    let (sum, difference) = (add(&low.x, &low.z), subtract(&low.x, &low.z));
    let crossed = multiply(&subtract(&high.x, &high.z), &sum);
    let straight = multiply(&add(&high.x, &high.z), &difference);
    high.x = square(&add(&crossed, &straight));
    high.z = multiply(start, &square(&subtract(&crossed, &straight)));
    let (sum, difference) = (square(&sum), square(&difference));
    let between = subtract(&sum, &difference);
    low.x = multiply(&sum, &difference);
    low.z = multiply(&between, &add(&sum, &scale(&between, (A - 2) / 4)));
}

/// Zero where `high - low` is the ladder's first point. Its `x = u` solves `u² (x₀-x₁)² - 2u ((x₀+x₁)(x₀x₁+1) + 2A
/// x₀x₁) + (x₀x₁-1)² = 0`, whose solutions are the coordinates of sum and difference (P. L. Montgomery, 1987).
#[target_feature(enable = "avx512f,avx512ifma")]
fn incoherence(low: &Point, high: &Point, start: &Element) -> Element {
    let (across, back) = (multiply(&low.x, &high.z), multiply(&high.x, &low.z));
    let (xs, zs) = (multiply(&low.x, &high.x), multiply(&low.z, &high.z));
    let squared = square(&multiply(start, &subtract(&across, &back)));
    let product = multiply(&add(&across, &back), &add(&xs, &zs));
    let linear = multiply(start, &add(&product, &scale(&multiply(&xs, &zs), 2 * A)));
    subtract(&add(&squared, &square(&subtract(&xs, &zs))), &add(&linear, &linear))
}

#[target_feature(enable = "avx512f,avx512ifma")]
#[inline]
fn exchange(lanes: u8, low: &mut Point, high: &mut Point) {
    swap(lanes, &mut low.x, &mut high.x);
    swap(lanes, &mut low.z, &mut high.z);
}
