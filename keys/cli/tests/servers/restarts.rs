//! Restarts of the service: no handshake is lost, neither where a service manager keeps its socket from one service to
//! the next, nor where the next one takes the place of the present one.

mod succession;

use crate::handshake::{TLS_13, handshake};
use crate::material::{Kind, Material};
use crate::programs::{BOUND, Daemon, program, wait_for};
use crate::secrets::directory;
use crate::server::Program;
use crate::service::Service;
use rustix::net::sockopt::socket_peercred;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use scopeguard::defer;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Restarts if `SIDECORE_RESTARTS` names no other number.
const RESTARTS: u32 = 3;
/// Threads that load all cores if the variable is set, unless `SIDECORE_LOAD` names another number.
const LOAD: u32 = 16;
const EVERY: Duration = Duration::from_millis(50);
/// Most handshakes in flight: more client processes would themselves be the load.
const MAX_CLIENTS: u32 = 64;

const BETWEEN: u32 = 20;

/// The full test, with 20 handshakes a second and 16 loading threads: `SIDECORE_RESTARTS=100 cargo test -p sidecore-cli
/// --test servers -- restarts`.
#[test]
fn no_handshake_fails_while_a_service_manager_holds_the_socket() {
    let directory = directory();
    let mut service = Service::managed(directory.path());
    let asked = asked("SIDECORE_RESTARTS");
    let load = asked.map_or(0, |_| loaded());
    no_handshake_is_lost(directory.path(), &mut service, load, asked.unwrap_or(RESTARTS), |service| {
        service.stop();
        service.run();
    });
}

fn asked(variable: &str) -> Option<u32> {
    std::env::var(variable).ok().map(|number| number.parse().unwrap())
}

fn loaded() -> u32 {
    asked("SIDECORE_LOAD").unwrap_or(LOAD)
}

/// Handshakes with nginx while the service is restarted so many times, and that number of threads loads all cores.
fn no_handshake_is_lost(directory: &Path, service: &mut Service, load: u32, times: u32, restart: fn(&mut Service)) {
    let key = Material::make(directory, Kind::P256);
    service.import(&key);
    let configured = Program::Nginx.configure(directory, &[service.identity(&key, "p-256")]);
    let server = configured.start(service.told(&mut configured.command()));
    let (stop, done, failed) = (AtomicBool::new(false), AtomicU32::new(0), AtomicU32::new(0));
    let mut took = Vec::new();
    thread::scope(|scope| {
        defer!(stop.store(true, Ordering::Relaxed));
        for _ in 0..load {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        scope.spawn(|| {
            let mut begun = 0;
            while !stop.load(Ordering::Relaxed) {
                thread::sleep(EVERY);
                if begun - done.load(Ordering::Relaxed) >= MAX_CLIENTS {
                    continue;
                }
                begun += 1;
                scope.spawn(|| {
                    let shaken = handshake(server.ports[0], &key, TLS_13);
                    done.fetch_add(1, Ordering::Relaxed);
                    if !shaken.ok() {
                        println!("{shaken:?}");
                        failed.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
        });
        for _ in 0..times {
            let (before, start) = (done.load(Ordering::Relaxed), Instant::now());
            restart(service);
            took.push(start.elapsed());
            let some = || done.load(Ordering::Relaxed) >= before + BETWEEN;
            assert!(wait_for(BOUND, some), "no {BETWEEN} handshakes after a restart");
        }
    });
    took.sort_unstable();
    let (done, failed) = (done.into_inner(), failed.into_inner());
    println!("{times} restarts of up to {:?}, {done} handshakes, {failed} failed", took.last());
    assert!(done > 0 && failed == 0, "{failed} of {done} handshakes failed\n{}", server.daemon.log());
}

/// A client that connects between two services waits for the next one. It does not take a kept socket for a service.
#[test]
fn a_client_that_connects_between_two_services_waits_for_the_next() {
    let directory = directory();
    let key = Material::make(directory.path(), Kind::P256);
    let mut service = Service::managed(directory.path());
    let identity = service.import(&key);
    service.stop();
    let mut sign = program("openssl");
    std::fs::write(directory.path().join("digest"), [7; 32]).unwrap();
    sign.args(["pkeyutl", "-sign", "-inkey"]).arg(&identity.key).arg("-in").arg(directory.path().join("digest"));
    sign.arg("-out").arg(directory.path().join("signature"));
    let mut signs = Daemon::start("openssl", service.told(&mut sign), &directory.path().join("openssl.log"));
    // The client first waits for a reply until its timeout, and then for the service.
    assert!(!wait_for(Duration::from_secs(3), || !signs.lives()), "{}", signs.log());
    service.run();
    assert!(wait_for(BOUND, || !signs.lives()), "{}", signs.log());
    assert!(signs.status().unwrap().success() && directory.path().join("signature").exists(), "{}", signs.log());
    // The manager no longer keeps the socket. The client reports that after its wait for a restart.
    service.stop();
    service.forget();
    let mut signs = Daemon::start("openssl", service.told(&mut sign), &directory.path().join("openssl.log"));
    assert!(wait_for(BOUND, || !signs.lives()) && !signs.status().unwrap().success());
    assert!(signs.log().contains("no sidecore service answers at its socket"), "{}", signs.log());
}

/// The kernel reports the process that called `listen` last: clients trust the service's user, not the manager's.
#[test]
fn a_socket_that_the_manager_made_is_the_services_from_its_start_on() {
    let directory = directory();
    let mut service = Service::managed(directory.path());
    service.stop();
    service.listen_for_it();
    assert_eq!(listener(&service.socket()), std::process::id());
    let waiting = connected(&service.socket());
    service.run();
    assert_eq!(listener(&service.socket()), service.pid());
    drop(waiting);
    service.stop();
    service.run();
    assert_eq!(listener(&service.socket()), service.pid());
    service.stop();
    assert!(service.socket().exists(), "it is held for the next one");
}

fn connected(path: &Path) -> OwnedFd {
    let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
    connect(&socket, &SocketAddrUnix::new(path).unwrap()).unwrap();
    socket
}

fn listener(path: &Path) -> u32 {
    socket_peercred(connected(path)).unwrap().pid.as_raw_nonzero().get().cast_unsigned()
}
