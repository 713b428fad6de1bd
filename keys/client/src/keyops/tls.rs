//! Signature schemes of TLS, by their registered numbers: the keys that make them, and their settings.

use crate::keyops::digest::Digest;
use crate::keyops::key::{Curve, Family, Public, Raw};
use crate::keyops::sign::{Padding, Salt, Settings};

/// A key of ML-DSA-65.
const ML_DSA_65: u16 = 0x0905;
const ED25519: u16 = 0x0807;
/// PSS with keys of RSA, then PKCS#1 v1.5.
const RSA: [u16; 6] = [0x0806, 0x0805, 0x0804, 0x0601, 0x0501, 0x0401];
/// With SHA-256, SHA-384 and SHA-512; TLS 1.3 ties each to the curve of that size.
const ECDSA: [u16; 3] = [0x0403, 0x0503, 0x0603];

/// The schemes that a key makes in TLS 1.3 and 1.2, preferred ones first. Empty: the key does not sign.
pub fn schemes(public: &Public) -> &'static [u16] {
    match public {
        Public::Rsa { .. } => &RSA,
        Public::Ec { curve: Curve::P256, .. } => &ECDSA[..1],
        Public::Ec { curve: Curve::P384, .. } => &ECDSA[1..2],
        Public::Ec { curve: Curve::P521, .. } => &ECDSA[2..],
        Public::Raw(Raw::Ed25519, _) => &[ED25519],
        Public::Raw(Raw::MlDsa65, _) => &[ML_DSA_65],
        Public::Raw(..) => &[],
    }
}

/// The settings of a scheme with a key. `None`: the key does not make it. In TLS 1.2 a scheme of ECDSA names only its
/// hash, so each curve has each of them.
pub fn settings(scheme: u16, public: &Public) -> Option<Settings> {
    let fits = match public.family() {
        Family::Ec => ECDSA.contains(&scheme),
        _ => schemes(public).contains(&scheme),
    };
    let digest = match scheme {
        0x0804 | 0x0401 | 0x0403 => Some(Digest::Sha256),
        0x0805 | 0x0501 | 0x0503 => Some(Digest::Sha384),
        0x0806 | 0x0601 | 0x0603 => Some(Digest::Sha512),
        // Ed25519 and ML-DSA take the message.
        _ => None,
    };
    let padding = if matches!(scheme, 0x0804..=0x0806) { Padding::Pss } else { Padding::Pkcs1 };
    fits.then_some(Settings { digest, padding, salt: Salt::Digest, mgf1: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_settings_for_its_own_schemes_and_no_others() {
        let ec = |curve| Public::Ec { curve, point: vec![4] };
        let raw = Raw::ALL.map(|raw| Public::Raw(raw, Vec::new()));
        let keys = [Public::Rsa { n: vec![1], e: vec![3] }, ec(Curve::P256), ec(Curve::P384), ec(Curve::P521)];
        for public in keys.into_iter().chain(raw) {
            let has = |scheme: &u16| settings(*scheme, &public).is_some();
            assert!(schemes(&public).iter().all(has), "{public:?}");
            let all: Vec<u16> = (0..=u16::MAX).filter(has).collect();
            match public.family() {
                Family::Ec => assert_eq!(all, ECDSA),
                _ => assert_eq!(all.len(), schemes(&public).len(), "{public:?}"),
            }
        }
    }
}
