//! The service of sockets in its sandbox.

use crate::root_or_skipped;
use crate::service::{Running, ServiceFolder, USER, USER_ID, sidecore};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use rustix::process::{Signal, geteuid};
use serde_json::Value;
use sidecore::config::Config;
use std::fs;
use std::process::Output;
use std::thread;
use std::time::Duration;

fn folder() -> ServiceFolder {
    let user = if geteuid().is_root() { format!("user = '{USER}'\n") } else { String::new() };
    ServiceFolder::new("socket_mode = '0666'\n[sockets]", &format!("{user}seccomp = true\nlandlock = true"))
}

fn start() -> (ServiceFolder, Running) {
    let folder = folder();
    let running = folder.start();
    (folder, running)
}

/// Filter mode in each thread's status, once there are `threads` threads.
fn filters(service: &Running, threads: usize) -> Vec<String> {
    for _ in 0..3000 {
        let filters = service.status_of_threads("Seccomp");
        if filters.len() >= threads {
            return filters;
        }
        thread::sleep(Duration::from_millis(10));
    }
    panic!("it has fewer than {threads} threads");
}

fn list(folder: &ServiceFolder, option: &str) -> Output {
    let mut command = sidecore();
    command.arg("sockets").args(Some(option).filter(|option| !option.is_empty()));
    command.env("SIDECORE_SOCKETS", folder.socket()).env("SIDECORE_SERVICE_USER", USER).output().unwrap()
}

#[test]
fn each_thread_is_filtered_and_its_list_is_given() {
    let (folder, service) = start();
    let said = list(&folder, "");
    assert!(said.status.success(), "{said:?}");
    assert!(String::from_utf8(said.stdout).unwrap().starts_with("no sockets"));
    assert_eq!(list(&folder, "--json").stdout, b"");
    // A connected user has a thread, which starts behind the filter.
    let program = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
    connect(&program, &SocketAddrUnix::new(folder.socket()).unwrap()).unwrap();
    let seccomp = filters(&service, 3);
    assert!(seccomp.iter().all(|mode| mode == "2"), "{seccomp:?}");
    assert!(service.status_of_threads("CapPrm").iter().all(|held| held == "0000000000000000"));
    assert!(!service.said().contains("warning"), "memory that nobody demands is not locked: {}", service.said());
    assert!(service.said().contains("notify: service break-even (parks: tied to no core)\n"), "{}", service.said());
}

#[test]
fn root_is_given_up() {
    if !root_or_skipped("becoming another user, sandbox.user") {
        return;
    }
    let (_place, service) = start();
    let found = service.status_of_threads("Uid");
    assert!(found.iter().all(|ids| ids.split_whitespace().all(|id| id == USER_ID.to_string())), "{found:?}");
}

#[test]
fn a_signal_ends_it_and_nothing_is_left_behind() {
    let (folder, service) = start();
    assert!(list(&folder, "").status.success());
    assert!(service.end(Signal::TERM).success());
    assert_eq!(fs::read_dir(folder.socket().parent().unwrap()).unwrap().count(), 0);
    let said = list(&folder, "");
    assert_eq!((said.status.code(), said.stdout.as_slice()), (Some(2), &b""[..]));
    let told = String::from_utf8(said.stderr).unwrap();
    assert!(told.contains(&folder.socket().display().to_string()) && told.contains("[sockets]"), "{told}");
}

#[test]
fn the_next_one_takes_the_socket_of_one_that_was_killed() {
    let folder = folder();
    folder.start().end(Signal::KILL);
    let _service = folder.start();
    assert!(list(&folder, "").status.success());
}

#[test]
fn it_has_no_keys_and_takes_no_passphrase() {
    let mut command = sidecore();
    let folder = folder();
    command.args(["serve", "--passphrase-file", "/dev/null", "--config"]).arg(folder.config());
    let said = command.output().unwrap();
    assert_eq!(said.status.code(), Some(2));
    assert!(String::from_utf8(said.stderr).unwrap().contains("has no keys"));
    let both = ServiceFolder::new("[sockets]\n[keys]\ndirectory = '/nowhere'", "").refusal(sidecore());
    assert!(both.contains("two files"), "{both}");
}

#[test]
fn check_asks_it_for_what_it_is() {
    let folder = folder();
    let state = || {
        let output = sidecore()
            .args(["check", "--json", "--config"])
            .arg(folder.config())
            .env("SIDECORE_SERVICE_USER", USER)
            .output();
        let text = String::from_utf8(output.unwrap().stdout).unwrap();
        let findings = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let service = findings.into_iter().find(|finding| finding["subject"] == "service").unwrap();
        (service["state"].as_str().unwrap().to_owned(), service["found"].as_str().unwrap().to_owned())
    };
    let (before, why) = state();
    assert!(before == "lacks" && why.starts_with("no service of sockets at"), "{why}");
    let _service = folder.start();
    assert_eq!(state().0, "ok");
}

#[test]
fn the_installed_configurations_are_of_one_service_each() {
    let (of_keys, of_sockets) =
        (include_str!("../../../../packaging/sidecore.toml"), include_str!("../../../../packaging/sockets.toml"));
    let (keys, sockets) =
        (Config::parse(of_keys).unwrap(), sidecore_sockets_service::Config::parse(of_sockets).unwrap());
    assert!(sidecore_sockets_service::Config::parse(of_keys).is_err() && Config::parse(of_sockets).is_err());
    assert_ne!(keys.socket.parent(), sockets.socket.parent(), "what lies beside a socket its service may replace");
}
