//! Round trips: each class and its inverse, at any size.

use proptest::prelude::*;

use super::super::{DecryptionPadding, EncryptionPadding, Hash, SaltLength, SignaturePadding};
use super::*;

const CIPHERS: [&str; 10] = [
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
];

fn iv_len(name: &str) -> usize {
    match class(name).algorithm() {
        Algorithm::Aes128Gcm | Algorithm::Aes256Gcm | Algorithm::ChaCha20Poly1305 => 12,
        Algorithm::TripleDesCbc => 8,
        _ => 16,
    }
}

#[test]
fn every_class_has_a_sample_that_runs() {
    for class in Class::all() {
        for size in [0, 1, 64, 1000] {
            let sample = sample(class, size, 7);
            let output = run_sample(&sample).unwrap_or_else(|refusal| panic!("{}: {refusal:?}", class.name()));
            assert!(output.len() <= sample.output_len, "{}", class.name());
            let session = Session::open(&sample.spec).expect("a good spec");
            assert_eq!(session.class(sample.op), Some(class));
            assert_eq!(session.algorithm(), class.algorithm());
        }
    }
}

#[test]
fn samples_depend_on_their_seed_only() {
    for name in ["aes-256-gcm-decrypt", "rsa-2048-decrypt", "hmac-sha-256-verify", "x25519", "ed25519-verify"] {
        let make = |seed| sample(class(name), 100, seed);
        assert_eq!(make(1).input, make(1).input, "{name}");
        assert_ne!(make(1).input, make(2).input, "{name}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_is_encrypted_decrypts(size in 16usize..5000, seed: u64, aad_len in 0usize..40) {
        for name in CIPHERS {
            let sample = sample(class(name), size, seed);
            let session = Session::open(&sample.spec).expect("a good spec");
            let aead = iv_len(name) == 12;
            let head_len = if aead { aad_len.min(size) } else { 0 };
            let ciphertext = run(&session, Op::Encrypt, head_len, &sample.input).expect(name);
            let (front, plaintext) = sample.input.split_at(iv_len(name) + head_len);
            prop_assert_ne!(&ciphertext[..], plaintext);
            let back = run(&session, Op::Decrypt, head_len, &[front, &ciphertext].concat()).expect(name);
            prop_assert_eq!(&back[..], plaintext);
        }
    }

    #[test]
    fn what_is_signed_verifies_and_a_changed_bit_does_not(size in 1usize..3000, seed: u64, bit in 0usize..8) {
        let names = ["hmac-sha-256", "hmac-sha-384", "hmac-sha-512", "p-256", "p-384", "ed25519"];
        for name in names.map(|name| format!("{name}-verify")) {
            let mut sample = sample(class(&name), size, seed);
            prop_assert_eq!(run_sample(&sample), Ok(vec![]));
            let end = sample.input.len() - 1;
            sample.input[end] ^= 1 << bit;
            prop_assert_eq!(run_sample(&sample), Err(Refusal::Authentication));
        }
    }
}

#[test]
fn rsa_and_ml_dsa_signatures_verify_and_a_changed_bit_does_not() {
    for name in ["rsa-1024-verify", "rsa-2048-verify", "rsa-3072-verify", "rsa-4096-verify", "ml-dsa-65-verify"] {
        let mut sample = sample(class(name), 100, 3);
        assert_eq!(run_sample(&sample), Ok(vec![]), "{name}");
        sample.input[10] ^= 1;
        assert_eq!(run_sample(&sample), Err(Refusal::Authentication), "{name}");
    }
}

#[test]
fn a_signed_digest_is_a_signature_of_the_message() {
    for name in ["rsa-1024", "rsa-2048", "p-256", "p-384"] {
        let sample = sample(class(&format!("{name}-sign")), 333, 5);
        let session = Session::open(&sample.spec).expect("a good spec");
        let hash = if name == "p-384" { Hash::Sha384 } else { Hash::Sha256 };
        let digest = run(&open(Scheme::Digest(hash), KeyMaterial::None), Op::Digest, 0, &sample.input);
        let signature = run(&session, Op::SignDigest, 0, &digest.expect("digest")).expect(name);
        let input = [&signature[..], &sample.input].concat();
        assert_eq!(run(&session, Op::Verify, signature.len(), &input), Ok(vec![]), "{name}");
    }
}

fn raw_rsa(key: KeyMaterial) -> Session {
    open(Scheme::RsaSignature { padding: SignaturePadding::Pkcs1Raw, hash: Hash::Sha256 }, key)
}

#[test]
fn a_digest_info_of_the_clients_own_makes_the_same_signature() {
    let sample = sample(class("rsa-1024-sign"), 333, 5);
    let digest = run(&open(Scheme::Digest(Hash::Sha256), KeyMaterial::None), Op::Digest, 0, &sample.input);
    let info = [hex("3031300d060960864801650304020105000420"), digest.unwrap()].concat();
    let raw = raw_rsa(sample.spec.key.clone());
    let signature = run(&raw, Op::SignDigest, 0, &info).unwrap();
    assert_eq!(Ok(&signature), run_sample(&sample).as_ref());
    let mut signed = [&signature[..], &info].concat();
    assert_eq!(run(&raw, Op::Verify, signature.len(), &signed), Ok(vec![]));
    for place in [0, signature.len() + 20] {
        signed[place] ^= 1;
        assert_eq!(run(&raw, Op::Verify, signature.len(), &signed), Err(Refusal::Authentication));
        signed[place] ^= 1;
    }
}

#[test]
fn a_raw_payload_has_one_byte_up_to_what_the_padding_leaves() {
    let public = include_bytes!("../keys/test-rsa-2048.spki.der");
    let raw = raw_rsa(private(include_bytes!("../keys/test-rsa-2048.pkcs8.der")));
    for len in [1, 36, 256 - 11] {
        let signature = run(&raw, Op::SignDigest, 0, &vec![7; len]).unwrap();
        let signed = [signature, vec![7; len]].concat();
        assert_eq!(run(&raw_rsa(KeyMaterial::Public(public.to_vec())), Op::Verify, 256, &signed), Ok(vec![]));
    }
    for len in [0, 256 - 10, 256] {
        assert_eq!(run(&raw, Op::SignDigest, 0, &vec![7; len]), Err(Refusal::InputLength), "{len}");
    }
    assert_eq!(run(&raw, Op::SignDigest, 1, &[7; 9]), Err(Refusal::InputLength));
    assert_eq!(run(&raw, Op::Verify, 9, &[7; 8]), Err(Refusal::InputLength));
    assert_eq!(run(&raw, Op::Sign, 0, b"message"), Err(Refusal::Unsupported));
}

#[test]
fn ecdsa_signs_digests_of_other_hashes() {
    for (name, own) in [("p-256-sign", Hash::Sha256), ("p-384-sign", Hash::Sha384)] {
        let spec = sample(class(name), 0, 5).spec;
        let session = Session::open(&spec).unwrap();
        let message = b"a message";
        for hash in [Hash::Sha256, Hash::Sha384, Hash::Sha512] {
            let digest = run(&open(Scheme::Digest(hash), KeyMaterial::None), Op::Digest, 0, message).unwrap();
            let signature = run(&session, Op::SignDigest, 0, &digest).unwrap();
            let other = open(Scheme::Ecdsa { hash }, spec.key.clone());
            let signed = [&signature[..], message].concat();
            assert_eq!(run(&other, Op::Verify, signature.len(), &signed), Ok(vec![]), "{name} {hash:?}");
            let expected = if hash == own { Ok(vec![]) } else { Err(Refusal::Authentication) };
            assert_eq!(run(&session, Op::Verify, signature.len(), &signed), expected, "{name} {hash:?}");
        }
        assert!([20, 28].iter().all(|len| run(&session, Op::SignDigest, 0, &vec![1; *len]).is_ok()));
        assert!([0, 19, 67].iter().all(|len| run(&session, Op::SignDigest, 0, &vec![1; *len]).is_err()));
    }
}

#[test]
fn a_public_key_verifies_what_its_private_key_signed() {
    let pss = SignaturePadding::Pss { mgf1: Hash::Sha384, salt: SaltLength::Any };
    let cases: [(Scheme, &[u8], &[u8]); 4] = [
        (
            Scheme::RsaSignature { padding: pss, hash: Hash::Sha384 },
            include_bytes!("../keys/test-rsa-2048.pkcs8.der"),
            include_bytes!("../keys/test-rsa-2048.spki.der"),
        ),
        (
            Scheme::Ecdsa { hash: Hash::Sha512 },
            include_bytes!("../keys/test-p-256.pkcs8.der"),
            include_bytes!("../keys/test-p-256.spki.der"),
        ),
        (
            Scheme::Ecdsa { hash: Hash::Sha256 },
            include_bytes!("../keys/test-p-384.pkcs8.der"),
            include_bytes!("../keys/test-p-384.spki.der"),
        ),
        (
            Scheme::Ed25519,
            include_bytes!("../keys/test-ed25519.pkcs8.der"),
            include_bytes!("../keys/test-ed25519.spki.der"),
        ),
    ];
    for (scheme, pkcs8, spki) in cases {
        let signer = open(scheme.clone(), private(pkcs8));
        let verifier = open(scheme, KeyMaterial::Public(spki.to_vec()));
        let signature = run(&signer, Op::Sign, 0, b"message").expect("signs");
        let input = [&signature[..], b"message"].concat();
        assert_eq!(run(&verifier, Op::Verify, signature.len(), &input), Ok(vec![]));
        assert_eq!(verifier.class(Op::Sign), None);
        assert_eq!(run(&verifier, Op::Sign, 0, b"message"), Err(Refusal::Unsupported));
    }
}

#[test]
fn pkcs1_signatures_are_those_of_another_interface() {
    use aws_lc_rs::signature::{RSA_PKCS1_SHA256, RsaKeyPair};
    let keys: [&[u8]; 3] = [
        include_bytes!("../keys/test-rsa-2048.pkcs8.der"),
        include_bytes!("../keys/test-rsa-3072.pkcs8.der"),
        include_bytes!("../keys/test-rsa-4096.pkcs8.der"),
    ];
    for pkcs8 in keys {
        let other = RsaKeyPair::from_pkcs8(pkcs8).expect("a key");
        let mut expected = vec![0; other.public_modulus_len()];
        let random = aws_lc_rs::rand::SystemRandom::new();
        other.sign(&RSA_PKCS1_SHA256, &random, b"message", &mut expected).expect("signs");
        let scheme = Scheme::RsaSignature { padding: SignaturePadding::Pkcs1, hash: Hash::Sha256 };
        assert_eq!(run(&open(scheme, private(pkcs8)), Op::Sign, 0, b"message"), Ok(expected));
    }
}

#[test]
fn ml_kem_agrees_with_a_public_session() {
    let sample = sample(class("ml-kem-768-decaps"), 0, 11);
    let session = Session::open(&sample.spec).expect("a good spec");
    let sent = run(&session, Op::Encapsulate, 0, &[]).expect("encapsulates");
    let (ciphertext, secret) = sent.split_at(1088);
    assert_eq!(run(&session, Op::Decapsulate, 0, ciphertext).as_deref(), Ok(secret));
}

#[test]
fn oaep_decrypts_what_another_interface_encrypted() {
    use aws_lc_rs::rsa::{OAEP_SHA256_MGF1SHA256, OaepPublicEncryptingKey, PublicEncryptingKey};
    let public = PublicEncryptingKey::from_der(include_bytes!("../keys/test-rsa-2048.spki.der")).expect("a key");
    let public = OaepPublicEncryptingKey::new(public).expect("a key");
    let mut ciphertext = [0; 256];
    public.encrypt(&OAEP_SHA256_MGF1SHA256, b"plain", &mut ciphertext, Some(b"label")).expect("encrypts");
    let decrypt = |label: &[u8]| {
        let padding = DecryptionPadding::Oaep { hash: Hash::Sha256, mgf1: Hash::Sha256, label: label.to_vec() };
        let key = private(include_bytes!("../keys/test-rsa-2048.pkcs8.der"));
        run(&open(Scheme::RsaDecryption { padding }, key), Op::Decrypt, 0, &ciphertext)
    };
    assert_eq!(decrypt(b"label").as_deref(), Ok(&b"plain"[..]));
    assert_eq!(decrypt(b"other"), Err(Refusal::Authentication));
}

#[test]
fn what_is_encrypted_to_a_public_key_is_decrypted_by_its_private_key() {
    let pkcs8 = include_bytes!("../keys/test-rsa-2048.pkcs8.der");
    let spki = include_bytes!("../keys/test-rsa-2048.spki.der");
    let oaep = |hash| DecryptionPadding::Oaep { hash, mgf1: hash, label: b"label".to_vec() };
    let hashes = [Hash::Sha1, Hash::Sha224, Hash::Sha384, Hash::Sha512_224, Hash::Sha512_256].map(oaep);
    for padding in hashes.into_iter().chain([DecryptionPadding::Pkcs1]) {
        let scheme = Scheme::RsaEncryption { padding: EncryptionPadding::Padded(padding.clone()) };
        let decrypting = open(Scheme::RsaDecryption { padding: padding.clone() }, private(pkcs8));
        for key in [private(pkcs8), KeyMaterial::Public(spki.to_vec())] {
            let session = open(scheme.clone(), key);
            let longest =
                (0..256).rev().find(|len| session.output_len(Op::Encrypt, 0, *len).is_ok()).expect("a length");
            for len in [0, 1, longest] {
                let ciphertext = run(&session, Op::Encrypt, 0, &vec![7; len]).expect("encrypts");
                assert_eq!(run(&decrypting, Op::Decrypt, 0, &ciphertext), Ok(vec![7; len]), "{padding:?} {len}");
            }
            assert_eq!(run(&session, Op::Encrypt, 0, &vec![7; longest + 1]), Err(Refusal::InputLength));
        }
    }
}

#[test]
fn the_bare_public_operation_shows_what_was_signed() {
    let key = private(include_bytes!("../keys/test-rsa-2048.pkcs8.der"));
    let pkcs1 = Scheme::RsaSignature { padding: SignaturePadding::Pkcs1Raw, hash: Hash::Sha256 };
    let signature = run(&open(pkcs1, key.clone()), Op::SignDigest, 0, b"signed").expect("signs");
    let bare = open(Scheme::RsaEncryption { padding: EncryptionPadding::None }, key);
    let padded = run(&bare, Op::Encrypt, 0, &signature).expect("a number below the modulus");
    assert_eq!(padded, [&[0, 1][..], &[0xff; 247], &[0], b"signed"].concat());
    assert_eq!(run(&bare, Op::Encrypt, 0, &[0xff; 256]), Err(Refusal::Authentication));
}

#[test]
fn both_holders_of_points_share_one_secret_however_the_points_are_written() {
    for (name, len) in [("p-256-derive", 32), ("p-384-derive", 48), ("p-521-derive", 66)] {
        let sample = sample(class(name), 0, 1);
        let session = Session::open(&sample.spec).expect("a good spec");
        let secret = run(&session, Op::Derive, 0, &sample.input).expect("a point");
        assert_eq!(secret.len(), len);
        let sign = 2 + sample.input.last().expect("not empty") % 2;
        let compressed = [&[sign][..], &sample.input[1..=len]].concat();
        assert_eq!(run(&session, Op::Derive, 0, &compressed), Ok(secret), "{name}");
    }
}

#[test]
fn threads_share_a_session() {
    for name in ["aes-128-xts", "aes-256-xts", "aes-256-gcm", "rsa-1024-decrypt", "hmac-sha-256"] {
        let sample = sample(class(name), 4096, 1);
        let session = Session::open(&sample.spec).expect("a good spec");
        let expected = run(&session, sample.op, 0, &sample.input);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        assert_eq!(run(&session, sample.op, 0, &sample.input), expected);
                    }
                });
            }
        });
    }
}

#[test]
fn digests_are_verified_as_they_were_signed() {
    let pss = SignaturePadding::PssRaw { mgf1: Hash::Sha256, salt: SaltLength::Digest };
    let rsa = Scheme::RsaSignature { padding: pss, hash: Hash::Sha256 };
    for (name, scheme) in [("p-256-sign", Scheme::EcdsaRaw), ("p-384-sign", Scheme::EcdsaRaw), ("rsa-2048-sign", rsa)] {
        let session = open(scheme, sample(class(name), 0, 5).spec.key);
        let signature = run(&session, Op::SignDigest, 0, &[7; 32]).unwrap();
        let mut signed = [&signature[..], &[7; 32]].concat();
        assert_eq!(run(&session, Op::Verify, signature.len(), &signed), Ok(vec![]), "{name}");
        signed[signature.len() + 5] ^= 1;
        assert_eq!(run(&session, Op::Verify, signature.len(), &signed), Err(Refusal::Authentication), "{name}");
        for len in [0, 67] {
            let signed = [&signature[..], &vec![7; len]].concat();
            assert_eq!(run(&session, Op::Verify, signature.len(), &signed), Err(Refusal::InputLength), "{name} {len}");
        }
        assert_eq!(run(&session, Op::Sign, 0, b"message"), Err(Refusal::Unsupported), "{name}");
    }
}
