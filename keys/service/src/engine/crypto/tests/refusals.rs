//! Refusals of sessions, and the output after a refusal.

use super::super::{Cipher, DecryptionPadding, Hash};
use super::*;

#[test]
fn an_operation_that_is_not_the_sessions_is_unsupported() {
    for each in Class::all() {
        let session = Session::open(&sample(each, 16, 1).spec).expect("a good spec");
        for op in (0..Op::COUNT).filter_map(|number| Op::from_u8(number as u8)) {
            let expected = if session.class(op).is_some() { None } else { Some(Refusal::Unsupported) };
            if let Some(refusal) = expected {
                assert_eq!(session.run(op, 0, &[0; 64], &mut [0; 64]), Err(refusal), "{} {op:?}", each.name());
            }
        }
    }
}

#[test]
fn lengths_that_do_not_fit_are_refused() {
    let cases: [(&str, usize, usize); 24] = [
        ("aes-256-gcm", 0, 11),
        ("aes-256-gcm", 20, 12),
        ("aes-256-gcm", usize::MAX, 12),
        ("aes-256-gcm-decrypt", 0, 27),
        ("chacha20-poly1305-decrypt", 1, 28),
        ("aes-128-ctr", 0, 15),
        ("aes-128-ctr", 1, 32),
        ("aes-256-cbc", 0, 33),
        ("3des-cbc", 0, 7),
        ("3des-cbc", 0, 17),
        ("aes-128-xts", 0, 31),
        ("aes-256-xts", 0, 31),
        ("aes-256-xts", 0, 17 + (16 << 20)),
        ("sha-256", 1, 10),
        ("hmac-sha-256", 1, 10),
        ("hmac-sha-256-verify", 16, 40),
        ("hmac-sha-256-verify", 32, 31),
        ("rsa-2048-sign-digest", 0, 31),
        ("rsa-2048-verify", 256, 255),
        ("rsa-2048-decrypt", 0, 255),
        ("ed25519-sign", 1, 10),
        ("x25519", 0, 31),
        ("ml-kem-768-decaps", 0, 1087),
        ("ml-kem-768-encaps", 0, 1),
    ];
    for (name, head_len, input_len) in cases {
        let sample = sample(class(name), 16, 1);
        let session = Session::open(&sample.spec).expect("a good spec");
        assert_eq!(session.output_len(sample.op, head_len, input_len), Err(Refusal::InputLength), "{name}");
        let run = session.run(sample.op, head_len, &vec![0; input_len], &mut [0; 4096]);
        assert_eq!(run, Err(Refusal::InputLength), "{name}");
    }
}

#[test]
fn an_output_that_is_too_short_is_refused() {
    for each in Class::all() {
        let sample = sample(each, 100, 1);
        let session = Session::open(&sample.spec).expect("a good spec");
        let Some(len) = sample.output_len.checked_sub(1) else { continue };
        let run = session.run(sample.op, sample.head_len, &sample.input, &mut vec![0; len]);
        assert_eq!(run, Err(Refusal::OutputLength), "{}", each.name());
    }
}

#[test]
fn a_tag_failure_leaves_output_without_plaintext() {
    for name in ["aes-128-gcm-decrypt", "aes-256-gcm-decrypt", "chacha20-poly1305-decrypt"] {
        for size in [1, 64, 5000] {
            let mut sample = sample(class(name), size, 9);
            let end = sample.input.len() - 1;
            sample.input[end] ^= 1;
            let session = Session::open(&sample.spec).expect("a good spec");
            let mut output = vec![0xaa; sample.output_len];
            let run = session.run(sample.op, sample.head_len, &sample.input, &mut output);
            assert_eq!(run, Err(Refusal::Authentication), "{name}");
            assert!(output.iter().all(|byte| *byte == 0), "{name} {size}");
        }
    }
}

#[test]
fn associated_data_is_authenticated() {
    let session = open(Scheme::Cipher(Cipher::Aes256Gcm), symmetric(&[1; 32]));
    let sealed = run(&session, Op::Encrypt, 4, b"nonce4567890aad.text").expect("seals");
    let opened = |aad: &[u8]| run(&session, Op::Decrypt, 4, &[b"nonce4567890", aad, &sealed].concat());
    assert_eq!(opened(b"aad.").as_deref(), Ok(&b"text"[..]));
    assert_eq!(opened(b"aad!"), Err(Refusal::Authentication));
}

#[test]
fn x25519_refuses_a_peer_of_small_order() {
    let session = open(Scheme::X25519, private(&[5; 32]));
    assert_eq!(run(&session, Op::Derive, 0, &[0; 32]), Err(Refusal::Authentication));
}

#[test]
fn ecdh_refuses_what_is_no_point_of_its_curve() {
    for name in ["p-256-derive", "p-384-derive", "p-521-derive"] {
        let sample = sample(class(name), 0, 1);
        let session = Session::open(&sample.spec).expect("a good spec");
        let len = sample.input.len();
        for (at, value) in [(0, 5), (1, 0xff), (len - 1, sample.input[len - 1] ^ 1)] {
            let mut beside = sample.input.clone();
            beside[at] = value;
            assert_eq!(run(&session, Op::Derive, 0, &beside), Err(Refusal::Authentication), "{name} {at}");
        }
        assert_eq!(run(&session, Op::Derive, 0, &vec![0; len]), Err(Refusal::Authentication), "{name}: infinity");
        for wrong in [0, 1, len - 1, len + 1] {
            assert_eq!(run(&session, Op::Derive, 0, &vec![4; wrong]), Err(Refusal::InputLength), "{name} {wrong}");
        }
    }
}

#[test]
fn rsa_decryption_refuses_numbers_above_the_modulus() {
    let sample = sample(class("rsa-1024-decrypt"), 0, 1);
    let session = Session::open(&sample.spec).expect("a good spec");
    let mut output = [0xaa; 128];
    assert_eq!(session.run(Op::Decrypt, 0, &[0xff; 128], &mut output), Err(Refusal::Authentication));
    assert_eq!(output, [0; 128]);
}

#[test]
fn oaep_refuses_a_changed_ciphertext() {
    let padding = DecryptionPadding::Oaep { hash: Hash::Sha1, mgf1: Hash::Sha1, label: Vec::new() };
    let key = private(include_bytes!("../keys/test-rsa-1024.pkcs8.der"));
    let session = open(Scheme::RsaDecryption { padding }, key);
    assert_eq!(run(&session, Op::Decrypt, 0, &[1; 128]), Err(Refusal::Authentication));
}
