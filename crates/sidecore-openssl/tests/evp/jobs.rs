//! A program with asynchronous jobs that closes all descriptors between two of them.

use crate::ffi::{Context, Key, Message, WaitContext, becomes_readable, close_all};
use crate::site::{PREFERRED, REQUIRED, Site};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::fstat;
use rustix::io::{Errno, read};
use sidecore::keys::Kind;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::process::Command;

/// Says to this program, started again, what the configuration and the key are.
const CNF: &str = "SIDECORE_TEST_CNF";
const URI: &str = "SIDECORE_TEST_URI";

#[test]
fn jobs_go_on_after_a_program_closed_all_descriptors_and_harm_none_of_its_own() {
    if let (Ok(cnf), Ok(uri)) = (std::env::var(CNF), std::env::var(URI)) {
        return play(&cnf, &uri);
    }
    let site = Site::start();
    let (uri, _) = site.generate(Kind::Rsa4096);
    let name = "jobs::jobs_go_on_after_a_program_closed_all_descriptors_and_harm_none_of_its_own";
    let mut again = Command::new(std::env::current_exe().unwrap());
    let said = again.args(["--exact", "--nocapture", name]).env(CNF, site.cnf()).env(URI, uri).output().unwrap();
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
}

fn play(cnf: &str, uri: &str) {
    let context = Context::load(cnf.as_ref()).unwrap();
    let key = Key::stored(&context, uri, PREFERRED).unwrap();
    let waits = WaitContext::new();
    let before = sign(&context, &key, &waits);
    close_all();
    let events: Vec<OwnedFd> =
        (0..40).map(|_| eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).unwrap()).collect();
    let inode = fstat(&events[0]).unwrap().st_ino;
    assert!(events.iter().any(|event| event.as_raw_fd() == before), "the number is the program's now");
    let after = sign(&context, &key, &waits);
    assert!(events.iter().all(|event| event.as_raw_fd() != after));
    drop((waits, key, context));
    for event in &events {
        assert_eq!(read(event, &mut [0; 8]), Err(Errno::AGAIN), "nobody rang");
        assert_eq!(fstat(event).unwrap().st_ino, inode, "nobody closed it");
    }
}

/// Signs in jobs until one paused; what it waited on.
fn sign(context: &Context, key: &Key, waits: &WaitContext) -> RawFd {
    let mut waited = None;
    while waited.is_none() {
        let mut work = || {
            let message = Message::new(context, key, REQUIRED, Some("SHA256"), false);
            message.and_then(|message| message.sign(b"a message to sign")).is_ok()
        };
        let paused = |descriptors: &[RawFd]| {
            let [descriptor] = *descriptors else { panic!("one descriptor: {descriptors:?}") };
            waited = Some(descriptor);
            assert!(becomes_readable(descriptor), "the job is resumed");
        };
        assert!(waits.run(&mut work, paused).unwrap(), "the job signs");
    }
    waited.unwrap()
}
