//! Whole numbers as digits, in constant time for a given length.
//!
//! A number of `n` digits of `b` bits is `Σ digit[i] · 2^(b i)`, lowest first, each digit below `2^b`.

use std::hint::black_box;

use zeroize::Zeroizing;

/// Bits of a digit: at most 52, so that sums and products of digits fit in the types of the calculation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Radix(pub(crate) usize);

const WORD: usize = 8;

pub(crate) type Digits = Zeroizing<Vec<u64>>;

impl Radix {
    pub(crate) const fn mask(self) -> u64 {
        (1 << self.0) - 1
    }

    /// Reads big-endian bytes as `count` digits. Bits beyond them are left out.
    pub(crate) fn of_bytes(self, bytes: &[u8], count: usize) -> Digits {
        let mut digits = Zeroizing::new(vec![0; count]);
        self.read(bytes, &mut digits);
        digits
    }

    pub(crate) fn read(self, bytes: &[u8], digits: &mut [u64]) {
        for (place, digit) in digits.iter_mut().enumerate() {
            // The eight bytes from its lowest bit's on hold all of it, since a digit has at most 52 bits.
            let bit = place * self.0;
            let end = bytes.len().saturating_sub(bit / 8);
            let some = &bytes[end.saturating_sub(WORD)..end];
            let mut word = [0; WORD];
            word[WORD - some.len()..].copy_from_slice(some);
            *digit = u64::from_be_bytes(word) >> (bit % 8) & self.mask();
        }
    }

    pub(crate) fn write(self, digits: &[u64], bytes: &mut [u8]) {
        let (mut held, mut bits, mut digits) = (0u128, 0, digits.iter());
        for byte in bytes.iter_mut().rev() {
            if bits < 8 {
                held |= u128::from(digits.next().copied().unwrap_or(0)) << bits;
                bits += self.0;
            }
            *byte = held as u8;
            (held, bits) = (held >> 8, bits - 8);
        }
    }

    /// `a - b` in place; all ones where that is below zero, else 0.
    pub(crate) fn subtract(self, a: &mut [u64], b: &[u64]) -> u64 {
        let mut borrow = 0u64;
        for (a, b) in a.iter_mut().zip(b) {
            let difference = a.wrapping_sub(*b).wrapping_sub(borrow);
            *a = difference & self.mask();
            borrow = difference >> 63;
        }
        // Without this the compiler would see that the mask is all or nothing, and branch on it.
        black_box(0u64.wrapping_sub(borrow))
    }

    /// Adds those digits of `b` where the mask is set; the carry out of the last digit is dropped.
    pub(crate) fn add_masked(self, a: &mut [u64], b: &[u64], mask: u64) {
        let mut carry = 0;
        for (a, b) in a.iter_mut().zip(b) {
            let sum = *a + (b & mask) + carry;
            *a = sum & self.mask();
            carry = sum >> self.0;
        }
    }

    pub(crate) fn reduce_once(self, a: &mut [u64], modulus: &[u64]) {
        let below = self.subtract(a, modulus);
        self.add_masked(a, modulus, below);
    }

    /// `number · 2^times` modulo a number whose last digit leaves one bit free. The number is below twice the modulus.
    pub(crate) fn double(self, number: &mut [u64], times: usize, modulus: &[u64]) {
        self.reduce_once(number, modulus);
        for _ in 0..times {
            let mut carry = 0;
            for digit in number.iter_mut() {
                let doubled = *digit << 1 | carry;
                *digit = doubled & self.mask();
                carry = doubled >> self.0;
            }
            self.reduce_once(number, modulus);
        }
    }

    /// `R² mod n`, where `R` is one more than the largest number of the digits, and `inverse` is `-1/n` modulo `R`.
    /// The modulus has `bits` bits.
    ///
    /// `R · 2^e` squared by Montgomery's product is `R · 2^(2 e)`: `e` grows to the exponent of `R`, bit by bit.
    pub(crate) fn square_of_range(self, modulus: &[u64], inverse: &[u64], bits: usize) -> Digits {
        let exponent = modulus.len() * self.0;
        // 2^bits - n is below n, whose highest bit is set.
        let mut number = Zeroizing::new(vec![0; modulus.len()]);
        number[bits / self.0] = 1 << (bits % self.0);
        self.subtract(&mut number, modulus);
        self.double(&mut number, exponent - bits, modulus);
        for bit in (0..usize::BITS - exponent.leading_zeros()).rev() {
            self.montgomery_square(&mut number, modulus, inverse);
            self.double(&mut number, exponent >> bit & 1, modulus);
        }
        number
    }

    fn montgomery_square(self, a: &mut Digits, modulus: &[u64], inverse: &[u64]) {
        let count = modulus.len();
        let mut product = Zeroizing::new(vec![0; 2 * count]);
        self.add_product(&mut product, a, a);
        let mut quotient = Zeroizing::new(vec![0; count]);
        self.add_product(&mut quotient, &product[..count], inverse);
        self.add_product(&mut product, &quotient, modulus);
        a.copy_from_slice(&product[count..]);
        self.reduce_once(a, modulus);
    }

    /// `-1 / odd` modulo `R`.
    pub(crate) fn negative_inverse(self, odd: &[u64]) -> Digits {
        // The lowest digit by Newton's iteration: right in its last three bits, and in twice the number after each
        // step.
        let mut first = odd[0];
        for _ in 0..5 {
            first = first.wrapping_mul(2u64.wrapping_sub(odd[0].wrapping_mul(first)));
        }
        // Digit by digit `1 + inverse · odd` becomes zero.
        let mut inverse = Zeroizing::new(vec![0; odd.len()]);
        let mut rest = Zeroizing::new(vec![0u64; odd.len()]);
        rest[0] = 1;
        for place in 0..odd.len() {
            let digit = rest[place].wrapping_mul(first.wrapping_neg()) & self.mask();
            self.add_multiple(&mut rest[place..], digit, odd);
            inverse[place] = digit;
        }
        inverse
    }

    /// `sum += a · b`; the carry out of the last digit is dropped.
    pub(crate) fn add_product(self, sum: &mut [u64], a: &[u64], b: &[u64]) {
        for (place, a) in a.iter().enumerate() {
            self.add_multiple(&mut sum[place..], *a, b);
        }
    }

    fn add_multiple(self, sum: &mut [u64], a: u64, b: &[u64]) {
        let (sum, above) = sum.split_at_mut(b.len().min(sum.len()));
        let mut carry = 0u64;
        for (sum, b) in sum.iter_mut().zip(b) {
            // Below 2^104 plus twice the largest digit, so that the carry is a digit again.
            let total = u128::from(a) * u128::from(*b) + u128::from(*sum + carry);
            *sum = total as u64 & self.mask();
            carry = (total >> self.0) as u64;
        }
        for sum in above {
            let total = *sum + carry;
            *sum = total & self.mask();
            carry = total >> self.0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RADICES: [Radix; 2] = [Radix(51), Radix(52)];

    #[test]
    fn bytes_are_digits_and_bytes_again() {
        for radix in RADICES {
            let bytes: Vec<u8> = (1..=131).collect();
            let digits = radix.of_bytes(&bytes, 21);
            let mut again = [0; 131];
            radix.write(&digits, &mut again);
            assert_eq!(bytes, again);
            assert_eq!(digits[0] & 0xff, 131);
            assert!(digits.iter().all(|digit| *digit <= radix.mask()));
        }
    }

    #[test]
    fn a_number_times_its_negative_inverse_and_one_is_zero() {
        for radix in RADICES {
            let mask = radix.mask();
            for odd in [[1, 0, 0], [3, 7, mask], [mask, mask, mask], [0x0004_5678_9abc | 1, 5, 1 << 50]] {
                let mut sum = [1, 0, 0];
                radix.add_product(&mut sum, &radix.negative_inverse(&odd), &odd);
                assert_eq!(sum, [0; 3], "{odd:x?}");
            }
        }
    }

    #[test]
    fn doubling_is_that_of_a_small_field() {
        let mut number = [1_000_004];
        Radix(51).double(&mut number, 64, &[1_000_003]);
        assert_eq!(u128::from(number[0]), (1u128 << 64) % 1_000_003);
    }

    #[test]
    fn the_square_of_the_range_is_that_of_doubling() {
        for radix in RADICES {
            let modulus = [0x0004_5678_9abc | 1, 7, 1 << 40];
            let bits = 2 * radix.0 + 41;
            let mut doubled = [1, 0, 0];
            radix.double(&mut doubled, 6 * radix.0, &modulus);
            let inverse = radix.negative_inverse(&modulus);
            assert_eq!(radix.square_of_range(&modulus, &inverse, bits)[..], doubled);
        }
    }

    #[test]
    fn a_product_is_that_of_long_multiplication() {
        for radix in RADICES {
            let (mut sum, mask) = ([7, 0, 0, 0], radix.mask());
            radix.add_product(&mut sum, &[mask, mask], &[mask, mask]);
            // (B^2 - 1)^2 + 7 = B^4 - 2 B^2 + 8
            assert_eq!(sum, [8, 0, mask - 1, mask]);
        }
    }
}
