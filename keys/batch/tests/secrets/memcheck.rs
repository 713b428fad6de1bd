//! No branch and no address depends on a key. The test marks the key's bytes as undefined, and memcheck reports each branch
//! and address with undefined bits. It knows no AVX-512, so this is AES by instructions for one block.

use std::path::Path;
use std::process::Command;
use std::{env, fs};

use aws_lc_rs::rand;
use sidecore_batch::cbc;

use crate::sys;

const ROLE: &str = "SIDECORE_BATCH_ROLE";
/// File of the secret bytes: a key, and a message as long.
const SECRETS: &str = "SIDECORE_BATCH_SECRETS";
/// Exit code of the second process if memcheck finds something.
const FOUND: i32 = 9;
const LEN: usize = 2 * cbc::KEYS[1];

fn memcheck(role: &str) -> (Option<i32>, String) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("secrets");
    let mut secrets = [0; LEN];
    rand::fill(&mut secrets).unwrap();
    fs::write(&path, secrets).unwrap();
    let output = Command::new("valgrind")
        .arg(format!("--error-exitcode={FOUND}"))
        .args(["--quiet", "--leak-check=no"])
        .arg(env::current_exe().unwrap())
        .args(["--exact", "memcheck::work_on_secrets", "--test-threads=1"])
        .env(ROLE, role)
        .env(SECRETS, &path)
        .output()
        .unwrap_or_else(|error| panic!("valgrind: {error}; run: sudo apt-get install valgrind"));
    (output.status.code(), String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
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
    let mut secrets = fs::read(Path::new(&env::var(SECRETS).unwrap())).unwrap();
    sys::make_undefined(&mut secrets);
    if role == "leak" { leak(&secrets) } else { encrypt(&secrets) }
}

/// The one half is the key, the other the message.
fn encrypt(secrets: &[u8]) {
    let (key, input) = secrets.split_at(cbc::KEYS[1]);
    let keys = cbc::KEYS.map(|len| cbc::Key::new(&key[..len]).expect("valgrind knows AES"));
    for key in &keys {
        let (mut one, mut other) = ([0; 2 * cbc::BLOCK], [0; cbc::BLOCK]);
        let job = |input, output| cbc::Job { key, vector: &[0; cbc::BLOCK], input, output };
        let mut jobs = [job(input, &mut one[..]), job(&input[..cbc::BLOCK], &mut other[..])];
        assert!(cbc::encrypt(&mut jobs), "valgrind knows AES");
    }
}

fn leak(secrets: &[u8]) {
    if secrets[5] & 1 == 1 {
        println!("an odd byte");
    }
}
