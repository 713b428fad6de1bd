//! Public keys and certificates in SSH's form.

use crate::wire::{Malformed, Reader, Writer};
use sidecore_client::keyops::key::{Curve, Public, Raw};

/// Longest modulus of RSA that the service takes, bytes.
const MAX_MODULUS: usize = 1024;
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

/// The public key of a blob, which may be that of a certificate: without what is certified.
pub(crate) fn public_of(blob: &[u8]) -> Result<Public, Malformed> {
    let plain = certified(blob);
    let mut reader = Reader::new(plain.as_deref().unwrap_or(blob));
    let public = match reader.text()? {
        "ssh-rsa" => {
            let (e, n) = (positive(reader.string()?)?, positive(reader.string()?)?);
            Public::Rsa { n, e }
        }
        "ssh-ed25519" => Public::Raw(Raw::Ed25519, reader.string()?.to_vec()),
        named => {
            let curve = Curve::ALL.into_iter().find(|curve| named == format!("ecdsa-sha2-{}", curve_name(*curve)));
            let curve = curve.ok_or(Malformed)?;
            let (name, point) = (reader.text()?, reader.string()?.to_vec());
            if name != curve_name(curve) {
                return Err(Malformed);
            }
            Public::Ec { curve, point }
        }
    };
    reader.end()?;
    let fits = match &public {
        Public::Rsa { n, e } => !n.is_empty() && !e.is_empty() && n.len() <= MAX_MODULUS && e.len() <= n.len(),
        Public::Ec { curve, point } => point.len() == 1 + 2 * curve.size() && point[0] == 4,
        Public::Raw(raw, key) => key.len() == raw.size(),
    };
    if fits { Ok(public) } else { Err(Malformed) }
}

/// Without leading zeros.
fn positive(number: &[u8]) -> Result<Vec<u8>, Malformed> {
    let zeros = number.iter().take_while(|byte| **byte == 0).count();
    let is_negative = number.first().is_some_and(|byte| *byte >= 0x80);
    if is_negative { Err(Malformed) } else { Ok(number[zeros..].to_vec()) }
}

/// The public key that a certificate certifies.
pub(crate) fn certified(blob: &[u8]) -> Result<Vec<u8>, Malformed> {
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
pub(crate) mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    pub(crate) fn keys() -> [Public; 4] {
        let ec = |curve: Curve| Public::Ec { curve, point: vec![4; 1 + 2 * curve.size()] };
        let rsa = Public::Rsa { n: vec![0xc1; 256], e: vec![1, 0, 1] };
        [rsa, ec(Curve::P256), ec(Curve::P384), Public::Raw(Raw::Ed25519, vec![7; 32])]
    }

    pub(crate) fn certificate(key: &[u8]) -> Vec<u8> {
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
    fn a_blob_has_its_public_key_and_so_has_a_certificate() {
        for public in keys() {
            let key = blob(&public).unwrap();
            assert_eq!(public_of(&key), Ok(public.clone()));
            assert_eq!(public_of(&certificate(&key)), Ok(public));
            assert!((0..key.len()).all(|len| public_of(&key[..len]).is_err()));
            assert!(public_of(&[&key[..], &[0]].concat()).is_err());
        }
        let ec = |named: &str, curve: &str, point: &[u8]| {
            Writer::default().string(named).string(curve).string(point).finish()
        };
        for wrong in [
            ec("ecdsa-sha2-nistp256", "nistp384", &[4; 65]),
            ec("ecdsa-sha2-nistp256", "nistp256", &[2; 33]),
            Writer::default().string("ssh-rsa").string([1, 0, 1]).string([0x80; 256]).finish(),
            Writer::default().string("ssh-rsa").string([1, 0, 1]).string([0; 256]).finish(),
            Writer::default().string("ssh-dss").string([1]).finish(),
        ] {
            assert_eq!(public_of(&wrong), Err(Malformed));
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_certificate_or_an_error(bytes in vec(any::<u8>(), 0..256)) {
            let named = Writer::default().string(format!("ssh-rsa{CERTIFICATE}")).raw(&bytes).finish();
            for blob in [&bytes, &named] {
                if let Ok(key) = certified(blob) {
                    prop_assert!(key.len() < blob.len());
                }
                let _ = public_of(blob);
            }
        }
    }
}
