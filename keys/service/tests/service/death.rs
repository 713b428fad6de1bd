//! Death of the service: all waiting clients notice it, and the next service takes over.

use crate::checked::Load;
use crate::common::start;
use crate::peer::Peer;
use sidecore::client::{Client, Error, Options, Request};
use sidecore::config::Config;
use sidecore::core::policy::notify::Notify;
use sidecore::core::session::{Class, Op};
use sidecore::core::time::Nanos;
use sidecore::engine::crypto::sample::sample;
use sidecore::service::Service;
use sidecore_ipc::sys::clock;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::thread::{self, JoinHandle};

const NEVER: &str = "device = [{ name = \"never\", kind = \"emulated\", fixed_ns = 1000000000 }]";
const ROUNDS: usize = 3;
/// Requests in flight: the device would answer the last of them after this number of seconds.
const IN_FLIGHT: u32 = 16;

fn policies() -> [Notify; 6] {
    let parse = |text| Notify::parse(text).unwrap();
    ["spin", "park", "timer(250us)", "coalesce(8,100us)", "break-even", "learn"].map(parse)
}

fn options(socket: &Path, notify: Option<Notify>) -> Options {
    Options { socket: socket.to_owned(), notify, ..Options::default() }
}

fn waiting(socket: &Path, notify: Notify) -> JoinHandle<Nanos> {
    let mut client = Client::connect(&options(socket, Some(notify))).unwrap();
    let session = client.open_session(&sample(Class::NOOP, 0, 0).spec).unwrap();
    let request = Request { session, op: Op::Noop, head_len: 0, inputs: &[], outputs: &[], urgent: false };
    (0..IN_FLIGHT).for_each(|tag| client.submit(tag, &request).unwrap());
    client.ring();
    thread::spawn(move || {
        loop {
            match client.wait() {
                Ok(_) => {}
                Err(Error::Gone(_)) => return clock::now(),
                Err(other) => panic!("{other:?}"),
            }
        }
    })
}

fn kill_under_waiters(socket: &Path) -> Vec<Nanos> {
    let mut service = Peer::serve(socket, NEVER);
    let waiters = policies().map(|notify| waiting(socket, notify));
    let killed = clock::now();
    service.kill();
    waiters.into_iter().map(|waiter| waiter.join().unwrap() - killed).collect()
}

#[test]
fn each_waiter_learns_that_the_service_died() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("socket");
    // Each round's service replaces the socket that the one before left.
    let mut times: Vec<Nanos> = (0..ROUNDS).flat_map(|_| kill_under_waiters(&socket)).collect();
    times.sort_unstable();
    let ms = |time: Nanos| time as f64 / 1e6;
    println!("gone after {:.1} ms, at most {:.1} ms", ms(times[times.len() / 2]), ms(times[times.len() - 1]));
    assert!(*times.last().unwrap() < 1_000_000_000, "{times:?}");
}

#[test]
fn a_program_goes_on_with_the_next_service() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("socket");
    let mut counted = 0;
    for seed in 1..4 {
        let mut service = Peer::serve(&socket, "");
        let mut load = Load::new(&options(&socket, None), 16, seed).unwrap();
        (0..200).for_each(|_| load.step().unwrap());
        service.kill();
        let error = (0..1000).find_map(|_| load.step().err());
        assert!(matches!(error, Some(Error::Gone(_))), "{error:?}");
        assert!(matches!(load.client().key_info("none"), Err(Error::Gone(_))));
        counted += load.counts.done;
    }
    assert!(counted >= 600);
}

#[test]
fn a_second_service_at_a_live_socket_is_refused() {
    let service = start(Config::default());
    let config = || Config { socket: service.socket().to_owned(), ..Config::default() };
    let message = Service::start(config()).unwrap_err().to_string();
    assert!(message.contains("a service answers at") && message.contains("name another socket"), "{message}");
    assert!(Client::connect(&options(service.socket(), None)).is_ok(), "the first one still serves");
}

#[test]
fn a_file_that_is_no_socket_is_not_replaced() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("precious");
    std::fs::write(&path, "data").unwrap();
    let message = Service::start(Config { socket: path.clone(), ..Config::default() }).unwrap_err().to_string();
    assert!(message.contains("precious"), "{message}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "data");
    // Another program's socket, which speaks another protocol, is not removed either.
    let path = directory.path().join("other");
    let _other = UnixListener::bind(&path).unwrap();
    assert!(Service::start(Config { socket: path.clone(), ..Config::default() }).is_err());
    assert!(path.exists());
}
