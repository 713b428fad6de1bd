//! Tests of the batched private operation against AWS-LC's signatures.

use aws_lc_rs::encoding::AsDer;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::{digest, signature};
use sidecore_batch::MOST;
use sidecore_batch::rsa::{self, Job, Key, Parts};

use crate::der;
use crate::operations::operations;

/// Prefix of a SHA-256 digest in PKCS#1 v1.5.
const DIGEST_INFO: [u8; 19] =
    [0x30, 0x31, 0x30, 0x0d, 0x06, 0x09, 0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x01, 0x05, 0x00, 0x04, 0x20];

struct Pair {
    theirs: signature::RsaKeyPair,
    ours: Key,
}

fn pair(size: KeySize) -> Pair {
    of_numbers(signature::RsaKeyPair::generate(size).unwrap(), |_| {})
}

/// The same key with a bit turned in one of: the exponents of both primes, the coefficient. Powers by it are wrong as
/// after a fault of the machine: modulo one prime only, so that an unchecked result reveals the primes.
fn faulty(pair: &Pair, number: usize) -> Pair {
    let der = AsDer::<aws_lc_rs::encoding::Pkcs8V1Der<'_>>::as_der(&pair.theirs).unwrap();
    let theirs = signature::RsaKeyPair::from_pkcs8(der.as_ref()).unwrap();
    of_numbers(theirs, |half| *half[2 + number].last_mut().unwrap() ^= 2)
}

fn of_numbers(theirs: signature::RsaKeyPair, change: impl FnOnce(&mut [Vec<u8>])) -> Pair {
    let der = AsDer::<aws_lc_rs::encoding::Pkcs8V1Der<'_>>::as_der(&theirs).unwrap();
    // Two versions, then n e d p q dp dq qinv.
    let numbers = der::integers(der.as_ref());
    let [_, _, n, e, _, half @ ..] = &numbers[..] else { panic!("not a key: {} numbers", numbers.len()) };
    assert_eq!(*e, [1, 0, 1]);
    let mut half: Vec<Vec<u8>> = half.iter().map(|number| der::padded(number, n.len() / 2)).collect();
    change(&mut half);
    let parts =
        Parts { modulus: n, primes: [&half[0], &half[1]], exponents: [&half[2], &half[3]], coefficient: &half[4] };
    let ours = Key::new(&parts).unwrap();
    Pair { theirs, ours }
}

fn encoded(message: &[u8], len: usize) -> Vec<u8> {
    let tail = [&[0][..], &DIGEST_INFO, digest::digest(&digest::SHA256, message).as_ref()].concat();
    [&[0, 1][..], &vec![0xff; len - 2 - tail.len()], &tail].concat()
}

fn signed(pair: &Pair, message: &[u8]) -> Vec<u8> {
    let mut signature = vec![0; pair.ours.modulus_len()];
    pair.theirs.sign(&signature::RSA_PKCS1_SHA256, &SystemRandom::new(), message, &mut signature).unwrap();
    signature
}

fn is_here() -> bool {
    let is_here = rsa::is_here();
    println!("AVX-512-IFMA: {}", if is_here { "here" } else { "missing, nothing is compared" });
    is_here
}

/// Signs at each fill with these keys; fails on any difference. `disturbed`: this job has the other key, which belongs
/// to the same pair and is faulty.
fn compare(pairs: &[Pair], disturbed: Option<(usize, &Pair)>) {
    let len = pairs[0].ours.modulus_len();
    for fill in 1..=MOST {
        let messages: Vec<[u8; 2]> = (0..fill).map(|at| [fill as u8, at as u8]).collect();
        let inputs: Vec<Vec<u8>> = messages.iter().map(|message| encoded(message, len)).collect();
        let mut outputs = vec![vec![7; len]; fill];
        let mut jobs: Vec<Job<'_>> = (inputs.iter().zip(&mut outputs).enumerate())
            .map(|(at, (input, output))| {
                let faulty = disturbed.filter(|(job, _)| *job == at).map(|(_, faulty)| faulty);
                Job { key: &faulty.unwrap_or(&pairs[at % pairs.len()]).ours, input, output, good: false }
            })
            .collect();
        assert!(rsa::private(&mut jobs), "this machine cannot");
        let good: Vec<bool> = jobs.iter().map(|job| job.good).collect();
        for (at, output) in outputs.iter().enumerate() {
            let right = signed(&pairs[at % pairs.len()], &messages[at]);
            let is_right = disturbed.is_none_or(|(job, _)| job != at);
            let expected = if is_right { right } else { vec![0; len] };
            assert_eq!(*output, expected, "{len} bytes, fill {fill}, job {at}");
            assert_eq!(good[at], is_right, "{len} bytes, fill {fill}, job {at}");
        }
    }
}

#[test]
fn signatures_are_those_of_aws_lc_at_each_fill_with_mixed_keys() {
    if !is_here() {
        return;
    }
    for size in [KeySize::Rsa2048, KeySize::Rsa3072, KeySize::Rsa4096] {
        compare(&[pair(size), pair(size), pair(size)], None);
    }
}

#[test]
fn a_wrong_power_in_one_lane_leaves_no_result_and_the_others_are_right() {
    if !is_here() {
        return;
    }
    let pairs = [pair(KeySize::Rsa2048), pair(KeySize::Rsa2048)];
    for job in 0..MOST {
        let faulty = faulty(&pairs[job % pairs.len()], job % 3);
        compare(&pairs, Some((job, &faulty)));
    }
}

/// `SIDECORE_RANDOM_OPERATIONS=1000000 cargo test --release -p sidecore-batch random` takes some minutes.
#[test]
fn random_messages_have_the_signatures_of_aws_lc_at_random_fills() {
    if !is_here() {
        return;
    }
    let operations = operations(200);
    let pairs: Vec<Pair> = (0..5).map(|_| pair(KeySize::Rsa2048)).collect();
    let (mut done, mut random) = (0u64, 1u64);
    while done < operations {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let fill = (random >> 60) as usize % MOST + 1;
        let messages: Vec<[u8; 8]> = (0..fill as u64).map(|at| (done + at).to_le_bytes()).collect();
        for (at, signature) in signatures(&pairs, &messages).into_iter().enumerate() {
            assert_eq!(signature, signed(&pairs[at % pairs.len()], &messages[at]), "operation {done}");
        }
        done += fill as u64;
    }
    println!("{done} operations as by AWS-LC");
}

fn signatures(pairs: &[Pair], messages: &[[u8; 8]]) -> Vec<Vec<u8>> {
    let len = pairs[0].ours.modulus_len();
    let inputs: Vec<Vec<u8>> = messages.iter().map(|message| encoded(message, len)).collect();
    let mut outputs = vec![vec![0; len]; messages.len()];
    let parts = inputs.iter().zip(&mut outputs).enumerate();
    let mut jobs: Vec<Job<'_>> = parts
        .map(|(at, (input, output))| {
            let key = &pairs[at % pairs.len()].ours;
            Job { key, input, output, good: false }
        })
        .collect();
    assert!(rsa::private(&mut jobs), "this machine cannot");
    outputs
}

#[test]
fn numbers_that_are_no_key_are_none_and_those_that_do_not_belong_together_give_no_result() {
    let number = vec![0xff; 128];
    let parts = |half: usize, coefficient| Parts {
        modulus: &[0xff; 256],
        primes: [&number[..half], &number[..half]],
        exponents: [&number[..half], &number[..half]],
        coefficient,
    };
    assert!(Key::new(&parts(127, &number[..127])).is_none(), "primes too short");
    assert!(Key::new(&Parts { modulus: &[0xfe; 256], ..parts(128, &number) }).is_none(), "an even modulus");
    if !is_here() {
        return;
    }
    assert!(Key::new(&Parts { modulus: &[0xff; 128], ..parts(64, &number[..64]) }).is_some(), "RSA-1024");
    let Some(key) = Key::new(&parts(128, &number)) else { panic!("a key in form") };
    let (input, mut output) = ([1; 256], [1; 256]);
    let mut jobs = [Job { key: &key, input: &input, output: &mut output, good: true }];
    rsa::private(&mut jobs);
    assert!(!jobs[0].good);
    assert_eq!(output, [0; 256]);
}
