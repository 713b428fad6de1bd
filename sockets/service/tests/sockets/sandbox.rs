//! An intruder in a service of sockets with the sandbox of `sidecore serve`. Each attempt is made without the sandbox
//! first, where it must succeed, so that a refusal proves something. The tests of the crate `sidecore` have those that
//! every service is denied.

use rustix::io::Errno;
use sidecore_core::policy::intake;
use sidecore_testing::intruder::{self, Outcome, expect};
use std::fs;
use std::path::Path;

const PEER: &str = env!("CARGO_BIN_EXE_sidecore-sockets-peer");

fn attempt_in(directory: &Path, what: &str, how: &str, victim: &str) -> Outcome {
    intruder::attempt(PEER, directory, [what, how, victim])
}

/// The attempt is possible outside the sandbox, and has the expected result inside.
fn inside(what: &str, victim: &str, expected: &Outcome) {
    let attempt = |how| attempt_in(tempfile::tempdir().unwrap().path(), what, how, victim);
    assert_eq!(attempt("outside"), Outcome::Done, "{what} without the sandbox");
    expect(what, "inside", &attempt("inside"), expected);
}

#[test]
fn no_file_is_read_or_written() {
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("file");
    fs::write(&file, "data").unwrap();
    let [file, new] = [file, scratch.path().join("new")].map(|path| path.to_str().unwrap().to_owned());
    for (what, victim) in
        [("read", "/etc/passwd"), ("read", "/proc/self/maps"), ("read", &file), ("write", &file), ("create", &new)]
    {
        inside(what, victim, &Outcome::Refused(Errno::PERM));
    }
}

#[test]
fn no_program_no_socket_and_no_other_process_is_reached() {
    inside("execute", "", &Outcome::Killed);
    for what in ["spawn", "udp", "tcp", "unix", "pair", "limit"] {
        inside(what, "", &Outcome::Refused(Errno::PERM));
    }
    inside("signal", &std::process::id().to_string(), &Outcome::Refused(Errno::PERM));
}

#[test]
fn the_socket_that_listens_keeps_few_programs_or_many() {
    for backlog in [intake::NARROW, intake::WIDE] {
        inside("listen", &backlog.to_string(), &Outcome::Done);
    }
    inside("listen", "77", &Outcome::Refused(Errno::PERM));
}

#[test]
fn what_serving_takes_is_still_possible() {
    let scratch = tempfile::tempdir().unwrap();
    expect("thread", "inside", &attempt_in(scratch.path(), "thread", "inside", ""), &Outcome::Done);
    // Next to its socket, where it has made its files: no further one.
    let own = scratch.path().join("own");
    let outcome = attempt_in(scratch.path(), "create", "inside", own.to_str().unwrap());
    expect("create", "inside", &outcome, &Outcome::Refused(Errno::PERM));
}
