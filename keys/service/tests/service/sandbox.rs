//! An intruder in a service: a process with the sandbox of `sidecore serve` makes an intruder's attempts. Each
//! attempt is made without the sandbox first, where it must succeed, so that a refusal proves something.

use rustix::io::Errno;
use sidecore::core::policy::intake;
use sidecore_testing::intruder::{self, Outcome, expect, not_tried};
use std::fs;
use std::process::{Child, Command};

const PEER: &str = env!("CARGO_BIN_EXE_sidecore-peer");

fn attempt(what: &str, how: &str, victim: &str) -> Outcome {
    let scratch = tempfile::tempdir().unwrap();
    intruder::attempt(PEER, scratch.path(), [what, how, victim])
}

/// The attempt is possible outside the sandbox, and has the expected result inside that of the service of keys, and of a
/// service without a duty.
fn inside(what: &str, victim: &str, expected: &Outcome) {
    assert_eq!(attempt(what, "outside", victim), Outcome::Done, "{what} without the sandbox");
    comes_to(what, "inside", victim, expected);
    comes_to(what, "idle", victim, expected);
}

fn comes_to(what: &str, how: &str, victim: &str, expected: &Outcome) {
    expect(what, how, &attempt(what, how, victim), expected);
}

fn denied(what: &str, file: &str) {
    assert_eq!(attempt(what, "outside", file), Outcome::Done, "{what} without the sandbox");
    comes_to(what, "inside", file, &Outcome::Refused(Errno::ACCESS));
    comes_to(what, "idle", file, &Outcome::Refused(Errno::PERM));
}

struct Victim(Child);

impl Victim {
    fn start() -> Self {
        Self(Command::new("sleep").arg("60").spawn().unwrap())
    }

    fn pid(&self) -> String {
        self.0.id().to_string()
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn no_program_and_no_process_is_started() {
    inside("execute", "", &Outcome::Killed);
    inside("spawn", "", &Outcome::Refused(Errno::PERM));
    inside("fork", "", &Outcome::Refused(Errno::PERM));
}

#[test]
fn no_socket_of_any_kind_is_made() {
    for kind in ["udp", "tcp", "unix", "pair"] {
        inside(kind, "", &Outcome::Refused(Errno::PERM));
    }
}

#[test]
fn the_socket_that_listens_keeps_few_clients_or_many() {
    let [narrow, wide] = [intake::NARROW, intake::WIDE].map(|backlog| backlog.to_string());
    inside("listen", &narrow, &Outcome::Done);
    inside("listen", &wide, &Outcome::Done);
    inside("listen", "77", &Outcome::Refused(Errno::PERM));
}

#[test]
fn no_other_process_is_traced_read_or_signalled() {
    for (what, expected) in
        [("trace", Outcome::Killed), ("memory", Outcome::Killed), ("signal", Outcome::Refused(Errno::PERM))]
    {
        // One each: a traced process that was left behind stands still.
        inside(what, &Victim::start().pid(), &expected);
    }
}

#[test]
fn no_file_outside_is_read_or_written() {
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("file");
    fs::write(&file, "data").unwrap();
    let file = file.to_str().unwrap();
    denied("read", "/etc/passwd");
    denied("read", "/proc/self/maps");
    denied("read", file);
    denied("write", file);
    denied("create", scratch.path().join("new").to_str().unwrap());
    if rustix::process::geteuid().is_root() {
        denied("read", "/etc/shadow");
    } else {
        not_tried("read /etc/shadow", "only root can read it without the sandbox either");
    }
}

#[test]
fn no_memory_becomes_code_and_the_kernels_wide_doors_are_shut() {
    inside("executable", "", &Outcome::Refused(Errno::PERM));
    inside("unshare", "", &Outcome::Killed);
    inside("limit", "", &Outcome::Refused(Errno::PERM));
    // Many systems have switched it off for all.
    match attempt("io_uring", "outside", "") {
        Outcome::Done => inside("io_uring", "", &Outcome::Killed),
        outcome => not_tried("io_uring_setup", &format!("{outcome:?} without the sandbox as well")),
    }
}

#[test]
fn what_serving_takes_is_still_possible() {
    let scratch = tempfile::tempdir().unwrap();
    let own = scratch.path().join("own");
    let own = own.to_str().unwrap();
    for (what, how, victim, expected) in [
        ("thread", "inside", "", Outcome::Done),
        ("create", "inside", own, Outcome::Done),
        ("thread", "idle", "", Outcome::Done),
        // Next to its socket, where it has made its files: no further one.
        ("create", "idle", own, Outcome::Refused(Errno::PERM)),
    ] {
        expect(what, how, &intruder::attempt(PEER, scratch.path(), [what, how, victim]), &expected);
    }
}
