//! What the service signs, OpenSSL's own code verifies; what OpenSSL's own code encrypts, the service decrypts.

use crate::ffi::{Action, Key, Message, Operation};
use crate::site::{PREFERRED, REQUIRED, Site};
use sidecore::keys::Kind;

const OPENSSL: &str = "provider=default";
const DIGESTS: [&str; 6] = ["SHA1", "SHA224", "SHA256", "SHA384", "SHA512", "SHA3-256"];

fn settings(kind: Kind, digest: Option<&str>) -> Vec<Vec<(&'static str, &'static str)>> {
    match (kind, digest) {
        (Kind::Rsa2048 | Kind::Rsa3072 | Kind::Rsa4096, Some("SHA256" | "SHA384" | "SHA512")) => vec![
            vec![],
            vec![("rsa_padding_mode", "pss"), ("rsa_pss_saltlen", "digest")],
            vec![("rsa_padding_mode", "pss"), ("rsa_pss_saltlen", "max")],
            vec![("rsa_padding_mode", "pss"), ("rsa_pss_saltlen", "0"), ("rsa_mgf1_md", "SHA256")],
        ],
        _ => vec![vec![]],
    }
}

fn begin(site: &Site, key: &Key, who: &str, digest: Option<&str>, verifies: bool, how: &[(&str, &str)]) -> Message {
    let message = Message::new(&site.context, key, who, digest, verifies).unwrap();
    for (name, value) in how {
        message.set(name, value).unwrap();
    }
    assert_eq!(message.provider().as_deref(), who.split('=').next_back());
    message
}

/// A key of the service's, by URI, and its public part, as OpenSSL's own code reads it.
fn pair(site: &Site, kind: Kind) -> (Key, Key) {
    let (uri, public) = site.generate(kind);
    (Key::stored(&site.context, &uri, PREFERRED).unwrap(), Key::public_der(&site.context, &public, OPENSSL).unwrap())
}

#[test]
fn openssls_own_code_verifies_what_the_service_signs() {
    let site = Site::start();
    for kind in [Kind::Rsa2048, Kind::Rsa3072, Kind::Rsa4096, Kind::P256, Kind::P384, Kind::Ed25519] {
        let (key, public) = pair(&site, kind);
        let digests = if kind == Kind::Ed25519 { vec![None] } else { DIGESTS.map(Some).to_vec() };
        for digest in digests {
            for how in settings(kind, digest) {
                let (text, other) = (b"a message to sign", b"another message..");
                let signature = begin(&site, &key, REQUIRED, digest, false, &how).sign(text).unwrap();
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
        let ciphertext = operation(&public, OPENSSL, Action::Encrypt).encrypt(b"a secret").unwrap();
        assert_eq!(operation(&key, REQUIRED, Action::Decrypt).decrypt(&ciphertext).unwrap(), b"a secret", "{how:?}");
    }
}
