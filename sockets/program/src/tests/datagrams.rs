//! A program's datagrams, also when no service moves them.

use super::*;
use crate::attachment::Target;
use sidecore_streams::layout::{BELL, MESSAGES};
use std::net::UdpSocket;
use std::time::Duration;

pub(super) fn pair() -> (UdpSocket, UdpSocket) {
    let [here, there] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
    here.connect(there.local_addr().unwrap()).unwrap();
    there.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    (here, there)
}

pub(super) fn promoted(attachment: &Arc<Attachment>, socket: &UdpSocket) -> Stream {
    let stream = Stream::default();
    let slot = attachment.slot(Some(Target { to: None, packet: 1_000 })).unwrap().open(socket.as_fd(), 0).unwrap();
    stream.begin(slot, key(socket), Arc::default());
    stream
}

pub(super) fn say(stream: &Stream, socket: &UdpSocket, bytes: &[u8]) -> Sent {
    let mut bytes = bytes.to_vec();
    let len = bytes.len();
    stream.send(key(socket), [Span::of(&mut bytes)].into_iter(), len, false, false)
}

fn heard(there: &UdpSocket) -> Vec<u8> {
    let mut bytes = [0; 2_000];
    let len = there.recv(&mut bytes).unwrap();
    bytes[..len].to_vec()
}

fn is_silent(there: &UdpSocket) -> bool {
    there.set_nonblocking(true).unwrap();
    let silent = there.recv(&mut [0; 1]).is_err();
    there.set_nonblocking(false).unwrap();
    silent
}

#[test]
fn each_goes_into_the_ring_whole_and_in_order_to_the_kernel() {
    let (attachment, service) = attached();
    let (here, there) = pair();
    let stream = promoted(&attachment, &here);
    let _theirs = service.promoted();
    for round in 0..500_u32 {
        let len = (round * 37 % 900) as usize;
        assert_eq!(say(&stream, &here, &vec![round as u8; len]), Sent::Taken(len));
        if round % 7 == 0 {
            assert_eq!(stream.drain(key(&here)), Drained::Empty);
        }
        if round % 50 == 49 {
            stream.drain(key(&here));
            (round - 49..=round).for_each(|at| assert_eq!(heard(&there), vec![at as u8; (at * 37 % 900) as usize]));
        }
    }
    assert!(is_silent(&there));
}

#[test]
fn one_that_is_too_large_for_the_ring_comes_after_those_before() {
    let (attachment, _service) = attached();
    let (here, there) = pair();
    let stream = promoted(&attachment, &here);
    for bytes in [&[1; 100][..], &[2; 1_500], &[3; 100]] {
        assert_eq!(say(&stream, &here, bytes), Sent::Taken(bytes.len()));
    }
    assert_eq!((heard(&there), heard(&there)), (vec![1; 100], vec![2; 1_500]));
    assert!(is_silent(&there), "the last one is in the ring");
    assert_eq!(stream.settle(key(&here), true).0, Drained::Empty);
    assert_eq!(heard(&there), [3; 100]);
    assert_eq!(say(&stream, &here, &[4]), Sent::Left);
}

#[test]
fn one_that_nobody_takes_any_more_is_taken_back() {
    let (attachment, service) = attached();
    let (here, there) = pair();
    let stream = promoted(&attachment, &here);
    let _theirs = service.promoted();
    assert_eq!(say(&stream, &here, &[1; 10]), Sent::Taken(10));
    service.memory.bell(0).shut();
    assert_eq!(say(&stream, &here, &[2; 10]), Sent::Left, "it is the kernel's to take");
    assert_eq!(heard(&there), [1; 10]);
    assert!(is_silent(&there), "the program's own call sends it");
    assert_eq!(service.memory.word(0, WRITER, MESSAGES).load(Ordering::Relaxed), 1);
}

#[test]
fn one_that_was_written_as_the_service_left_is_taken_back() {
    let (attachment, service) = attached();
    let (here, there) = pair();
    let stream = promoted(&attachment, &here);
    let _theirs = service.promoted();
    assert_eq!(say(&stream, &here, &[1; 10]), Sent::Taken(10));
    // A value that no bell has: it counts as shut since the check before the datagram was written.
    service.memory.word(0, BELL, 0).store(77, Ordering::Relaxed);
    assert_eq!(say(&stream, &here, &[2; 10]), Sent::Left, "it is the kernel's to take");
    assert_eq!(heard(&there), [1; 10]);
    assert!(is_silent(&there), "the program's own call sends it");
    assert_eq!(service.memory.word(0, WRITER, MESSAGES).load(Ordering::Relaxed), 1);
}

#[test]
fn what_the_service_was_told_is_told_once_instead_of_a_datagram() {
    let (attachment, service) = attached();
    let (here, there) = pair();
    let stream = promoted(&attachment, &here);
    assert_eq!(say(&stream, &here, &[1; 10]), Sent::Taken(10));
    service.memory.word(0, SHARED, ERROR).store(Errno::CONNREFUSED.raw_os_error() as u64, Ordering::Relaxed);
    service.memory.bell(0).shut();
    assert_eq!(say(&stream, &here, &[2; 10]), Sent::Failed(Errno::CONNREFUSED));
    assert_eq!(say(&stream, &here, &[2; 10]), Sent::Left);
    assert_eq!(heard(&there), [1; 10], "what was accepted before is sent");
    assert!(is_silent(&there));
}

#[test]
fn what_the_kernel_reports_to_the_program_costs_no_datagram() {
    let (attachment, _service) = attached();
    let (here, there) = pair();
    let (address, stream) = (there.local_addr().unwrap(), promoted(&attachment, &here));
    drop(there);
    // The kernel has the refusal when this call returns.
    here.send(b"refused").unwrap();
    let there = UdpSocket::bind(address).unwrap();
    assert_eq!(say(&stream, &here, b"first"), Sent::Taken(5));
    assert_eq!(stream.settle(key(&here), true).0, Drained::Failed(Errno::CONNREFUSED));
    assert_eq!(heard(&there), b"first");
    assert_eq!(here.take_error().unwrap().map(|error| error.kind()), None, "and it is told once");
}

#[test]
fn what_a_dead_service_was_at_is_sent_and_nothing_is_lost() {
    let (attachment, service) = attached();
    let (here, there) = pair();
    let stream = promoted(&attachment, &here);
    let theirs = service.promoted();
    for number in 0..20 {
        assert_eq!(say(&stream, &here, &[number; 30]), Sent::Taken(30));
    }
    assert!(service.memory.hold(0).take(Holder::Sidecore));
    drop((service, theirs));
    attachment.wait_for_end(|_| (), Report::default, || ());
    assert_eq!(stream.abandon(&attachment), Some(()));
    (0..20).for_each(|number| assert_eq!(heard(&there), [number; 30]));
    assert!(is_silent(&there));
}

#[test]
fn whatever_a_hostile_service_writes_the_program_stays_whole() {
    for head in [u64::MAX, 1 << 40, 2, 8] {
        let (attachment, service) = attached();
        let (here, _there) = pair();
        let stream = promoted(&attachment, &here);
        for _ in 0..10 {
            say(&stream, &here, &[0xff; 300]);
        }
        service.memory.word(0, SHARED, HEAD).store(head, Ordering::Relaxed);
        service.memory.span(0, Extent::new(0, RING)).copy_from(&[0xff; RING as usize]);
        assert_eq!(stream.settle(key(&here), true).0, Drained::Failed(Errno::PROTO));
        assert_eq!(say(&stream, &here, &[1]), Sent::Left);
    }
}
