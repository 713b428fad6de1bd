//! The accounts of `packaging/farm`: the subjects that each role may use, and the roles at work.

use crate::program::{MAX_WAIT, Running, farm, fine, refused, run, run_with, until};
use crate::queue::{count, info};
use async_nats::jetstream::stream::Config;
use sidecore_testing::nats::Server;
use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use tempfile::TempDir;

const ROLES: [&str; 4] = ["operator", "feeder", "dispatcher", "node"];

/// Subjects, and whether each of [`ROLES`] may listen to them.
const HEARS: [(&str, [bool; 4]); 20] = [
    ("_INBOX.>", [true, false, false, false]),
    ("_INBOX.*.>", [true, false, false, false]),
    ("_INBOX.operator.1.*", [true, false, false, false]),
    ("_INBOX.feeder.1.*", [true, true, false, false]),
    ("_INBOX.dispatcher.1.*", [true, false, true, false]),
    ("_INBOX.node.1.*", [true, false, false, true]),
    ("_INBOX.1.*", [true, false, false, false]),
    (">", [false; 4]),
    ("farm.farm.>", [true, false, false, false]),
    ("farm.farm.events.*", [true, false, false, false]),
    ("farm.farm.events.feeder.*.*", [true, false, false, false]),
    ("farm.farm.results.*", [true, false, false, false]),
    ("farm.farm.dead.*", [true, false, false, false]),
    ("farm.farm.up", [true, false, true, false]),
    ("farm.farm.down.*.*", [true, false, false, true]),
    ("farm.farm.dispatcher", [true, false, true, true]),
    ("farm.farm.status", [true, false, true, false]),
    ("farm.farm.cancel", [true, false, true, false]),
    ("farm.farm.cancelled", [true, false, false, false]),
    ("$JS.ACK.farm-events.>", [false; 4]),
];

/// The same for publishing.
const SAYS: [(&str, [bool; 4]); 48] = [
    ("farm.farm.events.one.default", [true, true, false, false]),
    ("farm.farm.urgent.one.default", [true, true, false, false]),
    ("farm.farm.events.default", [true, false, false, false]),
    ("farm.farm.places.one", [true, true, false, false]),
    ("farm.farm.events.feeder.one.default", [true, false, false, false]),
    ("farm.farm.places.feeder.one", [true, false, false, false]),
    ("$JS.API.DIRECT.GET.farm-places.farm.farm.places.one", [true, true, false, false]),
    ("farm.farm.results.default", [true, false, true, false]),
    ("farm.farm.dead.default", [true, false, true, false]),
    ("farm.farm.down.1.node", [true, false, true, false]),
    ("farm.farm.up", [true, false, false, true]),
    ("farm.farm.dispatcher", [true, false, true, false]),
    ("farm.farm.status", [true, false, true, false]),
    ("farm.farm.cancel", [true, false, false, false]),
    ("farm.farm.cancelled", [true, false, true, false]),
    ("_INBOX.dispatcher.1.1", [false; 4]),
    ("_INBOX.feeder.1.1", [false; 4]),
    ("$JS.API.STREAM.INFO.farm-events", [true, false, true, false]),
    ("$JS.API.STREAM.CREATE.farm-events", [true, false, false, false]),
    ("$JS.API.STREAM.PURGE.farm-events", [true, false, false, false]),
    ("$JS.API.STREAM.MSG.GET.farm-events", [true, false, false, false]),
    ("$JS.API.STREAM.MSG.GET.farm-results", [true, false, true, false]),
    ("$JS.API.STREAM.MSG.GET.farm-dead", [true, false, true, false]),
    ("$JS.API.STREAM.MSG.DELETE.farm-events", [true, false, false, false]),
    ("$JS.API.STREAM.MSG.DELETE.farm-results", [true, false, true, false]),
    ("$JS.API.STREAM.MSG.DELETE.farm-dead", [true, false, true, false]),
    ("$JS.API.STREAM.MSG.GET.farm-places", [true, false, false, false]),
    ("$JS.ACK.farm-events.farm-dispatch-7-0.1.1.1.1.0", [true, false, true, false]),
    ("$JS.ACK.farm-results.mine.1.1.1.1.0", [true, false, false, false]),
    ("$JS.API.CONSUMER.CREATE.farm-events.farm-dispatch-7-0", [true, false, true, false]),
    ("$JS.API.CONSUMER.DELETE.farm-events.farm-dispatch-7-0", [true, false, true, false]),
    ("$JS.API.CONSUMER.NAMES.farm-events", [true, false, true, false]),
    ("$JS.API.CONSUMER.DURABLE.CREATE.farm-results.mine", [true, false, false, false]),
    ("$JS.API.CONSUMER.MSG.NEXT.farm-events.farm-dispatch-7-0", [true, false, true, false]),
    ("$JS.API.CONSUMER.MSG.NEXT.farm-places.mine", [true, false, false, false]),
    ("$JS.API.CONSUMER.MSG.NEXT.farm-results.mine", [true, false, false, false]),
    ("$O.farm-large-events.C.1", [true, false, false, false]),
    ("$O.farm-large-events.M.1", [true, false, false, false]),
    ("$O.farm-large-results.C.1", [true, false, false, true]),
    ("$O.farm-large-results.M.1", [true, false, false, true]),
    ("$JS.API.STREAM.INFO.OBJ_farm-large-events", [true, false, false, false]),
    ("$JS.API.STREAM.INFO.OBJ_farm-large-results", [true, false, false, false]),
    ("$JS.API.DIRECT.GET.OBJ_farm-large-events", [true, false, true, true]),
    ("$JS.API.DIRECT.GET.OBJ_farm-large-results", [true, false, true, false]),
    ("$JS.API.STREAM.PURGE.OBJ_farm-large-events", [true, false, true, false]),
    ("$JS.API.STREAM.PURGE.OBJ_farm-large-results", [true, false, true, false]),
    ("$JS.API.CONSUMER.CREATE.OBJ_farm-large-events", [true, false, false, false]),
    ("$JS.API.CONSUMER.CREATE.OBJ_farm-large-events.one.$O.farm-large-events.C.1", [true, false, false, false]),
];

/// Requests of JetStream's interface that change something, and subjects of the farm itself.
const REPLIES: [&str; 25] = [
    "$JS.API.STREAM.CREATE.farm-events",
    "$JS.API.STREAM.UPDATE.farm-events",
    "$JS.API.STREAM.DELETE.farm-events",
    "$JS.API.STREAM.DELETE.farm-results",
    "$JS.API.STREAM.PURGE.farm-events",
    "$JS.API.STREAM.PURGE.farm-results",
    "$JS.API.STREAM.PURGE.farm-dead",
    "$JS.API.STREAM.PURGE.farm-places",
    "$JS.API.STREAM.MSG.DELETE.farm-events",
    "$JS.API.STREAM.RESTORE.farm-events",
    "$JS.API.STREAM.SNAPSHOT.farm-events",
    "$JS.API.STREAM.LEADER.STEPDOWN.farm-events",
    "$JS.API.STREAM.PEER.REMOVE.farm-events",
    "$JS.API.CONSUMER.CREATE.farm-events",
    "$JS.API.CONSUMER.DURABLE.CREATE.farm-events.evil",
    "$JS.API.CONSUMER.LEADER.STEPDOWN.farm-events.evil",
    "$JS.API.META.LEADER.STEPDOWN",
    "$JS.API.ACCOUNT.PURGE.FARM",
    "farm.farm.results.f-0",
    "farm.farm.dead.f-0",
    "farm.farm.up",
    "farm.farm.dispatcher",
    "farm.farm.status",
    "farm.farm.cancel",
    "farm.farm.places.feeder.f",
];

fn server(scratch: &TempDir) -> Option<Server> {
    let packaged = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/farm/accounts.conf");
    let mut accounts = fs::read_to_string(packaged).unwrap();
    for role in ROLES {
        let variable = format!("$FARM_{}_PASSWORD", role.to_uppercase());
        assert!(accounts.contains(&variable));
        accounts = accounts.replace(&variable, role);
    }
    // A second feeder, as the file says.
    let (farm, feeder) = accounts.split_at(accounts.find("  # Stores events").unwrap());
    let other = |text: &str| {
        text.replace("FEEDER", "OTHER").replace(".feeder.", ".other.").replace("user: feeder,", "user: other,")
    };
    let exports = farm.find("    exports: [").unwrap() + "    exports: [\n".len();
    let end = exports + farm[exports..].find("    ]").unwrap();
    let further = other(feeder.rsplit_once('}').unwrap().0).replace("_INBOX.other.", "_INBOX.feeder.");
    let accounts = format!(
        "{}{}{}{}\n{further}\n}}\n",
        &farm[..end],
        other(&farm[exports..end]),
        &farm[end..],
        feeder.rsplit_once('}').unwrap().0
    );
    let file = scratch.path().join("accounts.conf");
    fs::write(&file, accounts).unwrap();
    Server::start_with(&["-c", file.to_str().unwrap()])
}

fn url(server: &Server, role: &str) -> String {
    // The second feeder's copy has the first one's password.
    let password = if role == "other" { "feeder" } else { role };
    server.url().replace("//", &format!("//{role}:{password}@"))
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

    /// Messages that came for its subscriptions.
    fn messages(&mut self) -> usize {
        self.0.get_mut().write_all(b"PING\r\n").unwrap();
        let lines = self.0.by_ref().lines().map(Result::unwrap).take_while(|line| line != "PONG");
        lines.filter(|line| line.starts_with("MSG") || line.starts_with("HMSG")).count()
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
    fine(&run(&of("operator"), &["feed", "--max-bytes", "10MiB", "--large-bytes", "10MiB"]));
    let _dispatcher = dispatcher(&server);
    let work = ["work", "--max-result", "3MiB", "--", "tr", "a-z", "A-Z"];
    let _node = Running::start(farm(&of("node"), &work[..3]).args(&work[3..]));
    let large = "x".repeat(2 << 20);
    fine(&run_with(&of("operator"), &["feed", "--lines", "--name", "large"], large.as_bytes()));
    let taken = fine(&run(&of("operator"), &["results", "--stdout", "--lines", "--count", "1"]));
    assert!(taken.trim_end() == large.to_uppercase(), "{} octets", taken.len());
    // Both feeders have one name, and each its own ids and place.
    let feed = ["feed", "--lines", "--name", "f"];
    for _ in 0..2 {
        fine(&run_with(&of("feeder"), &feed, b"one\ntwo\n"));
        fine(&run_with(&of("other"), &feed, b"one\nthree\n"));
    }
    let taken = ["results", "--stdout", "--lines", "--ids", "--count", "4"];
    let taken = fine(&run(&of("operator"), &taken));
    let mut taken: Vec<&str> = taken.lines().collect();
    taken.sort_unstable();
    assert_eq!(taken, ["feeder-f-0\tONE", "feeder-f-1\tTWO", "other-f-0\tONE", "other-f-1\tTHREE"]);
    fine(&run(&of("operator"), &["dead"]));
    let unnamed = fine(&run_with(&of("feeder"), &["feed", "--lines"], b"one\n"));
    assert!(unnamed.starts_with("fed 1, stored 1,"), "{unnamed}");
}

#[test]
fn a_feeder_is_told_that_its_account_reaches_no_farm() {
    let scratch = tempfile::tempdir().unwrap();
    let Some(server) = server(&scratch) else { return };
    let named = run_with(&url(&server, "feeder"), &["feed", "--lines", "--name", "f"], b"one\n");
    refused(&named, 2, &["the farm farm is not there for this account", "its operator makes it"]);
    let making = run_with(&url(&server, "feeder"), &["feed", "--max-bytes", "1MiB"], b"");
    refused(&making, 2, &["this account may not do that"]);
}

#[test]
fn streams_of_an_earlier_version_are_brought_up_to_date_by_who_may() {
    let scratch = tempfile::tempdir().unwrap();
    let Some(server) = server(&scratch) else { return };
    let of = |role| url(&server, role);
    fine(&run(&of("operator"), &["feed", "--max-bytes", "10MiB"]));
    for (stream, subject) in [("farm-events", "farm.farm.events.*"), ("farm-places", "farm.farm.places.*")] {
        crate::queue::with(&of("operator"), async |js| {
            let config = js.get_stream(stream).await.unwrap().get_info().await.unwrap().config;
            let config = Config { subjects: vec![subject.to_owned()], allow_direct: false, ..config };
            js.update_stream(config).await.map(drop).unwrap();
        });
    }
    let feed = ["feed", "--lines", "--name", "f"];
    refused(
        &run(&of("dispatcher"), &["dispatch"]),
        2,
        &["farm-events is of an earlier version", "operator does so with"],
    );
    refused(&run_with(&of("feeder"), &feed, b"one\n"), 2, &["or brings one of an earlier version up to date"]);
    fine(&run_with(&of("operator"), &feed, b"zero\n"));
    fine(&run_with(&of("feeder"), &feed, b"one\n"));
    let _dispatcher = dispatcher(&server);
    let _node = Running::start(farm(&of("node"), &["work"]).args(["--", "cat"]));
    let taken = fine(&run(&of("operator"), &["results", "--stdout", "--lines", "--ids", "--count", "2"]));
    assert_eq!(taken.lines().collect::<BTreeSet<_>>(), BTreeSet::from(["f-0\tzero", "feeder-f-0\tone"]));
}

#[test]
fn the_servers_answer_to_a_feeder_reaches_no_subject_of_the_farm() {
    let scratch = tempfile::tempdir().unwrap();
    let Some(server) = server(&scratch) else { return };
    let of = |role| url(&server, role);
    let make = ["feed", "--lines", "--max-bytes", "10MiB", "--large-bytes", "1MiB", "--name", "f"];
    fine(&run_with(&of("operator"), &make, b"one\n"));
    let mut listener = Wire::of(&server, "operator");
    for subject in ["farm.farm.up", "farm.farm.dispatcher", "farm.farm.status"] {
        assert!(listener.allows(&format!("SUB {subject} 1")));
    }
    let mut hostile = Wire::of(&server, "feeder");
    let mut node = Wire::of(&server, "node");
    let mut stored = 1;
    for reply in REPLIES {
        let mut says = |subject| hostile.allows(&format!("PUB {subject} {reply} 5\r\nother"));
        // Later servers refuse such a reply at once.
        stored += u64::from(says("farm.farm.events.one.default"));
        says("farm.farm.places.f");
        // A node may say this one itself.
        if reply != "farm.farm.up" {
            for subject in ["$O.farm-large-results.C.1", "$JS.API.DIRECT.GET.OBJ_farm-large-events"] {
                node.allows(&format!("PUB {subject} {reply} 5\r\nother"));
            }
        }
    }
    until("the events", || count(&of("operator"), "farm-events") == stored);
    assert_eq!(listener.messages(), 0);
    let streams = ["farm-events", "farm-results", "farm-dead", "farm-places"].map(|name| info(&of("operator"), name));
    assert_eq!(streams.each_ref().map(|info| info.state.messages)[..3], [stored, 0, 0]);
    assert!(streams.iter().all(|info| info.state.consumer_count == 0));
    assert_eq!(streams[0].state.first_sequence, 1, "nothing was purged");
}

#[test]
fn what_somebody_has_the_server_put_in_the_place_of_results_is_no_result() {
    let scratch = tempfile::tempdir().unwrap();
    let Some(server) = server(&scratch) else { return };
    let of = |role| url(&server, role);
    fine(&run(&of("operator"), &["feed", "--max-bytes", "10MiB"]));
    // The server's answer to each of these events goes to a subject of the publisher's choice.
    let mut hostile = Wire::of(&server, "operator");
    for place in ["results.f-0", "results.f-1", "results.none", "dead.bad-0"] {
        assert!(hostile.allows(&format!("PUB farm.farm.events.one.default farm.farm.{place} 5\r\nother")));
    }
    until("the answers", || count(&of("operator"), "farm-results") == 3 && count(&of("operator"), "farm-dead") == 1);
    let before = fine(&run(&of("operator"), &["dead", "--json"]));
    assert!(before.contains("\"reason\":\"\""), "{before}");

    let mut dispatcher = dispatcher(&server);
    let work = ["--", "sh", "-c", "read line; test \"$line\" != fail && echo \"$line\" done"];
    let _node = Running::start(farm(&of("node"), &["work"]).args(work));
    fine(&run_with(&of("operator"), &["feed", "--lines", "--name", "f"], b"one\ntwo\n"));
    fine(&run_with(&of("operator"), &["feed", "--lines", "--name", "bad"], b"fail\n"));
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
