//! The example, as a program of its own.

use crate::site::Site;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

/// It ends with the test, also where that fails.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_example_serves_with_stored_certificates_and_with_those_of_a_file() {
    let site = Site::with(&["p256"]);
    let test = std::env::current_exe().unwrap();
    let example = test.ancestors().nth(2).unwrap().join("examples/https");
    assert!(example.exists(), "no example at {}: cargo build -p sidecore-rustls --examples", example.display());
    let der = ["x509", "-inform", "DER", "-in", "p256.crt", "-out", "p256.pem"];
    let done = Command::new("openssl").args(der).current_dir(site.path("")).status();
    assert!(done.expect("apt-get install openssl").success());
    for chain in [&[][..], &["p256.pem"]] {
        let mut command = Command::new(&example);
        command.args(["p256", "127.0.0.1:0"]).args(chain).current_dir(site.path(""));
        command.env("SIDECORE_SOCKET", site.path("socket")).stdout(Stdio::piped());
        let mut server = Server(command.spawn().unwrap());
        let mut line = String::new();
        BufReader::new(server.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let port = line.trim().rsplit(':').next().unwrap();
        let url = format!("https://localhost:{port}/");
        let to = format!("localhost:{port}:127.0.0.1");
        let curl = ["--silent", "--show-error", "--max-time", "60", "--cacert", "p256.pem", "--resolve", &to, &url];
        let output = Command::new("curl").args(curl).current_dir(site.path("")).output();
        let output = output.expect("apt-get install curl");
        assert_eq!(String::from_utf8_lossy(&output.stdout), "it works\n", "{output:?}");
    }
}
