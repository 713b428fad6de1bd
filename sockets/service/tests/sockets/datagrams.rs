//! Datagrams: whole, in order, by few calls, with the kernel's errors; and any other words of a program.

use crate::common::{Lender, Program, Stream, config, connection, own_user, pattern, rows, say, start, until};
use rustix::io::Errno;
use sidecore_core::wire::Extent;
use sidecore_sockets::protocol::Ask;
use sidecore_streams::cursor::{pieces, word};
use sidecore_streams::datagrams::{HEADER, header, record};
use sidecore_streams::hold::Holder;
use sidecore_streams::layout::{ERROR, HEAD, SHARED, TAIL, TRANSFERS, WRITER};
use sidecore_streams::place::{LeaveRequest, PlaceState};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;
use std::time::Duration;

fn pair() -> (UdpSocket, UdpSocket) {
    let [here, there] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
    here.connect(there.local_addr().unwrap()).unwrap();
    there.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    (here, there)
}

fn put_as(stream: &mut Stream<'_>, bytes: &[u8], len: u32) {
    let (bank, size) = (stream.bank, stream.bank.layout().ring_bytes());
    assert!(record(bytes.len() as u32) as usize <= stream.room(), "there is room");
    bank.span(stream.place, header(stream.tail, size)).copy_from(&len.to_le_bytes());
    let mut from = 0;
    for extent in pieces(stream.tail + u64::from(HEADER), bytes.len() as u32, size) {
        let to = from + extent.len as usize;
        bank.span(stream.place, extent).copy_from(&bytes[from..to]);
        from = to;
    }
    stream.tail += u64::from(record(bytes.len() as u32));
    stream.word(WRITER, TAIL).store(word(stream.tail, false), Ordering::Release);
}

fn put(stream: &mut Stream<'_>, bytes: &[u8]) {
    put_as(stream, bytes, bytes.len() as u32);
}

fn heard(there: &UdpSocket) -> Vec<u8> {
    let mut bytes = vec![0; 70_000];
    let len = there.recv(&mut bytes).unwrap();
    bytes[..len].to_vec()
}

fn is_silent(there: &UdpSocket) -> bool {
    there.set_nonblocking(true).unwrap();
    let silent = there.recv(&mut [0; 1]).is_err();
    there.set_nonblocking(false).unwrap();
    silent
}

fn serves(program: &Program, number: u32) {
    let (here, there) = pair();
    let mut stream = program.promote(7, number, &here);
    put(&mut stream, b"neighbour");
    assert!(stream.ring());
    assert_eq!(heard(&there), b"neighbour");
    stream.wish(LeaveRequest::Leave);
    stream.until_state(PlaceState::Free);
}

#[test]
fn those_of_one_length_go_by_one_call() {
    let service = start(&config());
    let program = Program::attach(&service);
    let (here, there) = pair();
    let mut stream = program.promote(0, 1, &here);
    stream.until_armed();
    for round in 1..=20 {
        (0..64).for_each(|at| put(&mut stream, &pattern(at, 64)));
        assert!(stream.ring());
        (0..64).for_each(|at| assert_eq!(heard(&there), pattern(at, 64)));
        stream.until_armed();
        assert_eq!(stream.read(SHARED, TRANSFERS), round);
    }
    let rows = rows(service.socket());
    assert_eq!(rows[0].peer, Some(there.local_addr().unwrap().to_string()));
}

#[test]
fn those_of_a_socket_that_is_connected_to_nobody_go_to_one_address() {
    let service = start(&config());
    let program = Program::attach(&service);
    let (connected, there) = pair();
    let (here, to) = (UdpSocket::bind("127.0.0.1:0").unwrap(), there.local_addr().unwrap());
    let mut stream = program.begin(0, 1, &connected);
    say(&program.control, &Ask::PromoteTo { place: 0, stream: 1, to }, &[&here]);
    (0..64).for_each(|at| put(&mut stream, &pattern(at, 100)));
    assert!(stream.ring());
    (0..64).for_each(|at| assert_eq!(heard(&there), pattern(at, 100)));
    stream.until_armed();
    assert_eq!(rows(service.socket())[0].peer, Some(to.to_string()));

    let (tcp, _peer) = connection();
    let six = "[::1]:9".parse().unwrap();
    let others: [(&dyn AsFd, SocketAddr); 4] = [(&connected, to), (&tcp, to), (&here, six), (&program.control, to)];
    for ((socket, to), number) in others.into_iter().zip(1..) {
        let stream = program.begin(1, number, &connected);
        say(&program.control, &Ask::PromoteTo { place: 1, stream: number, to }, &[socket]);
        stream.until_state(PlaceState::Ended);
    }
}

#[test]
fn those_of_all_lengths_come_whole_and_in_order() {
    let service = start(&config());
    let program = Program::attach(&service);
    let (here, there) = pair();
    let mut stream = program.promote(0, 1, &here);
    for round in 0..2_000_usize {
        let lens = [0, 1, 64, 64, 64, 30, 1_472, 9_000].map(|len: usize| (len * (round % 3)) % 9_001);
        for len in lens {
            until("room", || stream.room() >= record(len as u32) as usize);
            put(&mut stream, &pattern(round, len));
            assert!(stream.ring());
        }
        for len in lens {
            assert_eq!(heard(&there), pattern(round, len));
        }
    }
    assert!(is_silent(&there));
}

#[test]
fn what_a_peer_refused_is_told_and_what_follows_is_sent() {
    let service = start(&config());
    let program = Program::attach(&service);
    let (here, there) = pair();
    let mut stream = program.promote(0, 1, &here);
    let address = there.local_addr().unwrap();
    drop(there);
    put(&mut stream, b"refused");
    assert!(stream.ring());
    stream.until_armed();
    let there = UdpSocket::bind(address).unwrap();
    put(&mut stream, b"one");
    put(&mut stream, b"two");
    stream.ring();
    assert_eq!((heard(&there), heard(&there)), (b"one".to_vec(), b"two".to_vec()));
    stream.until_state(PlaceState::Ended);
    assert!(!stream.ring(), "the program's next call finds the bell shut");
    assert_eq!(stream.read(SHARED, ERROR), Errno::CONNREFUSED.raw_os_error() as u64);
    assert!(here.take_error().unwrap().is_none(), "it is told once");
}

#[test]
fn what_the_kernel_refuses_is_left_out_and_told() {
    let service = start(&config());
    let program = Program::attach(&service);
    let (here, there) = pair();
    let mut stream = program.promote(0, 1, &here);
    rustix::net::shutdown(&here, rustix::net::Shutdown::Write).unwrap();
    (0..10).for_each(|_| put(&mut stream, b"never"));
    stream.ring();
    stream.until_state(PlaceState::Ended);
    assert_eq!(stream.read(SHARED, ERROR), Errno::PIPE.raw_os_error() as u64);
    assert_eq!(stream.read(SHARED, HEAD), stream.tail);
    assert!(is_silent(&there));
    serves(&program, 1);
}

#[test]
fn a_dead_programs_datagrams_are_sent_though_it_died_while_it_was_at_them() {
    let service = start(&config());
    let (mut process, control) = Lender::start(service.socket(), own_user());
    let program = Program::hello(control);
    let (here, there) = pair();
    let mut stream = program.promote(0, 1, &here);
    stream.until_armed();
    assert!(stream.bank.hold(0).take(Holder::Program));
    (0..30).for_each(|at| put(&mut stream, &pattern(at, 99)));
    process.kill();
    (0..30).for_each(|at| assert_eq!(heard(&there), pattern(at, 99)));
    assert!(is_silent(&there));
}

#[test]
fn a_service_that_ends_sends_what_it_has() {
    let mut service = start(&config());
    let program = Program::attach(&service);
    let (here, there) = pair();
    let mut stream = program.promote(0, 1, &here);
    stream.until_armed();
    // Each of another length than the one before: a call for each.
    let datagram = |at| pattern(at, 1 + at % 97);
    (0..200).for_each(|at| put(&mut stream, &datagram(at)));
    service.end();
    (0..200).for_each(|at| assert_eq!(heard(&there), datagram(at)));
    assert_eq!(stream.state(), Some(PlaceState::Ended));
}

#[test]
fn lengths_that_cannot_be_end_the_stream_alone() {
    let service = start(&config());
    let program = Program::attach(&service);
    for (number, wrong) in (1..).zip([13, 1 << 15, 65_001, u32::MAX, u32::MAX - 3]) {
        let (here, there) = pair();
        let mut stream = program.promote(0, number, &here);
        stream.until_armed();
        put(&mut stream, b"right");
        put_as(&mut stream, &[9; 12], wrong);
        stream.ring();
        stream.until_state(PlaceState::Ended);
        assert_eq!(stream.read(SHARED, ERROR), Errno::PROTO.raw_os_error() as u64);
        assert_eq!(heard(&there), b"right");
        assert!(is_silent(&there));
        serves(&program, number);
    }
}

#[test]
fn cursors_within_a_datagram_end_the_stream() {
    let service = start(&config());
    let program = Program::attach(&service);
    for (number, tail) in (1..).zip([1, 6, 7, 1 << 20]) {
        let (here, there) = pair();
        let stream = program.promote(0, number, &here);
        stream.until_armed();
        stream.word(WRITER, TAIL).store(word(tail, false), Ordering::Release);
        stream.ring();
        stream.until_state(PlaceState::Ended);
        assert!(is_silent(&there));
    }
    serves(&program, 1);
}

#[test]
fn whatever_stands_in_a_ring_of_datagrams_harms_no_other() {
    let service = start(&config());
    let [neighbour, program] = [(); 2].map(|()| Program::attach(&service));
    let size = program.banks[0].layout().ring_bytes();
    let mut seed = 7_u32;
    let mut random = || {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        seed >> 8
    };
    for number in 1..=100 {
        let (here, _there) = pair();
        let mut stream = program.promote(0, number, &here);
        let bytes: Vec<u8> =
            (0..size).flat_map(|_| (random() % [256, 1 << 17, 1 << 24][number as usize % 3]).to_le_bytes()).collect();
        program.banks[0].span(0, Extent::new(0, size)).copy_from(&bytes[..size as usize]);
        for _ in 0..10 {
            stream.tail += u64::from(random() % 3_000 * 4);
            stream.word(WRITER, TAIL).store(word(stream.tail, false), Ordering::Release);
            stream.ring();
        }
        serves(&neighbour, number);
        stream.wish(LeaveRequest::Leave);
        until("it has ended", || matches!(stream.state(), Some(PlaceState::Ended | PlaceState::Free)));
    }
}
