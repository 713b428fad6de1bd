//! Limits of one user: each refusal names the key, and released resources are available again.

use crate::common::{Apart, Program, answer, connect, connection, got, hung_up, limited, refusal, say, until};
use sidecore_ipc::message::encode;
use sidecore_ipc::sys::packet;
use sidecore_sockets::protocol::{Ask, RefusalCode, Refused, Reply};
use sidecore_sockets_service::SocketsConfig;
use sidecore_streams::layout::ABI;
use sidecore_streams::place::{LeaveRequest, PlaceState};
use std::thread;
use std::time::Duration;

/// Clock ticks of CPU time, 10 ms each, that a service may take in a second without accepting. A tenth of a core.
const TICKS: u64 = 10;

#[test]
fn programs_are_limited() {
    let service = limited(&SocketsConfig { max_programs: 2, ..SocketsConfig::default() });
    let two = [Program::attach(&service), Program::attach(&service)];
    let third = connect(service.socket());
    assert!(hung_up(&third).unwrap().contains("sockets.max_programs = 2"));
    drop(two);
    until("there is room again", || {
        let control = connect(service.socket());
        // It may be declined before its first message.
        let _ = sidecore_ipc::message::send(&control, &Ask::Hello { abi: ABI, name: String::new() }, &[]);
        matches!(answer(&control), Some((Reply::Welcome { .. }, _)))
    });
}

#[test]
fn memory_is_limited() {
    let service = limited(&SocketsConfig { max_mib: 5, ring_kib: 32, ..SocketsConfig::default() });
    let mut program = Program::attach(&service);
    assert_eq!(program.add_bank(), Ok(()));
    assert!(program.add_bank().unwrap_err().contains("sockets.max_mib = 5"));
    let control = connect(service.socket());
    say(&control, &Ask::Hello { abi: ABI, name: String::new() }, &[]);
    assert!(hung_up(&control).unwrap().contains("sockets.max_mib = 5"));
    // Places of the second bank work like those of the first.
    let (here, mut there) = connection();
    assert!(program.promote(64 + 63, 1, &here).write(b"second bank"));
    assert_eq!(got(&mut there, 11), b"second bank");
}

#[test]
fn a_stream_beyond_the_limit_goes_back_with_all_that_was_written() {
    let service = limited(&SocketsConfig { max_sockets: 1, ..SocketsConfig::default() });
    let program = Program::attach(&service);
    let (here, mut there) = connection();
    let mut first = program.promote(0, 1, &here);
    first.until_state(PlaceState::Open);
    let (other, mut other_peer) = connection();
    let mut second = program.begin(1, 1, &other);
    second.write_silently(b"written before the answer");
    say(&program.control, &Ask::Promote { place: 1, stream: 1 }, &[&other]);
    assert_eq!(got(&mut other_peer, 25), b"written before the answer");
    second.until_state(PlaceState::Ended);
    assert!(!second.ring());
    assert!(first.write(b"x"));
    assert_eq!(got(&mut there, 1), b"x");
    first.wish(LeaveRequest::Leave);
    first.until_state(PlaceState::Free);
    until("there is room again", || {
        let number = second.number + 1;
        second = program.begin(1, number, &other);
        say(&program.control, &Ask::Promote { place: 1, stream: number }, &[&other]);
        second.is_taken()
    });
}

#[test]
fn a_service_that_cannot_accept_says_so_once_and_does_not_try_without_end() {
    let mut service = Apart::start("[sockets]");
    let program = Program::hello(connect(service.socket()));
    let (here, mut there) = connection();
    let mut stream = program.promote(0, 1, &here);
    stream.until_armed();
    // Without even the descriptor that is reserved for sending a refusal.
    service.limit_descriptors(Some(3));
    let waiting = [connect(service.socket()), connect(service.socket())];
    let said = service.says();
    assert!(said.contains("cannot accept programs") && said.contains("LimitNOFILE="), "{said}");
    // One of three runs: other load lengthens CPU time, never shortens it.
    let took = || {
        let before = service.ticks();
        thread::sleep(Duration::from_secs(1));
        service.ticks() - before
    };
    let took: Vec<u64> = (0..3).map(|_| took()).take_while(|took| *took > TICKS).collect();
    assert!(took.len() < 3, "{took:?} ticks");
    assert!(stream.write(b"served as before"));
    assert_eq!(got(&mut there, 16), b"served as before");
    service.limit_descriptors(None);
    for program in waiting {
        drop(Program::hello(program));
    }
    assert!(!service.has_said(), "{}", service.says());
    service.end();
}

#[test]
fn another_layout_is_refused() {
    let service = limited(&SocketsConfig::default());
    for (abi, older) in [(ABI + 1, "the service is older"), (ABI - 1, "the program's library is older")] {
        let mut buffer = [0; 64];
        let hello = encode(&Ask::Hello { abi, name: String::new() }, &mut buffer).unwrap().to_vec();
        // A later version may have more in its first message.
        let longer = [&hello[..], &[7]].concat();
        for first in [hello, longer] {
            let control = connect(service.socket());
            packet::send(&control, &first, &[]).unwrap();
            let Refused { code, text: said } = refusal(&control).unwrap();
            assert_eq!(code, RefusalCode::OtherVersion);
            assert!(said.contains(&format!("socket layout {abi}, the service")) && said.contains(older), "{said}");
        }
    }
}
