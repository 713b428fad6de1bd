//! Public keys in the files that other programs write, and in certificates: PEM or DER, recognised by content.

use super::error::KeyFileError;
use crate::ffi::pkey::PKey;
use der::asn1::AnyRef;
use der::{Decode, Encode, Header, SliceReader, Tag, TagNumber, Tagged};
use sidecore_client::keys::pem::first_block;

/// The public key of a file, or of the first certificate in it: a `SubjectPublicKeyInfo` in DER, in the service's
/// encoding.
///
/// # Errors
/// There is no public key, or there is a private key.
pub fn read_public_key(file: &[u8]) -> Result<Vec<u8>, KeyFileError> {
    let body = match first_block(file, |_| true) {
        Some(block) if block.split(|byte| *byte == b'\n').any(|line| line.ends_with(b"PRIVATE KEY-----")) => {
            return Err(KeyFileError::NotPublic);
        }
        Some(block) => der::pem::decode_vec(&block).map_err(|_| KeyFileError::NoPublicKey)?.1,
        None => file.to_vec(),
    };
    // Encoded again: a point may be compressed, and parameters may be left out.
    let key = PKey::public(&body).or_else(|| PKey::public(&spki_of_certificate(&body)?));
    key.and_then(|key| key.to_spki()).ok_or(KeyFileError::NoPublicKey)
}

/// RFC 5280: the signed part begins with version, serial number, algorithm, issuer, validity and subject.
pub(super) fn spki_of_certificate(certificate: &[u8]) -> Option<Vec<u8>> {
    let certificate = AnyRef::from_der(certificate).ok().filter(|certificate| certificate.tag() == Tag::Sequence)?;
    let mut signed =
        SliceReader::new(AnyRef::decode(&mut SliceReader::new(certificate.value()).ok()?).ok()?.value()).ok()?;
    let version = Tag::ContextSpecific { constructed: true, number: TagNumber(0) };
    if Header::peek(&signed).ok()?.tag() == version {
        AnyRef::decode(&mut signed).ok()?;
    }
    for tag in [Tag::Integer, Tag::Sequence, Tag::Sequence, Tag::Sequence, Tag::Sequence] {
        AnyRef::decode(&mut signed).ok().filter(|part| part.tag() == tag)?;
    }
    AnyRef::decode(&mut signed).ok().filter(|part| part.tag() == Tag::Sequence)?.to_der().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const RSA: &[u8] = include_bytes!("../engine/crypto/keys/test-rsa-2048.spki.der");
    const CERTIFICATE: &str = include_str!("test-files/p-256.certificate.pem");
    const P256: &[u8] = include_bytes!("../engine/crypto/keys/test-p-256.spki.der");

    fn pem(label: &str, body: &[u8]) -> String {
        der::pem::encode_string(label, der::pem::LineEnding::LF, body).unwrap()
    }

    #[test]
    fn public_keys_and_certificates_are_read() {
        assert_eq!(read_public_key(RSA).as_deref(), Ok(RSA));
        assert_eq!(read_public_key(pem("PUBLIC KEY", RSA).as_bytes()).as_deref(), Ok(RSA));
        assert_eq!(read_public_key(CERTIFICATE.as_bytes()).as_deref(), Ok(P256));
        assert_eq!(read_public_key(include_bytes!("test-files/p-256.compressed.spki.der")).as_deref(), Ok(P256));
        let chain = format!("a text before\n{CERTIFICATE}{CERTIFICATE}");
        assert_eq!(read_public_key(chain.as_bytes()).as_deref(), Ok(P256));
        let (_, certificate) = der::pem::decode_vec(CERTIFICATE.as_bytes()).unwrap();
        assert_eq!(read_public_key(&certificate).as_deref(), Ok(P256));
    }

    #[test]
    fn a_private_key_is_refused_with_a_remedy() {
        let private = include_bytes!("test-files/p-256.pkcs8.pem");
        assert_eq!(read_public_key(private), Err(KeyFileError::NotPublic));
        for wrong in [&b""[..], b"-----BEGIN PUBLIC KEY-----", &RSA[1..], b"text"] {
            assert_eq!(read_public_key(wrong), Err(KeyFileError::NoPublicKey));
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_key_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..300), at: prop::sample::Index) {
            let _ = read_public_key(&bytes);
            let (_, mut certificate) = der::pem::decode_vec(CERTIFICATE.as_bytes()).unwrap();
            let at = at.index(certificate.len());
            certificate[at] ^= 1 + bytes.first().copied().unwrap_or(0) % 255;
            let _ = read_public_key(&certificate);
        }
    }
}
