//! Whether a public point lies on its curve. Nothing here is secret, and nothing takes constant time.

use super::Curve;
use crypto_bigint::{NonZero, U256, U384, Uint};

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

impl Curve {
    /// Whether these bytes are an uncompressed point of the curve.
    pub fn has(self, point: &[u8]) -> bool {
        let Some((4, coordinates)) = point.split_first().map(|(form, rest)| (*form, rest)) else { return false };
        let Some((x, y)) = coordinates.split_at_checked(self.size()).filter(|(_, y)| y.len() == self.size()) else {
            return false;
        };
        match self {
            Self::P256 => P256.has(U256::from_be_slice(x), U256::from_be_slice(y)),
            Self::P384 => P384.has(U384::from_be_slice(x), U384::from_be_slice(y)),
        }
    }
}

impl<const LIMBS: usize> Weierstrass<LIMBS> {
    fn has(&self, x: Uint<LIMBS>, y: Uint<LIMBS>) -> bool {
        let p = NonZero::new(self.p).expect("a prime");
        let square = |number: Uint<LIMBS>| number.square_mod_vartime(&p);
        let cube = square(x).mul_mod_vartime(&x, &p);
        let triple = x.add_mod(&x, &p).add_mod(&x, &p);
        x < self.p && y < self.p && square(y) == cube.sub_mod(&triple, &p).add_mod(&self.b, &p)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(hex: &str) -> Vec<u8> {
        (0..hex.len() / 2).map(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).unwrap()).collect()
    }

    /// The base points of FIPS 186-4.
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
        for (curve, point) in [(Curve::P256, bytes(p256)), (Curve::P384, bytes(p384))] {
            assert!(curve.has(&point));
            for at in [0, 1, curve.size(), point.len() - 1] {
                let mut other = point.clone();
                other[at] ^= 1;
                assert!(!curve.has(&other), "{at}");
            }
            assert!(!curve.has(&point[..point.len() - 1]) && !curve.has(&[]) && !curve.has(&vec![0xff; point.len()]));
            let mut at_infinity = vec![0; point.len()];
            at_infinity[0] = 4;
            assert!(!curve.has(&at_infinity));
            // A coordinate that is not reduced is no second spelling of a point.
            let mut not_reduced = vec![0xff; point.len()];
            not_reduced[0] = 4;
            assert!(!curve.has(&not_reduced));
        }
    }
}
