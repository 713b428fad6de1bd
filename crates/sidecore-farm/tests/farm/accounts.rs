//! The accounts of `packaging/farm`: the subjects that each role may use, and the roles at work.

use crate::program::{MAX_WAIT, Running, farm, fine, run, run_with, until};
use crate::queue::count;
use crate::server::Server;
use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::path::Path;
use tempfile::TempDir;

const ROLES: [&str; 4] = ["operator", "feeder", "dispatcher", "node"];

/// Subjects, and whether each of [`ROLES`] may listen to them.
const HEARS: [(&str, [bool; 4]); 17] = [
    ("_INBOX.>", [true, false, false, false]),
    ("_INBOX.*.>", [true, false, false, false]),
    ("_INBOX.operator.1.*", [true, false, false, false]),
    ("_INBOX.feeder.1.*", [true, true, false, false]),
    ("_INBOX.dispatcher.1.*", [true, false, true, false]),
    ("_INBOX.node.1.*", [true, false, false, false]),
    ("_INBOX.1.*", [true, false, false, false]),
    (">", [false; 4]),
    ("farm.farm.>", [true, false, false, false]),
    ("farm.farm.events.*", [true, false, false, false]),
    ("farm.farm.results.*", [true, false, false, false]),
    ("farm.farm.dead.*", [true, false, false, false]),
    ("farm.farm.up", [true, false, true, false]),
    ("farm.farm.down.*.*", [true, false, false, true]),
    ("farm.farm.dispatcher", [true, false, true, true]),
    ("farm.farm.status", [true, false, true, false]),
    ("$JS.ACK.farm-events.>", [false; 4]),
];

/// The same for publishing.
const SAYS: [(&str, [bool; 4]); 29] = [
    ("farm.farm.events.default", [true, true, false, false]),
    ("farm.farm.places.one", [true, true, false, false]),
    ("farm.farm.results.default", [true, false, true, false]),
    ("farm.farm.dead.default", [true, false, true, false]),
    ("farm.farm.down.1.node", [true, false, true, false]),
    ("farm.farm.up", [true, false, false, true]),
    ("farm.farm.dispatcher", [true, false, true, false]),
    ("farm.farm.status", [true, false, true, false]),
    ("_INBOX.dispatcher.1.1", [false; 4]),
    ("_INBOX.feeder.1.1", [false; 4]),
    ("$JS.API.STREAM.INFO.farm-events", [true, true, true, false]),
    ("$JS.API.STREAM.CREATE.farm-events", [true, false, false, false]),
    ("$JS.API.STREAM.PURGE.farm-events", [true, false, false, false]),
    ("$JS.API.STREAM.MSG.GET.farm-events", [true, false, false, false]),
    ("$JS.API.STREAM.MSG.GET.farm-results", [true, false, true, false]),
    ("$JS.API.STREAM.MSG.GET.farm-dead", [true, false, true, false]),
    ("$JS.API.STREAM.MSG.DELETE.farm-events", [true, false, false, false]),
    ("$JS.API.STREAM.MSG.DELETE.farm-results", [true, false, true, false]),
    ("$JS.API.STREAM.MSG.DELETE.farm-dead", [true, false, true, false]),
    ("$JS.API.STREAM.MSG.GET.farm-places", [true, true, false, false]),
    ("$JS.ACK.farm-events.farm-dispatch-7-0.1.1.1.1.0", [true, false, true, false]),
    ("$JS.ACK.farm-results.mine.1.1.1.1.0", [true, false, false, false]),
    ("$JS.API.CONSUMER.CREATE.farm-events.farm-dispatch-7-0", [true, false, true, false]),
    ("$JS.API.CONSUMER.DELETE.farm-events.farm-dispatch-7-0", [true, false, true, false]),
    ("$JS.API.CONSUMER.NAMES.farm-events", [true, false, true, false]),
    ("$JS.API.CONSUMER.DURABLE.CREATE.farm-results.mine", [true, false, false, false]),
    ("$JS.API.CONSUMER.MSG.NEXT.farm-events.farm-dispatch-7-0", [true, false, true, false]),
    ("$JS.API.CONSUMER.MSG.NEXT.farm-places.mine", [true, false, false, false]),
    ("$JS.API.CONSUMER.MSG.NEXT.farm-results.mine", [true, false, false, false]),
];

fn server(scratch: &TempDir) -> Option<Server> {
    let packaged = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/farm/accounts.conf");
    let mut accounts = fs::read_to_string(packaged).unwrap();
    for role in ROLES {
        let variable = format!("$FARM_{}_PASSWORD", role.to_uppercase());
        assert!(accounts.contains(&variable));
        accounts = accounts.replace(&variable, role);
    }
    let file = scratch.path().join("accounts.conf");
    fs::write(&file, accounts).unwrap();
    Server::start_with(&["-c", file.to_str().unwrap()])
}

fn url(server: &Server, role: &str) -> String {
    server.url().replace("//", &format!("//{role}:{role}@"))
}

fn dispatcher(server: &Server) -> Running {
    let dispatcher = Running::start(&mut farm(&url(server, "dispatcher"), &["dispatch"]));
    until("a dispatcher", || run(&url(server, "operator"), &["status"]).status.success());
    dispatcher
}

/// A connection in NATS's own protocol: the server reports a refusal before it answers the next PING.
struct Wire(BufReader<TcpStream>);

impl Wire {
    fn of(server: &Server, role: &str) -> Self {
        let stream = TcpStream::connect(server.url().replace("nats://", "")).unwrap();
        stream.set_read_timeout(Some(MAX_WAIT)).unwrap();
        let mut wire = Self(BufReader::new(stream));
        let connect = format!(r#"CONNECT {{"user":"{role}","pass":"{role}","verbose":false,"pedantic":false}}"#);
        assert!(wire.allows(&connect), "{role} may connect");
        wire
    }

    fn allows(&mut self, command: &str) -> bool {
        self.0.get_mut().write_all(format!("{command}\r\nPING\r\n").as_bytes()).unwrap();
        let mut allowed = true;
        loop {
            let mut line = String::new();
            assert!(self.0.read_line(&mut line).unwrap() > 0, "the server closed the connection");
            match line.split_whitespace().next() {
                Some("PONG") => return allowed,
                Some("-ERR") => {
                    assert!(line.contains("Permissions Violation"), "{line}");
                    allowed = false;
                }
                _ => {}
            }
        }
    }
}

#[test]
fn each_role_hears_and_says_what_is_its_own_and_nothing_else() {
    let scratch = tempfile::tempdir().unwrap();
    let Some(server) = server(&scratch) else { return };
    let mut wrong = Vec::new();
    for (at, role) in ROLES.into_iter().enumerate() {
        let mut wire = Wire::of(&server, role);
        let hears = HEARS.map(|(subject, may)| (format!("SUB {subject} 1"), may));
        // JetStream can carry out none of these requests: they are empty and want no answer.
        let says = SAYS.map(|(subject, may)| (format!("PUB {subject} 0\r\n"), may));
        for (command, may) in hears.into_iter().chain(says) {
            let allowed = wire.allows(&command);
            if allowed != may[at] {
                wrong.push(format!("{role}, {}: {}", command.trim(), if allowed { "allowed" } else { "refused" }));
            }
            wire.allows("UNSUB 1");
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn each_command_does_its_work_with_the_account_of_its_role() {
    let scratch = tempfile::tempdir().unwrap();
    let Some(server) = server(&scratch) else { return };
    let of = |role| url(&server, role);
    fine(&run(&of("operator"), &["feed", "--max-bytes", "10MiB"]));
    let _dispatcher = dispatcher(&server);
    let _node = Running::start(farm(&of("node"), &["work"]).args(["--", "tr", "a-z", "A-Z"]));
    fine(&run_with(&of("feeder"), &["feed", "--lines", "--name", "f"], b"one\ntwo\n"));
    let taken = ["results", "--stdout", "--lines", "--count", "2"];
    let taken = fine(&run(&of("operator"), &taken));
    let mut taken: Vec<&str> = taken.lines().collect();
    taken.sort_unstable();
    assert_eq!(taken, ["ONE", "TWO"]);
    fine(&run(&of("operator"), &["dead"]));
}

#[test]
fn what_a_feeder_has_the_server_put_in_the_place_of_results_is_no_result() {
    let scratch = tempfile::tempdir().unwrap();
    let Some(server) = server(&scratch) else { return };
    let of = |role| url(&server, role);
    fine(&run(&of("operator"), &["feed", "--max-bytes", "10MiB"]));
    // The server's answer to each of these events goes to a subject of the feeder's choice.
    let mut hostile = Wire::of(&server, "feeder");
    for place in ["results.f-0", "results.f-1", "results.none", "dead.bad-0"] {
        assert!(hostile.allows(&format!("PUB farm.farm.events.default farm.farm.{place} 5\r\nother")));
    }
    until("the answers", || count(&of("operator"), "farm-results") == 3 && count(&of("operator"), "farm-dead") == 1);
    let before = fine(&run(&of("operator"), &["dead", "--json"]));
    assert!(before.contains("\"reason\":\"\""), "{before}");

    let mut dispatcher = dispatcher(&server);
    let work = ["--", "sh", "-c", "read line; test \"$line\" != fail && echo \"$line\" done"];
    let _node = Running::start(farm(&of("node"), &["work"]).args(work));
    fine(&run_with(&of("feeder"), &["feed", "--lines", "--name", "f"], b"one\ntwo\n"));
    fine(&run_with(&of("feeder"), &["feed", "--lines", "--name", "bad"], b"fail\n"));
    until("all events", || count(&of("operator"), "farm-events") == 0);
    dispatcher.says("results that no dispatcher committed, taken away: 2 so far");

    let done = run(&of("operator"), &["results", "--stdout", "--lines", "--ids"]);
    let (said, taken) = (String::from_utf8_lossy(&done.stderr), String::from_utf8_lossy(&done.stdout));
    let taken: BTreeSet<&str> = taken.lines().filter(|line| line.starts_with("f-")).collect();
    assert_eq!(taken, BTreeSet::from(["f-0\tone done", "f-1\ttwo done"]), "{said}");
    assert!(said.contains("left out a result that no dispatcher committed: none"), "{said}");
    assert_eq!(done.status.code(), Some(1), "{said}");
    let after = fine(&run(&of("operator"), &["dead", "--json"]));
    assert!(after.contains("\"id\":\"bad-0\"") && after.contains("exit code 1"), "{after}");
}
