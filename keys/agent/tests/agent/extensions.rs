//! The extensions: keys and signatures for programs of other languages, e.g. a `crypto.Signer` of Go.

use crate::raw::{FAILURE, ask, message, next, string};
use crate::site::{Agent, KEYS, Site};
use sidecore::keys::{Acl, KeyCommand, Kind};
use sidecore_client::keyops::failure::Reason;
use std::fs;

const KEY_LIST: &str = "sidecore-keys@sidecore";
const SIGN: &str = "sidecore-sign@sidecore";
fn failed(reason: Reason) -> [u8; 2] {
    [28, reason as u8]
}

fn keys(agent: &Agent) -> Vec<(String, Vec<u8>)> {
    let reply = ask(&agent.socket, &message(27, &[&string(KEY_LIST)]));
    assert_eq!(reply[0], 29);
    let mut rest = &reply[1..];
    assert_eq!(next(&mut rest), KEY_LIST.as_bytes());
    let mut keys = Vec::new();
    while !rest.is_empty() {
        keys.push((String::from_utf8(next(&mut rest)).unwrap(), next(&mut rest)));
    }
    keys
}

fn sign(agent: &Agent, (name, public): &(String, Vec<u8>), scheme: u32, input: &[u8]) -> Vec<u8> {
    let parts = [&string(SIGN)[..], &string(name), &string(public), &scheme.to_be_bytes(), &string(input)];
    ask(&agent.socket, &message(27, &parts))
}

/// Options for `openssl pkeyutl`, by scheme.
const SCHEMES: [(&str, u32, usize, &[&str]); 10] = [
    ("rsa", 0x0401, 32, &["-pkeyopt", "digest:sha256"]),
    ("rsa", 0x0501, 48, &["-pkeyopt", "digest:sha384"]),
    ("rsa", 0x0601, 64, &["-pkeyopt", "digest:sha512"]),
    (
        "rsa",
        0x0804,
        32,
        &["-pkeyopt", "digest:sha256", "-pkeyopt", "rsa_padding_mode:pss", "-pkeyopt", "rsa_pss_saltlen:32"],
    ),
    (
        "rsa",
        0x0805,
        48,
        &["-pkeyopt", "digest:sha384", "-pkeyopt", "rsa_padding_mode:pss", "-pkeyopt", "rsa_pss_saltlen:48"],
    ),
    (
        "rsa",
        0x0806,
        64,
        &["-pkeyopt", "digest:sha512", "-pkeyopt", "rsa_padding_mode:pss", "-pkeyopt", "rsa_pss_saltlen:64"],
    ),
    ("p256", 0x0403, 32, &[]),
    ("p256", 0x0603, 64, &[]),
    ("p384", 0x0503, 48, &[]),
    ("ed25519", 0x0807, 9, &["-rawin"]),
];

#[test]
fn signatures_by_schemes_of_tls_are_those_that_openssl_verifies() {
    let site = Site::with(&KEYS);
    let agent = site.agent(&[]);
    let keys = keys(&agent);
    assert_eq!(keys.len(), 4);
    for (name, scheme, len, options) in SCHEMES {
        let key = keys.iter().find(|(found, _)| found == name).unwrap();
        let input = vec![7; len];
        let reply = sign(&agent, key, scheme, &input);
        assert_eq!(reply[0], 29, "{scheme:#x}: {}", agent.said());
        let mut rest = &reply[1..];
        assert_eq!(next(&mut rest), SIGN.as_bytes());
        fs::write(site.path("signature"), next(&mut rest)).unwrap();
        assert!(rest.is_empty());
        for (file, bytes) in [("public", &key.1), ("input", &input)] {
            fs::write(site.path(file), bytes).unwrap();
        }
        let verify = ["pkeyutl", "-verify", "-pubin", "-keyform", "DER", "-inkey", "public", "-in", "input"];
        let verify = [&verify[..], &["-sigfile", "signature"], options].concat();
        assert!(site.run(&agent, "openssl", &verify, "").contains("Successfully"), "{scheme:#x}");
    }
}

#[test]
fn what_does_not_fit_the_key_fails_and_so_does_a_key_that_was_replaced() {
    let site = Site::with(&KEYS);
    let agent = site.agent(&[]);
    let keys = keys(&agent);
    let key = |name: &str| keys.iter().find(|(found, _)| found == name).unwrap();
    for (name, scheme, len) in [
        ("rsa", 0x0401, 31),
        ("rsa", 0x0804, 33),
        ("rsa", 0x0201, 20),
        ("rsa", 0x0403, 32),
        ("p256", 0x0401, 32),
        ("p256", 0x0403, 0),
        ("p256", 0x0807, 32),
        ("ed25519", 0x0808, 32),
        ("ed25519", 0, 32),
        ("ed25519", u32::MAX, 32),
    ] {
        let reply = sign(&agent, key(name), scheme, &vec![7; len]);
        assert!(
            [Reason::Unsupported, Reason::Input].map(failed).contains(&reply[..].try_into().unwrap()),
            "{name} {scheme:#x} {len}"
        );
    }
    let public = key("p384").1.clone();
    assert_eq!(sign(&agent, &("none".to_owned(), public.clone()), 0x0503, &[7; 48]), failed(Reason::NoKey));
    assert_eq!(sign(&agent, &("p256".to_owned(), public), 0x0503, &[7; 48]), failed(Reason::Replaced));
    let old = key("ed25519");
    assert_eq!(sign(&agent, old, 0x0807, b"message")[0], 29);
    site.keys(KeyCommand::Delete { name: "ed25519".to_owned() });
    site.make("ed25519", Kind::Ed25519, Acl::default());
    assert_eq!(sign(&agent, old, 0x0807, b"message"), failed(Reason::Replaced));
    // Known extensions with a wrong form, and an unknown one.
    for request in [message(27, &[&string(KEY_LIST), &[0]]), message(27, &[&string(SIGN)])] {
        assert_eq!(ask(&agent.socket, &request), failed(Reason::Input));
    }
    assert_eq!(ask(&agent.socket, &message(27, &[&string("other@sidecore")])), FAILURE);
}
