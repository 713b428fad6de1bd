//! A real pipeline: 2,000 log files through unmodified gzip, on nodes in separate network namespaces, one millisecond
//! away.

use crate::program::{Running, farm, fine, run, until};
use nix::sched::{CloneFlags, unshare};
use sidecore_testing::nats::Server;
use sidecore_testing::skipped;
use std::fmt::Write as _;
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

const FILES: usize = 2_000;
const NODES: usize = 3;
/// Delay in one direction, by a relay: not every kernel has netem.
const DELAY: Duration = Duration::from_millis(1);

/// A machine that consists of a network only. It ends with its process.
struct Machine(Child);

impl Drop for Machine {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

impl Machine {
    /// Linked to this thread's network by 10.77.NUMBER.0. This thread has the address 1, the machine the address 2.
    fn new(number: usize) -> Self {
        let child = Command::new("unshare").args(["-n", "sleep", "3600"]).spawn().unwrap();
        let machine = Self(child);
        let own = fs::read_link("/proc/thread-self/ns/net").unwrap();
        let theirs = format!("/proc/{}/ns/net", machine.0.id());
        until("a network of its own", || fs::read_link(&theirs).is_ok_and(|theirs| theirs != own));
        let (near, far, id) = (format!("near{number}"), format!("far{number}"), machine.0.id().to_string());
        ip(&["link", "add", &near, "type", "veth", "peer", "name", &far, "netns", &id]);
        ip(&["address", "add", &format!("10.77.{number}.1/24"), "dev", &near]);
        ip(&["link", "set", &near, "up"]);
        for args in
            [&["address", "add", &format!("10.77.{number}.2/24"), "dev", &far][..], &["link", "set", &far, "up"]]
        {
            fine(&machine.command("ip").args(args).output().unwrap());
        }
        machine
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["-n", "-t", &self.0.id().to_string(), program]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }
}

fn ip(args: &[&str]) {
    fine(&Command::new("ip").args(args).output().unwrap());
}

/// Forwards connections at one address to the other, with each byte delayed by [`DELAY`]. Its threads end with their
/// connections.
fn relay(at: SocketAddr, to: SocketAddr) -> SocketAddr {
    let listener = TcpListener::bind(at).unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for near in listener.incoming() {
            let (near, far) = (near.unwrap(), TcpStream::connect(to).unwrap());
            for (from, to) in [(near.try_clone().unwrap(), far.try_clone().unwrap()), (far, near)] {
                from.set_nodelay(true).unwrap();
                let (put, take) = channel();
                thread::spawn(move || pass_on(&take, to));
                thread::spawn(move || {
                    let (mut from, mut piece) = (from, vec![0; 65_536]);
                    while let Ok(len @ 1..) = from.read(&mut piece) {
                        if put.send((Instant::now() + DELAY, piece[..len].to_vec())).is_err() {
                            break;
                        }
                    }
                });
            }
        }
    });
    address
}

fn pass_on(pieces: &Receiver<(Instant, Vec<u8>)>, mut to: TcpStream) {
    for (at, piece) in pieces {
        thread::sleep(at.saturating_duration_since(Instant::now()));
        if to.write_all(&piece).is_err() {
            break;
        }
    }
    drop(to.shutdown(std::net::Shutdown::Both));
}

fn log(number: usize) -> String {
    let mut text = String::new();
    for line in 0..=number % 20 {
        let (status, bytes) = ([200, 200, 304, 404, 500][(number + line) % 5], number * 37 + line);
        let _ = writeln!(text, "198.51.100.{} GET /page/{number}/{line} {status} {bytes}", number % 250);
    }
    text
}

/// The unpacked contents of all results: gzip takes concatenated files for one file.
fn unpacked(results: &Path, names: &[String]) -> String {
    let mut all = Vec::new();
    for name in names {
        all.extend(fs::read(results.join(format!("logs-{name}"))).unwrap());
    }
    let packed = results.with_extension("gz");
    fs::write(&packed, all).unwrap();
    fine(&Command::new("gzip").arg("-dc").arg(&packed).output().unwrap())
}

#[test]
fn two_thousand_logs_go_through_gzip_on_machines_a_millisecond_away() {
    if Command::new("nsenter").arg("--version").output().is_err() || Command::new("ip").arg("-V").output().is_err() {
        return skipped("no nsenter or no ip: apt-get install util-linux iproute2");
    }
    // From now on this thread and its child processes are in a private network.
    if let Err(error) = unshare(CloneFlags::CLONE_NEWNET) {
        return skipped(&format!("may make no network namespace: {error}"));
    }
    ip(&["link", "set", "lo", "up"]);
    let Some(server) = Server::start() else { return };
    let scratch = tempfile::tempdir().unwrap();
    let (logs, results) = (scratch.path().join("logs"), scratch.path().join("results"));
    fs::create_dir(&logs).unwrap();
    let names: Vec<String> = (0..FILES).map(|number| format!("web-{number:04}")).collect();
    for (number, name) in names.iter().enumerate() {
        fs::write(logs.join(name), log(number)).unwrap();
    }
    let url = server.url();
    let _dispatcher = Running::start(&mut farm(&url, &["dispatch"]));
    until("a dispatcher", || run(&url, &["status"]).status.success());
    let to = url.strip_prefix("nats://").unwrap().parse().unwrap();
    let machines: Vec<Machine> = (0..NODES).map(Machine::new).collect();
    let start = |(number, machine): (usize, &Machine)| {
        let near = relay(format!("10.77.{number}.1:0").parse().unwrap(), to);
        let mut command = machine.command(env!("CARGO_BIN_EXE_sidecore-farm"));
        command.args(["work", "--jobs", "2", "--server", &format!("nats://{near}"), "--", "gzip", "-c"]);
        Running::start(&mut command)
    };
    let _nodes: Vec<Running> = machines.iter().enumerate().map(start).collect();
    fine(&run(&url, &["feed", "--dir", logs.to_str().unwrap(), "--name", "logs"]));
    let args = ["results", "--to", results.to_str().unwrap(), "--count", &FILES.to_string()];
    fine(&run(&url, &args));
    let expected: String = (0..FILES).map(log).collect();
    assert!(unpacked(&results, &names) == expected, "each log, packed on another machine");
    let status: serde_json::Value = serde_json::from_str(&fine(&run(&url, &["status", "--json"]))).unwrap();
    assert_eq!(status["totals"]["committed"], FILES, "{status}");
    for node in status["nodes"].as_array().unwrap() {
        // Both directions.
        assert!(node["way_us"].as_u64().unwrap() >= 2_000 && node["done"].as_u64().unwrap() > 0, "{status}");
    }
}
