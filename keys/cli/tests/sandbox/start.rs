//! The start of the service: refusals, warnings, and notification of the service manager.

use crate::root_or_skipped;
use crate::service::{ServiceFolder, USER, sidecore};
use std::os::unix::net::UnixDatagram;
use std::process::Command;

/// `sidecore` with 64 KiB of lockable memory, and without root's right to raise that limit.
fn with_little_to_lock() -> Command {
    let mut command = Command::new("prlimit");
    command.arg("--memlock=65536:65536");
    if rustix::process::geteuid().is_root() {
        command.args(["setpriv", "--bounding-set=-all", "--inh-caps=-all"]);
    }
    command.arg(sidecore().get_program());
    command
}

#[test]
fn memory_that_cannot_be_locked_is_a_warning_or_a_refusal_where_it_was_demanded() {
    let folder = ServiceFolder::new("", "");
    let service = folder.start_by(with_little_to_lock());
    let said = service.said();
    assert!(said.contains("warning: memory is not locked: only 64 KiB") && said.contains("LimitMEMLOCK"), "{said}");
    let refused = ServiceFolder::new("", "lock_memory = true").refusal(with_little_to_lock());
    assert!(refused.contains("memory is not locked") && !refused.contains("warning"), "{refused}");
    let folder = ServiceFolder::new("", "lock_memory = false");
    let quiet = folder.start_by(with_little_to_lock());
    assert!(!quiet.said().contains("warning"), "{}", quiet.said());
}

#[test]
fn a_user_that_is_not_there_is_named() {
    let said = ServiceFolder::new("", "user = 'no-such-user'").refusal(sidecore());
    assert!(said.contains("\"no-such-user\" (sandbox.user)") && said.contains("useradd"), "{said}");
}

#[test]
fn a_directory_that_the_user_cannot_write_is_named() {
    if !root_or_skipped("a directory of another user") {
        return;
    }
    let folder = ServiceFolder::new("", &format!("user = '{USER}'"));
    std::fs::create_dir_all(folder.socket().parent().unwrap()).unwrap();
    let said = folder.refusal(sidecore());
    assert!(said.contains(&folder.socket().display().to_string()) && said.contains("may write"), "{said}");
}

#[test]
fn whoever_started_it_is_told_when_it_serves() {
    let folder = ServiceFolder::new("", "seccomp = true");
    let path = folder.file("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    let mut command = sidecore();
    command.env("NOTIFY_SOCKET", &path);
    let _service = folder.start_by(command);
    // The manager first receives the socket.
    for expected in ["FDSTOREREMOVE=1\nFDNAME=socket\n", "FDSTORE=1\nFDNAME=socket\n", "READY=1\n"] {
        let mut message = [0; 64];
        let len = socket.recv(&mut message).unwrap();
        assert_eq!(std::str::from_utf8(&message[..len]).unwrap(), expected);
    }
}
