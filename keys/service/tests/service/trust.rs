//! A client's trust in a service, and in its environment if it has more rights than its caller.
//!
//! Only root can act as other users; without root these tests are reported as skipped.

use crate::common::root_or_skipped;
use crate::peer::Peer;
use sidecore::client::{Client, ConnectError, Options};
use sidecore::config::{DEFAULT_SERVICE_USER, DEFAULT_SOCKET};
use sidecore_testing::copy_program;
use std::fs::{self, Permissions, set_permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// User ids without other processes.
const SOMEBODY: u32 = 64_031;
const OTHER: u32 = 64_032;

fn place() -> Option<TempDir> {
    if !root_or_skipped("play another user") {
        return None;
    }
    let directory = tempfile::tempdir().unwrap();
    set_permissions(directory.path(), Permissions::from_mode(0o777)).unwrap();
    Some(directory)
}

fn impostor(directory: &TempDir, user: u32) -> (Peer, PathBuf) {
    let socket = directory.path().join("socket");
    let mut peer = Peer::start(&["impostor", socket.to_str().unwrap(), &user.to_string()]);
    peer.expect("listening");
    (peer, socket)
}

fn copy(directory: &TempDir, name: &str, user: u32, group: u32, mode: u32) -> PathBuf {
    let copy = directory.path().join(name);
    copy_program(env!("CARGO_BIN_EXE_sidecore-peer"), &copy);
    chown(&copy, Some(user), Some(group)).unwrap();
    set_permissions(&copy, Permissions::from_mode(mode)).unwrap();
    copy
}

/// Output of a program that a user starts with a given environment: socket, users, and the result of connecting.
fn visit(program: &Path, user: u32, socket: &Path) -> [String; 3] {
    let mut command = Command::new(program);
    command.args(["visit", socket.to_str().unwrap()]).uid(user).gid(user).env_clear();
    let said = command.env("SIDECORE_SOCKET", "/of/the/environment").env("SIDECORE_SERVICE_USER", "64032");
    let said = String::from_utf8(said.output().unwrap().stdout).unwrap();
    let lines: Vec<String> = said.lines().map(str::to_owned).collect();
    lines.try_into().unwrap_or_else(|lines| panic!("three lines: {lines:?}"))
}

#[test]
fn who_listens_at_the_socket_without_being_trusted_gets_no_message() {
    let Some(directory) = place() else { return };
    let (mut impostor, socket) = impostor(&directory, SOMEBODY);
    let options = Options { socket, ..Options::default() };
    match Client::connect(&options) {
        Err(error @ ConnectError::ForeignService { user: SOMEBODY, .. }) => {
            let said = error.to_string();
            assert!(said.contains("user 64031") && said.contains("SIDECORE_SERVICE_USER"), "{said}");
        }
        other => panic!("{other:?}"),
    }
    impostor.expect("0 bytes");
    // A user named in the options gets a message; without an answer nothing more is sent.
    let named = Options { service_users: vec![SOMEBODY.to_string()], ..options };
    let error = Client::connect(&named).unwrap_err();
    assert!(!matches!(error, ConnectError::ForeignService { .. }), "{error}");
    assert_ne!(impostor.line(), "0 bytes");
}

#[test]
fn a_privileged_program_believes_nothing_of_its_environment() {
    let Some(directory) = place() else { return };
    let nowhere = directory.path().join("nowhere");
    let plain = copy(&directory, "plain", 0, 0, 0o755);
    let [socket, users, _] = visit(&plain, SOMEBODY, &nowhere);
    assert_eq!((&*socket, &*users), ("/of/the/environment", "64032"));
    for (name, mode) in [("set-uid", 0o4755), ("set-gid", 0o2755)] {
        let [socket, users, _] = visit(&copy(&directory, name, 0, 0, mode), SOMEBODY, &nowhere);
        assert_eq!((&*socket, &*users), (DEFAULT_SOCKET, DEFAULT_SERVICE_USER), "{name}");
    }
}

#[test]
fn a_privileged_program_does_not_trust_the_user_who_started_it() {
    let Some(directory) = place() else { return };
    let (mut impostor, socket) = impostor(&directory, SOMEBODY);
    // It trusts a service of its own user.
    let plain = copy(&directory, "plain", 0, 0, 0o755);
    let _ = visit(&plain, SOMEBODY, &socket);
    assert_ne!(impostor.line(), "0 bytes");
    // Nor does one that runs as another user, or with another group only.
    for (name, user, mode) in [("set-uid", OTHER, 0o4755), ("set-gid", 0, 0o2755)] {
        let [_, _, became] = visit(&copy(&directory, name, user, 0, mode), SOMEBODY, &socket);
        assert!(became.contains("neither root"), "{name}: {became}");
        impostor.expect("0 bytes");
    }
    drop(impostor);
    fs::remove_file(&socket).unwrap();
    // A program whose options name a user trusts a service of that user.
    let (mut own, socket) = self::impostor(&directory, OTHER);
    let _ = visit(&directory.path().join("set-uid"), SOMEBODY, &socket);
    assert_ne!(own.line(), "0 bytes");
}
