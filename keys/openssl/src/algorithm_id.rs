//! The `AlgorithmIdentifier` of a signature, as in certificates and messages.

use pkcs8::ObjectIdentifier;
use pkcs8::der::asn1::AnyRef;
use pkcs8::der::{Decode, Encode, Tag, TagNumber};
use pkcs8::spki::AlgorithmIdentifierRef;
use sidecore_client::keyops::digest::Digest;
use sidecore_client::keyops::failure::Failure;
use sidecore_client::keyops::key::{Key, Public, Raw};
use sidecore_client::keyops::sign::{Padding, Settings};

const MGF1: &str = "1.2.840.113549.1.1.8";
const PSS: &str = "1.2.840.113549.1.1.10";
/// Salt of PSS by default, bytes.
const DEFAULT_SALT: u16 = 20;
const ED25519: &str = "1.3.101.112";
const ML_DSA_65: &str = "2.16.840.1.101.3.4.3.18";

/// Identifiers of signatures over a digest: RSA with PKCS#1 v1.5, and ECDSA.
const OVER_DIGESTS: [(Digest, &str, &str); 11] = [
    (Digest::Sha1, "1.2.840.113549.1.1.5", "1.2.840.10045.4.1"),
    (Digest::Sha224, "1.2.840.113549.1.1.14", "1.2.840.10045.4.3.1"),
    (Digest::Sha256, "1.2.840.113549.1.1.11", "1.2.840.10045.4.3.2"),
    (Digest::Sha384, "1.2.840.113549.1.1.12", "1.2.840.10045.4.3.3"),
    (Digest::Sha512, "1.2.840.113549.1.1.13", "1.2.840.10045.4.3.4"),
    // ECDSA has no identifiers for these.
    (Digest::Sha512_224, "1.2.840.113549.1.1.15", ""),
    (Digest::Sha512_256, "1.2.840.113549.1.1.16", ""),
    (Digest::Sha3_224, "2.16.840.1.101.3.4.3.13", "2.16.840.1.101.3.4.3.9"),
    (Digest::Sha3_256, "2.16.840.1.101.3.4.3.14", "2.16.840.1.101.3.4.3.10"),
    (Digest::Sha3_384, "2.16.840.1.101.3.4.3.15", "2.16.840.1.101.3.4.3.11"),
    (Digest::Sha3_512, "2.16.840.1.101.3.4.3.16", "2.16.840.1.101.3.4.3.12"),
];

pub(crate) fn algorithm_id(key: &Key, settings: &Settings) -> Result<Vec<u8>, Failure> {
    let unknown = || Failure::unsupported("no standard identifier for a signature with these settings");
    match key.public {
        Public::Raw(Raw::Ed25519, _) => return encode(ED25519, None).ok_or_else(unknown),
        Public::Raw(Raw::MlDsa65, _) => return encode(ML_DSA_65, None).ok_or_else(unknown),
        _ => {}
    }
    let digest = settings.digest.ok_or_else(unknown)?;
    let is_rsa = matches!(key.public, Public::Rsa { .. });
    if is_rsa && settings.padding == Padding::Pss {
        return pss(key, settings, digest).ok_or_else(unknown);
    }
    let (_, rsa, ecdsa) = OVER_DIGESTS.iter().find(|(over, ..)| *over == digest).ok_or_else(unknown)?;
    let der = if is_rsa { encode(rsa, Some(AnyRef::NULL)) } else { encode(ecdsa, None) };
    der.ok_or_else(unknown)
}

fn encode(oid: &str, parameters: Option<AnyRef<'_>>) -> Option<Vec<u8>> {
    AlgorithmIdentifierRef { oid: ObjectIdentifier::new(oid).ok()?, parameters }.to_der().ok()
}

/// Encoded here, because the crates' types cannot hold every length of salt. Default values are omitted, as DER
/// requires.
fn pss(key: &Key, settings: &Settings, digest: Digest) -> Option<Vec<u8>> {
    let hash = |digest: Digest| encode(digest.oid()?, Some(AnyRef::NULL));
    let mgf1 = settings.mgf1.unwrap_or(digest);
    let salt = settings.salt_bytes(key, digest)?;
    let mut fields = Vec::new();
    if digest != Digest::Sha1 {
        fields.extend(explicit(0, &hash(digest)?)?);
    }
    if mgf1 != Digest::Sha1 {
        let hash = hash(mgf1)?;
        fields.extend(explicit(1, &encode(MGF1, Some(AnyRef::from_der(&hash).ok()?))?)?);
    }
    if salt != DEFAULT_SALT {
        fields.extend(explicit(2, &salt.to_der().ok()?)?);
    }
    encode(PSS, Some(AnyRef::new(Tag::Sequence, &fields).ok()?))
}

fn explicit(number: u32, content: &[u8]) -> Option<Vec<u8>> {
    let tag = Tag::ContextSpecific { constructed: true, number: TagNumber(number) };
    AnyRef::new(tag, content).ok()?.to_der().ok()
}
