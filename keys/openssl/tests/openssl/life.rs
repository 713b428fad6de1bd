//! Services that end and start, and keys that are deleted and replaced.

use crate::common::Site;
use crate::tls::Server;
use sidecore::keys::{Acl, KeyCommand, Kind};
use std::process::Command;

#[test]
fn a_key_that_was_deleted_signs_nothing_any_more() {
    let site = Site::with(&["p256"]);
    site.plain(&["dgst", "-sha256", "-binary", "-out", "digest", "message"]);
    // By name only: a file with the public part would not match the new key.
    let sign = ["pkeyutl", "-sign", "-inkey", "p256.old.pem", "-in", "digest", "-out", "signature"];
    site.ok(&sign);
    site.admin().keys(KeyCommand::Delete { name: "p256".to_owned() }).unwrap();
    let _ = site.fails(&sign);
    let command = KeyCommand::Generate { name: "p256".to_owned(), kind: Kind::P256, acl: Acl::default() };
    site.admin().keys(command).unwrap();
    site.ok(&sign);
    let check = ["pkeyutl", "-verify", "-pubin", "-inkey", "p256.pub", "-in", "digest", "-sigfile", "signature"];
    site.plain_fails(&check);
}

#[test]
fn a_check_says_whether_the_service_has_the_key() {
    let mut site = Site::with(&["rsa2048", "p256"]);
    for key in ["rsa2048", "p256"] {
        let file = format!("{key}.pem");
        let mut checks = vec![vec!["pkey", "-in", &file, "-check", "-noout"]];
        checks.push(vec!["pkey", "-in", &file, "-pubcheck", "-noout"]);
        if key == "rsa2048" {
            checks.push(vec!["rsa", "-in", &file, "-check", "-noout"]);
        }
        for check in &checks {
            site.ok(check);
        }
        let said = |site: &Site, check: &[&str]| {
            let said = site.any(check);
            said.out + &said.err
        };
        site.admin().keys(KeyCommand::Delete { name: key.to_owned() }).unwrap();
        for check in checks.iter().filter(|check| check.contains(&"-check")) {
            let said = said(&site, check);
            assert!(
                said.contains("there is no key") && !said.contains("is valid") && !said.contains("key ok"),
                "{said}"
            );
        }
        let kind = if key == "p256" { Kind::P256 } else { Kind::Rsa2048 };
        site.admin().keys(KeyCommand::Generate { name: key.to_owned(), kind, acl: Acl::default() }).unwrap();
        for check in checks.iter().filter(|check| check.contains(&"-check")) {
            let said = said(&site, check);
            assert!(said.contains("was replaced") && !said.contains("is valid") && !said.contains("key ok"), "{said}");
        }
    }
    site.service = None;
    let said = site.any(&["pkey", "-in", "p256.pem", "-check", "-noout"]);
    assert!(said.err.contains("no service at"), "{}", said.err);
}

#[test]
fn the_keys_are_there_when_the_service_starts_again() {
    let mut site = Site::with(&["rsa2048"]);
    site.plain(&["dgst", "-sha256", "-binary", "-out", "digest", "message"]);
    let sign = ["pkeyutl", "-sign", "-inkey", "rsa2048.pem", "-in", "digest", "-out", "signature"];
    let options = ["-pkeyopt", "digest:sha256"];
    site.ok(&[&sign[..], &options].concat());
    site.restart();
    site.ok(&[&sign[..], &options].concat());
    let check = ["pkeyutl", "-verify", "-pubin", "-inkey", "rsa2048.pub", "-in", "digest", "-sigfile", "signature"];
    site.plain(&[&check[..], &options].concat());
}

#[test]
fn a_key_that_was_replaced_is_not_used() {
    let site = Site::with(&["p256"]);
    let server = Server::start(&site, "p256", &[]);
    site.plain(&server.connect(&[]));
    site.admin().keys(KeyCommand::Delete { name: "p256".to_owned() }).unwrap();
    let command = KeyCommand::Generate { name: "p256".to_owned(), kind: Kind::P256, acl: Acl::default() };
    site.admin().keys(command).unwrap();
    site.plain_fails(&server.connect(&[]));
}

#[test]
fn a_process_without_descriptors_is_told_so() {
    let site = Site::with(&[]);
    // Twelve jobs need more descriptors than the limit: some wait for the lanes of others, or fail with the reason.
    let speed = "ulimit -n 24; exec openssl speed -seconds 1 -elapsed -async_jobs 12 rsa2048";
    let output = Command::new("timeout")
        .args(["-k", "5", "100", "sh", "-c", speed])
        .current_dir(site.path(""))
        .env("OPENSSL_CONF", "preferred.cnf")
        .output()
        .unwrap();
    assert_ne!(output.status.code(), Some(124), "it hangs");
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(told.contains("raise the limits on files"), "{told}");
}
