//! Keys that OpenSSL has and wants used here: `default_properties = ?provider=sidecore`.

use super::abi::{Param, select};
use super::params::Params;
use crate::bare::{ed25519_public, ml_dsa_public, ml_kem_public, x25519_public};
use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1, ECDSA_P384_SHA384_ASN1, ParsedPublicKey};
use sidecore_client::face::failure::{Failure, Reason};
use sidecore_client::face::key::{
    Curve, Family, Key, Private, Public, RsaParts, ec_private, ed25519_private, rsa_private,
};
use sidecore_client::spec::Secret;
use std::ffi::{CStr, c_int};
use zeroize::Zeroizing;

/// Names of the primes, exponents and the coefficient of an RSA key.
const RSA_REST: [&CStr; 5] = [c"rsa-factor1", c"rsa-factor2", c"rsa-exponent1", c"rsa-exponent2", c"rsa-coefficient1"];

/// What is read of a key of this family.
pub(super) fn types(family: Family, selection: c_int) -> *const Param {
    static RSA: [Param; 9] = [
        Param::unsigned(c"n"),
        Param::unsigned(c"e"),
        Param::unsigned(c"d"),
        Param::unsigned(RSA_REST[0]),
        Param::unsigned(RSA_REST[1]),
        Param::unsigned(RSA_REST[2]),
        Param::unsigned(RSA_REST[3]),
        Param::unsigned(RSA_REST[4]),
        Param::END,
    ];
    static RSA_PUBLIC: [Param; 3] = [Param::unsigned(c"n"), Param::unsigned(c"e"), Param::END];
    static EC: [Param; 4] = [Param::text(c"group"), Param::bytes(c"pub"), Param::unsigned(c"priv"), Param::END];
    static EC_PUBLIC: [Param; 3] = [Param::text(c"group"), Param::bytes(c"pub"), Param::END];
    static RAW: [Param; 3] = [Param::bytes(c"pub"), Param::bytes(c"priv"), Param::END];
    static SEEDED: [Param; 4] = [Param::bytes(c"pub"), Param::bytes(c"priv"), Param::bytes(c"seed"), Param::END];
    static RAW_PUBLIC: [Param; 2] = [Param::bytes(c"pub"), Param::END];
    match (family, selection & select::PRIVATE != 0) {
        (Family::Rsa, true) => RSA.as_ptr(),
        (Family::Rsa, false) => RSA_PUBLIC.as_ptr(),
        (Family::Ec, true) => EC.as_ptr(),
        (Family::Ec, false) => EC_PUBLIC.as_ptr(),
        (Family::MlKem768 | Family::MlDsa65, true) => SEEDED.as_ptr(),
        (Family::Ed25519 | Family::X25519, true) => RAW.as_ptr(),
        (Family::Ed25519 | Family::X25519 | Family::MlKem768 | Family::MlDsa65, false) => RAW_PUBLIC.as_ptr(),
    }
}

/// The key that the parameters say.
pub(super) fn read(family: Family, private: bool, params: Params<'_>) -> Result<Key, Failure> {
    match family {
        Family::Rsa => rsa(private, params),
        Family::Ec => ec(private, params),
        Family::Ed25519 => ed25519(private, params),
        Family::X25519 => x25519(private, params),
        Family::MlKem768 => ml_kem(private, params),
        Family::MlDsa65 => ml_dsa(private, params),
    }
}

fn missing() -> Failure {
    Failure::new(Reason::Key, "the key lacks a part: give one with its public part, for RSA also primes and exponents")
}

fn secret(params: Params<'_>, name: &CStr) -> Option<Zeroizing<Vec<u8>>> {
    params.number(name).map(Zeroizing::new).filter(|number| !number.is_empty())
}

fn rsa(private: bool, params: Params<'_>) -> Result<Key, Failure> {
    let modulus = params.number(c"n").ok_or_else(missing)?;
    let exponent = params.number(c"e").ok_or_else(missing)?;
    if exponent == [1] || exponent.last().is_none_or(|last| last % 2 == 0) {
        return Err(Failure::new(Reason::Key, "the public exponent is 1 or even: the key is damaged or forged"));
    }
    let public = Public::Rsa { n: modulus.clone(), e: exponent.clone() };
    if ![1024, 2048, 3072, 4096].contains(&public.bits()) {
        let bits = public.bits();
        return Err(Failure::unsupported(format!("RSA with {bits} bits: use 2048, 3072 or 4096")));
    }
    let Some(secret_exponent) = secret(params, c"d").filter(|_| private) else {
        return Ok(Key::new(public, Private::None));
    };
    let [first, second, first_exponent, second_exponent, coefficient] = RSA_REST.map(|name| secret(params, name));
    let parts = RsaParts {
        n: Zeroizing::new(modulus),
        e: Zeroizing::new(exponent),
        d: secret_exponent,
        primes: [first.ok_or_else(missing)?, second.ok_or_else(missing)?],
        exponents: [first_exponent.ok_or_else(missing)?, second_exponent.ok_or_else(missing)?],
        coefficient: coefficient.ok_or_else(missing)?,
    };
    Ok(Key::new(public, Private::Imported(rsa_private(&parts)?)))
}

fn ec(private: bool, params: Params<'_>) -> Result<Key, Failure> {
    let group = params.text(c"group").ok_or_else(missing)?;
    let curve = Curve::from_name(group)
        .ok_or_else(|| Failure::unsupported(format!("the curve {group}: use prime256v1 or secp384r1")))?;
    let point = params.bytes(c"pub").filter(|point| point.len() == 2 * curve.size() + 1 && point[0] == 4);
    let point =
        point.ok_or_else(|| Failure::unsupported("the point is missing or compressed: give it uncompressed"))?;
    if !is_on_curve(curve, point) {
        return Err(Failure::new(Reason::Key, "the point is not on the curve: the key is damaged or forged"));
    }
    let public = Public::Ec { curve, point: point.to_vec() };
    let Some(scalar) = secret(params, c"priv").filter(|_| private) else { return Ok(Key::new(public, Private::None)) };
    let mut full = Zeroizing::new(vec![0; curve.size()]);
    let start = curve.size().checked_sub(scalar.len()).ok_or_else(missing)?;
    full[start..].copy_from_slice(&scalar);
    Ok(Key::new(public, Private::Imported(ec_private(curve, &full, point)?)))
}

fn is_on_curve(curve: Curve, point: &[u8]) -> bool {
    let algorithm = match curve {
        Curve::P256 => &ECDSA_P256_SHA256_ASN1,
        Curve::P384 => &ECDSA_P384_SHA384_ASN1,
    };
    ParsedPublicKey::new(algorithm, point).is_ok()
}

fn ed25519(private: bool, params: Params<'_>) -> Result<Key, Failure> {
    let seed: Option<&[u8; 32]> = params.bytes(c"priv").and_then(|seed| seed.try_into().ok());
    let point = params.bytes(c"pub").and_then(|point| point.try_into().ok());
    let point = point.or_else(|| seed.and_then(ed25519_public)).ok_or_else(missing)?;
    let private = match seed.filter(|_| private) {
        Some(seed) => Private::Imported(ed25519_private(seed)?),
        None => Private::None,
    };
    Ok(Key::new(Public::Ed25519(point), private))
}

fn raw(public: Public, private: Option<&[u8]>) -> Key {
    Key::new(public, private.map_or(Private::None, |private| Private::Imported(Secret::from(private))))
}

fn x25519(private: bool, params: Params<'_>) -> Result<Key, Failure> {
    let scalar: Option<&[u8; 32]> = params.bytes(c"priv").and_then(|scalar| scalar.try_into().ok());
    let point = params.bytes(c"pub").and_then(|point| point.try_into().ok());
    let point = point.or_else(|| scalar.and_then(x25519_public)).ok_or_else(missing)?;
    Ok(raw(Public::X25519(point), scalar.map(|scalar| &scalar[..]).filter(|_| private)))
}

fn ml_kem(private: bool, params: Params<'_>) -> Result<Key, Failure> {
    let key = params.bytes(c"priv").or_else(|| params.bytes(c"seed"));
    let public = params.bytes(c"pub").map(<[u8]>::to_vec).or_else(|| key.and_then(ml_kem_public));
    let public = public.filter(|public| public.len() == 1184).ok_or_else(missing)?;
    Ok(raw(Public::MlKem768(public), key.filter(|_| private)))
}

fn ml_dsa(private: bool, params: Params<'_>) -> Result<Key, Failure> {
    let key = params.bytes(c"seed").or_else(|| params.bytes(c"priv"));
    let public = params.bytes(c"pub").map(<[u8]>::to_vec).or_else(|| key.and_then(ml_dsa_public));
    let public = public.filter(|public| public.len() == 1952).ok_or_else(missing)?;
    Ok(raw(Public::MlDsa65(public), key.filter(|_| private)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_beside_the_curve_is_refused() {
        for (curve, len) in [(Curve::P256, 65), (Curve::P384, 97)] {
            let mut point = vec![7; len];
            point[0] = 4;
            assert!(!is_on_curve(curve, &point));
        }
        let key = crate::generate::Wish { curve: Some(Curve::P256), ..crate::generate::Wish::new(Family::Ec) };
        let Public::Ec { curve, point } = key.generate().unwrap().public.clone() else { panic!("no EC key") };
        assert!(is_on_curve(curve, &point));
    }
}
