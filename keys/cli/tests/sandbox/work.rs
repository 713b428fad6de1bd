//! All work of a service, done inside the sandbox.

use crate::service::{ServiceFolder, USER};
use rustix::process::{Signal, geteuid};
use sidecore::client::{Admin, Client};
use sidecore::core::session::{Class, Op};
use sidecore::engine::crypto::sample::sample;
use sidecore::keys::{Acl, KeyCommand, Kind};
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::process::Output;

fn folder() -> ServiceFolder {
    let user = if geteuid().is_root() { format!("user = '{USER}'\n") } else { String::new() };
    let folder = ServiceFolder::new("record = 'RECORD'", &format!("{user}seccomp = true\nlandlock = true"));
    let record = folder.file("run/record/record");
    let config = fs::read_to_string(folder.config()).unwrap().replace("RECORD", record.to_str().unwrap());
    fs::write(folder.config(), config).unwrap();
    folder
}

fn every_operation(client: &mut Client) -> usize {
    let classes: Vec<Class> = Class::all().collect();
    for class in &classes {
        let sample = sample(*class, 1000, 7);
        let session = client.open_session(&sample.spec).unwrap();
        let output = client.call(session, sample.op, sample.head_len as u32, &sample.input, sample.output_len as u32);
        assert!(output.is_ok() || class.op() == Op::Noop, "{}: {output:?}", class.name());
        client.close_session(session).unwrap();
    }
    classes.len()
}

fn fine(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn it_serves_is_changed_grows_records_and_is_watched() {
    let folder = folder();
    let service = folder.start();
    let mut client = folder.connect();
    assert!(every_operation(&mut client) > 50);
    for setting in ["notify=park", "balance=sed", "order=fifo", "notify.client=coalesce(8,50us)"] {
        fine(&folder.run(&["set", setting]));
    }
    // Threads that start, are tied to a core and end, all after the filter.
    fine(&folder.run(&["set", "device={name=\"w\",kind=\"worker\",cpu=0}", "device.inline=drain"]));
    every_operation(&mut client);
    fine(&folder.run(&["set", "device={name=\"e\",kind=\"emulated\",fixed_ns=1000}", "device.w=kill"]));
    every_operation(&mut client);
    fine(&folder.run(&["set", "record=off"]));
    let threads = service.status_of_threads("Seccomp");
    assert!(threads.iter().all(|mode| mode == "2"), "{threads:?}");
    let text = fine(&folder.run(&["top", "--once"]));
    assert!(text.contains("park") && text.contains("test"), "{text}");
    // The laboratory's `replay.rs` decides such a record again.
    assert!(fs::metadata(folder.file("run/record/record")).unwrap().len() > 1_000, "every decision is recorded");
    let owner = fs::metadata(folder.socket()).unwrap().uid();
    assert_eq!(owner.to_string(), service.status("Uid").split_whitespace().next().unwrap());
}

#[test]
fn a_signal_ends_it_and_nothing_is_left_behind() {
    for signal in [Signal::TERM, Signal::INT] {
        let folder = folder();
        let service = folder.start();
        let mut client = folder.connect();
        every_operation(&mut client);
        assert!(service.end(signal).success());
        let left = fs::read_dir(folder.socket().parent().unwrap()).unwrap().count();
        assert_eq!(left, 0, "socket and counter file are gone");
        assert!(folder.file("run/record/record").exists(), "the record is written at the end");
    }
}

#[test]
fn the_next_one_takes_over_the_socket_of_one_that_was_killed() {
    let folder = folder();
    folder.start().end(Signal::KILL);
    assert!(folder.socket().exists());
    let service = folder.start();
    every_operation(&mut folder.connect());
    assert!(service.end(Signal::TERM).success());
}

/// The test's user may use the keys if it is root or the service's own.
fn generate(service: &mut Admin, kind: Kind) -> String {
    let name = format!("{kind:?}");
    service.keys(KeyCommand::Generate { name: name.clone(), kind, acl: Acl::default() }).unwrap();
    name
}

fn stored_names(service: &mut Admin) -> usize {
    service.keys(KeyCommand::List { after: String::new() }).unwrap().len()
}

#[test]
fn keys_are_made_kept_and_found_again_and_the_passphrase_is_read_before_root_is_given_up() {
    let folder = folder();
    let passphrase = folder.file("passphrase");
    fs::write(&passphrase, "correct horse").unwrap();
    // The service's user has no right to read it.
    fs::set_permissions(&passphrase, Permissions::from_mode(0o600)).unwrap();
    let directory = folder.file("run/keys");
    let keys = format!("\n[keys]\ndirectory = '{}'\npassphrase_file = '{}'", directory.display(), passphrase.display());
    fs::write(folder.config(), fs::read_to_string(folder.config()).unwrap() + &keys).unwrap();
    let service = folder.start();
    let mut admin = folder.administer();
    // The longest RSA keys take minutes.
    let kinds = Kind::ALL.into_iter().filter(|kind| !matches!(kind, Kind::Rsa6144 | Kind::Rsa8192));
    let made: Vec<_> = kinds.map(|kind| generate(&mut admin, kind)).collect();
    admin.keys(KeyCommand::Delete { name: made[0].clone() }).unwrap();
    let metadata = fs::metadata(&directory).unwrap();
    assert_eq!((metadata.mode() & 0o777, metadata.uid()), (0o700, fs::metadata(folder.socket()).unwrap().uid()));
    assert!(service.end(Signal::TERM).success());
    let _service = folder.start();
    assert_eq!(stored_names(&mut folder.administer()), made.len() - 1);
}
