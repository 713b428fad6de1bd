//! The configuration for three servers, with TLS and an account for each role. It works unchanged from
//! `packaging/farm`, and the death of one server loses nothing.

use crate::program::{MAX_WAIT, MOMENT, Running, farm, fine, refused, run, run_with, said, until};
use crate::queue::number;
use sidecore_testing::skipped;
use std::fs::File;
use std::io::ErrorKind;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Instant;
use tempfile::TempDir;

const SERVERS: usize = 3;
/// Users of `accounts.conf` with their passwords; a password of digits needs quotes there.
const USERS: [(&str, &str, &str); 4] = [
    ("operator", "FARM_OPERATOR_PASSWORD", "oper"),
    ("feeder", "FARM_FEEDER_PASSWORD", "\"12 34\""),
    ("dispatcher", "FARM_DISPATCHER_PASSWORD", "disp"),
    ("node", "FARM_NODE_PASSWORD", "work"),
];

/// Of the servers: major and minor.
fn version() -> [u32; 2] {
    let output = Command::new("nats-server").arg("--version").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let (major, rest) = text.rsplit('v').next().unwrap().split_once('.').unwrap();
    [major, rest.split('.').next().unwrap()].map(|number| number.parse().unwrap())
}

struct Cluster {
    scratch: TempDir,
    clients: [u16; SERVERS],
    peers: [u16; SERVERS],
    servers: Vec<Child>,
}

impl Cluster {
    fn start() -> Option<Self> {
        let scratch = tempfile::tempdir().unwrap();
        if !certificates(scratch.path()) {
            skipped("no openssl: apt-get install openssl");
            return None;
        }
        let mut cluster = Self { scratch, clients: free(), peers: free(), servers: Vec::new() };
        for index in 0..SERVERS {
            let Some(server) = cluster.server(index) else {
                skipped("no nats-server: apt-get install nats-server");
                return None;
            };
            cluster.servers.push(server);
        }
        let begun = Instant::now();
        while cluster.clients.iter().any(|port| TcpStream::connect(("127.0.0.1", *port)).is_err()) {
            assert!(begun.elapsed() < MAX_WAIT, "the servers do not listen");
            thread::sleep(MOMENT);
        }
        Some(cluster)
    }

    fn server(&self, index: usize) -> Option<Child> {
        let file = |name: &str| self.scratch.path().join(name);
        let conf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/farm/server.conf");
        let mut command = Command::new("nats-server");
        command.arg("-c").arg(conf).stdin(Stdio::null()).stdout(Stdio::null());
        command.stderr(File::create(file(&format!("log-{index}"))).unwrap());
        command.env("FARM_SERVER", format!("server-{index}"));
        command.env("FARM_CLIENTS", format!("127.0.0.1:{}", self.clients[index]));
        command.env("FARM_PEERS", format!("127.0.0.1:{}", self.peers[index]));
        for (route, port) in (1..).zip(self.peers) {
            command.env(format!("FARM_ROUTE_{route}"), format!("tls://127.0.0.1:{port}"));
        }
        command.env("FARM_STORE", file(&format!("store-{index}")));
        command.env("FARM_CERT", file("server.pem")).env("FARM_KEY", file("server.key")).env("FARM_CA", file("ca.pem"));
        command.envs(USERS.map(|(_, variable, password)| (variable, password)));
        match command.spawn() {
            Ok(server) => Some(server),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => panic!("cannot start nats-server: {error}"),
        }
    }

    fn url(&self, user: &str) -> String {
        let (_, _, password) = USERS.iter().find(|(name, ..)| *name == user).unwrap();
        let password = password.trim_matches('"').replace(' ', "%20");
        self.clients.map(|port| format!("tls://{user}:{password}@127.0.0.1:{port}")).join(",")
    }

    fn ca(&self) -> PathBuf {
        self.scratch.path().join("ca.pem")
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for server in &mut self.servers {
            drop(server.kill());
            drop(server.wait());
        }
    }
}

fn free() -> [u16; SERVERS] {
    let listeners: [TcpListener; SERVERS] = std::array::from_fn(|_| TcpListener::bind("127.0.0.1:0").unwrap());
    listeners.map(|listener| listener.local_addr().unwrap().port())
}

fn certificates(directory: &Path) -> bool {
    let script = "
        openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj '/CN=farm authority' -keyout ca.key -out ca.pem &&
        openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj '/CN=server' -keyout server.key -out server.csr &&
        printf 'subjectAltName=IP:127.0.0.1' > names &&
        openssl x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile names -out server.pem";
    let made = Command::new("sh").args(["-c", script]).current_dir(directory).output().unwrap();
    let missing = made.status.code() == Some(127);
    assert!(missing || made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    !missing
}

#[test]
fn three_servers_with_tls_and_accounts_serve_a_farm_and_one_may_die() {
    let Some(mut cluster) = Cluster::start() else { return };
    let ca = cluster.ca();
    let ca = ca.to_str().unwrap();
    let (operator, feeder) = (cluster.url("operator"), cluster.url("feeder"));
    let made = run(&operator, &["feed", "--tls-ca", ca, "--replicas", "3", "--max-bytes", "100MiB"]);
    fine(&made);
    let is_warned = said(&made).2.contains("of a full farm with replicas when one of its servers ends");
    assert_eq!(is_warned, version() < [2, 14], "{made:?}");
    // Each role may do its own work only.
    fine(&run_with(&feeder, &["feed", "--tls-ca", ca, "--lines", "--name", "first"], b"one\ntwo\n"));
    refused(&run(&cluster.url("node"), &["feed", "--tls-ca", ca]), 2, &["may not do that"]);
    refused(&run(&feeder, &["results", "--stdout", "--tls-ca", ca]), 2, &["may not do that", "$JS.API.STREAM.INFO."]);
    refused(&run(&feeder, &["dead", "--tls-ca", ca]), 2, &["may not"]);
    // TLS proves the servers' identity.
    refused(&run(&feeder, &["feed"]), 2, &["nobody known has signed", "--tls-ca"]);
    let other_name = format!("tls://feeder:12%2034@localhost:{}", cluster.clients[0]);
    refused(&run(&other_name, &["feed", "--tls-ca", ca]), 2, &["certificate", "for another name"]);
    // A server dies while events come.
    let file = cluster.scratch.path().join("numbers");
    std::fs::write(&file, (0..40_000).map(|number| number.to_string() + "\n").collect::<String>()).unwrap();
    let from = ["feed", "--tls-ca", ca, "--lines", "--name", "second", "--from", file.to_str().unwrap()];
    let beside = Running::start(&mut farm(&feeder, &from));
    until("events are stored", || number(&operator, ca, "farm-events") > 5_000);
    cluster.servers[0].kill().unwrap();
    let out = fine(&beside.end());
    assert_eq!(out, "fed 40000, stored 40000, already there 0, refused 0, shed 0\n");
    assert_eq!(number(&operator, ca, "farm-events"), 40_002);
}
