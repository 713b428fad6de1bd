//! Public points: checks that they lie on their curve, and expands compressed ones. All values are public, so the code
//! need not run in constant time.

use super::Curve;
use crypto_bigint::{NonZero, U256, U384, U576, Uint};

/// `y² = x³ - 3x + b` modulo `p`: FIPS 186-4, D.1.2.
struct Weierstrass<const LIMBS: usize> {
    p: Uint<LIMBS>,
    b: Uint<LIMBS>,
}

const P256: Weierstrass<{ U256::LIMBS }> = Weierstrass {
    p: U256::from_be_hex("ffffffff00000001000000000000000000000000ffffffffffffffffffffffff"),
    b: U256::from_be_hex("5ac635d8aa3a93e7b3ebbd55769886bc651d06b0cc53b0f63bce3c3e27d2604b"),
};
const P384: Weierstrass<{ U384::LIMBS }> = Weierstrass {
    p: U384::from_be_hex(concat!(
        "fffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffe",
        "ffffffff0000000000000000ffffffff"
    )),
    b: U384::from_be_hex(concat!(
        "b3312fa7e23ee7e4988e056be3f82d19181d9c6efe8141120314088f5013875a",
        "c656398d8a2ed19d2a85c8edd3ec2aef"
    )),
};

const P521: Weierstrass<{ U576::LIMBS }> = Weierstrass {
    p: U576::from_be_hex(concat!(
        "00000000000001ff",
        "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
        "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff"
    )),
    b: U576::from_be_hex(concat!(
        "0000000000000051",
        "953eb9618e1c9a1f929a21a0b68540eea2da725b99b315f3b8b489918ef109e1",
        "56193951ec7e937b1652c0bd3bb1bf073573df883d2c34f1ef451fd46b503f00"
    )),
};

impl Curve {
    /// The uncompressed form of a point, from either form. `None`: it is not on the curve.
    pub fn point(self, bytes: &[u8]) -> Option<Vec<u8>> {
        match self {
            Self::P256 => P256.point(bytes, self.size()),
            Self::P384 => P384.point(bytes, self.size()),
            Self::P521 => P521.point(bytes, self.size()),
        }
    }
}

impl<const LIMBS: usize> Weierstrass<LIMBS> {
    fn point(&self, bytes: &[u8], size: usize) -> Option<Vec<u8>> {
        let (form, coordinates) = bytes.split_first()?;
        let (x, y) = coordinates.split_at_checked(size)?;
        match (form, y.len()) {
            (4, len) if len == size && self.has(number(x)?, number(y)?) => Some(bytes.to_vec()),
            (2 | 3, 0) => {
                let y = self.y(number(x)?, form % 2 == 1)?.to_be_bytes();
                let y: &[u8] = y.as_ref();
                Some([&[4], x, &y[y.len() - size..]].concat())
            }
            _ => None,
        }
    }

    fn has(&self, x: Uint<LIMBS>, y: Uint<LIMBS>) -> bool {
        let p = NonZero::new(self.p).expect("a prime");
        x < self.p && y < self.p && y.square_mod_vartime(&p) == self.square_of_y(x, &p)
    }

    fn square_of_y(&self, x: Uint<LIMBS>, p: &NonZero<Uint<LIMBS>>) -> Uint<LIMBS> {
        let cube = x.square_mod_vartime(p).mul_mod_vartime(&x, p);
        let triple = x.add_mod(&x, p).add_mod(&x, p);
        cube.sub_mod(&triple, p).add_mod(&self.b, p)
    }

    /// The `y` of this parity at `x`, if the curve has a point there. Each of these primes is 3 modulo 4, so the root
    /// of a square is its power by `(p + 1) / 4`.
    fn y(&self, x: Uint<LIMBS>, odd: bool) -> Option<Uint<LIMBS>> {
        let p = NonZero::new(self.p).expect("a prime");
        if x >= self.p {
            return None;
        }
        let square = self.square_of_y(x, &p);
        let exponent = self.p.shr_vartime(2).wrapping_add(&Uint::ONE);
        let mut y = Uint::ONE;
        for bit in (0..exponent.bits_vartime()).rev() {
            y = y.square_mod_vartime(&p);
            if exponent.bit_vartime(bit) {
                y = y.mul_mod_vartime(&square, &p);
            }
        }
        let y = if y.bit_vartime(0) == odd { y } else { y.neg_mod(&p) };
        self.has(x, y).then_some(y)
    }
}

fn number<const LIMBS: usize>(bytes: &[u8]) -> Option<Uint<LIMBS>> {
    let mut words = [0; LIMBS];
    for (word, chunk) in words.iter_mut().zip(bytes.rchunks(8)) {
        *word = chunk.iter().fold(0, |word, byte| word << 8 | u64::from(*byte));
    }
    (bytes.len() <= LIMBS * 8).then(|| Uint::from_words(words))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(hex: &str) -> Vec<u8> {
        (0..hex.len() / 2).map(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).unwrap()).collect()
    }

    /// Uses the base points of FIPS 186-4.
    #[test]
    fn a_point_beside_the_curve_is_refused() {
        let p256 = concat!(
            "046b17d1f2e12c4247f8bce6e563a440f277037d812deb33a0f4a13945d898c296",
            "4fe342e2fe1a7f9b8ee7eb4a7c0f9e162bce33576b315ececbb6406837bf51f5"
        );
        let p384 = concat!(
            "04aa87ca22be8b05378eb1c71ef320ad746e1d3b628ba79b9859f741e082542a385502f25dbf55296c3a545e3872760ab7",
            "3617de4a96262c6f5d9e98bf9292dc29f8f41dbd289a147ce9da3113b5f0b8c00a60b1ce1d7e819d7a431d7c90ea0e5f"
        );
        let p521 = concat!(
            "0400c6858e06b70404e9cd9e3ecb662395b4429c648139053fb521f828af606b4d3dbaa14b5e77efe75928fe1dc127a2ffa8de3348b3c1856a429bf97e7e31c2e5bd66",
            "011839296a789a3bc0045c8a5fb42c7d1bd998f54449579b446817afbd17273e662c97ee72995ef42640c550b9013fad0761353c7086a272c24088be94769fd16650"
        );
        for (curve, point) in [(Curve::P256, p256), (Curve::P384, p384), (Curve::P521, p521)] {
            let point = bytes(point);
            assert_eq!(curve.point(&point).as_ref(), Some(&point));
            let sign = 2 + point.last().unwrap() % 2;
            let mut compressed = [&[sign], &point[1..=curve.size()]].concat();
            assert_eq!(curve.point(&compressed).as_ref(), Some(&point));
            compressed[0] ^= 1;
            let opposite = curve.point(&compressed).unwrap();
            assert_eq!(opposite[..=curve.size()], point[..=curve.size()]);
            assert_ne!(opposite, point);
            // About half of all coordinates have no point.
            let found = (0..=255).filter(|last| {
                compressed[curve.size()] = *last;
                curve.point(&compressed).is_some()
            });
            assert!((64..192).contains(&found.count()));
            let has = |bytes: &[u8]| curve.point(bytes).is_some();
            for at in [0, 1, curve.size(), point.len() - 1] {
                let mut other = point.clone();
                other[at] ^= 1;
                assert!(!has(&other), "{at}");
            }
            assert!(!has(&point[..point.len() - 1]) && !has(&[]) && !has(&vec![0xff; point.len()]) && !has(&[2]));
            let mut at_infinity = vec![0; point.len()];
            at_infinity[0] = 4;
            assert!(!has(&at_infinity));
            // A coordinate above `p` must not be a second spelling of a point.
            let mut not_reduced = vec![0xff; point.len()];
            not_reduced[0] = 4;
            assert!(!has(&not_reduced));
            not_reduced.truncate(1 + curve.size());
            not_reduced[0] = 2;
            assert!(!has(&not_reduced));
        }
    }
}
