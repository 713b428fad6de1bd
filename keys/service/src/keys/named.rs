//! The kind of a private key in a file, before any request to the service, and a text for kinds that the service does
//! not store.

use super::error::KeyError;
use super::material::public;
use crate::ffi::pkey::{self, PKey};
use crate::spec::Secret;
use der::asn1::{AnyRef, ObjectIdentifier};
use der::{Decode, SliceReader, Tag, Tagged};
use zeroize::Zeroizing;

const NAMES: [(&str, &str); 16] = [
    ("1.2.840.113549.1.1.1", "an RSA key"),
    ("1.2.840.113549.1.1.10", "an RSA key restricted to PSS"),
    ("1.2.840.113549.1.3.1", "a Diffie-Hellman key"),
    ("1.2.840.10040.4.1", "a DSA key"),
    ("1.3.101.111", "an X448 key"),
    ("1.3.101.113", "an Ed448 key"),
    ("2.16.840.1.101.3.4.3.17", "an ML-DSA-44 key"),
    ("2.16.840.1.101.3.4.3.19", "an ML-DSA-87 key"),
    ("2.16.840.1.101.3.4.4.1", "an ML-KEM-512 key"),
    ("2.16.840.1.101.3.4.4.3", "an ML-KEM-1024 key"),
    ("1.3.132.0.33", "an EC key on P-224"),
    ("1.3.132.0.10", "an EC key on secp256k1"),
    ("1.3.36.3.3.2.8.1.1.7", "an EC key on brainpoolP256r1"),
    ("1.3.36.3.3.2.8.1.1.11", "an EC key on brainpoolP384r1"),
    ("1.3.36.3.3.2.8.1.1.13", "an EC key on brainpoolP512r1"),
    ("1.2.840.10045.2.1", "an EC key on a curve of its own"),
];

/// The public part of a private key in PKCS#8, in the service's encoding: a `SubjectPublicKeyInfo` in DER.
///
/// # Errors
/// The service stores no keys of its kind.
pub fn public_of_private(pkcs8: &Secret) -> Result<Vec<u8>, KeyError> {
    let key = PKey::private(pkcs8.expose()).ok_or(KeyError::NotPkcs8)?;
    let kind = key.kind().ok_or_else(|| KeyError::NotStored(named(pkcs8.expose(), &key)))?;
    public(kind, &key).ok_or(KeyError::NoPublicPart)
}

/// The kind of the private key in a file (PEM or DER) that the library cannot read, with the remedy. `None`: it is no
/// PKCS#8.
pub fn unknown_kind(file: &[u8]) -> Option<KeyError> {
    let block = der::pem::decode_vec(file).ok().filter(|(label, _)| *label == "PRIVATE KEY");
    let decoded = Zeroizing::new(block.map_or_else(|| file.to_vec(), |(_, body)| body));
    algorithm(&decoded).map(KeyError::NotStored)
}

fn named(pkcs8: &[u8], key: &PKey) -> String {
    let name = algorithm(pkcs8).unwrap_or_else(|| "a key of another kind".to_owned());
    if key.id() == pkey::RSA { format!("{name} of {} bits", key.bits()) } else { name }
}

fn algorithm(pkcs8: &[u8]) -> Option<String> {
    let info = AnyRef::from_der(pkcs8).ok().filter(|info| info.tag() == Tag::Sequence)?;
    let mut parts = SliceReader::new(info.value()).ok()?;
    AnyRef::decode(&mut parts).ok().filter(|version| version.tag() == Tag::Integer)?;
    let algorithm = AnyRef::decode(&mut parts).ok().filter(|algorithm| algorithm.tag() == Tag::Sequence)?;
    AnyRef::decode(&mut parts).ok().filter(|key| key.tag() == Tag::OctetString)?;
    let mut parts = SliceReader::new(algorithm.value()).ok()?;
    let algorithm = ObjectIdentifier::decode(&mut parts).ok()?;
    let curve = ObjectIdentifier::decode(&mut parts).ok();
    let name =
        |id: ObjectIdentifier| NAMES.into_iter().find(|(known, _)| id.to_string() == *known).map(|(_, name)| name);
    let known = curve.and_then(name).or_else(|| name(algorithm));
    Some(known.map_or_else(|| format!("a key of the algorithm {algorithm}"), str::to_owned))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_key_that_is_stored_has_its_public_part() {
        let pkcs8 = Secret::from(&include_bytes!("../engine/crypto/keys/test-p-256.pkcs8.der")[..]);
        let public: &[u8] = include_bytes!("../engine/crypto/keys/test-p-256.spki.der");
        assert_eq!(public_of_private(&pkcs8).as_deref(), Ok(public));
    }

    #[test]
    fn other_kinds_are_named() {
        // RFC 8410's form, of an X448 key.
        let x448 = [&[0x30, 0x46, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x6f, 4, 0x3a, 4, 0x38][..], &[7; 56]].concat();
        let pem = der::pem::encode_string("PRIVATE KEY", der::pem::LineEnding::LF, &x448).unwrap();
        for file in [&x448[..], pem.as_bytes()] {
            let said = unknown_kind(file).unwrap().to_string();
            assert!(said.contains("an X448 key") && said.contains("p-256"), "{said}");
        }
        let other = [&[0x30, 12, 2, 1, 0, 0x30, 4, 6, 2, 0x2a, 3, 4, 1][..], &[7]].concat();
        assert!(unknown_kind(&other).unwrap().to_string().contains("1.2.3"));
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_kind_or_none(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            let _ = unknown_kind(&bytes);
            let _ = public_of_private(&Secret::from(&bytes[..]));
        }
    }
}
