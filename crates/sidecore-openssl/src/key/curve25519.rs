//! The public parts of keys that programs give in their raw form: the private part alone.

use curve25519_dalek::EdwardsPoint;
use sha2::{Digest, Sha512};
use zeroize::Zeroizing;

/// The public part of an Ed25519 key (RFC 8032, 5.1.5).
pub(crate) fn ed25519_public(seed: &[u8; 32]) -> [u8; 32] {
    let hash = Zeroizing::new(<[u8; 64]>::from(Sha512::digest(seed)));
    let mut scalar = Zeroizing::new([0; 32]);
    scalar.copy_from_slice(&hash[..32]);
    EdwardsPoint::mul_base_clamped(*scalar).compress().to_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(hex: &str) -> [u8; 32] {
        std::array::from_fn(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).unwrap())
    }

    /// The first vector of RFC 8032.
    #[test]
    fn they_are_those_of_the_standards() {
        let seed = bytes("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60");
        let point = bytes("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a");
        assert_eq!(ed25519_public(&seed), point);
    }
}
