//! A crowd of clients that begin handshakes and leave: the server goes on, and so do the clients that stay.

use crate::handshake::{TLS_13, handshake, shake};
use crate::material::{Kind, Material};
use crate::programs::{BOUND, Daemon, program, wait_for};
use crate::secrets::directory;
use crate::server::{self, Identity};
use crate::service::Service;
use crate::table::{House, PROGRAMS, row};
use rustix::net::sockopt::set_socket_linger;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Stdio;
use std::thread;
use std::time::Duration;

const CLIENTS: u64 = 60;
const VISITS: u32 = 100;
/// `PostgreSQL` starts a process for each connection.
const FEW_VISITS: u32 = 10;
/// Connections that stay: their descriptors take all numbers that `select` accepts.
const STAYING: usize = 1100;
/// Lanes that a process keeps, and the descriptors of each.
const LANES: usize = 64;
const FILES_OF_A_LANE: usize = 5;
/// Connections that the server has not closed yet.
const SOME: usize = 16;
/// Connections that a small `HAProxy` takes.
const ROOM: usize = 100;
/// `PostgreSQL` is asked for TLS first, and answers with one byte.
const ASK_POSTGRES: &[u8] = &[0, 0, 0, 8, 4, 210, 22, 47];
/// What supervising processes say of a child that crashed.
const CRASHED: [&str; 4] = ["exited on signal", "exit signal", "terminated by signal", "exited with code"];

/// The first message of a client, as `openssl` sends it.
fn hello() -> Vec<u8> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let mut command = program("openssl");
    command.args(["s_client", "-connect", &listener.local_addr().unwrap().to_string()]);
    let mut client = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let (mut connection, _) = listener.accept().unwrap();
    let mut record = vec![0; 5];
    connection.read_exact(&mut record).unwrap();
    record.resize(5 + usize::from(u16::from_be_bytes([record[3], record[4]])), 0);
    connection.read_exact(&mut record[5..]).unwrap();
    drop(connection);
    client.wait().unwrap();
    record
}

struct Crowd<'a> {
    port: u16,
    first: &'a [u8],
    visits: u32,
}

impl Crowd<'_> {
    fn come_and_leave(&self) {
        let hello = &hello();
        thread::scope(|scope| {
            for client in 1..=CLIENTS {
                scope.spawn(move || {
                    let mut random = client;
                    for _ in 0..self.visits {
                        // A generator by Marsaglia, so that each run is the same crowd.
                        random ^= random << 13;
                        random ^= random >> 7;
                        random ^= random << 17;
                        let _ = self.visit(hello, random);
                    }
                });
            }
        });
    }

    /// A server that is full may refuse or end the connection earlier.
    fn visit(&self, hello: &[u8], random: u64) -> std::io::Result<()> {
        let mut connection = TcpStream::connect(("127.0.0.1", self.port))?;
        if !self.first.is_empty() {
            connection.write_all(self.first)?;
            connection.read_exact(&mut [0])?;
        }
        connection.write_all(hello)?;
        thread::sleep(Duration::from_micros([0, 300, 1_000, 3_000, 10_000, 50_000][(random % 6) as usize]));
        if random & 64 == 0 {
            // The connection is reset, not closed.
            set_socket_linger(&connection, Some(Duration::ZERO))?;
        }
        Ok(())
    }
}

fn survives(daemon: &mut Daemon) {
    let log = daemon.log();
    assert!(daemon.lives() && !CRASHED.iter().any(|words| log.contains(words)), "{log}");
}

fn comes_to(name: &str, first: &[u8], visits: u32) {
    let row = row(name);
    let program = PROGRAMS.iter().find(|program| program.name == name).unwrap();
    let mut house = House::new(program, &row);
    let mut running = house.start_patient();
    Crowd { port: running.port(), first, visits }.come_and_leave();
    survives(running.daemon());
    let is_served = {
        let (_, shake) = house.parts(&running);
        wait_for(BOUND, || shake().ok())
    };
    assert!(is_served, "no client is served\n{}", running.log());
    survives(running.daemon());
}

#[test]
fn clients_that_leave_do_not_end_nginx() {
    comes_to("nginx", b"", VISITS);
}

#[test]
fn clients_that_leave_do_not_end_haproxy() {
    comes_to("HAProxy", b"", VISITS);
}

#[test]
fn clients_that_leave_do_not_end_apache() {
    comes_to("Apache", b"", VISITS);
}

#[test]
fn clients_that_leave_do_not_end_node() {
    comes_to("Node", b"", VISITS);
}

#[test]
fn clients_that_leave_do_not_end_postgresql() {
    comes_to("PostgreSQL", ASK_POSTGRES, FEW_VISITS);
}

fn open_files(pid: u32) -> usize {
    std::fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count)
}

/// With `ssl-mode-async` each handshake is a job, which pauses while the service signs. `staying`: clients that only
/// connect.
fn comes_to_jobs(kind: Kind, staying: usize) {
    let directory = directory();
    let key = Material::make(directory.path(), kind);
    let service = Service::start(directory.path());
    let identity: Identity = service.import(&key);
    let configured = server::Program::HaProxy.configure(directory.path(), &[identity]);
    let mut server = configured.start(service.told(&mut configured.command()));
    let port = server.ports[0];
    shake(port, &key, TLS_13);
    let worker = *server.daemon.family().last().unwrap();
    let before = open_files(worker);
    // This process has the other ends.
    let files = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: files.maximum, ..files }).unwrap();
    let stay: Vec<_> = (0..staying).map(|_| TcpStream::connect(("127.0.0.1", port)).unwrap()).collect();
    Crowd { port, first: b"", visits: VISITS }.come_and_leave();
    survives(&mut server.daemon);
    drop(stay);
    // Those that came first may wait for their turn until the server gives them up.
    let is_served = wait_for(BOUND, || handshake(port, &key, TLS_13).ok());
    survives(&mut server.daemon);
    assert!(is_served, "no client is served\n{}", server.daemon.log());
    assert_eq!(server.daemon.family().last(), Some(&worker), "{}", server.daemon.log());
    let closed = wait_for(BOUND, || open_files(worker) <= before + LANES * FILES_OF_A_LANE + SOME);
    assert!(closed, "{} files are open, before {before}", open_files(worker));
}

/// With a small `maxconn`, `HAProxy` has room for few descriptors, and a job's may not be above them.
#[test]
fn clients_that_stay_do_not_end_haproxy_with_jobs_and_a_small_maxconn() {
    let directory = directory();
    let key = Material::make(directory.path(), Kind::P256);
    let service = Service::start(directory.path());
    let configured = server::Program::HaProxy.configure(directory.path(), &[service.import(&key)]);
    let text = std::fs::read_to_string(&configured.file).unwrap();
    std::fs::write(&configured.file, text.replace("global\n", &format!("global\nmaxconn {ROOM}\n"))).unwrap();
    let mut server = configured.start(service.told(&mut configured.command()));
    let port = server.ports[0];
    let hello = hello();
    let stay: Vec<_> = (0..ROOM)
        .map(|_| {
            let mut connection = TcpStream::connect(("127.0.0.1", port)).unwrap();
            connection.write_all(&hello).unwrap();
            connection
        })
        .collect();
    // Each has its answer, or its end.
    for mut connection in &stay {
        connection.set_read_timeout(Some(BOUND)).unwrap();
        let _ = connection.read(&mut [0]);
    }
    survives(&mut server.daemon);
    drop(stay);
    let is_served = wait_for(BOUND, || handshake(port, &key, TLS_13).ok());
    survives(&mut server.daemon);
    assert!(is_served, "no client is served\n{}", server.daemon.log());
}

#[test]
fn clients_that_leave_do_not_end_haproxy_with_jobs_and_an_rsa_key() {
    comes_to_jobs(Kind::Rsa, 0);
}

#[test]
fn clients_that_leave_do_not_end_haproxy_with_jobs_and_a_p_256_key() {
    comes_to_jobs(Kind::P256, 0);
}

#[test]
fn clients_that_leave_do_not_end_haproxy_whose_low_numbers_are_taken() {
    comes_to_jobs(Kind::Rsa, STAYING);
}
