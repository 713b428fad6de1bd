//! Clients of the control socket: a single request, and a breach of every rule.

use crate::checked::Random;
use crate::options;
use crate::raw::{Control, attach_request};
use rustix::net::Shutdown;
use sidecore::client::Client;
use sidecore::control::{Reply, Request};
use sidecore::core::session::Class;
use sidecore::engine::crypto::sample::sample;
use sidecore::keys::Kind;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

const ROUNDS: usize = 300;

pub(crate) fn once(socket: &str) -> String {
    match Client::connect(&options(socket)) {
        Ok(_) => "attached".to_owned(),
        Err(error) => error.to_string(),
    }
}

pub(crate) fn tied(socket: &str, cpu: usize) {
    sidecore_daemon::sys::cpu::pin(cpu).expect("a core of this process");
    let _client = Client::connect(&options(socket)).expect("a lane");
    println!("attached");
    crate::wait_for_line();
}

pub(crate) fn attack(socket: &str, seed: u64) {
    let mut random = Random(seed);
    for _ in 0..ROUNDS {
        let attack = [garbage, descriptors, attach_twice, too_early, no_reader, half_open, two_keys][random.below(7)];
        attack(socket, &mut random);
    }
    println!("{}", hold_connections(socket));
}

fn control(socket: &str) -> Control {
    Control::connect(socket).expect("the service listens")
}

fn garbage(socket: &str, random: &mut Random) {
    let control = control(socket);
    let len = [0, 1, 20, 16_384, 16_385, 150_000][random.below(6)];
    let bytes: Vec<u8> = (0..len).map(|_| random.next() as u8).collect();
    let refused = control.send_bytes(&bytes, &[]).and_then(|()| control.receive());
    // Very few byte strings are a message; `Attach` of an impossible shape is the likeliest.
    assert!(matches!(refused, Err(_) | Ok((Reply::Refused(_) | Reply::TooLarge(_), _))), "{refused:?}");
}

fn descriptors(socket: &str, random: &mut Random) {
    let control = control(socket);
    let count = 1 + random.below(16);
    let fds = vec![control.0.as_fd(); count];
    match control.send_bytes(b"\x02\x00", &fds) {
        // A kernel that refuses descriptors for the service passes nothing on.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
        // The service may have hung up already, which is also correct.
        _ => drop(control.receive()),
    }
}

fn attach_twice(socket: &str, _: &mut Random) {
    let control = control(socket);
    let attached = control.ask(&attach_request(8, 4096));
    assert!(matches!(attached, Ok((Reply::Attached { .. }, _))), "{attached:?}");
    expect_refusal(control.ask(&attach_request(8, 4096)), "has its lane already");
}

fn two_keys(socket: &str, _: &mut Random) {
    let control = control(socket);
    let made = control.ask(&Request::MakeKey(Kind::Ed25519));
    assert!(matches!(made, Ok((Reply::KeyMade { .. }, _))), "{made:?}");
    expect_refusal(control.ask(&Request::MakeKey(Kind::Ed25519)), "a key already");
    expect_refusal(control.ask(&attach_request(8, 4096)), "has its key");
}

fn too_early(socket: &str, _: &mut Random) {
    let control = control(socket);
    let spec = sample(Class::NOOP, 0, 0).spec;
    expect_refusal(control.ask(&Request::OpenSession(spec)), "attach first");
    expect_refusal(control.ask(&Request::CloseSession { handle: 0 }), "attach first");
}

fn expect_refusal(answer: io::Result<(Reply, Vec<OwnedFd>)>, reason: &str) {
    match answer {
        Ok((Reply::Refused(text), _)) if text.contains(reason) => {}
        other => panic!("{reason:?} expected: {other:?}"),
    }
}

fn no_reader(socket: &str, _: &mut Random) {
    let control = control(socket);
    let request = Request::Set(vec!["nonsense".repeat(100)]);
    while control.send(&request).is_ok() {}
}

fn half_open(socket: &str, random: &mut Random) {
    let control = control(socket);
    let how = [Shutdown::Read, Shutdown::Write, Shutdown::Both][random.below(3)];
    let _ = rustix::net::shutdown(&control.0, how);
    let _ = control.send(&attach_request(8, 4096));
}

fn hold_connections(socket: &str) -> String {
    let mut held = Vec::new();
    for count in 1..=5000 {
        held.push(control(socket));
        // The service may be behind with its answers.
        let reason = if count % 16 == 0 { held.iter().find_map(refusal) } else { None };
        if let Some(reason) = reason {
            println!("{count} connections");
            crate::wait_for_line();
            return reason;
        }
    }
    "never refused".to_owned()
}

fn refusal(control: &Control) -> Option<String> {
    match control.ready().then(|| control.receive()) {
        Some(Ok((Reply::Refused(refused), _))) => Some(refused.text),
        _ => None,
    }
}
