//! CPU time of a service with many sources and no work, and its resources afterwards.

use crate::common::{Apart, Lender, Program, connect, connection, got, own_user, until};
use std::thread;
use std::time::Duration;

/// Clock ticks of CPU time, 10 ms each, that a service may take in one idle second.
const TICKS: u64 = 2;

/// Streams on one connection, which the service cannot distinguish from others: as many as the usual limit on files
/// permits.
fn silent(program: &mut Program, streams: u32) {
    let (here, _there) = connection();
    for place in 0..streams {
        if place / 64 == program.banks.len() as u32 {
            program.add_bank().unwrap();
        }
        let stream = program.promote(place, 1, &here);
        // From time to time, so that the connection has room for the messages.
        if place % 64 == 63 || place + 1 == streams {
            stream.until_armed();
        }
    }
}

#[test]
fn ten_thousand_silent_streams_take_no_cpu_time() {
    for policy in ["park", "break-even"] {
        let service =
            Apart::start(&format!("notify.service = '{policy}'\n[sockets]\nring_kib = 4\nmax_sockets = 20000"));
        let mut program = Program::hello(connect(service.socket()));
        silent(&mut program, 10_000);
        let (here, mut there) = connection();
        let mut last = program.promote(10_000, 1, &here);
        last.until_armed();
        // One of three runs: other load lengthens CPU time, never shortens it.
        let took = || {
            let before = service.ticks();
            thread::sleep(Duration::from_secs(1));
            service.ticks() - before
        };
        let took: Vec<u64> = (0..3).map(|_| took()).take_while(|took| *took > TICKS).collect();
        assert!(took.len() < 3, "{policy}: {took:?} ticks");
        assert!(last.write(b"awake"));
        assert_eq!(got(&mut there, 5), b"awake");
    }
}

#[test]
fn programs_that_were_killed_leave_nothing() {
    let service = Apart::start("[sockets]\nring_kib = 4");
    // A user's threads and their resources stay while the user has a program.
    let mut one = Program::hello(connect(service.socket()));
    silent(&mut one, 1);
    let before = service.descriptors();
    for _ in 0..5 {
        let (mut process, control) = Lender::start(service.socket(), own_user());
        let mut program = Program::hello(control);
        silent(&mut program, 200);
        until("all are open", || service.descriptors() >= before + 200);
        process.kill();
        until("all is closed", || service.descriptors() == before);
    }
}

#[test]
fn a_user_without_programs_leaves_no_thread() {
    let mut service = Apart::start("[sockets]");
    let before = service.descriptors();
    for _ in 0..20 {
        drop(Program::hello(connect(service.socket())));
        // The listener keeps one descriptor of the ended threads until the next user connects.
        until("its threads have ended", || service.descriptors() <= before + 1);
    }
    service.end();
}
