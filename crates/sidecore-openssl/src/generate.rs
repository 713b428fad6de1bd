//! Keys that OpenSSL has made here: for `openssl speed`, and for whoever asks for keys by property. They belong to the
//! process that made them, not to the service's store: that is `sidecore keys generate`.

use aws_lc_rs::encoding::AsDer;
use aws_lc_rs::rsa::{self, KeySize};
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_ASN1_SIGNING, ECDSA_P384_SHA384_ASN1_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair,
    ML_DSA_65_SIGNING, PqdsaKeyPair,
};
use sidecore_client::face::aside::aside;
use sidecore_client::face::failure::{Failure, Reason};
use sidecore_client::face::key::{Curve, Family, Key, Private, Public};
use sidecore_client::spec::Secret;

/// What is wanted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wish {
    pub(crate) family: Family,
    pub(crate) bits: usize,
    pub(crate) curve: Option<Curve>,
}

impl Wish {
    /// The default of a family.
    pub(crate) fn new(family: Family) -> Self {
        Self { family, bits: 2048, curve: None }
    }

    /// A fresh key. The library's frames are large: 40 KiB for ML-DSA alone.
    pub(crate) fn generate(self) -> Result<Key, Failure> {
        aside(|| self.make())
    }

    fn make(self) -> Result<Key, Failure> {
        let failed = |_| Failure::new(Reason::Internal, "the crypto library made no key: try again");
        match self.family {
            Family::Rsa => rsa(self.bits),
            Family::Ec => {
                let curve = self.curve.ok_or_else(|| Failure::input("no curve: set prime256v1 or secp384r1"))?;
                let algorithm = match curve {
                    Curve::P256 => &ECDSA_P256_SHA256_ASN1_SIGNING,
                    Curve::P384 => &ECDSA_P384_SHA384_ASN1_SIGNING,
                };
                let pair = EcdsaKeyPair::generate(algorithm).map_err(failed)?;
                let public = Public::Ec { curve, point: pair.public_key().as_ref().to_vec() };
                Ok(imported(public, pair.to_pkcs8v1().map_err(failed)?.as_ref()))
            }
            Family::Ed25519 => {
                let pair = Ed25519KeyPair::generate().map_err(failed)?;
                let point = pair.public_key().as_ref().try_into().unwrap_or_default();
                Ok(imported(Public::Ed25519(point), pair.to_pkcs8v1().map_err(failed)?.as_ref()))
            }
            Family::MlDsa65 => {
                let pair = PqdsaKeyPair::generate(&ML_DSA_65_SIGNING).map_err(failed)?;
                let public = Public::MlDsa65(pair.public_key().as_ref().to_vec());
                Ok(imported(public, pair.to_pkcs8v1().map_err(failed)?.as_ref()))
            }
            Family::X25519 | Family::MlKem768 => {
                Err(Failure::unsupported("making keys of this type here: use OpenSSL's own code, or sidecore keys"))
            }
        }
    }
}

fn rsa(bits: usize) -> Result<Key, Failure> {
    let size = match bits {
        2048 => KeySize::Rsa2048,
        3072 => KeySize::Rsa3072,
        4096 => KeySize::Rsa4096,
        _ => return Err(Failure::unsupported(format!("making an RSA key of {bits} bits: use 2048, 3072 or 4096"))),
    };
    let failed = |_| Failure::new(Reason::Internal, "the crypto library made no key: try again");
    let pair = rsa::KeyPair::generate(size).map_err(failed)?;
    let number = |bytes: &[u8]| bytes.to_vec();
    let public = Public::Rsa {
        n: number(pair.public_key().modulus().big_endian_without_leading_zero()),
        e: number(pair.public_key().exponent().big_endian_without_leading_zero()),
    };
    Ok(imported(public, pair.as_der().map_err(failed)?.as_ref()))
}

fn imported(public: Public, pkcs8: &[u8]) -> Key {
    Key::new(public, Private::Imported(Secret::from(pkcs8)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_of_the_kind_that_was_wished_for() {
        let ec = |curve| Wish { curve: Some(curve), ..Wish::new(Family::Ec) };
        for wish in [Wish::new(Family::Rsa), ec(Curve::P256), ec(Curve::P384), Wish::new(Family::Ed25519)] {
            let key = wish.generate().unwrap();
            assert_eq!(key.public.family(), wish.family);
            assert!(key.has_private());
            let spki = key.public.to_spki().unwrap();
            assert_eq!(Public::from_spki(&spki).unwrap(), key.public);
        }
        assert!(Wish { bits: 1024, ..Wish::new(Family::Rsa) }.generate().is_err());
        assert!(Wish::new(Family::Ec).generate().is_err());
    }
}
