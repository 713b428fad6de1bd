//! A program cannot tell a stored key from one in a file in what it does with it, also where that is rare.

use crate::common::Site;
use crate::programs::made;
use sidecore::keys::uri::Uri;
use sidecore::keys::{Acl, KeyCommand};
use std::fs;
use std::process::Command;

const KEYS: [(&str, &[&str]); 5] = [
    ("rsa", &["RSA", "-pkeyopt", "rsa_keygen_bits:2048"]),
    ("p256", &["EC", "-pkeyopt", "group:P-256"]),
    ("p384", &["EC", "-pkeyopt", "group:P-384"]),
    ("ed25519", &["ED25519"]),
    ("x25519", &["X25519"]),
];

/// A key in `NAME.key`, its public part in `NAME.pub`, and the same key in the service as `NAME.pem`.
fn both(site: &Site, name: &str, algorithm: &[&str]) {
    let (key, public, der) = (format!("{name}.key"), format!("{name}.pub"), format!("{name}.der"));
    site.plain(&[&["genpkey", "-out", &key, "-algorithm"], algorithm].concat());
    site.plain(&["pkey", "-in", &key, "-pubout", "-out", &public]);
    site.plain(&["pkcs8", "-topk8", "-nocrypt", "-in", &key, "-outform", "DER", "-out", &der]);
    let pkcs8 = fs::read(site.path(&der)).unwrap();
    let (name, mut admin) = (name.to_owned(), site.admin());
    admin.keys(KeyCommand::Import { name: name.clone(), pkcs8: pkcs8.as_slice().into(), acl: Acl::default() }).unwrap();
    let uri = Uri::new(&name).unwrap().with_public(admin.key_info(&name).unwrap().public).unwrap();
    fs::write(site.path(&format!("{name}.pem")), uri.to_pem()).unwrap();
}

#[test]
fn one_shot_signatures_agreements_and_parameters_are_those_of_a_key_in_a_file() {
    let site = Site::with(&[]);
    let program = made(&site, "alike");
    for (name, algorithm) in &KEYS {
        both(&site, name, algorithm);
    }
    let others: Vec<String> = KEYS.iter().map(|(name, _)| format!("{name}.pub")).collect();
    for (name, _) in KEYS {
        let seen = |file: String, cnf: &str| {
            let mut command = Command::new(&program);
            command.arg(file).arg(format!("{name}.pub")).args(&others).current_dir(site.path(""));
            let done = command.env("OPENSSL_CONF", cnf).output().unwrap();
            assert!(done.status.success(), "{name} {cnf}: {} {}", done.status, String::from_utf8_lossy(&done.stderr));
            String::from_utf8_lossy(&done.stdout).into_owned()
        };
        let in_file = seen(format!("{name}.key"), "/dev/null");
        assert!(in_file.contains("print 1"), "{in_file}");
        assert_eq!(seen(format!("{name}.pem"), "openssl.cnf"), in_file, "{name}");
    }
}
