//! The log of `sidecore serve`, as an administrator finds it on standard error of a real process.

mod attack;
mod audit;
mod secrets;
mod serving;

use rustix::fs::fstat;
use serving::{Home, field, number};
use sidecore::events;
use sidecore_daemon::events::{EVENTS, Level};
use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::Stdio;

#[test]
fn start_and_end_are_told_with_what_is_in_force() {
    let home = Home::new("balance = 'sed'\n[limits]\nkeys = 7\n");
    let log = home.serve(&["--log", "json"]).end();
    let events: Vec<String> = log.iter().map(|line| field(line, "event")).collect();
    // Warnings about this machine precede the other events.
    let expected = ["start", "policies", "ready", "stop"];
    assert_eq!(events.into_iter().filter(|event| event != "warning").collect::<Vec<_>>(), expected);
    let start = &log[0];
    assert_eq!(field(start, "version"), env!("CARGO_PKG_VERSION"));
    assert_eq!((field(start, "balance"), field(start, "devices")), ("sed".to_owned(), "inline (inline)".to_owned()));
    assert_eq!(field(start, "socket"), home.socket().display().to_string());
    assert!(
        field(start, "limits").contains("keys: 7,") && field(start, "sandbox").contains("seccomp: None"),
        "{start}"
    );
    let message =
        |event: &str| log.iter().find(|line| field(line, "event") == event).map(|line| field(line, "message"));
    assert!(message("policies").unwrap().starts_with("notify: service break-even"));
    assert_eq!(message("ready").unwrap(), format!("serving at {}", home.socket().display()));
    assert_eq!(field(log.last().unwrap(), "reason"), "SIGTERM");
    assert!(log.iter().all(|line| field(line, "time").ends_with('Z')));
}

#[test]
fn what_matters_less_than_the_level_is_left_out() {
    let home = Home::new("");
    let quiet = home.serve(&["--log-level", "error"]);
    quiet.refuse(3);
    assert_eq!(quiet.end(), Vec::<String>::new());
    let notices = home.serve(&["--log", "json", "--log-level", "notice"]);
    notices.refuse(3);
    drop(notices.client());
    assert!(notices.end().iter().all(|line| ["notice", "warning"].contains(&field(line, "level").as_str())));
}

#[test]
fn clients_that_come_and_go_are_told_to_who_wants_to_know() {
    let home = Home::new("");
    let service = home.serve(&["--log", "json", "--log-level", "debug"]);
    drop(service.client());
    let came = service.wait_for("client-attached");
    let left = service.wait_for("client-left");
    assert_eq!((field(&came, "level"), field(&came, "name")), ("debug".to_owned(), "test".to_owned()));
    let pid = u64::from(std::process::id());
    assert_eq!((number(&came, "pid"), number(&left, "pid")), (pid, pid));
}

#[test]
fn the_journal_is_told_levels_and_no_time_and_others_are_told_the_time() {
    let home = Home::new("");
    for (journal, json) in [(true, false), (true, true), (false, false)] {
        let (mut reader, writer) = std::io::pipe().unwrap();
        let file = fstat(&writer).unwrap();
        let stream = format!("{}:{}", file.st_dev, file.st_ino + u64::from(!journal));
        let mut serve = home.command(if json { &["--log", "json"] } else { &[] });
        let mut child = serve.env("JOURNAL_STREAM", stream).stderr(Stdio::from(writer)).spawn().unwrap();
        // Dropping the process closes its end of the pipe.
        drop(serve);
        home.await_answers();
        serving::terminate(&mut child);
        let mut log = String::new();
        reader.read_to_string(&mut log).unwrap();
        let [start, stop] = ["start", "stop"].map(|event| {
            let is_it = |line: &&str| line.contains(&format!("{event}: ")) || line.contains(&format!(":\"{event}\""));
            log.lines().find(is_it).unwrap_or_else(|| panic!("no {event}: {log}"))
        });
        assert!(log.lines().all(|line| line.starts_with('<') == journal), "{log}");
        match (journal, json) {
            (true, false) => {
                assert!(start.starts_with("<5>start: the service starts version=") && stop.starts_with("<5>stop: "));
            }
            (true, true) => assert!(start.starts_with("<5>{\"time\":\"")),
            (false, _) => assert!(start.contains("Z notice: start: the service starts version="), "{log}"),
        }
    }
}

#[test]
fn a_device_that_does_not_answer_and_one_that_is_removed_are_told() {
    let home = Home::new(
        "[limits]\ndevice_timeout_ms = 50\n[[device]]\nname = 'glacial'\nkind = 'emulated'\nfixed_ns = 1000000000\n\
         [[device]]\nname = 'helps'\nkind = 'inline'\n[[device]]\nname = 'spare'\nkind = 'worker'\n",
    );
    let service = home.serve(&["--log", "json"]);
    assert!(service.run(&["set", "device.helps=drain", "device.spare=remove"]).status.success());
    let removed = service.wait_for("device-removed");
    assert_eq!((field(&removed, "device"), number(&removed, "sidecore")), ("spare".to_owned(), 0));
    let mut client = service.client();
    serving::submit_noop(&mut client);
    let died = service.wait_for("device-died");
    assert_eq!((field(&died, "level"), field(&died, "device")), ("error".to_owned(), "glacial".to_owned()));
    assert!(field(&died, "why").contains("in time"), "{died}");
    service.end();
}

#[test]
fn the_page_of_the_log_has_each_event_with_its_level_and_no_other() {
    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/watching.md")).unwrap();
    let (_, log) = page.split_once("\n## The log\n").unwrap();
    let rows = log.lines().filter_map(|line| line.strip_prefix("|`")?.split_once("`|"));
    let level_of = |rest: &str| Level::ALL.into_iter().find(|level| rest.starts_with(&format!("{}|", level.name())));
    let mut told: Vec<(Level, &str)> = rows.filter_map(|(name, rest)| Some((level_of(rest)?, name))).collect();
    // The log's writer adds an event of its own. A service of sockets has one besides, `start`, as that of keys.
    let own = events::EVENTS.into_iter().chain([(Level::Warning, "lines-lost")]);
    let mut all: Vec<(Level, &str)> = EVENTS.into_iter().chain(own).collect();
    told.sort_unstable();
    all.sort_unstable();
    assert_eq!(told, all);
}
