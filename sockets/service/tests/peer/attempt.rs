//! Attempts of an intruder with control of a service of sockets.
//!
//! The process starts like `sidecore serve`, with or without the sandbox; then it tries one attack.

use crate::{config, sys};
use rustix::process::{Pid, Resource, Rlimit, setrlimit, test_kill_process};
use sidecore_daemon::sandbox;
use sidecore_sockets_service::Sockets;
use std::fs::File;
use std::io::{self, Error};
use std::net::{TcpListener, UdpSocket};
use std::os::fd::RawFd;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::thread;

pub(crate) fn run(what: &str, how: &str, directory: &Path, victim: &str) {
    let socket = directory.join("socket");
    let text = format!("socket = '{}'\n[sockets]\n[sandbox]\nseccomp = true\nlandlock = true", socket.display());
    let config = config(&text);
    let sandbox = (how != "outside").then(|| {
        sandbox::enter(&config.sandbox, Sockets::DUTY, &config.directories()).unwrap_or_else(|error| fail(&error))
    });
    let service = Sockets::start(&config).expect("a service of sockets");
    if let Some(mut sandbox) = sandbox {
        sandbox.filter_calls(service.door()).unwrap_or_else(|error| fail(&error));
    }
    match attempt(what, victim, service.door()) {
        Ok(()) => println!("done"),
        Err(error) => println!("refused {}", error.raw_os_error().unwrap_or(0)),
    }
}

fn fail(error: &sandbox::SandboxError) -> ! {
    println!("no sandbox: {error}");
    std::process::exit(3)
}

/// Those that the rules for this service decide, and one of each kind that all services are denied.
fn attempt(what: &str, victim: &str, door: RawFd) -> io::Result<()> {
    let process = || Pid::from_raw(victim.parse().expect("a process")).expect("a process");
    match what {
        "execute" => Err(Command::new("/bin/echo").arg("done").exec()),
        "spawn" => Command::new("/bin/true").status().map(|_| ()),
        "udp" => UdpSocket::bind("127.0.0.1:0").map(|_| ()),
        "tcp" => TcpListener::bind("127.0.0.1:0").map(|_| ()),
        "unix" => UnixDatagram::unbound().map(|_| ()),
        "pair" => UnixStream::pair().map(|_| ()),
        "listen" => sys::listen(door, victim.parse().expect("a number")),
        "read" => File::open(victim).map(|_| ()),
        "write" => File::options().append(true).open(victim).map(|_| ()),
        "create" => File::create(victim).map(|_| ()),
        "signal" => Ok(test_kill_process(process())?),
        "limit" => Ok(setrlimit(Resource::Stack, Rlimit { current: Some(1 << 20), maximum: None })?),
        "thread" => thread::spawn(|| ()).join().map_err(|_| Error::other("the thread panicked")),
        _ => panic!("no such attempt: {what}"),
    }
}
