//! Asynchronous jobs in a program that closes all descriptors between two of them, and in one that forks while one is
//! paused.

use crate::ffi::{close_all, in_child};
use crate::site::{PREFERRED, REQUIRED, Site};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::fstat;
use rustix::io::{Errno, read};
use sidecore::keys::Kind;
use sidecore_libcrypto::{Context, Failure, Job, Key, Operation, Ready, Step};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::process::Command;

/// Longer than a signature takes, and short enough to find a hang, ms.
const MAX_WAIT_MS: i32 = 60_000;
const CNF: &str = "SIDECORE_TEST_CNF";
const URI: &str = "SIDECORE_TEST_URI";

#[test]
fn jobs_go_on_after_a_program_closed_all_descriptors_and_harm_none_of_its_own() {
    play("jobs::jobs_go_on_after_a_program_closed_all_descriptors_and_harm_none_of_its_own", close_between);
}

#[test]
fn a_job_that_was_paused_at_a_fork_goes_on_in_the_child_and_in_its_parent() {
    play("jobs::a_job_that_was_paused_at_a_fork_goes_on_in_the_child_and_in_its_parent", fork_meanwhile);
}

fn play(name: &str, about: fn(Job<(Context, Key)>)) {
    if let (Ok(cnf), Ok(uri)) = (std::env::var(CNF), std::env::var(URI)) {
        let context = Context::load(cnf.as_ref(), "sidecore").unwrap();
        let key = Key::stored(&context, &uri, PREFERRED).unwrap();
        return about(Job::new((context, key), work).unwrap());
    }
    let site = Site::start();
    let (uri, _) = site.generate(Kind::Rsa4096);
    let mut again = Command::new(std::env::current_exe().unwrap());
    let said = again.args(["--exact", "--nocapture", name]).env(CNF, site.cnf()).env(URI, uri).output().unwrap();
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
}

fn fork_meanwhile(mut job: Job<(Context, Key)>) {
    while job.step().expect("the job begins") == Step::Finished {}
    assert!(in_child(|| {
        finish(&mut job);
        sign(&mut job) >= 0
    }));
    finish(&mut job);
    sign(&mut job);
}

fn close_between(mut job: Job<(Context, Key)>) {
    let before = sign(&mut job);
    close_all();
    let events: Vec<OwnedFd> =
        (0..40).map(|_| eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).unwrap()).collect();
    let inode = fstat(&events[0]).unwrap().st_ino;
    assert!(events.iter().any(|event| event.as_raw_fd() == before), "the number is the program's now");
    let after = sign(&mut job);
    assert!(events.iter().all(|event| event.as_raw_fd() != after));
    drop(job);
    for event in &events {
        assert_eq!(read(event, &mut [0; 8]), Err(Errno::AGAIN), "nobody rang");
        assert_eq!(fstat(event).unwrap().st_ino, inode, "nobody closed it");
    }
}

fn work((context, key): &mut (Context, Key)) -> Result<(), Failure> {
    Operation::on_messages(context, key, REQUIRED, Some("SHA256"), false)?.result(b"a message to sign").map(drop)
}

fn sign(job: &mut Job<(Context, Key)>) -> RawFd {
    while job.step().expect("the job signs") == Step::Finished {}
    let waited = job.descriptor().expect("one descriptor");
    finish(job);
    waited
}

fn finish(job: &mut Job<(Context, Key)>) {
    let mut ready = Ready::default();
    while job.is_paused() {
        ready.wait_for_any(std::slice::from_ref(job), MAX_WAIT_MS).unwrap();
        assert_eq!(ready.indices, [0], "the job is resumed");
        job.step().expect("the job signs");
    }
}
