//! Known answers, round trips, and all names of the command line.

use super::*;

fn openssl() -> Context {
    Context::system().expect("the test machine has OpenSSL 3")
}

fn class(name: &str) -> Class {
    Class::from_name(name).unwrap_or_else(|| panic!("no {name}"))
}

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|i| u8::from_str_radix(&hex[i..i + 2], 16).expect("hexadecimal")).collect()
}

/// Each kind of operation. RSA has one length each, because making long keys takes seconds.
const NAMES: [&str; 31] = [
    "aes-128-gcm",
    "aes-256-gcm",
    "aes-128-ctr",
    "aes-256-ctr",
    "aes-128-cbc",
    "aes-256-cbc",
    "aes-128-xts",
    "aes-256-xts",
    "chacha20-poly1305",
    "3des-cbc",
    "sha-256",
    "sha-384",
    "sha-512",
    "hmac-sha-256",
    "hmac-sha-384",
    "hmac-sha-512",
    "rsa-1024-sign",
    "rsa-2048-sign",
    "rsa-4096-sign",
    "rsa-1024-sign-digest",
    "rsa-2048-verify",
    "rsa-2048-decrypt",
    "p-256-sign",
    "p-256-sign-digest",
    "p-256-verify",
    "p-384-sign",
    "p-384-sign-digest",
    "p-384-verify",
    "ed25519-sign",
    "ed25519-verify",
    "x25519",
];

#[test]
fn every_operation_runs_more_than_once() {
    let openssl = openssl();
    for name in NAMES {
        let mut run = operation(&openssl, class(name), 64).unwrap().unwrap_or_else(|| panic!("no {name}"));
        for round in 0..3 {
            run().unwrap_or_else(|failure| panic!("{name}, round {round}: {failure}"));
        }
    }
}

#[test]
fn names_and_sizes_it_cannot_do_are_none() {
    let openssl = openssl();
    for (name, size) in [
        ("aes-256-gcm-decrypt", 64),
        ("hmac-sha-256-verify", 64),
        ("ml-dsa-65-sign", 64),
        ("ml-kem-768-decaps", 64),
        ("noop", 0),
        ("aes-128-cbc", 17),
        ("3des-cbc", 12),
        ("aes-256-xts", 15),
    ] {
        assert!(operation(&openssl, class(name), size).unwrap().is_none(), "{name} of {size} B");
    }
}

/// NIST's `gcmEncryptExtIV256.rsp`, 128-bit plaintext, no additional data, count 0.
#[test]
fn aes_gcm_gives_nists_answer_each_time() {
    let openssl = openssl();
    let key = bytes("31bdadd96698c204aa9ce1448ea94ae1fb4a9a0b3c9d773b51bb1822666b8f22");
    let mut cipher = Cipher::new(&openssl, "AES-256-GCM", &key).unwrap();
    for _ in 0..2 {
        let mut data = bytes("2db5168e932556f8089a0622981d017d");
        cipher.encrypt(&bytes("0d18e06c7c725ac9e362e1ce"), &mut data).unwrap();
        assert_eq!(data, bytes("fa4362189661d163fcd6a56d8bf0405a"));
        assert_eq!(cipher.tag().unwrap().as_slice(), bytes("d636ac1bbedd5cc3ee727dc2ab4a9489"));
    }
}

/// FIPS 180-4's example and RFC 4231's test case 2.
#[test]
fn digest_and_hmac_give_the_published_answers_each_time() {
    let openssl = openssl();
    let mut out = [0; _];
    let mut digest = Digest::new(&openssl, "SHA256").unwrap();
    let mut mac = Mac::hmac(&openssl, "SHA256", b"Jefe").unwrap();
    for _ in 0..2 {
        let length = digest.digest(b"abc", &mut out).unwrap();
        assert_eq!(out[..length], bytes("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"));
        let length = mac.tag(b"what do ya want for nothing?", &mut out).unwrap();
        assert_eq!(out[..length], bytes("5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"));
    }
}

#[test]
fn a_signature_verifies_and_a_changed_one_does_not() {
    let openssl = openssl();
    for op in ["rsa-2048-sign", "p-256-sign", "p-384-sign"] {
        let kind = Kind::of(class(op).algorithm()).unwrap();
        let key = kind.read(&openssl, &private_key(op).unwrap(), "").unwrap();
        let (input, mut signature) = (vec![7; kind.digest.unwrap().1], [0; MAX_OUTPUT_BYTES]);
        let length = signer(&openssl, &key, "", kind.digest, false).unwrap().run(&input, &mut signature).unwrap();
        let mut verifier = signer(&openssl, &key, "", kind.digest, true).unwrap();
        verify(&mut verifier, &signature[..length], &input).unwrap();
        assert!(verify(&mut verifier, &signature[..length], &vec![8; input.len()]).is_err(), "{kind:?}");
        verify(&mut verifier, &signature[..length], &input).unwrap();
    }
}

/// RFC 8032, test 3, as a PKCS#8 document.
const ED25519_PKCS8: &str =
    concat!("302e020100300506032b657004220420", "c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7");

#[test]
fn a_key_from_pkcs8_signs_as_the_rfc_says() {
    let openssl = openssl();
    let key = Kind::of(Algorithm::Ed25519).unwrap().read(&openssl, &bytes(ED25519_PKCS8), "").unwrap();
    let [mut signing, mut verifier] = [false, true].map(|verifies| signer(&openssl, &key, "", None, verifies).unwrap());
    for _ in 0..2 {
        let mut signature = [0; MAX_OUTPUT_BYTES];
        let length = signing.run(&bytes("af82"), &mut signature).unwrap();
        assert_eq!(
            signature[..length],
            bytes(concat!(
                "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac",
                "18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a"
            ))
        );
        verify(&mut verifier, &signature[..length], &bytes("af82")).unwrap();
        assert!(verify(&mut verifier, &signature[..length], &bytes("af83")).is_err());
    }
}

#[test]
fn a_key_of_another_kind_is_refused() {
    let openssl = openssl();
    let kind = Kind::of(Algorithm::Rsa2048).unwrap();
    let failure = kind.read(&openssl, &bytes(ED25519_PKCS8), "").err().unwrap();
    assert!(failure.to_string().contains("not of the kind"), "{failure}");
    assert!(kind.read(&openssl, b"not a key", "").is_err());
}

#[test]
fn wrong_modes_and_lengths_of_key_and_iv_are_refused() {
    let openssl = openssl();
    assert!(Cipher::new(&openssl, "AES-128-WRAP", &[0; 16]).is_err());
    assert!(Cipher::new(&openssl, "AES-128-CTR", &[0; 15]).is_err());
    let mut cipher = Cipher::new(&openssl, "AES-128-CTR", &[0; 16]).unwrap();
    assert!(cipher.encrypt(&[0; 12], &mut [0; 4]).is_err());
}
