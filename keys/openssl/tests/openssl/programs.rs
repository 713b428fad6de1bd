//! Programs with rare behaviour: threads with a tiny stack, keys freed after everything else, continuing after
//! failures, valgrind.

use crate::common::Site;
use sidecore::keys::uri::Uri;
use std::fs;
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

#[test]
fn a_program_that_looks_for_the_label_of_private_keys_reads_the_file_in_pkcs8() {
    let site = Site::with(&["p256", "rsa2048", "p384"]);
    let program = made(&site, "info");
    for key in ["p256", "rsa2048", "p384"] {
        let public = format!("{key}.pub");
        let old = says(&site, &mut Command::new(&program), &[&format!("{key}.pem"), &public]);
        assert_eq!(old, "", "it knows no other label");
        let uri = Uri::from_pem(&fs::read(site.path(&format!("{key}.pem"))).unwrap()).unwrap();
        fs::write(site.path("pkcs8.pem"), uri.to_pkcs8_pem().unwrap()).unwrap();
        assert_eq!(says(&site, &mut Command::new(&program), &["pkcs8.pem", &public]), "signed", "{key}");
        // Other programs read it as well, and without the provider it is no key.
        site.ok(&["pkey", "-in", "pkcs8.pem", "-noout", "-check"]);
        site.plain_fails(&["pkey", "-in", "pkcs8.pem", "-noout"]);
        // A private key in a file is still read by OpenSSL's own code.
        site.plain(&["genpkey", "-algorithm", "ED25519", "-out", "file.pem"]);
        let text = site.ok(&["pkey", "-in", "file.pem", "-noout", "-text"]).out;
        assert!(text.contains("priv:"), "{text}");
    }
}

#[test]
fn a_program_that_asks_for_validated_modules_is_told_that_sidecore_is_none() {
    let site = Site::with(&["p256"]);
    let program = made(&site, "small");
    let cnf = fs::read_to_string(site.path("openssl.cnf")).unwrap();
    let (first, rest) = cnf.split_once("[openssl_init]").unwrap();
    let cnf =
        format!("{first}[validated]\ndefault_properties = fips=yes\n[openssl_init]\nalg_section = validated\n{rest}");
    fs::write(site.path("fips.cnf"), cnf).unwrap();
    let uri = Uri::from_pem(&fs::read(site.path("p256.pem")).unwrap()).unwrap();
    fs::write(site.path("p256.pkcs8.pem"), uri.to_pkcs8_pem().unwrap()).unwrap();
    for file in ["p256.pem", "p256.old.pem", "p256.pkcs8.pem"] {
        let mut command = Command::new(&program);
        command.args(["sign", file]).current_dir(site.path("")).env("OPENSSL_CONF", "fips.cnf");
        let Output { status, stderr, .. } = command.output().unwrap();
        let told = String::from_utf8_lossy(&stderr);
        assert!(!status.success() && told.contains("no build of sidecore is validated"), "{file}: {status} {told}");
    }
}
