//! Signatures of the service in SSH's form and in that of TLS, and signatures of servers, which the service verifies.

use crate::public::{public_of, type_name};
use crate::wire::{Malformed, Reader, Writer};
use der::asn1::UintRef;
use der::{Decode, Encode, Sequence};
use sidecore_client::client::Options;
use sidecore_client::keyops::failure::{Failure, Reason};
use sidecore_client::keyops::hasher::input;
use sidecore_client::keyops::key::{Family, Key, Private, Public};
use sidecore_client::keyops::sign::Settings;
use sidecore_client::keyops::tls;
use sidecore_client::keyops::wait::Caller;
use std::sync::Arc;

/// Flags of a request: the hash of an RSA signature.
const RSA_SHA256: u32 = 2;
const RSA_SHA512: u32 = 4;

#[derive(Sequence)]
struct EcdsaSignature<'a> {
    r: UintRef<'a>,
    s: UintRef<'a>,
}

/// Signs a message. Returns the signature with the name of its algorithm before it.
pub(crate) fn ssh(options: &Options, key: &Arc<Key>, message: &[u8], flags: u32) -> Result<Vec<u8>, Failure> {
    let (algorithm, scheme) = algorithm(&key.public, flags)?;
    let settings = settings(scheme.into(), &key.public)?;
    let signature = settings.sign(Caller::thread(options), key, &input(&settings, message))?;
    let signature = if key.public.family() == Family::Ec { two_numbers(&signature)? } else { signature };
    Ok(Writer::default().string(algorithm).string(signature).finish())
}

/// SSH's name, and the scheme of TLS with the same padding and hash.
fn algorithm(public: &Public, flags: u32) -> Result<(String, u16), Failure> {
    if matches!(public, Public::Rsa { .. }) {
        // As OpenSSH's agent does where a client asks for both.
        return match flags {
            _ if flags & RSA_SHA256 != 0 => Ok(("rsa-sha2-256".to_owned(), 0x0401)),
            _ if flags & RSA_SHA512 != 0 => Ok(("rsa-sha2-512".to_owned(), 0x0601)),
            _ => {
                Err(Failure::unsupported("RSA signatures with SHA-1: have the client use rsa-sha2-256 or rsa-sha2-512"))
            }
        };
    }
    // Each curve has the hash of its first scheme, in SSH as in TLS 1.3.
    let named = type_name(public).zip(tls::schemes(public).first().copied());
    named.ok_or_else(|| Failure::unsupported("SSH has no signatures with keys of this kind"))
}

fn two_numbers(der: &[u8]) -> Result<Vec<u8>, Failure> {
    let signature = EcdsaSignature::from_der(der).map_err(|_| {
        Failure::new(Reason::Service, "its signature is none of ECDSA: use one version of service and agent")
    })?;
    Ok(Writer::default().mpint(signature.r.as_bytes()).mpint(signature.s.as_bytes()).finish())
}

/// Whether this is a signature of the message by a host key, each in SSH's form. RSA with SHA-1 is none.
pub(crate) fn verify(options: &Options, host_key: &[u8], signature: &[u8], message: &[u8]) -> Result<bool, Failure> {
    let Ok((public, scheme, signature)) = verifiable(host_key, signature) else { return Ok(false) };
    let settings = settings(scheme.into(), &public)?;
    let key = Arc::new(Key::new(public, Private::None));
    settings.verify(Caller::thread(options), &key, &signature, &input(&settings, message))
}

/// Key, scheme and signature as the service takes them.
fn verifiable(host_key: &[u8], signature: &[u8]) -> Result<(Public, u16, Vec<u8>), Malformed> {
    let public = public_of(host_key)?;
    let mut reader = Reader::new(signature);
    let (named, signature) = (reader.text()?, reader.string()?);
    reader.end()?;
    let (expected, scheme) = match (&public, named) {
        (Public::Rsa { .. }, "rsa-sha2-256") => (named.to_owned(), 0x0401),
        (Public::Rsa { .. }, "rsa-sha2-512") => (named.to_owned(), 0x0601),
        (Public::Rsa { .. }, _) => return Err(Malformed),
        _ => algorithm(&public, 0).map_err(|_| Malformed)?,
    };
    if named != expected {
        return Err(Malformed);
    }
    let signature = match &public {
        Public::Rsa { n, .. } => {
            // Some servers leave out leading zeros.
            let missing = n.len().checked_sub(signature.len()).ok_or(Malformed)?;
            [&vec![0; missing][..], signature].concat()
        }
        Public::Ec { curve, .. } => one_sequence(signature, curve.size())?,
        Public::Raw(..) => signature.to_vec(),
    };
    Ok((public, scheme, signature))
}

fn one_sequence(numbers: &[u8], size: usize) -> Result<Vec<u8>, Malformed> {
    let mut reader = Reader::new(numbers);
    let mut number = || {
        let number = reader.string()?;
        let is_positive = number.len() <= size + 1 && number.first().is_some_and(|byte| *byte < 0x80);
        if is_positive { UintRef::new(number).map_err(|_| Malformed) } else { Err(Malformed) }
    };
    let (r, s) = (number()?, number()?);
    reader.end()?;
    EcdsaSignature { r, s }.to_der().map_err(|_| Malformed)
}

/// Signs by the number of a `SignatureScheme` of TLS. The input is the digest of that scheme's hash; for Ed25519 and
/// ML-DSA-65 it is the message.
pub(crate) fn tls(options: &Options, key: &Arc<Key>, scheme: u32, input: &[u8]) -> Result<Vec<u8>, Failure> {
    settings(scheme, &key.public)?.sign(Caller::thread(options), key, input)
}

fn settings(scheme: u32, public: &Public) -> Result<Settings, Failure> {
    let settings = u16::try_from(scheme).ok().and_then(|scheme| tls::settings(scheme, public));
    settings.ok_or_else(|| Failure::unsupported(format!("signatures of scheme {scheme:#06x} with this key")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use sidecore_client::keyops::key::{Curve, Raw};

    #[test]
    fn rsa_signs_with_sha2_only() {
        let key = Public::Rsa { n: vec![0xc1; 256], e: vec![3] };
        for (flags, name) in [(2, "rsa-sha2-256"), (4, "rsa-sha2-512"), (6, "rsa-sha2-256")] {
            assert_eq!(algorithm(&key, flags).unwrap().0, name);
        }
        for flags in [0, 1, 8, 1 << 31] {
            assert_eq!(algorithm(&key, flags).unwrap_err().reason, Reason::Unsupported);
        }
    }

    #[test]
    fn a_curve_has_its_hash_whatever_the_flags_are() {
        let names = [(Curve::P256, "ecdsa-sha2-nistp256", 32), (Curve::P384, "ecdsa-sha2-nistp384", 48)];
        for (curve, name, digest) in names {
            let public = Public::Ec { curve, point: vec![4; 65] };
            for flags in [0, 2, 4] {
                let (found, scheme) = algorithm(&public, flags).unwrap();
                let hash = settings(scheme.into(), &public).unwrap().digest.unwrap();
                assert_eq!((found.as_str(), hash.size()), (name, digest));
            }
        }
        assert!(algorithm(&Public::Raw(Raw::X25519, vec![1; 32]), 0).is_err());
    }

    #[test]
    fn a_signature_in_der_becomes_two_numbers() {
        let der = [0x30, 0x08, 0x02, 0x02, 0x00, 0x80, 0x02, 0x02, 0x12, 0x34];
        assert_eq!(two_numbers(&der).unwrap(), [0, 0, 0, 2, 0, 0x80, 0, 0, 0, 2, 0x12, 0x34]);
        assert!((0..der.len()).all(|len| two_numbers(&der[..len]).is_err()));
    }
}
