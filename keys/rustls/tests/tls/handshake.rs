//! Handshakes with keys of each kind, and the schemes that are chosen for them.

use crate::site::{Ends, KINDS, Site, provider};
use rustls::pki_types::CertificateDer;
use rustls::sign::SigningKey;
use rustls::version::{TLS12, TLS13};
use rustls::{SignatureAlgorithm, SignatureScheme};
use sidecore::keys::{Acl, KeyCommand, Kind};
use sidecore_rustls::{StoredKey, stored, with_chain};

#[test]
fn each_kind_makes_handshakes_of_both_versions_at_both_ends() {
    let names = KINDS.map(|(name, _)| name);
    let site = Site::with(&names);
    for name in names {
        let certified = stored(&site.options(), name).unwrap();
        assert_eq!(certified.cert, [site.certificate(name)]);
        for version in [&TLS12, &TLS13] {
            for _ in 0..3 {
                Ends::new(&certified, &site.certificate(name), version).talk().unwrap();
            }
            Ends::mutual(&certified, version).talk().unwrap();
        }
    }
}

#[test]
fn each_scheme_signs_what_rustls_verifies_and_others_are_not_chosen() {
    let names = KINDS.map(|(name, _)| name);
    let site = Site::with(&names);
    let rsa = [0x0806, 0x0805, 0x0804, 0x0601, 0x0501, 0x0401];
    let all: Vec<SignatureScheme> = (0..=u16::MAX).map(SignatureScheme::from).collect();
    for name in names {
        let key = StoredKey::find(&site.options(), name).unwrap();
        let schemes: &[u16] = match name {
            "p256" => &[0x0403],
            "p384" => &[0x0503],
            "p521" => &[0x0603],
            "ed25519" => &[0x0807],
            _ => &rsa,
        };
        assert_eq!(u16::from(key.choose_scheme(&all).unwrap().scheme()), schemes[0], "{name}");
        let others: Vec<_> = all.iter().copied().filter(|scheme| !schemes.contains(&u16::from(*scheme))).collect();
        assert!(key.choose_scheme(&others).is_none() && key.choose_scheme(&[]).is_none(), "{name}");
        for scheme in schemes.iter().copied().map(SignatureScheme::from) {
            let signature = key.choose_scheme(&[scheme]).unwrap().sign(b"a message").unwrap();
            assert!(verifies(&site.certificate(name), scheme, b"a message", &signature), "{name} {scheme:?}");
            assert!(!verifies(&site.certificate(name), scheme, b"a massage", &signature), "{name} {scheme:?}");
        }
    }
}

fn verifies(certificate: &CertificateDer<'_>, scheme: SignatureScheme, message: &[u8], signature: &[u8]) -> bool {
    let provider = provider();
    let (_, algorithms) =
        provider.signature_verification_algorithms.mapping.iter().find(|(known, _)| *known == scheme).unwrap();
    let public = rustls::server::ParsedCertificate::try_from(certificate).unwrap();
    let spki = public.subject_public_key_info();
    algorithms.iter().any(|algorithm| {
        let identifier = algorithm.public_key_alg_id();
        // A `SubjectPublicKeyInfo` ends with the key, after the bit string's number of unused bits.
        (1..spki.len()).any(|start| {
            spki[..start].ends_with(&[0])
                && spki.windows(identifier.len()).any(|window| window == &*identifier)
                && algorithm.verify_signature(&spki[start..], message, signature).is_ok()
        })
    })
}

#[test]
fn a_key_of_ml_dsa_signs_by_its_scheme() {
    let site = Site::with(&[]);
    let command = KeyCommand::Generate { name: "pq".to_owned(), kind: Kind::MlDsa65, acl: Acl::default() };
    site.keys(command);
    let key = StoredKey::find(&site.options(), "pq").unwrap();
    assert_eq!(key.algorithm(), SignatureAlgorithm::Unknown(0));
    let signer = key.choose_scheme(&[SignatureScheme::ED25519, SignatureScheme::ML_DSA_65]).unwrap();
    let signature = signer.sign(b"a message").unwrap();
    let provider = provider();
    let known = provider.signature_verification_algorithms.mapping;
    let (_, algorithms) = known.iter().find(|(scheme, _)| *scheme == SignatureScheme::ML_DSA_65).unwrap();
    let spki = key.public_key().unwrap();
    let raw = &spki[spki.len() - 1952..];
    assert!(algorithms[0].verify_signature(raw, b"a message", &signature).is_ok());
    assert!(algorithms[0].verify_signature(raw, b"a massage", &signature).is_err());
}

#[test]
fn what_does_not_fit_is_refused_with_its_remedy() {
    let site = Site::with(&["p256", "rsa2048"]);
    let options = site.options();
    for (name, kind) in [("agree", Kind::X25519), ("kem", Kind::MlKem768), ("bare", Kind::P384)] {
        site.keys(KeyCommand::Generate { name: name.to_owned(), kind, acl: Acl::default() });
    }
    site.keys(KeyCommand::SetUsage { name: "rsa2048".to_owned(), usage: "decrypt".parse().unwrap() });
    let own = || vec![site.certificate("p256")];
    for (refused, remedy) in [
        (stored(&options, "none"), "sidecore keys list"),
        (stored(&options, "../p256"), "no key of this name"),
        (stored(&options, ""), "no key of this name"),
        (stored(&options, "agree"), "use one of RSA"),
        (stored(&options, "kem"), "use one of RSA"),
        (stored(&options, "bare"), "sidecore keys cert bare FILE"),
        (stored(&options, "rsa2048"), "sidecore keys usage rsa2048 sign,decrypt"),
        (with_chain(&options, "p256", Vec::new()), "sidecore keys cert p256 FILE"),
        (with_chain(&options, "bare", own()), "put the key's own first"),
        (with_chain(&options, "p256", vec![site.certificate("rsa2048"), site.certificate("p256")]), "own first"),
        (with_chain(&options, "p256", vec![vec![0x30; 40].into()]), "cannot be read"),
    ] {
        let error = refused.unwrap_err().to_string();
        assert!(error.contains(remedy), "{error}");
    }
    with_chain(&options, "p256", own()).unwrap();
}
