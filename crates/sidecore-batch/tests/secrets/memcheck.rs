//! No branch and no address depends on a key: memcheck takes the key's bytes as undefined, and reports every branch
//! and every address that depends on undefined bytes. It does not know AVX-512, so of RSA this covers the code that
//! all units share and that for doubles.

use std::path::Path;
use std::process::Command;
use std::{env, fs};

use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der};
use aws_lc_rs::rsa::{KeyPair, KeySize};
use sidecore_batch::cbc;
use sidecore_batch::rsa::{self, Job, Key, Parts, Unit};

use crate::{der, sys};

/// Role of the second process.
const ROLE: &str = "SIDECORE_BATCH_ROLE";
/// The key's numbers, each of half the modulus's length but the first.
const NUMBERS: &str = "SIDECORE_BATCH_NUMBERS";
/// Exit code of the second process under memcheck after a finding.
const FOUND: i32 = 9;
const LEN: usize = 256;

/// Runs this program under memcheck in that role; returns its exit code, and memcheck's output.
fn memcheck(role: &str) -> (Option<i32>, String) {
    let directory = tempfile::tempdir().unwrap();
    let [numbers, suppressions] = ["numbers", "suppressions"].map(|name| directory.path().join(name));
    fs::write(&numbers, key().concat()).unwrap();
    // The correctness of a result is no secret: the caller learns it.
    let public = |kind: &str| format!("{{\n  public\n  Memcheck:{kind}\n  ...\n  fun:*is_right*\n}}\n");
    fs::write(&suppressions, ["Cond", "Value8", "Addr8"].map(public).concat()).unwrap();
    let output = Command::new("valgrind")
        .arg(format!("--error-exitcode={FOUND}"))
        .arg(format!("--suppressions={}", suppressions.display()))
        .args(["--quiet", "--leak-check=no"])
        .arg(env::current_exe().unwrap())
        .args(["--exact", "memcheck::work_on_secrets", "--test-threads=1"])
        .env(ROLE, role)
        .env(NUMBERS, &numbers)
        .output()
        .unwrap_or_else(|error| panic!("valgrind: {error}; run: sudo apt-get install valgrind"));
    (output.status.code(), String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
}

/// Modulus, primes, exponents and coefficient of a new key.
fn key() -> [Vec<u8>; 6] {
    let pair = KeyPair::generate(KeySize::Rsa2048).unwrap();
    let document = AsDer::<Pkcs8V1Der<'_>>::as_der(&pair).unwrap();
    let numbers = der::integers(document.as_ref());
    [2, 5, 6, 7, 8, 9].map(|at| der::padded(&numbers[at], if at == 2 { LEN } else { LEN / 2 }))
}

#[test]
fn nothing_that_the_machine_does_depends_on_the_key() {
    let (code, said) = memcheck("sign");
    assert_eq!(code, Some(0), "{said}");
}

#[test]
fn nothing_depends_on_the_keys_and_contents_of_messages() {
    let (code, said) = memcheck("encrypt");
    assert_eq!(code, Some(0), "{said}");
}

#[test]
fn memcheck_finds_a_branch_that_does() {
    let (code, said) = memcheck("leak");
    assert_eq!(code, Some(FOUND), "{said}");
    assert!(said.contains("depends on uninitialised value"), "{said}");
}

/// The work under memcheck; without a role it does nothing.
#[test]
fn work_on_secrets() {
    let Ok(role) = env::var(ROLE) else { return };
    let mut numbers = fs::read(Path::new(&env::var(NUMBERS).unwrap())).unwrap();
    let (modulus, secrets) = numbers.split_at_mut(LEN);
    for number in secrets.chunks_mut(LEN / 2) {
        // A prime's oddness and length are public, and checked when a key is made.
        let len = number.len();
        sys::make_undefined(&mut number[1..len - 1]);
    }
    match role.as_str() {
        "leak" => leak(secrets),
        "encrypt" => encrypt(&mut secrets[..2 * cbc::KEYS[1]]),
        _ => sign(modulus, secrets),
    }
}

/// One half is the key, the other the message.
fn encrypt(secrets: &mut [u8]) {
    sys::make_undefined(secrets);
    let (key, input) = secrets.split_at(cbc::KEYS[1]);
    let keys = cbc::KEYS.map(|len| cbc::Key::new(&key[..len]).expect("valgrind knows AES"));
    for key in &keys {
        let (mut one, mut other) = ([0; 2 * cbc::BLOCK], [0; cbc::BLOCK]);
        let job = |input, output| cbc::Job { key, vector: &[0; cbc::BLOCK], input, output };
        let mut jobs = [job(input, &mut one[..]), job(&input[..cbc::BLOCK], &mut other[..])];
        assert!(cbc::encrypt(&mut jobs), "valgrind knows AES");
    }
}

/// A careless implementation.
fn leak(secrets: &[u8]) {
    if secrets[5] & 1 == 1 {
        println!("an odd byte");
    }
}

fn sign(modulus: &[u8], secrets: &[u8]) {
    let half: Vec<&[u8]> = secrets.chunks(LEN / 2).collect();
    let parts = Parts { modulus, primes: [half[0], half[1]], exponents: [half[2], half[3]], coefficient: half[4] };
    let key = Key::of_unit(&parts, Unit::Fma).expect("a key in form");
    let (input, mut output) = ([1; LEN], [0; LEN]);
    let mut jobs = [Job { key: &key, input: &input, output: &mut output, good: false, disturb: false }];
    assert!(rsa::private(&mut jobs), "valgrind knows AVX2 and FMA");
    assert!(jobs[0].good, "a right result");
}
