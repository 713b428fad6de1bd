//! A client that forks.
//!
//! This process has one thread, so a forked child may do everything that its parent could.

use crate::checked::Load;
use crate::{options, wait_for_line};
use sidecore::client::{Admin, Buffer, Client, Error, Request, Session};
use sidecore::core::session::{Class, Op, Refusal};
use sidecore::core::wire::Status;
use sidecore::engine::crypto::sample::{Sample, sample};
use sidecore::keys::Kind;
use sidecore::spec::{Scheme, SessionSpec};
use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};

mod ffi {
    use std::ffi::c_int;

    // SAFETY: the C library's own, with these signatures.
    unsafe extern "C" {
        pub(super) safe fn fork() -> c_int;
        pub(super) safe fn _exit(status: c_int) -> !;
        pub(super) fn waitpid(pid: c_int, status: *mut c_int, options: c_int) -> c_int;
    }
}

pub(crate) fn run(scenario: &str, socket: &str) {
    match scenario {
        "child" => one_child(socket),
        "children" => many_children(socket),
        "drop" => dropping_child(socket),
        "orphan" => orphan(socket),
        "made" => heir(socket),
        _ => panic!("no such scenario: {scenario}"),
    }
}

pub(crate) fn fork(child: impl FnOnce()) -> c_int {
    match ffi::fork() {
        0 => {
            // The parent's unwinding and exit handlers must not run in the child.
            let result = catch_unwind(AssertUnwindSafe(child));
            ffi::_exit(c_int::from(result.is_err()))
        }
        pid => {
            assert!(pid > 0, "no process");
            pid
        }
    }
}

pub(crate) fn expect_success(child: c_int) {
    let mut status = 0;
    // SAFETY: `status` is writable for the call.
    let waited = unsafe { ffi::waitpid(child, &raw mut status, 0) };
    assert_eq!((waited, status), (child, 0), "the child failed");
}

fn client(socket: &str) -> Client {
    Client::connect(&options(socket)).expect("a lane")
}

fn signing() -> Sample {
    sample(Class::from_name("hmac-sha-256").expect("an operation"), 500, 3)
}

fn call(client: &mut Client, session: Session) -> Result<Vec<u8>, Error> {
    let sample = signing();
    client.call(session, Op::Sign, 0, &sample.input, 32)
}

fn submit(client: &mut Client, session: Session, buffer: &Buffer, tag: u32) -> Result<(), Error> {
    let extents = [buffer.extent()];
    let request = Request { session, op: Op::Sign, head_len: 0, inputs: &extents, outputs: &extents, urgent: false };
    client.submit(tag, &request)
}

/// The child's first call opens a lane of its own with the parent's sessions. The parent's requests stay in flight.
fn one_child(socket: &str) {
    let mut client = client(socket);
    let session = client.open_session(&signing().spec).expect("a session");
    let expected = call(&mut client, session).expect("a tag");
    let buffer = client.alloc(100).expect("a buffer");
    for tag in 0..100 {
        submit(&mut client, session, &buffer, tag).expect("room");
    }
    let child = fork(|| {
        assert!(client.poll().is_none(), "the parent's completions are not the child's");
        assert!(matches!(client.write(&buffer, 0, &[1]), Err(Error::ForeignBuffer)));
        assert_eq!(call(&mut client, session).expect("the parent's session"), expected);
        assert!(matches!(client.read(&buffer, 0, &mut [0]), Err(Error::ForeignBuffer)));
        let own = client.alloc(100).expect("a buffer of the child's own");
        submit(&mut client, session, &own, 7).expect("room");
        client.ring();
        assert_eq!(client.wait().expect("its own completion").tag, 7);
        assert!(matches!(client.wait(), Err(Error::NothingInFlight)));
    });
    expect_success(child);
    client.ring();
    let mut tags: Vec<u32> = (0..100).map(|_| client.wait().expect("a completion").tag).collect();
    tags.sort_unstable();
    assert!(tags.into_iter().eq(0..100), "each once");
    assert_eq!(call(&mut client, session).expect("the parent's lane works"), expected);
    println!("done");
}

/// Each of 50 children gets a lane, while the parent checks its own results.
fn many_children(socket: &str) {
    let mut load = Load::new(&options(socket), 32, 5).expect("a lane");
    let session = load.client().open_session(&signing().spec).expect("a session");
    load.fill().expect("room");
    let mut children = Vec::new();
    for _ in 0..50 {
        children.push(fork(|| {
            let first = call(load.client(), session).expect("the parent's session");
            assert!((0..20).all(|_| call(load.client(), session).expect("a tag") == first));
        }));
        load.step().expect("a completion");
    }
    children.into_iter().for_each(expect_success);
    load.drain().expect("completions");
    assert_eq!((load.counts.done, load.counts.submitted), (load.counts.answered(), load.counts.done));
    println!("done");
}

/// A child that never calls drops its client. The child has mapped other memory at the lane's place.
fn dropping_child(socket: &str) {
    let client = client(socket);
    let child = fork(|| {
        // As large as the lane, so the hole where the lane was is the likeliest place for it.
        let mut mine: Vec<Vec<u8>> = (0..4).map(|_| vec![1; 4 << 20]).collect();
        drop(client);
        for bytes in &mut mine {
            bytes.fill(2);
        }
    });
    expect_success(child);
    println!("done");
}

fn orphan(socket: &str) {
    let mut client = client(socket);
    let session = client.open_session(&signing().spec).expect("a session");
    let expected = call(&mut client, session).expect("a tag");
    let parent = std::process::id();
    fork(|| {
        println!("{parent}");
        wait_for_line();
        let outcome = match call(&mut client, session) {
            Ok(tag) if tag == expected => "the parent's session".to_owned(),
            Err(Error::Refused(Refusal::NoSession)) => "no session".to_owned(),
            other => format!("{other:?}"),
        };
        println!("{outcome}");
    });
    // The parent ends by a signal, in the middle of its requests.
    let buffer = client.alloc(100).expect("a buffer");
    loop {
        submit(&mut client, session, &buffer, 0).expect("room");
        client.ring();
        assert!(matches!(client.wait().expect("a completion").status, Status::Done { .. }));
    }
}

fn heir(socket: &str) {
    let _lane = client(socket);
    let key = Admin::connect(&options(socket)).expect("a service").make_key(Kind::Ed25519).expect("a key");
    let parent = std::process::id();
    fork(|| {
        println!("{parent}");
        wait_for_line();
        let mut client = client(socket);
        let session = client.open_session(&SessionSpec { scheme: Scheme::Ed25519, key: key.material() });
        client.call(session.expect("the parent's key"), Op::Sign, 0, b"message", 64).expect("a signature");
        println!("signed");
    });
    // Until it is killed.
    loop {
        std::thread::park();
    }
}
