//! Isolation of users: actions of one do not affect another.

use crate::common::{
    Apart, Churner, OTHER, Program, config, connect, connection, got, held_up, open_to_all, own_user, rows, start,
    until,
};
use sidecore_daemon::start;
use sidecore_sockets_service::{Config, Sockets, StartError};
use sidecore_streams::place::PlaceState;
use sidecore_testing::skipped;
use std::fs;

#[test]
fn a_user_whose_socket_holds_its_thread_up_is_alone_with_that() {
    if own_user() != 0 {
        skipped("only root can: have another user wait for pages that never come");
        return;
    }
    let mut service = start(&config());
    open_to_all(service.socket());
    let Some(mut holding) = held_up(service.socket(), OTHER) else {
        skipped("userfaultfd, which this kernel does not have");
        return;
    };
    let program = Program::attach(&service);
    let (here, mut there) = connection();
    let mut stream = program.promote(0, 1, &here);
    for _ in 0..3 {
        stream.until_armed();
        assert!(stream.write(b"not held up"));
        assert_eq!(got(&mut there, 11), b"not held up");
    }
    let told = rows(service.socket());
    assert_eq!(told.len(), 1, "{told:?}");
    // It ends all the same, and leaves its place to the next.
    service.end();
    assert_eq!(stream.state(), Some(PlaceState::Ended));
    service.again();
    assert!(Program::attach(&service).promote(0, 1, &here).write(b"next"));
    assert_eq!(got(&mut there, 4), b"next");
    holding.kill().unwrap();
    holding.wait().unwrap();
}

#[test]
fn connections_that_are_dropped_without_end_keep_no_other_user_waiting() {
    const ROUNDS: usize = 41;
    if own_user() != 0 {
        skipped("only root can: play another user");
        return;
    }
    let service = Apart::start("[sockets]");
    open_to_all(service.socket());
    for what in ["nothing", "program"] {
        let mut churner = Churner::start(service.socket(), what, OTHER);
        // Until the kernel's queue is full, if it can be filled.
        until("it is under way", || churner.connections() > 10_000);
        let mut meanwhile: Vec<u64> = (0..ROUNDS)
            .map(|_| {
                let before = churner.connections();
                drop(Program::hello(connect(service.socket())));
                churner.connections() - before
            })
            .collect();
        meanwhile.sort_unstable();
        println!(
            "{what}: {} connections of another meanwhile, {} at most",
            meanwhile[ROUNDS / 2],
            meanwhile[ROUNDS - 1]
        );
        // The kernel's queue alone holds a thousand.
        assert!(meanwhile[ROUNDS / 2] < 200, "{what}: {meanwhile:?}");
    }
}

/// The remedy that `docs/security.md` names.
#[test]
fn a_killed_service_that_a_user_holds_up_gives_its_place_back_by_hand() {
    if own_user() != 0 {
        skipped("only root can: have another user wait for pages that never come");
        return;
    }
    let mut killed = Apart::start("[sockets]");
    open_to_all(killed.socket());
    let Some(mut holding) = held_up(killed.socket(), OTHER) else {
        skipped("userfaultfd, which this kernel does not have");
        return;
    };
    let held = [(format!("sockets-{OTHER}"), 'D')];
    until("its thread is held up", || killed.threads().contains(&held[0]));
    killed.kill();
    until("its other threads have ended", || killed.threads() == held);
    let socket = killed.socket().to_owned();
    let start = || Sockets::start(&Config { socket: socket.clone(), ..config() });
    assert!(matches!(start(), Err(StartError::Daemon(start::StartError::AlreadyRunning(_)))), "it has lock and socket");
    for end in ["", ".lock"] {
        fs::remove_file(format!("{}{end}", socket.display())).unwrap();
    }
    let service = start().unwrap();
    let program = Program::attach(&service);
    let (here, mut there) = connection();
    assert!(program.promote(0, 1, &here).write(b"next"));
    assert_eq!(got(&mut there, 4), b"next");
    assert!(!killed.has_ended());
    holding.kill().unwrap();
    holding.wait().unwrap();
    until("it has ended", || killed.has_ended());
    // The files that it removes are not those of the next one.
    drop(Program::hello(connect(&socket)));
}
