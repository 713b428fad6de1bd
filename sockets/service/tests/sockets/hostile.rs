//! Hostile programs: anything that a program writes or sends harms at most itself.

use crate::common::{
    Lender, OTHER, Program, all, answer, config, connect, connection, got, hung_up, limited, open_to_all, own_user,
    pattern, rows, say, start, until,
};
use rustix::net::sockopt::set_socket_linger;
use rustix::pipe::pipe;
use sidecore_ipc::message;
use sidecore_ipc::sys::packet::{self, MAX_PACKET};
use sidecore_sockets::protocol::{Ask, Reply};
use sidecore_sockets::shm::BankMemory;
use sidecore_sockets_service::SocketsConfig;
use sidecore_streams::cursor::word;
use sidecore_streams::layout::{ABI, MAX_BANKS, PLACES, TAIL, WRITER};
use sidecore_streams::place::{LeaveRequest, PlaceState};
use sidecore_testing::skipped;
use std::fs::File;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

const ROUNDS: u32 = 300;
/// Programs that ask without a pause, one after the other.
const FLOODS: u32 = 50;

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 11
    }

    /// Words close to valid ones, and arbitrary words.
    fn word(&mut self) -> u64 {
        match self.next() % 4 {
            0 => self.next() << 11,
            1 => u64::MAX - self.next() % 4,
            _ => self.next() % 70_000,
        }
    }
}

fn unconnected() -> OwnedFd {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
    socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap()
}

/// A raw socket, connected, that sends UDP packets. `None`: this user may not have one.
fn raw() -> Option<OwnedFd> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, ipproto, socket_with};
    let raw = socket_with(AddressFamily::INET, SocketType::RAW, SocketFlags::CLOEXEC, Some(ipproto::UDP)).ok()?;
    connect(&raw, &std::net::SocketAddrV4::new(std::net::Ipv4Addr::LOCALHOST, 1)).unwrap();
    Some(raw)
}

fn reset() -> TcpStream {
    let (here, there) = connection();
    set_socket_linger(&there, Some(Duration::ZERO)).unwrap();
    drop(there);
    until("the reset arrives", || (&here).write_all(b"x").is_err());
    here
}

fn lingering() -> (TcpStream, TcpStream) {
    let (here, there) = connection();
    here.set_nonblocking(true).unwrap();
    while (&here).write(&[7; 8192]).is_ok() {}
    set_socket_linger(&here, Some(Duration::from_secs(60))).unwrap();
    (here, there)
}

fn serves(neighbour: &Program, number: u32) {
    let (here, mut there) = connection();
    let mut stream = neighbour.promote(0, number, &here);
    assert!(stream.write(b"neighbour"));
    assert_eq!(got(&mut there, 9), b"neighbour");
    stream.wish(LeaveRequest::Leave);
    stream.until_state(PlaceState::Free);
}

#[test]
fn only_connected_tcp_and_udp_sockets_are_taken() {
    let service = start(&config());
    let program = Program::attach(&service);
    let (here, _there) = connection();
    let (reader, writer) = pipe().unwrap();
    let (unix, _other) = UnixStream::pair().unwrap();
    let (unix_datagrams, _other) = UnixDatagram::pair().unwrap();
    let mut others: Vec<(&str, OwnedFd)> = vec![
        ("a file", File::open("/proc/self/status").unwrap().into()),
        ("a pipe to read", reader),
        ("a pipe to write", writer),
        ("a Unix socket", unix.into()),
        ("a socket that listens", TcpListener::bind("127.0.0.1:0").unwrap().into()),
        ("a UDP socket that is connected to nobody", UdpSocket::bind("127.0.0.1:0").unwrap().into()),
        ("a Unix socket of datagrams", unix_datagrams.into()),
        ("a socket without a connection", unconnected()),
        ("a connection that is no more", reset().into()),
    ];
    match raw() {
        Some(raw) => others.push(("a raw socket", raw)),
        None => skipped("a raw socket takes rights that this user lacks"),
    }
    for ((what, socket), number) in others.iter().zip(1..) {
        let mut stream = program.begin(9, number, &here);
        say(&program.control, &Ask::Promote { place: 9, stream: number }, &[socket]);
        until(what, || stream.state() == Some(PlaceState::Ended));
        assert!(!stream.write(b"not through here"), "{what}: the program knows");
    }
    // The place is usable as before.
    let (here, mut there) = connection();
    assert!(program.promote(9, 77, &here).write(b"TCP"));
    assert_eq!(got(&mut there, 3), b"TCP");
}

#[test]
fn two_streams_at_one_place_end_the_programs_connection_and_lose_nothing() {
    let service = start(&config());
    for (number, place) in [(2, 0), (1, 0), (1, 64), (1, u32::MAX)] {
        let program = Program::attach(&service);
        let [(here, mut there), (other, _)] = [connection(), connection()];
        let mut stream = program.promote(0, 1, &here);
        stream.until_armed();
        stream.write_silently(b"all of it");
        if (number, place) == (1, 0) {
            stream.wish(LeaveRequest::Leave);
            stream.until_state(PlaceState::Free);
        }
        say(&program.control, &Ask::Promote { place, stream: number }, &[&other]);
        assert!(hung_up(&program.control).unwrap().contains("a stream"));
        assert_eq!(got(&mut there, 9), b"all of it");
        until("the stream's end", || {
            stream.state().is_some_and(|state| [PlaceState::Ended, PlaceState::Free].contains(&state))
        });
    }
    serves(&Program::attach(&service), 1);
}

fn attack(control: &OwnedFd, packet: &[u8], fds: &[BorrowedFd<'_>]) {
    // It may have hung up already.
    let _ = packet::send(control, packet, fds);
}

#[test]
fn what_is_no_message_in_its_turn_ends_the_connection() {
    let service = limited(&SocketsConfig { max_programs: 2, ..SocketsConfig::default() });
    let neighbour = Program::attach(&service);
    let (here, _there) = connection();
    let mut buffer = [0; 64];
    let mut encoded = |ask: &Ask| message::encode(ask, &mut buffer).unwrap().to_vec();
    let promote = encoded(&Ask::Promote { place: 0, stream: 1 });
    let hello = encoded(&Ask::Hello { abi: ABI, name: "again".to_owned() });
    let [bank, list] = [encoded(&Ask::Bank), encoded(&Ask::List { from: 0 })];
    let tcp = here.as_fd();
    let tail = [&bank[..], b"tail"].concat();
    let too_long = vec![0; MAX_PACKET + 1];
    let attacks: [(&[u8], &[BorrowedFd<'_>]); 10] = [
        (b"\xff\xff\xff", &[]),
        (&too_long, &[]),
        (&tail, &[]),
        (&hello, &[]),
        (&list, &[]),
        (&bank, &[tcp]),
        (b"", &[tcp]),
        (&promote, &[]),
        (&promote, &[tcp; 2]),
        (&promote, &[tcp; 4]),
    ];
    for (number, (packet, fds)) in (1..).zip(attacks) {
        let mut program = None;
        until("the last one is forgotten", || {
            let control = connect(service.socket());
            // It may be declined before its first message.
            let _ = message::send(&control, &Ask::Hello { abi: ABI, name: String::new() }, &[]);
            program = match answer(&control) {
                Some((Reply::Welcome { .. }, _)) => Some(control),
                _ => None,
            };
            program.is_some()
        });
        let control = program.unwrap();
        attack(&control, packet, fds);
        let why = hung_up(&control);
        assert!(why.is_some_and(|why| !why.is_empty()), "{packet:?}");
        serves(&neighbour, number);
    }
}

#[test]
fn who_has_not_said_hello_has_no_streams() {
    let service = start(&config());
    let (here, _there) = connection();
    for ask in [Ask::Bank, Ask::Promote { place: 0, stream: 1 }] {
        let control = connect(service.socket());
        say(&control, &ask, &[]);
        assert!(hung_up(&control).is_some());
    }
    // The same for programs that ask for the list. Descriptors with their messages are refused or closed.
    let control = connect(service.socket());
    say(&control, &Ask::List { from: 0 }, &[]);
    assert!(matches!(answer(&control), Some((Reply::Sockets { .. }, _))));
    let _ = message::send(&control, &Ask::Promote { place: 0, stream: 1 }, &[here.as_fd()]);
    say(&control, &Ask::Hello { abi: ABI, name: String::new() }, &[]);
    assert!(hung_up(&control).is_some());
}

#[test]
fn whatever_stands_in_the_shared_words_harms_no_other() {
    let service = start(&config());
    let neighbour = Program::attach(&service);
    let attacker = || {
        let (process, control) = Lender::start(service.socket(), own_user());
        (process, Program::hello(control))
    };
    let mut attacking = attacker();
    let (other, mut other_peer) = connection();
    let mut stream = neighbour.promote(0, 1, &other);
    let mut random = Random(7);
    let (here, there) = connection();
    there.set_nonblocking(true).unwrap();
    for round in 1..=ROUNDS {
        // Its connection may be closed: then the next one follows.
        let place = random.next() as u32 % PLACES;
        if message::send(&attacking.1.control, &Ask::Promote { place, stream: round }, &[here.as_fd()]).is_err() {
            attacking = attacker();
        }
        let program = &attacking.1;
        scribble(&program.banks[0], &mut random);
        program.announce(place);
        // The output is unspecified: the program's own bytes for its own peer.
        let _ = (&there).read(&mut [0; 8192]);
        stream.write_all(&pattern(0, 999));
        assert_eq!(got(&mut other_peer, 999), pattern(0, 999));
    }
    drop((attacking, here, there));
    until("it is forgotten", || rows(service.socket()).len() <= 1);
}

fn scribble(bank: &BankMemory, random: &mut Random) {
    for _ in 0..50 {
        let place = random.next() as u32 % PLACES;
        let (line, word) = (random.next() as usize % 4, random.next() as usize % 8);
        bank.word(place, line, word).store(random.word(), Ordering::Relaxed);
    }
    for word in &bank.announced_banks().0 {
        word.store(random.word(), Ordering::Relaxed);
    }
    bank.announced().store(random.word(), Ordering::Relaxed);
    bank.doorbell().0.store(random.word(), Ordering::Relaxed);
}

#[test]
fn cursors_that_cannot_be_end_the_stream() {
    let service = start(&config());
    let program = Program::attach(&service);
    let (here, mut there) = connection();
    let stream = program.promote(0, 1, &here);
    stream.until_armed();
    // More than the ring holds.
    stream.word(WRITER, TAIL).store(word(1 << 40, false), Ordering::Release);
    assert!(stream.ring());
    stream.until_state(PlaceState::Ended);
    drop(here);
    assert_eq!(all(&mut there), b"");
    serves(&program, 2);
}

#[test]
fn a_socket_that_takes_long_to_close_holds_nobody_up() {
    let service = start(&config());
    let program = Program::attach(&service);
    let (here, _there) = lingering();
    let stream = program.promote(1, 1, &here);
    stream.until_state(PlaceState::Open);
    // The service must have the last reference.
    drop(here);
    stream.wish(LeaveRequest::Leave);
    stream.until_state(PlaceState::Free);
    // Of the same program, and of another one of the same user.
    serves(&program, 1);
    serves(&Program::attach(&service), 1);
}

#[test]
fn a_flood_of_questions_keeps_nobody_waiting() {
    let service = start(&config());
    open_to_all(service.socket());
    // One of another user, and one that shares its thread with those that flood.
    let socket = service.socket();
    let (_process, control) = Lender::start(socket, if own_user() == 0 { OTHER } else { own_user() });
    let neighbours = [Program::attach(&service), Program::hello(control)];
    thread::scope(|scope| {
        // All of them stay connected until the end.
        let flood = scope.spawn(|| (0..FLOODS).map(|_| flood(socket)).collect::<Vec<_>>());
        for number in 1.. {
            let is_over = flood.is_finished();
            for neighbour in &neighbours {
                serves(neighbour, number);
            }
            if is_over {
                break;
            }
        }
    });
}

/// Asks until the service hangs up because the answers are not read, or the connection is full.
fn flood(socket: &Path) -> [OwnedFd; 2] {
    let [sending, asking] = [connect(socket), connect(socket)];
    // It may be declined before its first message.
    let _ = message::send(&sending, &Ask::Hello { abi: ABI, name: String::new() }, &[]);
    while message::send(&sending, &Ask::Bank, &[]).is_ok() {}
    while message::send(&asking, &Ask::List { from: 0 }, &[]).is_ok() {}
    [sending, asking]
}

#[test]
fn a_program_has_so_many_banks_at_most() {
    let service = limited(&SocketsConfig { ring_kib: 4, ..SocketsConfig::default() });
    let mut program = Program::attach(&service);
    for _ in 1..MAX_BANKS {
        program.add_bank().unwrap();
    }
    assert!(program.add_bank().unwrap_err().contains("512 banks at most"));
    let (here, mut there) = connection();
    let mut last = program.promote(MAX_BANKS * PLACES - 1, 1, &here);
    last.until_armed();
    assert!(last.write(b"the last place"));
    assert_eq!(got(&mut there, 14), b"the last place");
}

#[test]
fn who_goes_on_speaking_for_a_dead_program_is_hung_up_on() {
    let service = start(&config());
    let neighbour = Program::attach(&service);
    let (mut process, control) = Lender::start(service.socket(), own_user());
    let program = Program::hello(control);
    let (here, mut there) = connection();
    program.promote(0, 1, &here).write(b"before it died");
    thread::scope(|scope| {
        // Its child has the connection as well, and may do the same.
        scope.spawn(|| while program.try_add_bank() {});
        serves(&neighbour, 1);
        process.kill();
    });
    drop(here);
    assert_eq!(all(&mut there), b"before it died");
    serves(&neighbour, 2);
}
