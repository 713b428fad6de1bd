//! The public parts of keys that programs give in their raw form: the private part alone. Computed aside: the frames are
//! large.

use aws_lc_rs::agreement::{PrivateKey, X25519};
use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair, ML_DSA_65_SIGNING, PqdsaKeyPair};
use sidecore_client::face::aside::aside;

/// Bytes of an ML-KEM-768 decapsulation key.
const DECAPSULATION_KEY_LEN: usize = 2400;
/// Where FIPS 203 puts the encapsulation key inside it.
const ENCAPSULATION_KEY: std::ops::Range<usize> = 1152..1152 + 1184;

/// The public part of an Ed25519 key.
pub(crate) fn ed25519_public(seed: &[u8; 32]) -> Option<[u8; 32]> {
    aside(|| Ed25519KeyPair::from_seed_unchecked(seed).ok()?.public_key().as_ref().try_into().ok())
}

/// The public part of an X25519 key.
pub(crate) fn x25519_public(scalar: &[u8; 32]) -> Option<[u8; 32]> {
    aside(|| PrivateKey::from_private_key(&X25519, scalar).ok()?.compute_public_key().ok()?.as_ref().try_into().ok())
}

/// The public part of an ML-KEM-768 decapsulation key.
pub(crate) fn ml_kem_public(key: &[u8]) -> Option<Vec<u8>> {
    (key.len() == DECAPSULATION_KEY_LEN).then(|| key[ENCAPSULATION_KEY].to_vec())
}

/// The public part of an ML-DSA-65 key: its seed or the expanded key.
pub(crate) fn ml_dsa_public(key: &[u8]) -> Option<Vec<u8>> {
    let pair = aside(|| match key.len() {
        32 => PqdsaKeyPair::from_seed(&ML_DSA_65_SIGNING, key),
        _ => PqdsaKeyPair::from_raw_private_key(&ML_DSA_65_SIGNING, key),
    });
    Some(pair.ok()?.public_key().as_ref().to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(hex: &str) -> [u8; 32] {
        std::array::from_fn(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).unwrap())
    }

    /// The first vectors of RFC 8032 and RFC 7748.
    #[test]
    fn they_are_those_of_the_standards() {
        let seed = bytes("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60");
        let point = bytes("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a");
        assert_eq!(ed25519_public(&seed), Some(point));
        let scalar = bytes("77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a");
        let point = bytes("8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a");
        assert_eq!(x25519_public(&scalar), Some(point));
    }
}
