//! Certificates beside keys: read from PEM files, and checked against a key before they are stored.

use super::error::CertificateError;
use super::public::spki_of_certificate;
use crate::ffi::pkey::PKey;
use sidecore_client::keys::pem::{all_blocks, first_block};
use sidecore_client::keys::{Certificate, MAX_CERTIFICATE, MAX_CERTIFICATES, Moment};

/// The certificates of a PEM file, in its order.
///
/// # Errors
/// There is none, or there are more or larger ones than are stored.
pub fn read_certificates(file: &[u8]) -> Result<Vec<Vec<u8>>, CertificateError> {
    let mut certificates = Vec::new();
    // Only whole blocks, one after the other.
    let blocks = all_blocks(file);
    let mut rest = blocks.as_slice();
    while let Some(block) = first_block(rest, is_certificate) {
        let (_, body) = der::pem::decode_vec(&block).map_err(|_| CertificateError::Damaged(certificates.len() + 1))?;
        certificates.push(body);
        if certificates.len() > MAX_CERTIFICATES {
            return Err(CertificateError::Many);
        }
        rest = after_block(rest);
    }
    check_sizes(&certificates)?;
    Ok(certificates)
}

/// The first certificate of a PEM file, of whatever length the chain is.
///
/// # Errors
/// There is none.
pub fn first_certificate(file: &[u8]) -> Result<Vec<u8>, CertificateError> {
    let block = first_block(&all_blocks(file), is_certificate).ok_or(CertificateError::None)?;
    der::pem::decode_vec(&block).map(|(_, body)| body).map_err(|_| CertificateError::Damaged(1))
}

fn is_certificate(label: &[u8]) -> bool {
    label == b"CERTIFICATE" || label == b"X509 CERTIFICATE"
}

/// The blocks after the first certificate.
fn after_block(blocks: &[u8]) -> &[u8] {
    const ENDS: [&[u8]; 2] = [b"-----END CERTIFICATE-----", b"-----END X509 CERTIFICATE-----"];
    let end = ENDS.iter().filter_map(|end| {
        let at = blocks.windows(end.len()).position(|window| window == *end)?;
        Some(at + end.len())
    });
    end.min().map_or(&[], |end| &blocks[end..])
}

fn check_sizes(certificates: &[Vec<u8>]) -> Result<(), CertificateError> {
    if certificates.is_empty() {
        return Err(CertificateError::None);
    }
    if certificates.len() > MAX_CERTIFICATES {
        return Err(CertificateError::Many);
    }
    let mut sizes = certificates.iter().map(Vec::len).enumerate();
    let large = sizes.find(|(_, size)| *size > MAX_CERTIFICATE);
    large.map_or(Ok(()), |(index, size)| Err(CertificateError::Large(index + 1, size)))
}

/// Checks sizes, form and order, and that the first one has this public key. Signatures are not verified.
pub(crate) fn check_chain(certificates: &[Vec<u8>], public: &[u8]) -> Result<(), CertificateError> {
    check_sizes(certificates)?;
    let damaged = |index: usize| CertificateError::Damaged(index + 1);
    let mut issuer = None;
    for (index, certificate) in certificates.iter().enumerate() {
        let parts = Certificate::read(certificate).ok_or_else(|| damaged(index))?;
        if issuer.is_some_and(|issuer| issuer != parts.subject) {
            return Err(CertificateError::Order(index + 1));
        }
        issuer = Some(parts.issuer);
    }
    let key = certificates.first().and_then(|leaf| PKey::public(&spki_of_certificate(leaf)?)?.to_spki());
    if key.as_deref() == Some(public) { Ok(()) } else { Err(CertificateError::OtherKey) }
}

/// Checks that this certificate is valid now, and no older than the `present` one of its key.
///
/// # Errors
/// It cannot be read, or its dates are others.
pub fn check_dates(leaf: &[u8], present: Option<&[u8]>, now: Moment) -> Result<(), CertificateError> {
    let leaf = Certificate::read(leaf).ok_or(CertificateError::Damaged(1))?;
    Ok(leaf.check_dates(present.and_then(Certificate::read).as_ref(), now)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PEM: &str = include_str!("test-files/p-256.certificate.pem");
    const SPKI: &[u8] = include_bytes!("../engine/crypto/keys/test-p-256.spki.der");
    const OTHER: &[u8] = include_bytes!("../engine/crypto/keys/test-rsa-2048.spki.der");

    fn certificate() -> Vec<u8> {
        read_certificates(PEM.as_bytes()).unwrap().remove(0)
    }

    #[test]
    fn a_chain_is_read_and_is_of_its_key_only() {
        let chain = format!("text before\n{PEM}text between\n{PEM}");
        let certificates = read_certificates(chain.as_bytes()).unwrap();
        assert_eq!(certificates, [certificate(), certificate()]);
        // The certificate is its own issuer.
        assert_eq!(check_chain(&certificates, SPKI), Ok(()));
        assert_eq!(check_chain(&certificates, OTHER), Err(CertificateError::OtherKey));
    }

    #[test]
    fn what_cannot_be_a_chain_has_its_name() {
        let read = |file: &str| read_certificates(file.as_bytes()).unwrap_err();
        assert_eq!(read(""), CertificateError::None);
        assert_eq!(read("-----BEGIN CERTIFICATE-----\n"), CertificateError::None);
        assert_eq!(read(&PEM.repeat(5)), CertificateError::Many);
        let large = der::pem::encode_string("CERTIFICATE", der::pem::LineEnding::LF, &vec![0x30; 1 << 20]).unwrap();
        assert_eq!(read(&large), CertificateError::Large(1, 1 << 20));
        let check = |chain: &[Vec<u8>]| check_chain(chain, SPKI).unwrap_err();
        assert_eq!(check(&[]), CertificateError::None);
        assert_eq!(check(&vec![certificate(); 5]), CertificateError::Many);
        assert_eq!(
            check(&[certificate(), vec![0; MAX_CERTIFICATE + 1]]),
            CertificateError::Large(2, MAX_CERTIFICATE + 1)
        );
        assert_eq!(check(&[certificate(), vec![0x30, 0]]), CertificateError::Damaged(2));
        let tail = [certificate(), vec![0]].concat();
        assert_eq!(check(&[tail]), CertificateError::Damaged(1));
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_chain_or_an_error(at: prop::sample::Index, byte in 1..=255_u8, bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let mut changed = certificate();
            let at = at.index(changed.len());
            changed[at] ^= byte;
            let _ = check_chain(&[certificate(), changed.clone()], SPKI);
            let _ = check_chain(&[changed, bytes.clone()], SPKI);
            let _ = read_certificates(&bytes);
        }
    }
}
