//! Handshakes of `openssl s_client` with `openssl s_server`, whose key is in the service.

use crate::common::Site;
use sidecore::keys::KeyCommand;
use sidecore::service::Service;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

pub(crate) struct Server {
    child: Child,
    address: String,
}

impl Server {
    pub(crate) fn start(site: &Site, key: &str, options: &[&str]) -> Self {
        let file = format!("{key}.pem");
        site.ok(&["req", "-x509", "-new", "-key", &file, "-subj", "/CN=localhost", "-out", "certificate"]);
        Self::with_certificate(site, key, options)
    }

    pub(crate) fn with_certificate(site: &Site, key: &str, options: &[&str]) -> Self {
        Self::configured(site, key, options, "openssl.cnf")
    }

    pub(crate) fn configured(site: &Site, key: &str, options: &[&str], cnf: &str) -> Self {
        let file = format!("{key}.pem");
        let mut command = Command::new("openssl");
        command.args(["s_server", "-accept", "127.0.0.1:0", "-cert", "certificate", "-key", &file, "-www"]);
        command.args(options).current_dir(site.path("")).env("OPENSSL_CONF", cnf);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let accepts = lines.map(Result::unwrap).find(|line| line.starts_with("ACCEPT")).expect("the server accepts");
        Self { child, address: accepts.trim_start_matches("ACCEPT ").to_owned() }
    }

    pub(crate) fn connect<'a>(&'a self, options: &[&'a str]) -> Vec<&'a str> {
        let client =
            ["s_client", "-connect", &self.address, "-CAfile", "certificate", "-verify_return_error", "-brief"];
        [&client[..], options].concat()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn handshakes_of_every_version_and_key_succeed() {
    let site = Site::with(&["rsa2048", "p256", "ed25519"]);
    for key in ["rsa2048", "p256", "ed25519"] {
        for mode in [&[][..], &["-async"]] {
            let server = Server::start(&site, key, mode);
            for version in ["-tls1_2", "-tls1_3"] {
                for _ in 0..3 {
                    let said = site.plain(&server.connect(&[version]));
                    assert!(said.err.contains("Verification: OK"), "{}", said.err);
                }
            }
        }
    }
}

#[test]
fn old_handshakes_decrypt_the_premaster_secret_and_sign_old_digests() {
    let site = Site::with(&["rsa2048"]);
    for mode in [&["-cipher", "ALL:@SECLEVEL=0"][..], &["-async", "-cipher", "ALL:@SECLEVEL=0"]] {
        let server = Server::start(&site, "rsa2048", mode);
        site.plain(&server.connect(&["-tls1_2", "-cipher", "AES128-GCM-SHA256"]));
        site.plain(&server.connect(&["-tls1_2", "-cipher", "AES128-SHA"]));
        for version in ["-tls1", "-tls1_1"] {
            site.plain(&server.connect(&[version, "-cipher", "ECDHE-RSA-AES128-SHA:@SECLEVEL=0"]));
            site.plain(&server.connect(&[version, "-cipher", "AES128-SHA:@SECLEVEL=0"]));
        }
    }
}

#[test]
fn a_server_goes_on_when_the_service_starts_again_or_its_key_goes() {
    for mode in [&[][..], &["-async"]] {
        let mut site = Site::with(&["p256"]);
        site.waits_ms(15_000);
        let server = Server::start(&site, "p256", mode);
        site.plain(&server.connect(&[]));
        site.restart();
        site.plain(&server.connect(&[]));
        // A handshake during the outage waits for the service.
        site.service = None;
        let config = site.config();
        let starter = thread::spawn(move || {
            thread::sleep(Duration::from_millis(300));
            Service::start(config).unwrap()
        });
        site.plain(&server.connect(&[]));
        site.service = Some(starter.join().unwrap());
        // Once the wait is over, handshakes fail immediately.
        site.service = None;
        site.plain_fails(&server.connect(&[]));
        site.restart();
        site.plain(&server.connect(&[]));
        site.admin().keys(KeyCommand::Delete { name: "p256".to_owned() }).unwrap();
        site.plain_fails(&server.connect(&[]));
    }
}
