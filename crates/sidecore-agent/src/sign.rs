//! Signatures of the service in SSH's form and in that of TLS.

use crate::public::type_name;
use crate::wire::Writer;
use der::asn1::UintRef;
use der::{Decode, Sequence};
use sidecore_client::client::Options;
use sidecore_client::keyops::digest::Digest;
use sidecore_client::keyops::failure::{Failure, Reason};
use sidecore_client::keyops::key::{Curve, Family, Key, Public, Raw};
use sidecore_client::keyops::sign::{Padding, Salt, Settings};
use sidecore_client::keyops::wait::Caller;
use sidecore_digest::Hasher;
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
    let (algorithm, digest) = algorithm(&key.public, flags)?;
    let signature = match digest {
        Some(digest) => {
            let mut hasher = Hasher::new(digest);
            hasher.update(message);
            sign(options, key, &Settings { digest: Some(digest), ..Settings::default() }, &hasher.finish())?
        }
        None => sign(options, key, &Settings::default(), message)?,
    };
    let signature = if key.public.family() == Family::Ec { two_numbers(&signature)? } else { signature };
    Ok(Writer::default().string(algorithm).string(signature).finish())
}

fn algorithm(public: &Public, flags: u32) -> Result<(String, Option<Digest>), Failure> {
    if matches!(public, Public::Rsa { .. }) {
        // As OpenSSH's agent does where a client asks for both.
        return match flags {
            _ if flags & RSA_SHA256 != 0 => Ok(("rsa-sha2-256".to_owned(), Some(Digest::Sha256))),
            _ if flags & RSA_SHA512 != 0 => Ok(("rsa-sha2-512".to_owned(), Some(Digest::Sha512))),
            _ => {
                Err(Failure::unsupported("RSA signatures with SHA-1: have the client use rsa-sha2-256 or rsa-sha2-512"))
            }
        };
    }
    let name = type_name(public).ok_or_else(|| Failure::unsupported("SSH has no signatures with keys of this kind"))?;
    let digest = match public {
        Public::Ec { curve: Curve::P256, .. } => Some(Digest::Sha256),
        Public::Ec { curve: Curve::P384, .. } => Some(Digest::Sha384),
        Public::Ec { curve: Curve::P521, .. } => Some(Digest::Sha512),
        _ => None,
    };
    Ok((name, digest))
}

fn two_numbers(der: &[u8]) -> Result<Vec<u8>, Failure> {
    let signature = EcdsaSignature::from_der(der).map_err(|_| {
        Failure::new(Reason::Service, "its signature is none of ECDSA: use one version of service and agent")
    })?;
    Ok(Writer::default().mpint(signature.r.as_bytes()).mpint(signature.s.as_bytes()).finish())
}

/// Signs by the number of a `SignatureScheme` of TLS 1.3 (RFC 8446, section 4.2.3). The input is the digest of that
/// scheme's hash; for Ed25519 and ML-DSA-65 it is the message. With ECDSA the scheme chooses the hash and the key the
/// curve, as in TLS 1.2.
pub(crate) fn tls(options: &Options, key: &Arc<Key>, scheme: u32, input: &[u8]) -> Result<Vec<u8>, Failure> {
    let (family, digest, padding) = match scheme {
        0x0401 => (Family::Rsa, Some(Digest::Sha256), Padding::Pkcs1),
        0x0501 => (Family::Rsa, Some(Digest::Sha384), Padding::Pkcs1),
        0x0601 => (Family::Rsa, Some(Digest::Sha512), Padding::Pkcs1),
        0x0804 => (Family::Rsa, Some(Digest::Sha256), Padding::Pss),
        0x0805 => (Family::Rsa, Some(Digest::Sha384), Padding::Pss),
        0x0806 => (Family::Rsa, Some(Digest::Sha512), Padding::Pss),
        0x0403 => (Family::Ec, Some(Digest::Sha256), Padding::Pkcs1),
        0x0503 => (Family::Ec, Some(Digest::Sha384), Padding::Pkcs1),
        0x0603 => (Family::Ec, Some(Digest::Sha512), Padding::Pkcs1),
        0x0807 => (Family::Raw(Raw::Ed25519), None, Padding::Pkcs1),
        0x0905 => (Family::Raw(Raw::MlDsa65), None, Padding::Pkcs1),
        _ => return Err(Failure::unsupported(format!("signatures of scheme {scheme:#06x}: see docs/guide/ssh.md"))),
    };
    if family != key.public.family() {
        return Err(Failure::unsupported(format!("signatures of scheme {scheme:#06x} with a key of another kind")));
    }
    sign(options, key, &Settings { digest, padding, salt: Salt::Digest, mgf1: None }, input)
}

fn sign(options: &Options, key: &Arc<Key>, settings: &Settings, input: &[u8]) -> Result<Vec<u8>, Failure> {
    settings.sign(Caller::thread(options), key, input)
}

#[cfg(test)]
mod tests {
    use super::*;

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
                let (found, hash) = algorithm(&public, flags).unwrap();
                assert_eq!((found.as_str(), hash.unwrap().size()), (name, digest));
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
