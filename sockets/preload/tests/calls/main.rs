//! A program that makes each intercepted call must get the same results without the library, with it and no service,
//! and with both. It must lose no byte while it forks, sends queries, and is served by one service after the other.

mod apart;
mod loading;
mod ring;
mod stalls;

mod program;

use program::{command, compiled, started};
use sidecore_sockets::ask;
use sidecore_sockets::protocol::Row;
use sidecore_testing::skipped;
use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;
use tempfile::TempDir;

const MAX_RUNS: u32 = 10;
const SECONDS: &str = "5";

fn found(program: &Path, service: Option<&Path>) -> String {
    let output = command(program, &[SECONDS], service).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{}: {said}{}", output.status, String::from_utf8_lossy(&output.stderr));
    said
}

fn found_through_rings(program: &Path, directory: &Path) -> String {
    let socket = directory.join("socket");
    let _service = started(&socket);
    // Rows are sampled: a ring may exist only between two samples.
    for _ in 0..MAX_RUNS {
        let mut is_seen = false;
        let found = found_beside(program, &socket, |rows| is_seen |= !rows.is_empty());
        if is_seen {
            return found;
        }
    }
    panic!("nothing went through a ring in {MAX_RUNS} runs")
}

fn found_beside(program: &Path, socket: &Path, mut look: impl FnMut(&[Row])) -> String {
    thread::scope(|scope| {
        let found = scope.spawn(|| found(program, Some(socket)));
        while !found.is_finished() {
            let mut rows = ask::rows(socket).unwrap();
            rows.retain(|row| row.messages > 0 && row.gone_ns.is_none());
            look(&rows);
            thread::sleep(Duration::from_millis(2));
        }
        found.join().unwrap()
    })
}

fn same(expected: &str, found: &str) {
    let differs = |(line, (a, b)): (usize, (&str, &str))| (a != b).then(|| format!("{line}: {a}, but {b}"));
    let lines = expected.lines().zip(found.lines()).enumerate();
    let differences: Vec<String> = lines.filter_map(differs).collect();
    assert!(differences.is_empty() && expected.len() == found.len(), "{}", differences.join("\n"));
}

#[test]
fn every_call_does_the_same_with_the_library() {
    is_the_same_with_the_library(&["calls.c", "more.c", "last.c"], "one more: heard all");
}

#[test]
fn less_known_ways_overtake_nothing() {
    is_the_same_with_the_library(&["ways.c"], "processes: heard all");
}

#[test]
fn every_datagram_is_sent_as_without_the_library() {
    is_the_same_with_the_library(&["datagrams.c"], "heard of all sizes: 20000");
}

fn is_the_same_with_the_library(files: &[&str], expected: &str) {
    let directory = TempDir::new().unwrap();
    let program = compiled(directory.path(), files);
    let plain = found(&program, None);
    assert!(plain.contains(expected), "{plain}");
    same(&plain, &found(&program, Some(Path::new("/nowhere"))));
    same(&plain, &found_through_rings(&program, directory.path()));
}

#[test]
fn a_handler_may_come_at_any_moment_and_make_and_close_connections() {
    let directory = TempDir::new().unwrap();
    let program = compiled(directory.path(), &["alarms.c"]);
    assert_eq!(found_through_rings(&program, directory.path()), "whole connections: 12000\nand in handlers: 1\n");
}

#[test]
fn a_process_enters_namespaces_as_one_without_another_thread() {
    let directory = TempDir::new().unwrap();
    let program = compiled(directory.path(), &["namespaces.c"]);
    let plain = found(&program, None);
    if plain.starts_with("no user namespaces here") {
        return skipped("the kernel forbids user namespaces, also without the library");
    }
    assert_eq!(plain.matches("threads before: 1").count(), 6, "{plain}");
    let socket = directory.path().join("socket");
    let _service = started(&socket);
    same(&plain.replace("threads before: 1", "threads before: 2"), &found(&program, Some(&socket)));
}

#[test]
fn no_byte_is_lost_while_services_come_and_go() {
    assert_eq!(found_while_services_come_and_go("flow.c"), "heard all: 1\n".repeat(6));
}

#[test]
fn no_datagram_is_lost_while_services_come_and_go() {
    if !rustix::process::geteuid().is_root() {
        return skipped("receive buffers that are large enough take root's rights");
    }
    assert_eq!(found_while_services_come_and_go("datagram_flow.c"), "heard all: 1\n".repeat(4));
}

#[test]
fn a_program_goes_on_when_its_service_has_gone_for_good() {
    let directory = TempDir::new().unwrap();
    let (program, socket) = (compiled(directory.path(), &["gone.c"]), directory.path().join("socket"));
    let service = started(&socket);
    let found = thread::scope(|scope| {
        let found = scope.spawn(|| found(&program, Some(&socket)));
        while !found.is_finished() && ask::rows(&socket).unwrap().iter().all(|row| row.messages == 0) {
            thread::sleep(Duration::from_millis(1));
        }
        drop(service);
        found.join().unwrap()
    });
    assert_eq!(found, "whole connections: 1\n");
}

#[test]
fn of_several_messages_none_comes_before_the_rest_of_the_one_before() {
    let directory = TempDir::new().unwrap();
    let program = compiled(directory.path(), &["pieces.c"]);
    let expected = "all came in order: 1\n";
    assert_eq!(found(&program, None), expected);
    assert_eq!(found_through_rings(&program, directory.path()), expected);
}

#[test]
fn a_program_that_closed_the_bell_goes_on_without_the_service_at_once() {
    let directory = TempDir::new().unwrap();
    let program = compiled(directory.path(), &["bell.c"]);
    let expected = "after the bell: heard all, then -7\nthe end: 0\n".repeat(5);
    assert_eq!(found(&program, None), expected);
    assert_eq!(found_through_rings(&program, directory.path()), expected);
}

#[test]
fn what_takes_the_numbers_of_the_pipes_around_a_fork_is_not_touched() {
    is_the_same_with_the_library(&["taken.c"], "untouched: 0\nall: heard all");
}

#[test]
fn a_program_that_clears_its_environment_is_in_a_ring_as_any_other() {
    let directory = TempDir::new().unwrap();
    let program = compiled(directory.path(), &["cleared.c"]);
    assert_eq!(found_through_rings(&program, directory.path()), "without an environment: heard all, then -7\n");
}

#[test]
fn a_number_that_is_not_one_socket_for_everybody_is_the_kernels() {
    is_the_same_with_the_library(&["numbers.c"], "under a filter: 0");
}

#[test]
fn a_message_does_not_go_on_on_the_next_connection() {
    is_the_same_with_the_library(&["closed.c"], "bytes of another connection: 0");
}

#[test]
fn a_handler_that_interrupts_the_allocator_may_send() {
    is_the_same_with_the_library(&["within.c"], "after the handlers: heard all");
}

#[test]
fn a_child_sends_behind_what_its_parents_ring_still_has() {
    is_the_same_with_the_library(&["child.c"], "a child behind its parent: heard all");
}

#[test]
fn a_plugin_that_calls_the_c_library_itself_overtakes_nothing() {
    let directory = TempDir::new().unwrap();
    let plugin = directory.path().join("plugin.so");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/calls/plugin.c");
    assert!(Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&plugin).arg(source).status().unwrap().success());
    let program = compiled(directory.path(), &["plugins.c"]);
    let found = |service: Option<&Path>| {
        let output = command(&program, &[], service).env("PLUGIN", &plugin).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let socket = directory.path().join("socket");
    let _service = started(&socket);
    let (plain, served) = (found(None), found(Some(&socket)));
    assert_eq!(plain.matches("heard all, then -7").count(), 4, "{plain}");
    same(&plain, &served);
}

#[test]
fn a_program_that_sends_by_calls_of_its_own_as_well_stays_on_the_kernel() {
    is_the_same_with_the_library(&["unseen.c"], "in two ways back: heard all");
}

#[test]
fn options_that_change_nothing_for_a_ring_keep_nobody_out() {
    let directory = TempDir::new().unwrap();
    let program = compiled(directory.path(), &["options.c"]);
    assert_eq!(found_through_rings(&program, directory.path()), "with options: heard all, then -7\n");
}

#[test]
fn a_daemon_that_drops_its_rights_is_served_as_whom_it_is() {
    if !rustix::process::geteuid().is_root() {
        return skipped("to become another user takes root's rights");
    }
    let directory = TempDir::new().unwrap();
    let (program, socket) = (compiled(directory.path(), &["users.c"]), directory.path().join("socket"));
    let _service = started(&socket);
    for (path, mode) in [(directory.path(), 0o755), (&socket, 0o666)] {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }
    let mut users = Vec::new();
    let found = found_beside(&program, &socket, |rows| users.extend(rows.iter().map(|row| row.uid)));
    assert_eq!(found, "as another user: heard all, then -7\n");
    users.dedup();
    assert_eq!(users, [0, 54_321], "each is served as itself, one after the other");
}

#[test]
fn more_connections_than_a_bank_has_places_come_into_rings() {
    let directory = TempDir::new().unwrap();
    let (program, socket) = (compiled(directory.path(), &["many.c"]), directory.path().join("socket"));
    let _service = started(&socket);
    let mut most = 0;
    let found = found_beside(&program, &socket, |rows| most = rows.len().max(most));
    assert_eq!((found.as_str(), most), ("whole connections: 150\n", 150));
}

#[test]
fn threads_that_send_on_one_connection_do_not_disturb_each_other() {
    let found = found_while_services_come_and_go("senders.c");
    assert_eq!(found, "heard all: 1\n".repeat(4));
}

/// The peer reads nothing until the service is about to end.
#[test]
fn a_service_that_ends_sends_what_programs_left_to_it() {
    let directory = TempDir::new().unwrap();
    let (program, socket) = (compiled(directory.path(), &["left.c"]), directory.path().join("socket"));
    for how in ["close", "shutdown", "exit"] {
        let service = started(&socket);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port().to_string();
        let mut command = command(&program, &[&port, how], Some(&socket));
        let mut program = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut peer = listener.accept().unwrap().0;
        let mut said = String::new();
        BufReader::new(program.stdout.as_mut().unwrap()).read_line(&mut said).unwrap();
        let accepted: usize = said.trim_end().strip_prefix("accepted: ").expect(&said).parse().unwrap();
        let got = thread::scope(|scope| {
            scope.spawn(|| drop(service));
            // The service ends while the peer reads nothing.
            thread::sleep(Duration::from_millis(300));
            let mut bytes = Vec::new();
            peer.read_to_end(&mut bytes).map(|_| bytes.len())
        });
        assert!(got.as_ref().is_ok_and(|got| *got == accepted), "{how}: {got:?} of {accepted}");
        drop(program.stdin.take());
        assert!(program.wait().unwrap().success());
    }
}

fn found_while_services_come_and_go(file: &str) -> String {
    let directory = TempDir::new().unwrap();
    let (program, socket) = (compiled(directory.path(), &[file]), directory.path().join("socket"));
    thread::scope(|scope| {
        let found = scope.spawn(|| found(&program, Some(&socket)));
        while !found.is_finished() {
            let _service = started(&socket);
            thread::sleep(Duration::from_millis(150));
        }
        found.join().unwrap()
    })
}
