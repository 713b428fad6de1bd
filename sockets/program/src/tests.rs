//! A program's streams against services that are slow, dead or gone.

mod datagrams;
mod own;

use super::attachment::Attachment;
use super::protocol::{Ask, Reply, Report};
use super::stream::{Drained, Leaving, Offered, Progress, Sent, Stream};
use crate::shm::BankMemory;
use crate::sys::tcp;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use sidecore_core::wire::Extent;
use sidecore_ipc::message;
use sidecore_ipc::shm::span::Span;
use sidecore_ipc::sys::verified_fd::VerifiedFd;
use sidecore_ipc::sys::{packet, wake};
use sidecore_streams::cursor::Cursors;
use sidecore_streams::hold::Holder;
use sidecore_streams::layout::{Bank, DRAINS, ERROR, HEAD, SHARED, STATE, TAIL, WISH, WRITER};
use sidecore_streams::place::{LeaveRequest, PlaceState, leave_of, state_word};
use sidecore_streams::slot::{Key, SlotWord};
use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;

const RING: u32 = 4096;

struct Service {
    memory: BankMemory,
    control: OwnedFd,
    doorbell: OwnedFd,
}

impl Service {
    fn promoted(&self) -> OwnedFd {
        let mut buffer = [0; 64];
        let (len, mut fds) = packet::receive(&self.control, &mut buffer).unwrap();
        let ask: Ask = message::read(&buffer[..len]).unwrap();
        assert_eq!(ask, Ask::Promote { place: 0, stream: 1 });
        fds.pop().unwrap()
    }

    fn move_silently(&self, socket: &OwnedFd, most: u32) -> u64 {
        let word = |line, word| self.memory.word(0, line, word).load(Ordering::Acquire);
        let cursors = Cursors::read(word(SHARED, HEAD), word(WRITER, TAIL), RING).unwrap();
        let spans = cursors.filled(most).map(|extent| self.memory.span(0, extent));
        cursors.moved(tcp::send(socket, spans, false).unwrap() as u32)
    }
}

/// A program that has just introduced itself. The answer is sent in advance, so that the scheduler cannot make it
/// late.
fn attached() -> (Arc<Attachment>, Service) {
    let (here, there) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
    let (memory, file) = BankMemory::create(Bank::new(RING).unwrap()).unwrap();
    let (reader, writer) = wake::pipe().unwrap();
    let fds = [file.as_fd(), writer.as_fd(), reader.as_fd()];
    message::send(&there, &Reply::Welcome { ring_bytes: RING }, &fds).unwrap();
    let attachment = Arc::new(Attachment::new(VerifiedFd::new(here).unwrap(), "test").unwrap());
    let (hello, _): (Ask, _) = message::receive(&there).unwrap();
    assert!(matches!(hello, Ask::Hello { .. }));
    (attachment, Service { memory, control: there, doorbell: reader })
}

fn connection() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let here = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (here, listener.accept().unwrap().0)
}

fn promote(attachment: &Arc<Attachment>, socket: &TcpStream) -> Stream {
    let stream = Stream::default();
    stream.begin(
        attachment.slot(None).unwrap().open(socket.as_fd(), tcp::accepted(socket).unwrap()).unwrap(),
        key(socket),
        Arc::default(),
    );
    stream
}

fn key(socket: &impl AsRawFd) -> Key {
    let slot = SlotWord::new();
    slot.make();
    Key::new(socket.as_raw_fd().cast_unsigned(), slot.look().ticket())
}

/// Sends bytes whose values encode their positions, starting at `from`: as programs do, first without waiting.
fn send(stream: &Stream, socket: &TcpStream, from: u64, len: usize) -> Sent {
    let mut bytes: Vec<u8> = (from..from + len as u64).map(value).collect();
    let piece = Span::of(&mut bytes);
    match stream.offer(key(socket), piece, false) {
        Offered::Taken => Sent::Taken(len),
        Offered::Alone => stream.fall_back(key(socket), len),
        Offered::Not => stream.send(key(socket), [piece].into_iter(), len, false, false),
    }
}

fn value(at: u64) -> u8 {
    (at % 251) as u8
}

fn check(from: &mut TcpStream, start: u64, len: u64) {
    let mut bytes = vec![0; len as usize];
    from.read_exact(&mut bytes).unwrap();
    assert!(bytes.iter().zip(start..).all(|(byte, at)| *byte == value(at)), "bytes are lost, doubled or out of order");
}

#[test]
fn a_program_whose_sidecore_never_comes_goes_on_by_itself() {
    let (attachment, service) = attached();
    let (here, mut there) = connection();
    let stream = promote(&attachment, &here);
    let _theirs = service.promoted();
    let total = 1_000_000;
    let reader = thread::spawn(move || check(&mut there, 0, total));
    let mut sent = 0;
    while sent < total {
        match send(&stream, &here, sent, (total - sent).min(1 + sent % 900) as usize) {
            Sent::Taken(taken) => sent += taken as u64,
            Sent::Full => {}
            other => panic!("{other:?}"),
        }
    }
    while stream.drain(key(&here)) != Drained::Empty {}
    reader.join().unwrap();
    assert_eq!(stream.waiting(key(&here)), 0);
}

#[test]
fn full_means_that_the_kernel_said_so() {
    let (attachment, _service) = attached();
    let (here, mut there) = connection();
    let stream = promote(&attachment, &here);
    let mut sent = 0;
    while let Sent::Taken(taken) = send(&stream, &here, sent, 1_000) {
        sent += taken as u64;
    }
    assert_eq!(send(&stream, &here, sent, 1), Sent::Full);
    assert_eq!((stream.waiting(key(&here)), stream.waiting_beside(key(&here), || 7)), (RING, (7, RING)));
    assert_eq!(tcp::send(&here, [Span::of(&mut [0; 1]), Span::of(&mut [])], false), Err(Errno::AGAIN));
    assert_eq!(stream.with_kernel(key(&here), || ((), 0)), Err(Drained::Blocked));
    check(&mut there, 0, sent - u64::from(RING));
    while stream.drain(key(&here)) != Drained::Empty {}
    check(&mut there, sent - u64::from(RING), RING.into());
}

#[test]
fn a_stopped_sidecore_holds_a_call_up_for_a_moment_and_doubles_nothing() {
    let (attachment, service) = attached();
    let (here, mut there) = connection();
    let stream = promote(&attachment, &here);
    let theirs = service.promoted();
    assert!(service.memory.hold(0).take(Holder::Sidecore));
    let mut sent = 0;
    while let Sent::Taken(taken) = send(&stream, &here, sent, 1_000) {
        sent += taken as u64;
    }
    assert_eq!(sent, RING.into());
    assert_eq!(send(&stream, &here, sent, 1), Sent::Held);
    assert_eq!(stream.settle(key(&here), true).0, Drained::Held);
    assert_eq!(stream.with_kernel(key(&here), || ((), 0)), Err(Drained::Held));
    // It continues from there.
    let head = service.move_silently(&theirs, 700);
    service.memory.word(0, SHARED, HEAD).store(head, Ordering::Release);
    service.memory.hold(0).release();
    assert_eq!(stream.settle(key(&here), true), (Drained::Empty, Some(tcp::accepted(&here).unwrap())));
    check(&mut there, 0, sent);
}

#[test]
fn a_child_waits_for_its_parents_ring_until_nobody_moves_it() {
    const MINUTE: u64 = 60_000_000_000;
    let (attachment, service) = attached();
    let (here, mut there) = connection();
    let stream = promote(&attachment, &here);
    let theirs = service.promoted();
    assert!(stream.remains(key(&here)).is_none());
    send(&stream, &here, 0, 1_000);
    let remains = stream.remains(key(&here)).unwrap().again();
    assert_eq!(remains.progress(1, true), Progress::Moving);
    // A kernel without room explains the wait, and so does a move.
    assert_eq!(remains.progress(MINUTE, false), Progress::Moving);
    service.memory.word(0, SHARED, HEAD).store(service.move_silently(&theirs, 700), Ordering::Release);
    assert_eq!(remains.progress(2 * MINUTE, true), Progress::Moving);
    assert_eq!(remains.progress(3 * MINUTE, true), Progress::Moving);
    assert_eq!(remains.progress(3 * MINUTE + 1, true), Progress::Stuck);
    assert_eq!(stream.settle(key(&here), true).0, Drained::Empty);
    assert_eq!(remains.progress(4 * MINUTE, true), Progress::Over);
    check(&mut there, 0, 1_000);
    let again = promote(&attachment, &here);
    send(&again, &here, 1_000, 10);
    let lost = again.remains(key(&here)).unwrap();
    service.memory.word(1, SHARED, STATE).store(state_word(1, PlaceState::Ended), Ordering::Relaxed);
    assert_eq!(lost.progress(1, true), Progress::Over);
}

#[test]
fn what_a_dead_sidecore_moved_last_is_known_from_the_kernel() {
    for moved in [0, 1, 700, 1_200] {
        let (attachment, service) = attached();
        let (here, mut there) = connection();
        let stream = promote(&attachment, &here);
        let theirs = service.promoted();
        assert_eq!(stream.with_kernel(key(&here), || ((), 0)), Ok(()));
        assert_eq!(send(&stream, &here, 0, 500), Sent::Taken(500));
        assert_eq!(stream.drain(key(&here)), Drained::Empty);
        assert_eq!(stream.drain(key(&here)), Drained::Empty);
        assert_eq!(service.memory.word(0, WRITER, DRAINS).load(Ordering::Relaxed), 1, "the second moved nothing");
        assert_eq!(send(&stream, &here, 500, 1_200), Sent::Taken(1_200));
        assert!(service.memory.hold(0).take(Holder::Sidecore));
        if moved > 0 {
            assert_eq!(service.move_silently(&theirs, moved), 500 + u64::from(moved));
        }
        // The service dies here, while it holds the stream and has announced nothing.
        drop((service, theirs));
        attachment.wait_for_end(|_| (), Report::default, || ());
        assert_eq!(stream.abandon(&attachment), Some(()));
        check(&mut there, 0, 1_700);
        assert_eq!(send(&stream, &here, 1_700, 10), Sent::Left, "it is the kernel's again");
        drop(here);
        assert_eq!(there.read(&mut [0; 1]).unwrap(), 0, "and nothing came twice");
    }
}

#[test]
fn what_the_program_sends_between_is_counted_too() {
    let (attachment, service) = attached();
    let (here, mut there) = connection();
    let stream = promote(&attachment, &here);
    let theirs = service.promoted();
    send(&stream, &here, 0, 100);
    let direct = || {
        let mut bytes: Vec<u8> = (100..20_100).map(value).collect();
        ((), tcp::send(&here, [Span::of(&mut bytes), Span::of(&mut [])], false).unwrap())
    };
    assert_eq!(stream.with_kernel(key(&here), direct), Ok(()));
    send(&stream, &here, 20_100, 50);
    assert!(service.memory.hold(0).take(Holder::Sidecore));
    service.move_silently(&theirs, 20);
    drop((service, theirs));
    attachment.wait_for_end(|_| (), Report::default, || ());
    assert_eq!(stream.abandon(&attachment), Some(()));
    check(&mut there, 0, 20_150);
}

#[test]
fn an_error_that_the_service_met_is_told_once() {
    let (attachment, service) = attached();
    let (here, _there) = connection();
    let stream = promote(&attachment, &here);
    service.memory.word(0, SHARED, ERROR).store(Errno::CONNRESET.raw_os_error() as u64, Ordering::Relaxed);
    service.memory.word(0, SHARED, STATE).store(state_word(1, PlaceState::Ended), Ordering::Relaxed);
    service.memory.bell(0).shut();
    // A call that has sent something tells none.
    let mut bytes = [1; 10];
    let began = stream.send(key(&here), [Span::of(&mut bytes)].into_iter(), 10, false, true);
    assert_eq!(began, Sent::Failed(Errno::CONNRESET));
    assert_eq!(send(&stream, &here, 0, 10), Sent::Failed(Errno::CONNRESET));
    assert_eq!(send(&stream, &here, 0, 10), Sent::Left);
}

#[test]
fn what_is_accepted_while_the_service_goes_is_sent_once_whoever_sends_it() {
    for comes_between in [false, true] {
        let (attachment, service) = attached();
        let (here, mut there) = connection();
        let stream = promote(&attachment, &here);
        let theirs = service.promoted();
        assert_eq!(send(&stream, &here, 0, 100), Sent::Taken(100));
        service.memory.bell(0).shut();
        let mut bytes: Vec<u8> = (100..300).map(value).collect();
        assert_eq!(stream.offer(key(&here), Span::of(&mut bytes), false), Offered::Alone);
        if comes_between {
            assert_eq!(stream.settle(key(&here), true).0, Drained::Empty);
        }
        assert_eq!(stream.fall_back(key(&here), 200), Sent::Taken(200));
        check(&mut there, 0, 300);
        assert_eq!(stream.offer(key(&here), Span::of(&mut bytes), false), Offered::Not);
        drop((here, theirs));
        assert_eq!(there.read(&mut [0; 1]).unwrap(), 0, "nothing comes twice");
    }
}

#[test]
fn a_place_is_used_again_when_the_service_says_so() {
    let (attachment, service) = attached();
    let (here, _there) = connection();
    let stream = promote(&attachment, &here);
    service.promoted();
    stream.leave(key(&here), Leaving::Closed { by_all: true });
    assert_eq!(attachment.slot(None).unwrap().number, 1, "another place, for the first is not free");
    service.memory.word(0, SHARED, STATE).store(state_word(1, PlaceState::Free), Ordering::Relaxed);
    assert_eq!(attachment.slot(None).unwrap().number, 2);
}

#[test]
fn whatever_a_hostile_service_writes_the_program_stays_whole() {
    for word in [u64::MAX, 1 << 40, u64::from(RING) + 7] {
        let (attachment, service) = attached();
        let (here, _there) = connection();
        let stream = promote(&attachment, &here);
        send(&stream, &here, 0, 3_000);
        service.memory.word(0, SHARED, HEAD).store(word, Ordering::Relaxed);
        let sent = send(&stream, &here, 3_000, 3_000);
        assert_eq!(sent, Sent::Failed(Errno::PIPE), "the connection is broken off, not garbled");
        service.memory.span(0, Extent::new(0, RING)).copy_from(&[0; RING as usize]);
        assert_eq!(send(&stream, &here, 0, 10), Sent::Left);
    }
}

#[test]
fn a_bank_that_was_not_asked_for_ends_the_attachment() {
    let (attachment, service) = attached();
    let (_memory, file) = BankMemory::create(Bank::new(RING).unwrap()).unwrap();
    message::send(&service.control, &Reply::Bank, &[file.as_fd()]).unwrap();
    attachment.wait_for_end(|_| panic!("it is not taken"), Report::default, || ());
    assert!(attachment.is_gone() && attachment.slot(None).is_err());
}

#[test]
fn who_settles_leaves_nothing_between_the_last_bytes_and_the_end() {
    let (attachment, service) = attached();
    let (here, mut there) = connection();
    let stream = promote(&attachment, &here);
    let _theirs = service.promoted();
    assert_eq!(send(&stream, &here, 0, 100), Sent::Taken(100));
    assert_eq!(stream.settle(key(&here), true).0, Drained::Empty);
    check(&mut there, 0, 100);
    assert_eq!(send(&stream, &here, 100, 1), Sent::Left);
    assert_eq!(wish(&service), LeaveRequest::Leave);
}

#[test]
fn what_was_closed_unseen_is_not_sent_on_another_connection() {
    let (attachment, service) = attached();
    let (here, there) = connection();
    let stream = promote(&attachment, &here);
    let theirs = service.promoted();
    assert_eq!(send(&stream, &here, 0, 100), Sent::Taken(100));
    stream.detach(key(&here));
    there.set_nonblocking(true).unwrap();
    assert!((&there).read(&mut [0]).is_err(), "the number may be another's");
    assert_eq!((wish(&service), send(&stream, &here, 100, 1)), (LeaveRequest::Leave, Sent::Left));
    assert_eq!(service.move_silently(&theirs, u32::MAX), 100);
}

fn wish(service: &Service) -> LeaveRequest {
    leave_of(service.memory.word(0, WRITER, WISH).load(Ordering::Acquire), 1)
}
