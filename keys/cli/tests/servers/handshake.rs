//! Clients of servers: single handshakes, and load.

use crate::material::Material;
use crate::programs::{Daemon, Done, program, run};
use std::path::Path;

/// Versions and key exchanges: each uses the server's private key in another way.
pub(crate) const TLS_13: &[&str] = &["-tls1_3"];
pub(crate) const TLS_12: &[&str] = &["-tls1_2"];
/// The server decrypts with its RSA key instead of signing.
pub(crate) const TLS_12_RSA_DECRYPTS: &[&str] = &["-tls1_2", "-cipher", "AES128-GCM-SHA256"];

/// One handshake. It succeeds only if the server proves possession of the certificate's key.
pub(crate) fn handshake(port: u16, trusted: &Material, how: &[&str]) -> Done {
    run(program("openssl")
        .args(["s_client", "-brief", "-verify_return_error", "-verify_hostname", "localhost", "-connect"])
        .arg(format!("127.0.0.1:{port}"))
        .arg("-CAfile")
        .arg(&trusted.certificate)
        .args(how))
}

pub(crate) fn shake(port: u16, trusted: &Material, how: &[&str]) {
    let done = handshake(port, trusted, how);
    assert!(done.ok() && done.stderr.contains("Verification: OK"), "{:?} {how:?}: {done:?}", trusted.kind);
}

pub(crate) struct Load(Daemon);

impl Load {
    pub(crate) fn start(port: u16, directory: &Path) -> Self {
        Self::for_seconds(port, directory, 2)
    }

    pub(crate) fn for_seconds(port: u16, directory: &Path, seconds: u32) -> Self {
        let mut command = program("wrk");
        let length = format!("-d{seconds}s");
        command.args(["-t1", "-c8", &length, "--timeout", "10s", "-H", "Connection: close"]);
        command.arg(format!("https://127.0.0.1:{port}/"));
        Self(Daemon::start("wrk", &mut command, &directory.join(format!("wrk.{port}.log"))))
    }

    pub(crate) fn answered(self) -> u64 {
        self.ended().0
    }

    pub(crate) fn ended(mut self) -> (u64, Option<String>) {
        self.0.wait_for_words("requests in");
        let log = self.0.log();
        let line = log.lines().find(|line| line.contains("requests in")).unwrap();
        let errors = log.lines().find(|line| line.contains("Socket errors")).map(str::to_owned);
        (line.split_whitespace().next().unwrap().parse().unwrap(), errors)
    }
}
