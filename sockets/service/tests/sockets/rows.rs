//! Rows of programs and their sockets, and the users that see them.

use crate::common::{
    Lender, OTHER, Program, config, connect, connection, got, limited, open_to_all, own_user, page, rows, rows_by,
    rows_from, start, until,
};
use sidecore_sockets::protocol::Row;
use sidecore_sockets_service::SocketsConfig;
use sidecore_streams::layout::{DRAINS, KERNEL_MESSAGES, MESSAGES, ROW, SOCKET, WHY, WRITER};
use sidecore_streams::place::{LeaveRequest, PlaceState};
use sidecore_streams::rule::PathReason;
use sidecore_streams::saving::WRITE_NS;
use sidecore_testing::skipped;
use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

#[test]
fn each_socket_is_told_with_its_path_and_its_counts() {
    let service = start(&config());
    let program = Program::attach(&service);
    assert_eq!(rows(service.socket()), []);
    let (here, mut there) = connection();
    let mut stream = program.promote(3, 1, &here);
    for (line, word, value) in [(ROW, SOCKET, 7), (ROW, WHY, PathReason::Row as u64), (WRITER, MESSAGES, 2)] {
        stream.word(line, word).store(value, Ordering::Relaxed);
    }
    stream.until_armed();
    assert!(stream.write(b"ten bytes."));
    assert_eq!(got(&mut there, 10), b"ten bytes.");
    stream.until_armed();
    let told = rows(service.socket());
    let [row] = &told[..] else { panic!("{told:?}") };
    assert_eq!((row.pid, row.uid, row.program.as_str()), (std::process::id(), own_user(), "a test"));
    assert_eq!((row.descriptor, row.why, row.messages, row.bytes), (7, PathReason::Row as u8, 2, 10));
    assert_eq!((row.transfers, row.waiting, row.saved_ns), (1, 0, None));
    assert_eq!((row.place, row.stream), (3, 1));
    assert_eq!(row.peer, Some(here.peer_addr().unwrap().to_string()));
    assert!(row.open);
    // On the kernel again, with the last peer.
    stream.word(ROW, WHY).store(PathReason::Large as u64, Ordering::Relaxed);
    stream.word(WRITER, KERNEL_MESSAGES).store(5, Ordering::Relaxed);
    stream.wish(LeaveRequest::Leave);
    stream.until_state(PlaceState::Free);
    let told = rows(service.socket());
    assert_eq!((told[0].open, told[0].why, told[0].kernel_messages), (false, PathReason::Large as u8, 5));
    assert_eq!(told[0].peer, Some(here.peer_addr().unwrap().to_string()));
    // It ended in its ring, although the program's word says otherwise.
    stream.word(ROW, WHY).store(PathReason::Row as u64, Ordering::Relaxed);
    assert_eq!(rows(service.socket())[0].why, PathReason::Closed as u8);
    drop(program);
    until("it is gone", || rows(service.socket()).is_empty());
    let told = rows_by(&connect(service.socket()));
    let [row] = &told[..] else { panic!("{told:?}") };
    assert!(row.gone_ns.is_some() && !row.open);
    assert_eq!((row.descriptor, row.messages, row.bytes, row.kernel_messages), (7, 2, 10, 5));
}

#[test]
fn what_fewer_calls_saved_is_told_once_calls_were_measured() {
    // Transfers, which the service samples, and bytes of each.
    const CALLS: u64 = 300;
    const BYTES: u64 = 64;
    let service = start(&config());
    let program = Program::attach(&service);
    let (here, mut there) = connection();
    let mut stream = program.promote(0, 1, &here);
    for _ in 0..CALLS {
        stream.until_armed();
        assert!(stream.write(&[7; BYTES as usize]));
        got(&mut there, BYTES as usize);
    }
    stream.until_armed();
    let saved = |messages: u64, drains: u64| {
        stream.word(WRITER, MESSAGES).store(messages, Ordering::Relaxed);
        stream.word(WRITER, DRAINS).store(drains, Ordering::Relaxed);
        let told = rows(service.socket());
        assert_eq!((told[0].transfers, told[0].drains), (CALLS, drains));
        told[0].saved_ns.unwrap()
    };
    let ring = |messages: u64| -(messages * WRITE_NS).cast_signed();
    assert_eq!(saved(CALLS, 0), ring(CALLS), "one message a call is moved, not saved");
    assert_eq!(saved(10_000, 10_000 - CALLS), ring(10_000), "the program's own calls are calls");
    // Fifty messages a call: they cost as much as one call, which is more than a message's way through the ring.
    assert!(saved(CALLS * 50, 0) > 0);
    assert_eq!(saved(u64::MAX, 0), saved(CALLS * BYTES, 0), "no message is less than a byte");
}

#[test]
fn more_sockets_than_one_answer_takes_are_told_in_several() {
    let service = start(&config());
    let mut programs = [Program::attach(&service), Program::attach(&service)];
    programs[0].add_bank().unwrap();
    let (here, _there) = connection();
    for (program, count) in programs.iter().zip([128, 30]) {
        (0..count).for_each(|place| program.promote(place, 1, &here).until_state(PlaceState::Open));
    }
    assert_eq!(rows(service.socket()).len(), 158);
}

#[test]
fn programs_that_end_between_two_answers_hide_and_double_no_other() {
    let service = start(&config());
    let (here, _there) = connection();
    let mut programs: Vec<_> = (0..3).map(|_| Program::attach(&service)).collect();
    for (first, program) in (0..).step_by(100).zip(&programs) {
        for place in 0..50 {
            let stream = program.promote(place, 1, &here);
            stream.word(ROW, SOCKET).store(first + u64::from(place), Ordering::Relaxed);
            stream.until_state(PlaceState::Open);
        }
    }
    let asking = connect(service.socket());
    let (mut told, next) = page(&asking, 0);
    let here = |row: &Row| row.gone_ns.is_none();
    assert_eq!(told.len(), 64, "the first program's rows, and some of the second's");
    drop(programs.remove(0));
    until("it is forgotten", || rows(service.socket()).len() == 100);
    told.extend(rows_from(&asking, next.unwrap()).into_iter().filter(here));
    let told: Vec<u32> = told.iter().map(|row| row.descriptor).collect();
    let each = [0, 100, 200].into_iter().flat_map(|first| first..first + 50).collect::<Vec<u32>>();
    assert_eq!(told, each);
    // Any position is valid, also one that no answer gave.
    for from in [next.unwrap() | u64::from(u32::MAX), u64::MAX, u64::MAX - 1] {
        assert!(rows_from(&asking, from).len() <= 50);
    }
}

#[test]
fn one_answer_looks_at_so_many_places_and_the_next_goes_on() {
    let service = limited(&SocketsConfig { ring_kib: 4, ..SocketsConfig::default() });
    let mut program = Program::attach(&service);
    (0..64).for_each(|_| program.add_bank().unwrap());
    let (here, _there) = connection();
    program.promote(64 * 64, 1, &here).until_state(PlaceState::Open);
    let asking = connect(service.socket());
    let (none, next) = page(&asking, 0);
    assert_eq!(none, []);
    assert_eq!(rows_from(&asking, next.unwrap()).len(), 1);
    // As programs, most of them without rows.
    let programs: Vec<_> = (0..70).map(|_| Program::attach(&service)).collect();
    programs[69].promote(0, 1, &here).until_state(PlaceState::Open);
    assert_eq!(rows_by(&asking).len(), 2);
}

#[test]
fn a_user_is_told_of_its_own_programs_and_root_of_all() {
    if own_user() != 0 {
        skipped("only root can: start programs of another user");
        return;
    }
    let service = start(&config());
    open_to_all(service.socket());
    let (here, _there) = connection();
    let (_process, control) = Lender::start(service.socket(), OTHER);
    let [own, other] = [Program::attach(&service), Program::hello(control)];
    for program in [&own, &other] {
        program.promote(0, 1, &here).until_state(PlaceState::Open);
    }
    let users = |rows: Vec<Row>| -> BTreeSet<u32> { rows.iter().map(|row| row.uid).collect() };
    assert_eq!(users(rows(service.socket())), BTreeSet::from([0, OTHER]));
    let (_asking, control) = Lender::start(service.socket(), OTHER);
    assert_eq!(users(rows_by(&control)), BTreeSet::from([OTHER]));
}
