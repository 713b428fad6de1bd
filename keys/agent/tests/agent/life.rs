//! Start and end of the agent, and the service's absence.

use crate::raw::{FAILURE, ask, blob, list, message, sign, signature, string};
use crate::site::{Agent, Site, program};
use sidecore::keys::Kind;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

#[test]
fn a_signal_ends_it_and_its_socket() {
    let site = Site::with(&[("a", Kind::Ed25519)]);
    let mut agent = site.agent(&[]);
    let mode = fs::metadata(&agent.socket).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let idle = crate::raw::connect(&agent.socket);
    assert_eq!(list(&agent.socket).len(), 1);
    assert_eq!(agent.end().code(), Some(0));
    assert!(!agent.socket.exists());
    drop(idle);
}

#[test]
fn a_second_agent_leaves_the_first_one_alone_and_a_killed_one_is_replaced() {
    let site = Site::with(&[("a", Kind::Ed25519)]);
    let first = site.agent(&[]);
    let second = site.refused("agent", &[]);
    let said = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(second.status.code() == Some(2) && said.contains("an agent runs there"), "{said}");
    assert_eq!(list(&first.socket).len(), 1);
    // Dropping it kills it.
    drop(first);
    assert!(site.path("agent").exists());
    assert_eq!(list(&site.agent(&[]).socket).len(), 1);
}

#[test]
fn without_the_service_requests_fail_and_with_the_next_one_they_work() {
    let mut site = Site::new();
    site.stop_service();
    let agent = site.agent(&[]);
    assert_eq!(ask(&agent.socket, &[11]), FAILURE);
    assert!(agent.said().contains("start one with"), "{}", agent.said());
    site.start_service();
    site.make("a", Kind::Ed25519, sidecore::keys::Acl::default());
    let key = blob(&agent.socket, "a");
    signature(&sign(&agent.socket, &key, 0));
    site.stop_service();
    assert_eq!(sign(&agent.socket, &key, 0), FAILURE);
    assert_eq!(ask(&agent.socket, &[11]), FAILURE);
    // The key was stored nowhere.
    site.start_service();
    assert_eq!(list(&agent.socket), []);
    assert_eq!(sign(&agent.socket, &key, 0), FAILURE);
    site.make("a", Kind::Ed25519, sidecore::keys::Acl::default());
    let key = blob(&agent.socket, "a");
    signature(&sign(&agent.socket, &key, 0));
    let query = ask(&agent.socket, &message(27, &[&string("query")]));
    assert_eq!(query[0], 29);
}

#[test]
fn a_socket_of_a_service_manager_is_used_and_stays() {
    let site = Site::with(&[("a", Kind::Ed25519)]);
    let socket = site.path("manager");
    let mut command = Command::new("systemd-socket-activate");
    command.arg(format!("--listen={}", socket.display())).arg(program()).arg("agent");
    command.arg("--service").arg(site.path("service"));
    let mut agent = Agent::of(command, socket.clone());
    assert_eq!(list(&socket).len(), 1, "{}", agent.said());
    assert_eq!(agent.end().code(), Some(0));
    assert!(socket.exists(), "it is the manager's");
}

#[test]
fn wrong_arguments_are_errors_that_say_what_to_do() {
    let site = Site::new();
    let file = site.path("file");
    fs::write(&file, "text").unwrap();
    let none = site.path("none");
    for (arguments, says) in [
        (&["--allow-uid", "no-such-user-here"][..], "write its number or name"),
        (&["--keys", "../etc"], "letters, digits"),
        (&["--certificate", file.to_str().unwrap()], "ssh-keygen -s"),
        (&["--certificate", none.to_str().unwrap()], "ssh-keygen -s"),
    ] {
        let done = site.refused("agent", arguments);
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(done.status.code() == Some(2) && said.contains(says), "{arguments:?}: {said}");
    }
    for (socket, says) in [("file", "no socket: name another path"), ("no/agent", "name a path in a directory")] {
        let said = String::from_utf8_lossy(&site.refused(socket, &[]).stderr).into_owned();
        assert!(said.contains(says), "{said}");
    }
    let without = Command::new(program()).arg("agent").output().unwrap();
    let said = String::from_utf8_lossy(&without.stderr).into_owned();
    assert!(without.status.code() == Some(2) && said.contains("--socket"), "{said}");
    assert!(Path::new(&file).is_file());
}
