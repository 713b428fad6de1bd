//! A service that is stopped, not dead: its clients notice within their timeout.

use crate::peer::Peer;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use sidecore::client::{Client, ConnectError, Error, Options};
use sidecore::core::session::Class;
use sidecore::engine::crypto::sample::sample;
use sidecore_testing::{go_on, stop};
use std::path::Path;
use std::time::{Duration, Instant};

const TIMEOUT: Duration = Duration::from_millis(300);
/// Ten times the timeout, and far below the 10 s of an earlier version.
const BOUND: Duration = Duration::from_secs(3);

fn options(socket: &Path) -> Options {
    Options { socket: socket.to_owned(), timeout: TIMEOUT, ..Options::default() }
}

fn in_time<T>(work: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let result = work();
    assert!((TIMEOUT..BOUND).contains(&start.elapsed()), "{:?}", start.elapsed());
    result
}

#[test]
fn a_stopped_service_is_waited_for_as_long_as_the_options_say() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("socket");
    let service = Peer::serve(&socket, "");
    let mut client = Client::connect(&options(&socket)).unwrap();
    let spec = sample(Class::NOOP, 0, 0).spec;
    stop(service.pid());
    let error = in_time(|| Client::connect(&options(&socket))).unwrap_err();
    assert!(matches!(error, ConnectError::NoAnswer(_, TIMEOUT)), "{error}");
    assert!(error.to_string().contains("does not answer within 300 ms"), "{error}");
    let error = in_time(|| client.open_session(&spec)).unwrap_err();
    assert!(matches!(error, Error::NoAnswer(_)), "{error}");
    // The answer may still arrive, and must not be taken for that of another request.
    go_on(service.pid());
    assert!(matches!(client.open_session(&spec), Err(Error::Gone(_))));
    let patient = Options { timeout: Duration::from_secs(60), ..options(&socket) };
    Client::connect(&patient).unwrap().open_session(&spec).unwrap();
    service.finish();
}

#[test]
fn a_service_that_accepts_nobody_is_waited_for_no_longer() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("socket");
    let service = Peer::serve(&socket, "");
    stop(service.pid());
    let address = SocketAddrUnix::new(&socket).unwrap();
    let knock = || {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
        connect(&socket, &address).map(|()| socket)
    };
    let mut waiting = Vec::new();
    while let Ok(connected) = knock() {
        waiting.push(connected);
        assert!(waiting.len() < 10_000, "the queue of connections has an end");
    }
    assert_eq!(knock().err(), Some(Errno::AGAIN));
    let error = in_time(|| Client::connect(&options(&socket))).unwrap_err();
    assert!(matches!(error, ConnectError::NoAnswer(_, TIMEOUT)), "{error}");
    // None of them was taken meanwhile.
    let mut first = [PollFd::new(&waiting[0], PollFlags::IN)];
    assert_eq!(poll(&mut first, Some(&rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 })), Ok(0));
    go_on(service.pid());
    service.finish();
}
