//! Programs' bytes arrive at their peers, through any end of program or service.

use crate::common::{
    Apart, Lender, Program, Stream, all, config, connect, connection, got, own_user, pattern, start, until,
};
use sidecore_sockets::sys::tcp;
use sidecore_streams::hold::Holder;
use sidecore_streams::layout::{BASE, ERROR, HEAD, LINGER, SHARED, TAIL, TRANSFERS, WRITER};
use sidecore_streams::place::{LeaveRequest, PlaceState};
use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

#[test]
fn what_is_written_comes_out_in_order() {
    let service = start(&config());
    let program = Program::attach(&service);
    let (here, mut there) = connection();
    let mut stream = program.promote(5, 1, &here);
    // Before the service has looked at all, while it looks, and after it has armed the bell.
    assert!(stream.write(b"first "));
    stream.until_state(PlaceState::Open);
    assert!(stream.write(b"second "));
    stream.until_armed();
    assert!(stream.write(b"third"));
    assert_eq!(got(&mut there, 18), b"first second third");
    stream.until_armed();
    assert_eq!(stream.read(SHARED, HEAD), 18);
    assert!((1..=3).contains(&stream.read(SHARED, TRANSFERS)));
}

#[test]
fn a_peer_that_takes_nothing_holds_up_its_own_stream_alone() {
    let service = start(&config());
    let program = Program::attach(&service);
    let [(slow, mut slow_peer), (quick, mut quick_peer)] = [connection(), connection()];
    let [mut slow, mut quick] = [program.promote(0, 1, &slow), program.promote(1, 1, &quick)];
    // More than both ends of a connection take: the ring stays full.
    let mut sent = 0;
    let mut stuck = 0;
    while stuck < 50 {
        let room = slow.room();
        assert!(slow.write(&pattern(sent, room)));
        sent += room;
        stuck = if room == 0 { stuck + 1 } else { 0 };
        assert!(quick.write(b"x"));
        assert_eq!(got(&mut quick_peer, 1), b"x");
    }
    assert!(sent > 100_000, "{sent}");
    assert_eq!(got(&mut slow_peer, sent), pattern(0, sent), "it goes on when the kernel takes more");
    slow.write_all(&pattern(0, 1_000_000));
    assert_eq!(got(&mut slow_peer, 1_000_000), pattern(0, 1_000_000));
}

#[test]
fn a_stream_that_leaves_is_emptied_and_its_socket_closed() {
    let service = start(&config());
    let program = Program::attach(&service);
    for (number, wish) in (1..).zip([LeaveRequest::Leave, LeaveRequest::ShutAndLeave, LeaveRequest::Leave]) {
        let (here, mut there) = connection();
        let mut stream = program.promote(63, number, &here);
        assert!(stream.write(b"the last"));
        stream.wish(wish);
        let kept = (wish == LeaveRequest::ShutAndLeave).then(|| here.try_clone().unwrap());
        drop(here);
        assert_eq!(all(&mut there), b"the last", "and the end, which the service holds up no longer");
        stream.until_state(PlaceState::Free);
        drop(kept);
    }
}

#[test]
fn a_program_takes_its_stream_and_gives_it_back() {
    let service = start(&config());
    let program = Program::attach(&service);
    let (here, mut there) = connection();
    let mut stream = program.promote(0, 1, &here);
    stream.until_armed();
    assert!(stream.bank.hold(0).take(Holder::Program));
    // The service finds it held, and does not touch it.
    assert!(stream.write(b"ring "));
    stream.until_armed();
    (&here).write_all(b"ring ").unwrap();
    stream.word(SHARED, HEAD).store(5, Ordering::Relaxed);
    (&here).write_all(b"kernel ").unwrap();
    stream.write_silently(b"again");
    stream.bank.hold(0).release();
    assert!(stream.ring());
    assert_eq!(got(&mut there, 17), b"ring kernel again");
}

#[test]
fn what_a_dead_program_left_is_sent() {
    let service = start(&config());
    for count in [1_usize, 64] {
        let program = Program::attach(&service);
        let connections: Vec<_> = (0..count).map(|_| connection()).collect();
        let (here, mut there): (Vec<_>, Vec<_>) = connections.into_iter().unzip();
        for (place, here) in (0..).zip(&here) {
            // It dies before it announces the stream, and before the service knows it.
            program.promote(place, 1, here).write_silently(b"left behind");
        }
        drop(here);
        drop(program);
        for there in &mut there {
            assert_eq!(all(there), b"left behind");
        }
    }
}

#[test]
fn a_program_that_dies_while_it_sends_loses_nothing_and_doubles_nothing() {
    let service = start(&config());
    for moved in [0, 7, 12] {
        let (mut process, connection_of_it) = Lender::start(service.socket(), own_user());
        let program = Program::hello(connection_of_it);
        let (here, mut there) = connection();
        (&here).write_all(b"before").unwrap();
        let mut stream = program.promote(0, 1, &here);
        stream.until_armed();
        assert!(stream.bank.hold(0).take(Holder::Program));
        stream.write_silently(b"twelve bytes");
        // The kernel has some of it, and no word records how much.
        (&here).write_all(&b"twelve bytes"[..moved]).unwrap();
        drop(here);
        // Another process still has its connection, as a child of it may.
        process.kill();
        assert_eq!(all(&mut there), b"beforetwelve bytes", "{moved} were moved");
    }
}

#[test]
fn what_cannot_be_known_resets_the_connection() {
    let service = start(&config());
    let (mut process, connection_of_it) = Lender::start(service.socket(), own_user());
    let program = Program::hello(connection_of_it);
    let (here, mut there) = connection();
    let mut stream = program.promote(0, 1, &here);
    stream.until_armed();
    assert!(stream.bank.hold(0).take(Holder::Program));
    stream.write_silently(b"twelve bytes");
    stream.word(SHARED, BASE).fetch_add(100, Ordering::Relaxed);
    drop(here);
    process.kill();
    let error = there.read(&mut [0; 20]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
}

/// Writes until the service meets the reset of a peer that is gone.
fn until_reset(stream: &mut Stream<'_>) {
    until("the reset arrives", || {
        let _ = stream.room() > 0 && stream.write(b"x");
        stream.state() == Some(PlaceState::Ended)
    });
}

#[test]
fn an_error_of_the_kernel_is_told_at_the_place() {
    let service = start(&config());
    let program = Program::attach(&service);
    let (here, there) = connection();
    let mut stream = program.promote(0, 1, &here);
    stream.until_state(PlaceState::Open);
    drop(there);
    until_reset(&mut stream);
    assert!([libc::EPIPE, libc::ECONNRESET].contains(&(stream.read(SHARED, ERROR) as i32)));
    assert!(!stream.ring(), "who writes learns it at once");
    // The place serves the next stream.
    let (here, mut there) = connection();
    assert!(program.promote(0, 2, &here).write(b"next"));
    assert_eq!(got(&mut there, 4), b"next");
}

/// Its call had sent a part of a message by then, and could not tell it.
#[test]
fn an_error_that_the_program_met_first_is_kept() {
    let service = start(&config());
    let program = Program::attach(&service);
    let (here, there) = connection();
    let mut stream = program.promote(0, 1, &here);
    stream.until_state(PlaceState::Open);
    let met = libc::ETIMEDOUT as u64;
    stream.word(SHARED, ERROR).store(met, Ordering::Relaxed);
    drop(there);
    until_reset(&mut stream);
    assert_eq!(stream.read(SHARED, ERROR), met);
}

#[test]
fn a_service_that_ends_sends_what_the_kernel_takes_and_says_so() {
    let mut service = start(&config());
    let program = Program::attach(&service);
    let [(idle, _idle_peer), (busy, mut busy_peer)] = [connection(), connection()];
    let [idle, mut busy] = [program.promote(0, 1, &idle), program.promote(1, 1, &busy)];
    idle.until_armed();
    busy.until_armed();
    busy.write_silently(b"not announced");
    service.end();
    assert_eq!([idle.state(), busy.state()], [Some(PlaceState::Ended); 2]);
    assert!(!idle.ring() && !busy.ring());
    assert_eq!(got(&mut busy_peer, 13), b"not announced");
    assert_eq!(busy.read(SHARED, HEAD), 13);
    assert_eq!(busy.read(WRITER, TAIL), 26);
    assert_eq!(crate::common::hung_up(&program.control), None);
    // The next service knows nothing of it.
    service.again();
    let program = Program::attach(&service);
    assert!(program.promote(0, 1, &connection().0).write(b"x"));
}

#[test]
fn what_a_dead_program_left_is_sent_by_a_service_that_ends() {
    for _ in 0..20 {
        let mut service = start(&config());
        let (mut process, connection_of_it) = Lender::start(service.socket(), own_user());
        let program = Program::hello(connection_of_it);
        let (here, mut there) = connection();
        let mut stream = program.promote(0, 1, &here);
        stream.until_armed();
        assert!(stream.bank.hold(0).take(Holder::Program));
        stream.write_silently(b"twelve bytes");
        (&here).write_all(b"twelve").unwrap();
        drop(here);
        process.kill();
        service.end();
        assert_eq!(all(&mut there), b"twelve bytes");
    }
}

/// A stream with a full ring. The peer has read nothing.
fn full<'p>(program: &'p Program, here: &TcpStream) -> (usize, Stream<'p>) {
    let mut stream = program.promote(0, 1, here);
    let (mut sent, mut stuck) = (0, 0);
    while stuck < 50 {
        let room = stream.room();
        assert!(stream.write(&pattern(sent, room)));
        sent += room;
        stuck = if room == 0 { stuck + 1 } else { 0 };
        thread::sleep(Duration::from_millis(1));
    }
    (sent, stream)
}

fn left_full(program: &Program, wish: LeaveRequest) -> (usize, TcpStream) {
    let (here, there) = connection();
    let (sent, stream) = full(program, &here);
    // As programs do it.
    tcp::reset_at_close(&here, stream.word(SHARED, LINGER));
    stream.wish(wish);
    (sent, there)
}

#[test]
fn a_service_that_ends_sends_first_what_was_left_to_it() {
    for wish in [LeaveRequest::Leave, LeaveRequest::ShutAndLeave] {
        let mut service = start(&config());
        let program = Program::attach(&service);
        let (sent, mut there) = left_full(&program, wish);
        thread::scope(|scope| {
            scope.spawn(|| service.end());
            assert!(all(&mut there) == pattern(0, sent), "{wish:?}");
            assert_eq!(crate::common::hung_up(&program.control), None);
        });
    }
}

/// True if the kernel lets a socket have more memory than its own tuning gives.
fn may_have_room() -> bool {
    let most = fs::read_to_string("/proc/sys/net/core/wmem_max").unwrap();
    most.trim().parse::<u64>().unwrap() > 1 << 20
}

#[test]
fn a_peer_that_takes_nothing_in_time_is_told_that_it_has_not_got_all() {
    let mut service = start(&config());
    let program = Program::attach(&service);
    let (sent, mut there) = left_full(&program, LeaveRequest::Leave);
    service.end();
    let mut got = Vec::new();
    match there.read_to_end(&mut got) {
        Ok(_) => {
            assert!(got == pattern(0, sent), "a clean end after {} of {sent} bytes", got.len());
            assert!(may_have_room(), "the kernel has room for all");
        }
        Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset),
    }
}

#[test]
fn what_an_ended_program_left_is_reset_when_the_service_is_killed() {
    let mut service = Apart::start("[sockets]");
    let program = Program::hello(connect(service.socket()));
    let (here, mut there) = connection();
    let (_, stream) = full(&program, &here);
    drop(here);
    rustix::net::shutdown(&program.control, rustix::net::Shutdown::Both).unwrap();
    // Only the service has the rest, and it sets the linger.
    until("a linger of zero", || stream.read(SHARED, LINGER) != 0);
    service.kill();
    until("the end of the service", || service.has_ended());
    assert_eq!(there.read_to_end(&mut Vec::new()).unwrap_err().kind(), ErrorKind::ConnectionReset);
}

#[test]
fn after_a_killed_service_no_stream_that_was_cut_ends_as_if_it_were_whole() {
    for wish in [LeaveRequest::Leave, LeaveRequest::ShutAndLeave] {
        let mut service = Apart::start("[sockets]");
        let program = Program::hello(connect(service.socket()));
        let (sent, mut there) = left_full(&program, wish);
        service.kill();
        until("the end of the service", || service.has_ended());
        let mut got = Vec::new();
        match there.read_to_end(&mut got) {
            Ok(_) => assert!(got == pattern(0, sent), "{wish:?}: a clean end after {} of {sent} bytes", got.len()),
            Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{wish:?}"),
        }
    }
}
