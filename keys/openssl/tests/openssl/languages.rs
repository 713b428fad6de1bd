//! Languages whose programs get objects of the old kind (`RSA`, `EC_KEY`) from OpenSSL: they sign and serve, or raise an
//! exception, and never crash.

use crate::common::Site;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Output of a language's script, with this line in the provider's section. It must exit with success.
fn says(site: &Site, setting: &str, command: &[&str], script: &str) -> String {
    let cnf = std::fs::read_to_string(site.path("openssl.cnf")).unwrap();
    std::fs::write(site.path("language.cnf"), format!("{cnf}\n{setting}\n")).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/openssl/languages").join(script);
    let said = Command::new("timeout")
        .args(["-k", "5", "120"])
        .args(command)
        .args([&script, &site.path("")])
        .env("OPENSSL_CONF", site.path("language.cnf"))
        .output()
        .unwrap();
    let (out, err) = (String::from_utf8_lossy(&said.stdout), String::from_utf8_lossy(&said.stderr));
    assert!(said.status.success(), "{command:?}, which tools/xtask/packages.txt names: {} {out}{err}", said.status);
    out.into_owned()
}

fn site() -> Site {
    let site = Site::with(&["rsa2048", "p256", "p384", "ed25519"]);
    for name in ["rsa2048", "p256"] {
        let (key, certificate) = (format!("{name}.pem"), format!("{name}.crt"));
        let begin = ["req", "-x509", "-new", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"];
        site.ok(&[&begin[..], &["-key", &key, "-out", &certificate]].concat());
    }
    site
}

#[test]
fn node_signs_tokens_and_shows_the_public_part() {
    let named = "-----BEGIN SIDECORE KEY URI-----\n";
    let expected = "rsa 2048 jwk\nRS256 true\nPS256 true\nNAMED\
        ec prime256v1 jwk\nES256 true\nNAMEDec secp384r1 jwk\nES384 true\nNAMED\
        ed25519 - jwk\nEdDSA true\nNAMEDdecrypted true\ndecrypted true\n";
    assert_eq!(says(&site(), "", &["node"], "node.js"), expected.replace("NAMED", named));
}

#[test]
fn ruby_has_private_keys_and_serves_with_them() {
    let each = |name: &str| format!("{name} private true\n{name} true\n{name} no copy signs\n");
    let expected = each("rsa2048") + &each("p256") + "rsa2048 it works\np256 it works\n";
    assert_eq!(says(&site(), "", &["ruby"], "ruby.rb"), expected);
}

#[test]
fn php_signs_and_shows_the_public_part() {
    let said = says(&site(), "", &["php"], "php.php");
    let named = "-----BEGIN SIDECORE KEY URI-----\n";
    assert_eq!(said, format!("rsa2048 signed 1 2048 n e\n{named}p256 signed 1 256 curve_name curve_oid x y\n{named}"));
}

#[test]
fn perls_rsa_signs_and_decrypts_and_exports_no_key() {
    assert_eq!(says(&site(), "", &["perl"], "perl.pl"), "verified 1\ndecrypted 1\na copy signs 0\n");
}

#[test]
fn pythons_cryptography_signs_with_ec_keys_and_raises_for_rsa_and_pyopenssl_signs_with_both() {
    let expected = "rsa2048 ValueError\nrsa2048 unchecked verified\nrsa2048 pyOpenSSL verified\n\
                    p256 cryptography verified\np256 ValueError\np256 pyOpenSSL verified\n";
    assert_eq!(says(&site(), "", &["/usr/bin/python3"], "python.py"), expected);
}

/// The folder of these npm packages, installed once.
fn npm(folder: &str, packages: &[&str]) -> PathBuf {
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join(folder);
    let done = place.join("done");
    if !done.exists() {
        std::fs::create_dir_all(&place).unwrap();
        let mut npm = Command::new("npm");
        npm.args(["install", "--silent", "--no-audit", "--no-fund"]).args(packages).current_dir(&place);
        let installed = npm.output().expect("npm, which tools/xtask/packages.txt names");
        assert!(installed.status.success(), "npm: {}", String::from_utf8_lossy(&installed.stderr));
        std::fs::write(done, "").unwrap();
    }
    place
}

#[test]
fn jsonwebtoken_signs() {
    let packages = npm("node", &["jose@6", "jsonwebtoken@9"]);
    let said = says(&site(), "", &["env", &format!("NODE_PATH={}", packages.display()), "node"], "jsonwebtoken.js");
    let expected = ["RS256", "PS256", "ES256", "ES384"].map(|name| format!("{name} true\n{name} true\n")).concat();
    assert_eq!(said, expected);
}

#[test]
fn jose_signs_where_node_makes_its_keys_and_raises_an_exception_where_it_copies_numbers() {
    let packages = npm("node", &["jose@6", "jsonwebtoken@9"]);
    let said = |node: &str| says(&site(), "", &["env", &format!("NODE_PATH={}", packages.display()), node], "jose.mjs");
    let names = ["RS256", "PS256", "ES256", "ES384", "EdDSA"];
    let signed = |said: &str| said.lines().filter(|line| line.ends_with(" true")).count();
    let newest = npm("node-24", &["node@24"]).join("node_modules/.bin/node");
    assert_eq!(said(newest.to_str().unwrap()), names.map(|name| format!("{name} true\n")).concat());
    let own = said("node");
    assert_eq!(own.lines().count(), names.len(), "{own}");
    assert_eq!(own.lines().filter(|line| line.contains(" exception ")).count() + signed(&own), names.len(), "{own}");
}

#[test]
fn rusts_openssl_signs_and_decrypts_and_no_copy_of_its_rsa_keys_signs() {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("rust");
    std::fs::create_dir_all(target.join("src")).unwrap();
    std::fs::write(target.join("src/main.rs"), include_str!("languages/rust.rs")).unwrap();
    let manifest = "[package]\nname = \"signs-with-openssl\"\nversion = \"0.0.0\"\nedition = \"2021\"\n\
                    [dependencies]\nopenssl = \"0.10\"\n[workspace]\n";
    std::fs::write(target.join("Cargo.toml"), manifest).unwrap();
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    let built =
        cargo.args(["build", "--quiet"]).current_dir(&target).env("CARGO_TARGET_DIR", &target).output().unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let program = target.join("debug/signs-with-openssl");
    let site = site();
    let ran = Command::new(program).arg(site.path("")).env("OPENSSL_CONF", site.path("openssl.cnf")).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success(), "{} {err}", ran.status);
    let expected =
        "rsa true\ndecrypted true\nnumbers 0 0 0\na copy signs false\nec true\necdsa true\nnumber 0\nchecked false\n";
    assert_eq!(out, expected);
}
