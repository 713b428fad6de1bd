//! Keys in DER, as the service sends and receives them.

use super::{Curve, Public, Raw, unreadable};
use crate::keyops::failure::Failure;
use crate::spec::Secret;
use der::asn1::{AnyRef, BitStringRef, OctetStringRef};
use der::{Decode, Encode};
use pkcs1::{RsaPrivateKey, RsaPublicKey, UintRef};
use pkcs8::spki::{AlgorithmIdentifierRef, SubjectPublicKeyInfoRef};
use pkcs8::{ObjectIdentifier, PrivateKeyInfoRef};
use sec1::EcPrivateKey;
use zeroize::Zeroizing;

const RSA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.1");
const EC: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.2.1");
const P256: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.3.1.7");
const P384: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.132.0.34");
const P521: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.132.0.35");

impl Curve {
    fn oid(self) -> &'static ObjectIdentifier {
        match self {
            Self::P256 => &P256,
            Self::P384 => &P384,
            Self::P521 => &P521,
        }
    }

    fn from_oid(oid: ObjectIdentifier) -> Option<Self> {
        Self::ALL.into_iter().find(|curve| *curve.oid() == oid)
    }
}

impl Public {
    /// Reads a `SubjectPublicKeyInfo`.
    ///
    /// # Errors
    /// A key of another type, or no key.
    pub fn from_spki(der: &[u8]) -> Result<Self, Failure> {
        read(der).ok_or_else(|| unreadable("the public key"))
    }

    /// Encodes a `SubjectPublicKeyInfo`.
    ///
    /// # Errors
    /// The parts do not form a key.
    pub fn to_spki(&self) -> Result<Vec<u8>, Failure> {
        self.write().map_err(|_| unreadable("the public key"))
    }

    fn write(&self) -> der::Result<Vec<u8>> {
        match self {
            Self::Rsa { n, e } => {
                let key = RsaPublicKey { modulus: UintRef::new(n)?, public_exponent: UintRef::new(e)? }.to_der()?;
                spki(AlgorithmIdentifierRef { oid: RSA, parameters: Some(AnyRef::NULL) }, &key)
            }
            Self::Ec { curve, point } => spki(ec(*curve), point),
            Self::Raw(raw, key) => spki(plain(*raw), key),
        }
    }
}

fn plain(raw: Raw) -> AlgorithmIdentifierRef<'static> {
    AlgorithmIdentifierRef { oid: raw.facts().oid, parameters: None }
}

fn ec(curve: Curve) -> AlgorithmIdentifierRef<'static> {
    AlgorithmIdentifierRef { oid: EC, parameters: Some(curve.oid().into()) }
}

fn spki(algorithm: AlgorithmIdentifierRef<'_>, key: &[u8]) -> der::Result<Vec<u8>> {
    SubjectPublicKeyInfoRef { algorithm, subject_public_key: BitStringRef::from_bytes(key)? }.to_der()
}

fn read(der: &[u8]) -> Option<Public> {
    let info = SubjectPublicKeyInfoRef::from_der(der).ok()?;
    let key = info.subject_public_key.as_bytes()?;
    match info.algorithm.oid {
        RSA => {
            let key = RsaPublicKey::<UintRef<'_>>::from_der(key).ok()?;
            Some(Public::Rsa { n: key.modulus.as_bytes().to_vec(), e: key.public_exponent.as_bytes().to_vec() })
        }
        EC => {
            let curve = Curve::from_oid(info.algorithm.parameters_oid().ok()?)?;
            Some(Public::Ec { curve, point: curve.point(key)? })
        }
        oid => {
            let raw = Raw::ALL.into_iter().find(|raw| raw.facts().oid == oid && raw.size() == key.len())?;
            Some(Public::Raw(raw, key.to_vec()))
        }
    }
}

/// An RSA private key as PKCS#8. The numbers are in the order of PKCS#1, each with the most significant byte first:
/// the modulus, the exponents, both primes, the private exponent modulo each prime less one, and the inverse of the
/// second prime modulo the first.
///
/// # Errors
/// The numbers do not form a key.
pub fn rsa_private(numbers: [&[u8]; 8]) -> Result<Secret, Failure> {
    let encode = || -> der::Result<Secret> {
        let [n, e, d, prime1, prime2, exponent1, exponent2, coefficient] = numbers.map(UintRef::new);
        let key = RsaPrivateKey {
            modulus: n?,
            public_exponent: e?,
            private_exponent: d?,
            prime1: prime1?,
            prime2: prime2?,
            exponent1: exponent1?,
            exponent2: exponent2?,
            coefficient: coefficient?,
            other_prime_infos: None,
        };
        let key = Zeroizing::new(key.to_der()?);
        pkcs8(AlgorithmIdentifierRef { oid: RSA, parameters: Some(AnyRef::NULL) }, &key)
    };
    encode().map_err(|_| unreadable("the RSA key"))
}

/// An EC private key as PKCS#8. `scalar` has the length of a coordinate.
///
/// # Errors
/// The parts do not form a key.
pub fn ec_private(curve: Curve, scalar: &[u8], point: &[u8]) -> Result<Secret, Failure> {
    let encode = || -> der::Result<Secret> {
        let key = EcPrivateKey { private_key: scalar, parameters: None, public_key: Some(point) };
        pkcs8(ec(curve), &Zeroizing::new(key.to_der()?))
    };
    encode().map_err(|_| unreadable("the EC key"))
}

/// An Ed25519 private key as PKCS#8.
///
/// # Errors
/// The parts do not form a key.
pub fn ed25519_private(seed: &[u8]) -> Result<Secret, Failure> {
    let encode = || -> der::Result<Secret> {
        let key = Zeroizing::new(OctetStringRef::new(seed)?.to_der()?);
        pkcs8(plain(Raw::Ed25519), &key)
    };
    encode().map_err(|_| unreadable("the Ed25519 key"))
}

fn pkcs8(algorithm: AlgorithmIdentifierRef<'_>, key: &[u8]) -> der::Result<Secret> {
    Ok(Secret::new(PrivateKeyInfoRef::new(algorithm, OctetStringRef::new(key)?).to_der()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn public_keys_survive_their_encoding() {
        let rsa = [256, 1024].map(|len| Public::Rsa { n: vec![0xc3; len], e: vec![1, 0, 1] });
        let ec = Curve::ALL.map(|curve| {
            let mut bytes = vec![0; 1 + curve.size()];
            bytes[0] = 2;
            let point = (0..=255).find_map(|last| {
                bytes[curve.size()] = last;
                curve.point(&bytes)
            });
            Public::Ec { curve, point: point.unwrap() }
        });
        for key in rsa.into_iter().chain(ec).chain(Raw::ALL.map(|raw| Public::Raw(raw, vec![9; raw.size()]))) {
            assert_eq!(Public::from_spki(&key.to_spki().unwrap()).unwrap(), key);
        }
        assert!(Public::from_spki(b"").is_err());
    }

    #[test]
    fn sizes_are_openssls() {
        let rsa = Public::Rsa { n: vec![0x80; 384], e: vec![3] };
        assert_eq!((rsa.bits(), rsa.security_bits(), rsa.max_len()), (3072, 128, 384));
        let ec = Public::Ec { curve: Curve::P256, point: vec![4; 65] };
        assert_eq!((ec.bits(), ec.max_len()), (256, 72));
        let ec = Public::Ec { curve: Curve::P384, point: vec![4; 97] };
        assert_eq!((ec.bits(), ec.max_len()), (384, 104));
        let ec = Public::Ec { curve: Curve::P521, point: vec![4; 133] };
        assert_eq!((ec.bits(), ec.security_bits(), ec.max_len()), (521, 256, 139));
    }
}
