//! Programs with rare behaviour: threads with a tiny stack, keys freed after everything else, continuing after
//! failures, valgrind.

use crate::common::Site;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

pub(crate) fn made(site: &Site, name: &str) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/openssl/{name}.c"));
    let program = site.path(name);
    let made = Command::new("cc").args(["-O1", "-pthread", "-o"]).arg(&program).arg(source).arg("-lcrypto").output();
    let made = made.expect("cc is missing; run: sudo apt-get install gcc libssl-dev");
    let told = String::from_utf8_lossy(&made.stderr);
    assert!(made.status.success(), "if openssl/*.h are missing, run: sudo apt-get install libssl-dev\n{told}");
    program
}

/// Output of the program that `command` runs with these arguments and the provider. It must exit with success.
pub(crate) fn says(site: &Site, command: &mut Command, arguments: &[&str]) -> String {
    let Output { status, stdout, stderr } =
        command.args(arguments).current_dir(site.path("")).env("OPENSSL_CONF", "openssl.cnf").output().unwrap();
    assert!(status.success(), "{arguments:?}: {status} {}", String::from_utf8_lossy(&stderr));
    String::from_utf8_lossy(&stdout).trim().to_owned()
}

#[test]
fn threads_with_the_smallest_stack_load_keys_and_sign() {
    let site = Site::with(&["p256", "rsa2048"]);
    let program = made(&site, "small");
    for key in ["p256.pem", "p256.old.pem", "rsa2048.pem", "rsa2048.old.pem"] {
        assert_eq!(says(&site, &mut Command::new(&program), &["small-stack", key]), "signed", "{key}");
    }
}

#[test]
fn a_key_may_be_freed_after_openssl_is_at_its_end() {
    let site = Site::with(&["p256"]);
    let program = made(&site, "small");
    for key in ["p256.pem", "p256.old.pem"] {
        assert_eq!(says(&site, &mut Command::new(&program), &["free-late", key]), "freed", "{key}");
    }
}

#[test]
fn after_an_initialisation_that_failed_nothing_is_signed_or_verified() {
    let site = Site::with(&["rsa2048", "p256", "ed25519"]);
    let program = made(&site, "small");
    for key in ["rsa2048.pem", "p256.pem", "ed25519.pem"] {
        assert_eq!(says(&site, &mut Command::new(&program), &["after-failures", key]), "refused", "{key}");
    }
}

#[test]
fn programs_run_under_valgrind_which_finds_no_fault() {
    let site = Site::with(&["p256"]);
    let program = made(&site, "small");
    let found = Command::new("valgrind").arg("--version").output();
    assert!(found.is_ok(), "valgrind is missing; run: sudo apt-get install valgrind");
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--quiet", "--error-exitcode=9"]).arg(&program);
    assert_eq!(says(&site, &mut valgrind, &["sign", "p256.pem"]), "signed");
}
