//! Public keys and certificates in SSH's form.

use crate::error::{AgentError, CertificateError};
use crate::wire::{Malformed, Reader, Writer};
use base64ct::{Base64, Encoding};
use sidecore_client::keyops::key::{Curve, Public, Raw};
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Largest file of a certificate, bytes.
const MAX_FILE: u64 = 64 * 1024;
const CERTIFICATE: &str = "-cert-v01@openssh.com";

/// SSH's name of the curve.
fn curve_name(curve: Curve) -> &'static str {
    match curve {
        Curve::P256 => "nistp256",
        Curve::P384 => "nistp384",
        Curve::P521 => "nistp521",
    }
}

/// SSH's name of the key's type. `None`: it has no such type.
pub(crate) fn type_name(public: &Public) -> Option<String> {
    match public {
        Public::Rsa { .. } => Some("ssh-rsa".to_owned()),
        Public::Ec { curve, .. } => Some(format!("ecdsa-sha2-{}", curve_name(*curve))),
        Public::Raw(Raw::Ed25519, _) => Some("ssh-ed25519".to_owned()),
        Public::Raw(..) => None,
    }
}

/// The public key as clients name it. `None`: SSH has no such type.
pub(crate) fn blob(public: &Public) -> Option<Vec<u8>> {
    let blob = Writer::default().string(type_name(public)?);
    let blob = match public {
        Public::Rsa { n, e } => blob.mpint(e).mpint(n),
        Public::Ec { curve, point } => blob.string(curve_name(*curve)).string(point),
        Public::Raw(_, key) => blob.string(key),
    };
    Some(blob.finish())
}

/// A certificate of OpenSSH.
#[derive(Debug)]
pub(crate) struct Certificate {
    pub(crate) path: PathBuf,
    pub(crate) blob: Vec<u8>,
    /// The certified public key.
    pub(crate) key: Vec<u8>,
}

pub(crate) fn read_certificates(paths: &[PathBuf]) -> Result<Vec<Certificate>, AgentError> {
    let read = |path: &PathBuf| {
        let blob = read_blob(path);
        let parts = blob.and_then(|blob| certified(&blob).map(|key| (blob, key)).map_err(CertificateError::from));
        let (blob, key) = parts.map_err(|error| AgentError::Certificate(path.clone(), error))?;
        Ok(Certificate { path: path.clone(), blob, key })
    };
    paths.iter().map(read).collect()
}

/// The second word of the first line that is no comment.
fn read_blob(path: &Path) -> Result<Vec<u8>, CertificateError> {
    let mut text = String::new();
    let read = File::open(path).and_then(|file| file.take(MAX_FILE + 1).read_to_string(&mut text));
    match read {
        Err(error) if error.kind() == io::ErrorKind::InvalidData => return Err(CertificateError::NoLine),
        read => read?,
    };
    if text.len() as u64 > MAX_FILE {
        return Err(CertificateError::TooLarge(MAX_FILE));
    }
    let line = text.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with('#'));
    let word = line.and_then(|line| line.split_whitespace().nth(1)).ok_or(CertificateError::NoLine)?;
    Base64::decode_vec(word).map_err(|_| CertificateError::NoLine)
}

/// The public key that a certificate certifies.
fn certified(blob: &[u8]) -> Result<Vec<u8>, Malformed> {
    let mut reader = Reader::new(blob);
    let of = reader.text()?.strip_suffix(CERTIFICATE).ok_or(Malformed)?;
    let parts = match of {
        "ssh-ed25519" => 1,
        "ssh-rsa" | "ecdsa-sha2-nistp256" | "ecdsa-sha2-nistp384" | "ecdsa-sha2-nistp521" => 2,
        _ => return Err(Malformed),
    };
    // The nonce of its issuer.
    reader.string()?;
    let key = Writer::default().string(of);
    Ok((0..parts).try_fold(key, |key, _| Ok(key.string(reader.string()?)))?.finish())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use std::fs;
    use std::slice::from_ref;

    fn keys() -> [Public; 4] {
        let ec = |curve: Curve| Public::Ec { curve, point: vec![4; 1 + 2 * curve.size()] };
        let rsa = Public::Rsa { n: vec![0xc1; 256], e: vec![1, 0, 1] };
        [rsa, ec(Curve::P256), ec(Curve::P384), Public::Raw(Raw::Ed25519, vec![7; 32])]
    }

    fn certificate(key: &[u8]) -> Vec<u8> {
        let mut reader = Reader::new(key);
        let of = reader.text().unwrap();
        let rest = &key[4 + of.len()..];
        let name = format!("{of}{CERTIFICATE}");
        Writer::default().string(name).string([9; 32]).raw(rest).raw(&[1; 100]).finish()
    }

    #[test]
    fn a_certificate_names_the_key_that_it_certifies() {
        for public in keys() {
            let key = blob(&public).unwrap();
            let whole = certificate(&key);
            assert_eq!(certified(&whole), Ok(key.clone()), "{public:?}");
            assert_eq!(certified(&key), Err(Malformed), "a key is no certificate");
            let end = whole.len() - 100;
            assert!((0..end).all(|len| certified(&whole[..len]).is_err()), "{public:?}");
        }
    }

    #[test]
    fn keys_without_a_type_in_ssh_have_no_blob() {
        for raw in [Raw::X25519, Raw::MlKem768, Raw::MlDsa65] {
            assert_eq!(blob(&Public::Raw(raw, vec![1; raw.size()])), None);
        }
    }

    #[test]
    fn a_file_without_a_certificate_says_so() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("id-cert.pub");
        let key = blob(&keys()[3]).unwrap();
        let line = |blob: &[u8]| format!("# a comment\n\ntype {} me\n", Base64::encode_string(blob));
        fs::write(&path, line(&certificate(&key))).unwrap();
        assert_eq!(read_certificates(from_ref(&path)).unwrap()[0].key, key);
        for (text, says) in [
            (line(&key), "it is no certificate"),
            ("ssh-ed25519".to_owned(), "no line of TYPE"),
            ("a ?".to_owned(), "no line of TYPE"),
            ("#".repeat(70_000), "more than 65536 bytes"),
            (String::new(), "no line of TYPE"),
        ] {
            fs::write(&path, text).unwrap();
            let error = read_certificates(from_ref(&path)).unwrap_err().to_string();
            assert!(error.contains(says) && error.contains("ssh-keygen -s"), "{error}");
        }
        fs::write(&path, [0xff; 9]).unwrap();
        assert!(read_certificates(from_ref(&path)).unwrap_err().to_string().contains("no line"));
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_certificate_or_an_error(bytes in vec(any::<u8>(), 0..256)) {
            let named = Writer::default().string(format!("ssh-rsa{CERTIFICATE}")).raw(&bytes).finish();
            for blob in [&bytes, &named] {
                if let Ok(key) = certified(blob) {
                    prop_assert!(key.len() < blob.len());
                }
            }
        }
    }
}
