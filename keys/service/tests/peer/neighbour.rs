//! Neighbours: a client with modest use, and clients that try to use up the service.

use crate::raw::{Control, RawLane, attach_request};
use crate::{options, wait_for_line};
use rustix::net::{
    AddressFamily, SocketFlags, SocketType, accept, bind, connect, getsockname, listen, send, socket_with, sockopt,
};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};
use sidecore::client::{Admin, Client};
use sidecore::control::{Reply, Request};
use sidecore::core::session::Class;
use sidecore::engine::crypto::sample::sample;
use sidecore::engine::crypto::{DecryptionPadding, Hash, KeyMaterial, Scheme, Secret, SessionSpec, SignaturePadding};
use sidecore::keys::KeyCommand;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

/// Time that the kernel blocks on the last reference to an attacker's socket: far longer than any other step.
const LINGER: Duration = Duration::from_secs(60);
const RSA_4096: &[u8] = include_bytes!("../../src/engine/crypto/keys/test-rsa-4096.pkcs8.der");

/// Permanently, before there are threads.
pub(crate) fn become_user(uid: u32) {
    if uid == rustix::process::getuid().as_raw() {
        return;
    }
    let (gid, uid) = (rustix::process::Gid::from_raw(uid), rustix::process::Uid::from_raw(uid));
    set_thread_groups(&[]).expect("root may");
    set_thread_res_gid(gid, gid, gid).expect("root may");
    set_thread_res_uid(uid, uid, uid).expect("root may");
}

/// A TCP socket that takes its last owner a minute to close: it has unsent data, and its peer reads nothing.
fn lingering() -> (OwnedFd, OwnedFd, OwnedFd) {
    let tcp = || socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None).expect("a socket");
    let (listener, sender) = (tcp(), tcp());
    bind(&listener, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0)).expect("a port");
    listen(&listener, 1).expect("a listener");
    connect(&sender, &getsockname(&listener).expect("an address")).expect("a connection");
    let receiver = accept(&listener).expect("a connection");
    sockopt::set_socket_linger(&sender, Some(LINGER)).expect("an option");
    let bytes = [7; 8192];
    while send(&sender, &bytes, rustix::net::SendFlags::DONTWAIT).is_ok() {}
    (sender, receiver, listener)
}

/// Sends such sockets to the service in each way, and closes them. Prints how often the kernel passed them on.
pub(crate) fn send_lingering(socket: &str) {
    let mut passed = 0;
    let mut kept = Vec::new();
    for attach_first in [false, true] {
        for hang_up in [false, true] {
            let control = Control::connect(socket).expect("the service listens");
            if attach_first {
                control.ask(&attach_request(8, 4096)).expect("a lane");
            }
            let (sender, receiver, listener) = lingering();
            if control.send_bytes(b"\x02\x00", &[sender.as_fd()]).is_ok() {
                passed += 1;
            } else {
                // The kernel refuses it for the service, and closing it here must not block either.
                sockopt::set_socket_linger(&sender, None).expect("an option");
            }
            drop(sender);
            kept.push((receiver, listener, (!hang_up).then_some(control)));
        }
    }
    println!("{passed} passed");
    wait_for_line();
}

pub(crate) fn besiege(socket: &str, connections: u64, uid: u32) {
    become_user(uid);
    let kept: Vec<OwnedFd> = (0..connections)
        .map(|_| {
            let (sender, receiver, _) = lingering();
            let control = Control::connect(socket).expect("the service listens");
            control.send_bytes(b"\x02\x00", &[sender.as_fd()]).expect("the kernel lets it pass");
            receiver
        })
        .collect();
    println!("besieged by {}", kept.len());
    wait_for_line();
}

pub(crate) fn answer(socket: &str, uid: u32) {
    become_user(uid);
    let signing = sample(Class::from_name("p-256-sign").expect("an operation"), 32, 1);
    println!("ready");
    while wait_for_line().is_some() {
        let signed = Client::connect(&options(socket)).map_err(|error| error.to_string()).and_then(|mut client| {
            let session = client.open_session(&signing.spec).map_err(|error| error.to_string())?;
            let signed = client.call(session, signing.op, signing.head_len as u32, &signing.input, 256);
            signed.map(|_| ()).map_err(|error| error.to_string())
        });
        println!("{}", signed.map_or_else(|error| error, |()| "signed".to_owned()));
    }
}

pub(crate) fn throng(socket: &str, lanes: u64, uid: u32) {
    become_user(uid);
    let lanes: Vec<Control> = (0..lanes)
        .map(|_| {
            let control = Control::connect(socket).expect("the service listens");
            let attached = control.ask(&attach_request(2, 4096));
            assert!(matches!(attached, Ok((Reply::Attached { .. }, _))), "{attached:?}");
            control
        })
        .collect();
    let scheme = Scheme::RsaSignature { padding: SignaturePadding::Pkcs1, hash: Hash::Sha256 };
    let open = Request::OpenSession(SessionSpec { scheme, key: KeyMaterial::Private(Secret::from(RSA_4096)) });
    let answers = AtomicU64::new(0);
    thread::scope(|scope| {
        scope.spawn(|| {
            println!("thronging");
            while wait_for_line().is_some() {
                println!("{}", answers.load(Ordering::Relaxed));
            }
            std::process::exit(0);
        });
        for lane in &lanes {
            lane.send(&open).expect("room for a message");
        }
        loop {
            for lane in lanes.iter().filter(|lane| lane.ready()) {
                let (reply, _) = lane.receive().expect("an answer");
                answers.fetch_add(1, Ordering::Relaxed);
                let next = match reply {
                    Reply::Session { handle } => Request::CloseSession { handle },
                    _ => Request::OpenSession(open_again(&open)),
                };
                lane.send(&next).expect("room for a message");
            }
        }
    });
}

fn open_again(open: &Request) -> SessionSpec {
    match open {
        Request::OpenSession(spec) => spec.clone(),
        _ => unreachable!("it opens sessions"),
    }
}

pub(crate) fn hoard(socket: &str, what: &str, uid: u32) {
    become_user(uid);
    let mut clients = Vec::new();
    let reason = match what {
        "lanes" => loop {
            match RawLane::attach(socket, 2, 4096) {
                Ok(lane) => clients.push(lane),
                Err(error) => break error.to_string(),
            }
        },
        "sessions" => {
            let padding = DecryptionPadding::Oaep { hash: Hash::Sha256, mgf1: Hash::Sha256, label: vec![1; 1024] };
            let scheme = Scheme::RsaDecryption { padding };
            let spec = SessionSpec { scheme, key: KeyMaterial::Private(Secret::from(RSA_4096)) };
            clients.push(RawLane::attach(socket, 2, 4096).expect("a lane"));
            loop {
                let lane = clients.last().expect("one");
                match lane.0.open_session(spec.clone()) {
                    Ok(_) => {}
                    Err(error) if error.to_string().contains("sessions_per_lane") => {
                        clients.push(RawLane::attach(socket, 2, 4096).expect("a lane"));
                    }
                    Err(error) => break error.to_string(),
                }
            }
        }
        _ => panic!("nothing to hoard: {what}"),
    };
    println!("{reason}");
    wait_for_line();
}

pub(crate) fn inherit(socket: &str) {
    let lane = Control::connect(socket).expect("the service listens");
    lane.ask(&attach_request(8, 4096)).expect("a lane");
    let list = Request::Keys(KeyCommand::List { after: String::new() });
    println!("{:?}", lane.ask(&list).expect("an answer").0);
    let child = crate::forks::fork(|| {
        let info = Request::KeyInfo { name: "www".to_owned() };
        println!("{:?}", lane.ask(&info).expect("an answer").0);
    });
    crate::forks::expect_success(child);
    let mut admin = Admin::connect(&options(socket)).expect("a connection");
    let listed = |admin: &mut Admin| admin.keys(KeyCommand::List { after: String::new() });
    println!("{}", listed(&mut admin).map_or_else(|error| error.to_string(), |_| "listed".to_owned()));
    become_user(65_534);
    println!("{}", listed(&mut admin).map_or_else(|error| error.to_string(), |_| "listed".to_owned()));
}
