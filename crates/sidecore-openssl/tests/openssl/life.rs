//! Services that end and begin, keys that go and change.

use crate::common::Site;
use crate::tls::Server;
use sidecore::keys::{Acl, KeyCommand, Kind};
use std::process::Command;

#[test]
fn a_key_that_was_deleted_signs_nothing_any_more() {
    let site = Site::with(&["p256"]);
    site.plain(&["dgst", "-sha256", "-binary", "-out", "digest", "message"]);
    // By its name: a file with the public part would not do for the new key.
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
    // Twelve jobs want more than there are: some wait for the lanes of others, or fail with the reason.
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
