//! Keys as lists of parameters: what programs with `default_properties = ?provider=sidecore` import here, and the public
//! parts that OpenSSL gets of keys.

use super::abi::select;
use super::params::{BYTES, List, Param, Params, TEXT, UNSIGNED, params};
use super::provider::Provider;
use sidecore_client::keyops::ask::public_part;
use sidecore_client::keyops::failure::{Failure, Reason};
use sidecore_client::keyops::key::{
    Curve, Family, Key, Private, Public, Raw, ec_private, ed25519_private, rsa_private,
};
use sidecore_client::spec::Secret;
use std::ffi::{CStr, c_int};
use zeroize::Zeroizing;

/// Names of the private numbers of an RSA key, in the order of PKCS#1: exponent, primes, their exponents, coefficient.
const RSA: [&CStr; 6] = [c"d", c"rsa-factor1", c"rsa-factor2", c"rsa-exponent1", c"rsa-exponent2", c"rsa-coefficient1"];

const DECAPSULATION_KEY_LEN: usize = 2400;
/// Position of the encapsulation key inside it, by FIPS 203.
const ENCAPSULATION_KEY: std::ops::Range<usize> = 1152..1152 + 1184;

/// Parameters read of a key of this family; those of the public part come last.
pub(super) fn types(family: Family, selection: c_int) -> &'static [Param] {
    let (list, private): (&[Param], _) = match family {
        Family::Rsa => (params! { UNSIGNED: RSA[0], RSA[1], RSA[2], RSA[3], RSA[4], RSA[5], c"n", c"e"; }, 6),
        Family::Ec => (params! { UNSIGNED: c"priv"; TEXT: c"group"; BYTES: c"pub"; }, 1),
        Family::Raw(Raw::MlKem768 | Raw::MlDsa65) => (params! { BYTES: c"seed", c"priv", c"pub"; }, 2),
        Family::Raw(_) => (params! { BYTES: c"priv", c"pub"; }, 1),
    };
    if selection & select::PRIVATE != 0 { list } else { &list[private..] }
}

pub(super) fn read(provider: &Provider, family: Family, private: bool, params: Params<'_>) -> Result<Key, Failure> {
    match family {
        Family::Rsa => rsa(private, params),
        Family::Ec => ec(private, params),
        Family::Raw(of) => raw(provider, of, private, params),
    }
}

/// The public parts of this key that the selection has.
pub(super) fn public(key: &Key, selection: c_int) -> List {
    let list = List::default();
    let asked = selection & select::PUBLIC != 0;
    match &key.public {
        Public::Rsa { n, e } if asked => list.number(c"n", n).number(c"e", e),
        Public::Ec { curve, point } => {
            let list = list.text(c"group", curve.name());
            if asked { list.bytes(c"pub", point) } else { list }
        }
        Public::Raw(_, key) if asked => list.bytes(c"pub", key),
        Public::Rsa { .. } | Public::Raw(..) => list,
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
    if ![1024, 2048, 3072, 4096, 6144, 8192].contains(&public.bits()) {
        let bits = public.bits();
        return Err(Failure::unsupported(format!("RSA with {bits} bits: use 2048, 3072, 4096, 6144 or 8192")));
    }
    let numbers = RSA.map(|name| secret(params, name));
    if !private || numbers[0].is_none() {
        return Ok(Key::new(public, Private::None));
    }
    let [Some(d), Some(p), Some(q), Some(dp), Some(dq), Some(coefficient)] = &numbers else { return Err(missing()) };
    let private = rsa_private([&modulus, &exponent, d, p, q, dp, dq, coefficient])?;
    Ok(Key::new(public, Private::Imported(private)))
}

fn ec(private: bool, params: Params<'_>) -> Result<Key, Failure> {
    let group = params.text(c"group").ok_or_else(missing)?;
    let curve = Curve::from_name(group)
        .ok_or_else(|| Failure::unsupported(format!("the curve {group}: use prime256v1, secp384r1 or secp521r1")))?;
    let point = point(curve, params.bytes(c"pub").ok_or_else(missing)?)?;
    let public = Public::Ec { curve, point: point.clone() };
    let Some(scalar) = secret(params, c"priv").filter(|_| private) else { return Ok(Key::new(public, Private::None)) };
    let mut full = Zeroizing::new(vec![0; curve.size()]);
    let start = curve.size().checked_sub(scalar.len()).ok_or_else(missing)?;
    full[start..].copy_from_slice(&scalar);
    Ok(Key::new(public, Private::Imported(ec_private(curve, &full, &point)?)))
}

pub(super) fn point(curve: Curve, bytes: &[u8]) -> Result<Vec<u8>, Failure> {
    let beside = || Failure::new(Reason::Key, "the point is not on the curve: the key is damaged or forged");
    curve.point(bytes).ok_or_else(beside)
}

/// A key whose public part may be missing: then the service computes it, or the private part contains it.
fn raw(provider: &Provider, of: Raw, private: bool, params: Params<'_>) -> Result<Key, Failure> {
    let (given, seed) = (params.bytes(c"priv"), params.bytes(c"seed"));
    let key = match of {
        Raw::MlKem768 => given.or(seed),
        Raw::MlDsa65 => seed.or(given),
        Raw::Ed25519 | Raw::X25519 => given.filter(|key| key.len() == of.size()),
    };
    let inside = || key.filter(|key| of == Raw::MlKem768 && key.len() == DECAPSULATION_KEY_LEN);
    let public = match params.bytes(c"pub").or_else(|| inside().map(|key| &key[ENCAPSULATION_KEY])) {
        Some(public) if public.len() == of.size() => Public::Raw(of, public.to_vec()),
        None if of != Raw::MlKem768 => public_part(provider.options()?, of.kind(), key.ok_or_else(missing)?)?,
        _ => return Err(missing()),
    };
    let private = match key.filter(|_| private) {
        Some(seed) if of == Raw::Ed25519 => Private::Imported(ed25519_private(seed)?),
        Some(key) => Private::Imported(Secret::from(key)),
        None => Private::None,
    };
    Ok(Key::new(public, private))
}
