//! Messages that find the sidecore asleep.

use super::{RING, Service, attached, check, connection, datagrams, key, promote, send};
use crate::stream::{Drained, Sent};
use crate::sys::tcp;
use rustix::io::Errno;
use sidecore_ipc::sys::poll::wait_readable;
use sidecore_ipc::sys::wake;
use sidecore_streams::layout::{BELL, DRAINS, HEAD, MESSAGES, SHARED, TRANSFERS, WRITER};
use sidecore_streams::saving::BreakEven;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

impl Service {
    fn sleeps(&self) {
        self.memory.bell(0).arm();
        self.memory.doorbell().arm();
    }

    fn pays_from(&self, break_even: BreakEven) {
        self.memory.gathered()[0].store(break_even.to_word(), Ordering::Relaxed);
    }

    fn is_woken(&self) -> bool {
        wait_readable(self.doorbell.as_fd(), Some(0)).unwrap()
    }

    fn moves(&self, socket: &OwnedFd) {
        let head = self.move_silently(socket, RING);
        self.memory.word(0, SHARED, HEAD).store(head, Ordering::Release);
        self.memory.word(0, SHARED, TRANSFERS).fetch_add(1, Ordering::Relaxed);
        wake::drain_pipe(&self.doorbell);
    }

    fn count(&self, line: usize, word: usize) -> u64 {
        self.memory.word(0, line, word).load(Ordering::Relaxed)
    }
}

#[test]
fn a_message_that_finds_the_sidecore_asleep_is_the_programs_to_send() {
    let (attachment, service) = attached();
    let (here, mut there) = connection();
    service.pays_from(BreakEven::ASSUMED);
    let stream = promote(&attachment, &here);
    service.sleeps();
    assert_eq!(send(&stream, &here, 0, 100), Sent::Taken(100));
    check(&mut there, 0, 100);
    assert!(!service.is_woken() && stream.waiting(key(&here)) == 0);
    assert_eq!((service.count(WRITER, MESSAGES), service.count(WRITER, DRAINS)), (1, 1));
    assert_eq!(service.count(SHARED, HEAD), 100, "of all bytes of its messages");
    assert!(service.memory.bell(0).is_armed() && service.count(BELL, 0) == 1, "it sleeps on");
    assert_eq!(stream.settle(key(&here), true), (Drained::Empty, Some(tcp::accepted(&here).unwrap())));
}

#[test]
fn messages_that_follow_closely_wake_it() {
    let (attachment, service) = attached();
    let (here, mut there) = connection();
    service.pays_from(BreakEven::ASSUMED);
    let stream = promote(&attachment, &here);
    let theirs = service.promoted();
    service.sleeps();
    let mut sent = 0;
    while !service.is_woken() {
        assert!(sent < 1_000_000, "never");
        assert_eq!(send(&stream, &here, sent, 10), Sent::Taken(10));
        sent += 10;
    }
    assert_eq!(stream.waiting(key(&here)), 10);
    service.moves(&theirs);
    check(&mut there, 0, sent);
}

#[test]
fn a_service_that_says_nothing_of_costs_is_woken_by_each() {
    let (attachment, service) = attached();
    let (here, _there) = connection();
    let stream = promote(&attachment, &here);
    service.sleeps();
    assert_eq!(send(&stream, &here, 0, 100), Sent::Taken(100));
    assert!(service.is_woken() && stream.waiting(key(&here)) == 100);
}

#[test]
fn what_the_kernel_takes_no_more_of_is_the_sidecores() {
    let (attachment, service) = attached();
    let (here, mut there) = connection();
    service.pays_from(BreakEven::ASSUMED);
    let stream = promote(&attachment, &here);
    let theirs = service.promoted();
    let mut sent = 0;
    loop {
        service.sleeps();
        let Sent::Taken(taken) = send(&stream, &here, sent, 1_000) else { panic!("of a ring with room") };
        sent += taken as u64;
        if stream.waiting(key(&here)) > 0 && service.is_woken() {
            break;
        }
    }
    // A wake-up for the rows is possible as well: either way the rest is sent.
    let waiting = u64::from(stream.waiting(key(&here)));
    check(&mut there, 0, sent - waiting);
    service.moves(&theirs);
    check(&mut there, sent - waiting, waiting);
}

#[test]
fn a_datagram_goes_the_same_way_and_its_error_is_told_by_the_next() {
    let (attachment, service) = attached();
    service.pays_from(BreakEven::ASSUMED);
    let (here, there) = datagrams::pair();
    let stream = datagrams::promoted(&attachment, &here);
    service.sleeps();
    assert_eq!(datagrams::say(&stream, &here, &[5; 5]), Sent::Taken(5));
    let mut buffer = [0; 64];
    assert_eq!(there.recv(&mut buffer).unwrap(), 5);
    assert!(!service.is_woken());
    drop(there);
    let mut said = (0..10).map(|_| {
        // Longer than any send, so that no message follows closely.
        thread::sleep(Duration::from_millis(1));
        datagrams::say(&stream, &here, &[5; 5])
    });
    assert_eq!(said.find(|sent| !matches!(sent, Sent::Taken(_))), Some(Sent::Failed(Errno::CONNREFUSED)));
}
