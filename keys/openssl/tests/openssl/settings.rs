//! Each parameter of each operation is honoured, or refused with a reason of ours, with each available OpenSSL.

use crate::common::{KEYS, Site};
use crate::newer;
use sidecore_testing::skipped;
use std::process::Command;

fn program(site: &Site) -> String {
    let file = site.path("settings").display().to_string();
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/openssl/settings.c");
    let built =
        Command::new("cc").args(["-Wall", "-Wextra", "-Werror", "-O1", "-o", &file, source, "-lcrypto"]).output();
    let built = built.expect("a C compiler: apt-get install gcc libssl-dev");
    assert!(built.status.success(), "apt-get install libssl-dev: {}", String::from_utf8_lossy(&built.stderr));
    file
}

#[test]
fn each_parameter_is_honoured_or_refused() {
    let site = Site::with(&KEYS.map(|(name, _)| name));
    let program = program(&site);
    check(&site, &["rsa2048", "p256", "p384", "ed25519", "x25519"], || Ok(Command::new(&program)));
}

#[test]
fn each_parameter_is_honoured_or_refused_by_openssl_3_5() {
    if let Err(why) = newer::command("openssl") {
        return skipped(&format!("no OpenSSL 3.5: {why}"));
    }
    let site = Site::with(&KEYS.map(|(name, _)| name));
    let program = program(&site);
    check(&site, &["rsa2048", "p256", "p384", "ed25519", "x25519", "mldsa65"], || newer::command(&program));
}

fn check(site: &Site, keys: &[&str], command: impl Fn() -> Result<Command, String>) {
    for key in keys {
        let mut command = command().unwrap();
        command
            .arg(format!("sidecore:{key}"))
            .arg(format!("{key}.pub"))
            .current_dir(site.path(""))
            .env("OPENSSL_CONF", "openssl.cnf");
        let output = command.output().unwrap();
        let (said, wrong) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{key}: {} {wrong}", output.status);
        let bad = |line: &&str| ["SILENT", "IGNORED", "WRONG"].iter().any(|word| line.ends_with(word));
        let bad: Vec<&str> = said.lines().filter(bad).collect();
        assert!(bad.is_empty(), "{key}: {bad:#?} {wrong}");
    }
}
