//! The operation: two exponentiations, their recombination, the check.

use zeroize::Zeroizing;

use super::{EXPONENT, Job, Key, RADIX};
use crate::MOST;
use crate::lanes::{Digit, Modulus, POWERS, WINDOW, Work};
use crate::number::Digits;
use crate::sys::Ifma;

/// Does jobs whose keys have the same length. `P` digits for numbers modulo a prime, `N` for numbers modulo their product.
pub(super) fn all<const P: usize, const N: usize>(unit: Ifma, jobs: &mut [Job<'_>]) {
    let mut work = Zeroizing::new(Work::new(unit.zero()));
    for some in jobs.chunks_mut(MOST / 2) {
        powers::<P>(unit, some, &mut work);
    }
    let mut work = Zeroizing::new(Work::new(unit.zero()));
    check::<N>(unit, jobs, &mut work);
}

/// Fills lanes beyond the last job with those of the first, whose results are discarded.
fn lane_of<T>(of: &[T], lane: usize) -> &T {
    of.get(lane).unwrap_or(&of[0])
}

fn modulus_of<const N: usize>(unit: Ifma, moduli: [&super::Modulus; MOST]) -> Zeroizing<Modulus<N>> {
    Zeroizing::new(Modulus {
        value: unit.load(moduli.map(|modulus| &modulus.digits[..])),
        inverse: unit.load(moduli.map(|modulus| &modulus.inverse[..])),
    })
}

fn powers<const P: usize>(unit: Ifma, jobs: &mut [Job<'_>], work: &mut Work<P>) {
    let keys: [&Key; MOST] = std::array::from_fn(|lane| lane_of(jobs, lane / 2).key);
    let primes: [_; MOST] = std::array::from_fn(|lane| &keys[lane].primes[lane % 2]);
    let modulus = modulus_of::<P>(unit, primes);
    let square = Zeroizing::new(unit.load(primes.map(|prime| &prime.square[..])));
    let mut number = inputs::<P>(unit, jobs, &square, &modulus, work);
    let exponents = std::array::from_fn(|lane| &keys[lane].exponents[lane % 2][..]);
    power(unit, &mut number, exponents, &square, &modulus, work);
    let results: [Digits; MOST] = std::array::from_fn(|lane| least(unit, &number, lane, &primes[lane].digits));
    // Garner: m = m_q + q ((m_p - m_q) / q mod p).
    let differences: [Digits; MOST] = std::array::from_fn(|lane| {
        let at = lane / 2 * 2;
        difference(&results[at], &results[at + 1], &primes[at].digits)
    });
    *number = unit.load(differences.each_ref().map(|digits| &digits[..]));
    let coefficient = Zeroizing::new(unit.load(keys.map(|key| &key.coefficient[..])));
    unit.multiply(&mut number, &coefficient, &modulus, work);
    for (at, job) in jobs.iter_mut().enumerate() {
        let quotient = least(unit, &number, 2 * at, &primes[2 * at].digits);
        let mut sum = Zeroizing::new(vec![0; 2 * P]);
        sum[..P].copy_from_slice(&results[2 * at + 1]);
        RADIX.add_product(&mut sum, &quotient, &primes[2 * at + 1].digits);
        RADIX.write(&sum, job.output);
    }
}

/// `a - b` modulo a prime that is more than half of `b`'s.
fn difference(a: &Digits, b: &Digits, prime: &[u64]) -> Digits {
    let (mut a, mut b) = (a.clone(), b.clone());
    RADIX.reduce_once(&mut b, prime);
    let below = RADIX.subtract(&mut a, &b);
    RADIX.add_masked(&mut a, prime, below);
    a
}

fn inputs<const P: usize>(
    unit: Ifma,
    jobs: &[Job<'_>],
    square: &[Digit; P],
    modulus: &Modulus<P>,
    work: &mut Work<P>,
) -> Zeroizing<[Digit; P]> {
    let halves: [_; MOST] = std::array::from_fn(|lane| RADIX.of_bytes(lane_of(jobs, lane / 2).input, 2 * P));
    let mut upper = Zeroizing::new(unit.load(halves.each_ref().map(|digits| &digits[P..])));
    unit.multiply(&mut upper, square, modulus, work);
    unit.multiply(&mut upper, square, modulus, work);
    let mut number = Zeroizing::new(unit.load(halves.each_ref().map(|digits| &digits[..P])));
    unit.multiply(&mut number, square, modulus, work);
    unit.sum(&mut number, &upper);
    number
}

/// Powers of a number in Montgomery's form, out of it, by fixed windows.
fn power<const P: usize>(
    unit: Ifma,
    number: &mut [Digit; P],
    exponents: [&[u8]; MOST],
    square: &[Digit; P],
    modulus: &Modulus<P>,
    work: &mut Work<P>,
) {
    let mut powers = Zeroizing::new([*square; POWERS]);
    unit.divide(&mut powers[0], modulus, work);
    powers[1] = *number;
    for at in 2..POWERS {
        if at % 2 == 0 {
            powers[at] = powers[at / 2];
            unit.square(&mut powers[at], modulus, work);
        } else {
            powers[at] = powers[at - 1];
            unit.multiply(&mut powers[at], number, modulus, work);
        }
    }
    let mut factor = Zeroizing::new(powers[0]);
    *number = powers[0];
    for byte in 0..exponents[0].len() {
        for shift in [8 - WINDOW, 0] {
            // There is no product to square before the first window.
            let squares = if byte == 0 && shift > 0 { 0 } else { WINDOW };
            for _ in 0..squares {
                unit.square(number, modulus, work);
            }
            unit.choose(&mut factor, &powers, exponents.map(|exponent| exponent[byte] >> shift));
            unit.multiply(number, &factor, modulus, work);
        }
    }
    unit.divide(number, modulus, work);
}

/// Keeps a result good only if its power by the public exponent is the input.
fn check<const N: usize>(unit: Ifma, jobs: &mut [Job<'_>], work: &mut Work<N>) {
    let moduli: [_; MOST] = std::array::from_fn(|lane| &lane_of(jobs, lane).key.modulus);
    let modulus = modulus_of::<N>(unit, moduli);
    let results: [_; MOST] = std::array::from_fn(|lane| RADIX.of_bytes(lane_of(jobs, lane).output, N));
    let result: Zeroizing<[Digit; N]> = Zeroizing::new(unit.load(results.each_ref().map(|digits| &digits[..])));
    let mut number = Zeroizing::new(*result);
    unit.multiply(&mut number, &unit.load(moduli.map(|modulus| &modulus.square[..])), &modulus, work);
    for _ in 0..EXPONENT.ilog2() {
        unit.square(&mut number, &modulus, work);
    }
    unit.multiply(&mut number, &result, &modulus, work);
    for (lane, job) in jobs.iter_mut().enumerate() {
        job.good = is_right(&least(unit, &number, lane, &moduli[lane].digits), &RADIX.of_bytes(job.input, N));
        if !job.good {
            job.output.fill(0);
        }
    }
}

/// Whether they are the same number. The caller learns the answer, so it is no secret.
#[inline(never)]
fn is_right(found: &[u64], expected: &[u64]) -> bool {
    found == expected
}

/// One lane's number modulo the modulus, from 0 on. It lies between minus the modulus and twice that.
fn least<const N: usize>(unit: Ifma, number: &[Digit; N], lane: usize, modulus: &[u64]) -> Digits {
    let mut signed = Zeroizing::new([0; N]);
    unit.lane(number, lane, &mut signed[..]);
    let mut digits = Zeroizing::new(vec![0; N]);
    let mut carry = 0;
    for ((digit, signed), modulus) in digits.iter_mut().zip(signed.iter()).zip(modulus) {
        let sum = signed + modulus.cast_signed() + carry;
        *digit = sum.cast_unsigned() & RADIX.mask();
        carry = sum >> RADIX.0;
    }
    RADIX.reduce_once(&mut digits, modulus);
    RADIX.reduce_once(&mut digits, modulus);
    digits
}
