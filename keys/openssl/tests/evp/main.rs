//! OpenSSL's own test vectors and Wycheproof's, through libcrypto with the provider loaded, against a service in this
//! process.
//!
//! Keys go both ways: imported from the program, and stored in the service and used by URI. Operations that the
//! provider does not offer must fail with an error that names this; they are counted and listed by reason.

mod bulk;
mod ffi;
mod jobs;
mod keys;
mod signing;
mod site;
mod stanza;
mod tally;
mod vectors;
mod wycheproof;

use sidecore::config::DeviceConfig;
use sidecore_counters::DeviceCounter;
use site::{House, Site};
use std::thread;
use tally::Tally;

#[test]
fn openssls_vectors_of_rsa() {
    rsa(&Site::start());
}

fn rsa(site: &Site) {
    let mut tally = Tally::default();
    vectors::run(site, "evppkey_rsa_common.txt", include_str!("data/evppkey_rsa_common.txt"), &mut tally);
    vectors::run(site, "evppkey_rsa.txt", include_str!("data/evppkey_rsa.txt"), &mut tally);
    tally.is_complete(&[
        ("evppkey_rsa_common.txt Decrypt imported", 54),
        ("evppkey_rsa_common.txt Decrypt stored", 48),
        ("evppkey_rsa_common.txt DigestSign imported", 11),
        ("evppkey_rsa_common.txt DigestSign stored", 11),
        ("evppkey_rsa_common.txt Verify imported", 3),
    ]);
}

#[test]
fn openssls_vectors_of_elliptic_curves() {
    elliptic_curves(&Site::start());
}

/// Each context has keys of its own, and all of them send requests simultaneously.
#[test]
fn openssls_vectors_come_out_of_a_batch_device_that_one_to_eight_fill() {
    let house = House::start(vec![DeviceConfig::batch("lanes", None, false)]);
    for clients in 1..=8 {
        thread::scope(|scope| {
            for _ in 0..clients {
                scope.spawn(|| {
                    let site = Site::of(&house, &["default", "sidecore"], "");
                    rsa(&site);
                    elliptic_curves(&site);
                });
            }
        });
    }
    let (gathered, wrong) = (house.count(DeviceCounter::Gathered), house.count(DeviceCounter::WrongResults));
    println!("{gathered} of {} side by side", house.count(DeviceCounter::Requests));
    assert_eq!(wrong, 0);
    // Without AVX-512-IFMA there are no batches of RSA and P-256.
    #[cfg(target_arch = "x86_64")]
    assert!(gathered > 0 || !std::arch::is_x86_feature_detected!("avx512ifma"));
}

fn elliptic_curves(site: &Site) {
    let mut tally = Tally::default();
    vectors::run(site, "evppkey_ecdsa.txt", include_str!("data/evppkey_ecdsa.txt"), &mut tally);
    vectors::run(site, "evppkey_ecx.txt", include_str!("data/evppkey_ecx.txt"), &mut tally);
    tally.is_complete(&[
        ("evppkey_ecdsa.txt DigestVerify imported", 3),
        ("evppkey_ecdsa.txt DigestVerify stored", 1),
        ("evppkey_ecdsa.txt Verify imported", 2),
        ("evppkey_ecx.txt Derive imported", 9),
        ("evppkey_ecx.txt Derive stored", 9),
        ("evppkey_ecx.txt OneShotDigestSign imported", 11),
        ("evppkey_ecx.txt OneShotDigestSign stored", 11),
    ]);
}

#[test]
fn openssls_vectors_of_lattices() {
    let site = Site::start();
    let mut tally = Tally::default();
    let verify = "evppkey_ml_dsa_65_wycheproof_verify.txt";
    vectors::run(&site, verify, include_str!("data/evppkey_ml_dsa_65_wycheproof_verify.txt"), &mut tally);
    vectors::run(&site, "evppkey_ml_kem_768_decap.txt", include_str!("data/evppkey_ml_kem_768_decap.txt"), &mut tally);
    tally.is_complete(&[
        ("evppkey_ml_dsa_65_wycheproof_verify.txt Verify-Message-Public imported", 2),
        ("evppkey_ml_kem_768_decap.txt Kem imported", 8),
    ]);
}

#[test]
fn wycheproofs_vectors_of_rsa_signatures() {
    let site = Site::start();
    let mut tally = Tally::default();
    wycheproof::pkcs1(&site, &mut tally);
    wycheproof::pss(&site, &mut tally);
    tally.is_complete(&[
        ("rsa-2048-pkcs1-verify", 59),
        ("rsa-3072-pkcs1-verify", 44),
        ("rsa-4096-pkcs1-verify", 21),
        ("rsa-2048-pss-verify", 354),
        ("rsa-3072-pss-verify", 63),
        ("rsa-4096-pss-verify", 422),
    ]);
}

#[test]
fn wycheproofs_vectors_of_rsa_decryption() {
    let site = Site::start();
    let mut tally = Tally::default();
    wycheproof::oaep(&site, &mut tally);
    wycheproof::pkcs1_decrypt(&site, &mut tally);
    tally.is_complete(&[
        ("rsa-2048-oaep-decrypt", 152),
        ("rsa-3072-oaep-decrypt", 107),
        ("rsa-4096-oaep-decrypt", 109),
        ("rsa-2048-pkcs1-decrypt", 42),
        ("rsa-3072-pkcs1-decrypt", 41),
        ("rsa-4096-pkcs1-decrypt", 41),
    ]);
}

#[test]
fn wycheproofs_vectors_of_signatures_on_curves() {
    let site = Site::start();
    let mut tally = Tally::default();
    wycheproof::ecdsa(&site, &mut tally);
    wycheproof::ed25519(&site, &mut tally);
    tally.is_complete(&[("p-256-verify", 800), ("p-384-verify", 1000), ("p-521-verify", 400), ("ed25519-verify", 88)]);
}
