//! OpenSSL's own code verifies the service's signatures, and the service decrypts ciphertexts of OpenSSL's own code.

use crate::site::{EXCHANGE, PREFERRED, REQUIRED, Site};
use sidecore::keys::Kind;
use sidecore_libcrypto::{Action, Half, Key, Operation};

const OPENSSL: &str = "provider=default";
/// The first OpenSSL with ML-KEM and ML-DSA of its own. Older ones can use the provider's.
const LATTICES: (u32, u32) = (3, 5);
const DIGESTS: [&str; 7] = ["SHA1", "SHA224", "SHA256", "SHA384", "SHA512", "SHA512-256", "SHA3-256"];

fn settings(kind: Kind, digest: Option<&str>) -> Vec<Vec<(&'static str, &'static str)>> {
    match (kind, digest) {
        (
            Kind::Rsa2048 | Kind::Rsa3072 | Kind::Rsa4096,
            Some("SHA224" | "SHA256" | "SHA384" | "SHA512" | "SHA512-256"),
        ) => vec![
            vec![],
            vec![("rsa_padding_mode", "pss"), ("rsa_pss_saltlen", "digest")],
            vec![("rsa_padding_mode", "pss"), ("rsa_pss_saltlen", "max")],
            vec![("rsa_padding_mode", "pss"), ("rsa_pss_saltlen", "0"), ("rsa_mgf1_md", "SHA256")],
        ],
        _ => vec![vec![]],
    }
}

fn begin(site: &Site, key: &Key, who: &str, digest: Option<&str>, verifies: bool, how: &[(&str, &str)]) -> Operation {
    let message = Operation::on_messages(&site.context, key, who, digest, verifies).unwrap();
    for (name, value) in how {
        message.set(name, value).unwrap();
    }
    assert_eq!(message.provider().as_deref(), who.split('=').next_back());
    message
}

/// A key in the service, by URI, and its public part, read by OpenSSL's own code.
fn pair(site: &Site, kind: Kind) -> (Key, Key) {
    let (uri, public) = site.generate(kind);
    (
        Key::stored(&site.context, &uri, PREFERRED).unwrap(),
        Key::from_der(&site.context, Half::Public, &public, OPENSSL).unwrap(),
    )
}

#[test]
fn openssls_own_code_verifies_what_the_service_signs() {
    let site = Site::start();
    let mut kinds =
        vec![Kind::Rsa2048, Kind::Rsa3072, Kind::Rsa4096, Kind::P256, Kind::P384, Kind::P521, Kind::Ed25519];
    if site.context.release() >= LATTICES {
        kinds.push(Kind::MlDsa65);
    }
    for kind in kinds {
        let (key, public) = pair(&site, kind);
        let digests = match kind {
            Kind::Ed25519 | Kind::MlDsa65 => vec![None],
            _ => DIGESTS.map(Some).to_vec(),
        };
        for digest in digests {
            for how in settings(kind, digest) {
                let (text, other) = (b"a message to sign", b"another message..");
                let signature = begin(&site, &key, REQUIRED, digest, false, &how).result(text).unwrap();
                for (who, key) in [(OPENSSL, &public), (REQUIRED, &public), (REQUIRED, &key)] {
                    let what = format!("{kind:?} {digest:?} {how:?} {who}");
                    let check = |message: &[u8]| begin(&site, key, who, digest, true, &how).verify(&signature, message);
                    assert!(check(text).is_ok(), "{what}");
                    assert!(check(other).is_err(), "{what}");
                }
            }
        }
    }
}

#[test]
fn the_service_decrypts_what_openssls_own_code_encrypts() {
    let site = Site::start();
    let (key, public) = pair(&site, Kind::Rsa2048);
    let oaep = [("rsa_padding_mode", "oaep"), ("rsa_oaep_md", "SHA256")];
    for how in [&[][..], &oaep[..1], &oaep[..]] {
        let operation = |key, who, action| {
            let operation = Operation::new(&site.context, key, who, action).unwrap();
            for (name, value) in how {
                operation.set(name, value).unwrap();
            }
            operation
        };
        let ciphertext = operation(&public, OPENSSL, Action::Encrypt).result(b"a secret").unwrap();
        assert_eq!(operation(&key, REQUIRED, Action::Decrypt).result(&ciphertext).unwrap(), b"a secret", "{how:?}");
    }
}

#[test]
fn ml_dsa_signatures_are_verified_by_every_openssl() {
    let site = Site::start();
    let (uri, public) = site.generate(Kind::MlDsa65);
    let key = Key::stored(&site.context, &uri, PREFERRED).unwrap();
    let signature = begin(&site, &key, REQUIRED, None, false, &[]).result(b"a message").unwrap();
    let raw = public.last_chunk::<1952>().unwrap();
    let public = Key::from_raw(&site.context, Half::Public, ("ML-DSA-65", raw), REQUIRED).unwrap();
    assert!(public.equals(&key));
    let check = |message: &[u8]| begin(&site, &public, REQUIRED, None, true, &[]).verify(&signature, message);
    assert!(check(b"a message").is_ok());
    assert!(check(b"another..").is_err());
}

/// If OpenSSL has the algorithm itself, its own code makes the encapsulation.
#[test]
fn a_stored_key_decapsulates_what_its_public_part_encapsulates() {
    let site = Site::start();
    let (uri, public) = site.generate(Kind::MlKem768);
    let key = Key::stored(&site.context, &uri, PREFERRED).unwrap();
    let raw = public.last_chunk::<1184>().unwrap();
    let mut encapsulators = vec![EXCHANGE];
    if site.context.release() >= LATTICES {
        encapsulators.push(OPENSSL);
    }
    for who in encapsulators {
        let public = Key::from_raw(&site.context, Half::Public, ("ML-KEM-768", raw), who).unwrap();
        let operation = Operation::new(&site.context, &public, who, Action::Encapsulate).unwrap();
        let (ciphertext, secret) = operation.encapsulate().unwrap();
        // As in a program that knows nothing of the provider.
        let operation = Operation::new(&site.context, &key, "", Action::Decapsulate).unwrap();
        assert_eq!(operation.provider().as_deref(), Some("sidecore"));
        assert_eq!(operation.result(&ciphertext).unwrap(), secret);
        assert!(operation.result(&ciphertext[1..]).is_err());
    }
}
