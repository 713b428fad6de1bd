//! Languages whose programs get legacy objects from OpenSSL: they sign and serve, or raise an exception, and never
//! crash.

use crate::common::Site;
use std::path::Path;
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
    assert!(said.status.success(), "{command:?}, which xtask/packages.txt names: {} {out}{err}", said.status);
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
fn ruby_serves_with_the_guides_line_or_a_placeholder() {
    let site = site();
    let works = "rsa2048 true\np256 true\nrsa2048 it works\np256 it works\n";
    let line = |line: &&str| !line.contains("private ") && !line.starts_with("ArgumentError");
    for (setting, private) in [("", "false"), ("legacy = placeholder", "true")] {
        let said = says(&site, setting, &["ruby"], "ruby.rb");
        assert_eq!(said.lines().filter(line).fold(String::new(), |all, line| all + line + "\n"), works);
        let privates = ["rsa2048", "p256"].map(|name| format!("{name} private {private}"));
        assert!(privates.iter().all(|private| said.lines().any(|line| line == private)), "{said}");
        assert_eq!(said.contains("ArgumentError: private key is needed"), setting.is_empty(), "{said}");
    }
}

#[test]
fn php_signs_and_shows_the_public_part() {
    let said = says(&site(), "", &["php"], "php.php");
    let named = "-----BEGIN SIDECORE KEY URI-----\n";
    assert_eq!(said, format!("rsa2048 signed 1 2048 n e\n{named}p256 signed 1 256 curve_name curve_oid x y\n{named}"));
}

#[test]
fn perls_rsa_computes_by_itself_and_says_so() {
    let site = site();
    let perl = |setting| says(&site, setting, &["perl"], "perl.pl");
    assert!(perl("").contains("Public keys cannot sign messages"));
    let named = perl("legacy = none");
    assert!(named.contains("a private key does not leave the sidecore service"), "{named}");
}

#[test]
fn pythons_cryptography_says_that_it_has_no_key_and_pyopenssl_signs() {
    let site = site();
    for (setting, named) in [("", "-"), ("legacy = none", "sidecore")] {
        let said = says(&site, setting, &["/usr/bin/python3"], "python.py");
        let lines: Vec<&str> = said.lines().collect();
        let [rsa, rsa_works, ec, ec_works] = lines[..] else { panic!("{said}") };
        assert!(rsa.contains("Error") && rsa.ends_with(named) && ec.contains("Error") && ec.ends_with(named), "{said}");
        assert_eq!((rsa_works, ec_works), ("rsa2048 pyOpenSSL verified", "p256 pyOpenSSL verified"));
    }
}
