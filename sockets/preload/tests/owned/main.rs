//! A program reuses the numbers of the library's descriptors: each one alone, and all of them, in each way.

#[path = "../calls/program.rs"]
mod program;

use program::{command, compiled, started};
use rustix::net::{SocketAddrUnix, bind, listen};
use sidecore_ipc::sys::packet;
use std::env;
use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write as _};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use tempfile::TempDir;

const WAYS: [(&str, &str); 17] = [
    ("dup2", "connection"),
    ("dup2", "file"),
    ("dup3", "connection"),
    ("dup3", "file"),
    ("unseen", "connection"),
    ("unseen", "file"),
    ("unseen", "nothing"),
    ("close", "connection"),
    ("close", "file"),
    ("close_range", "connection"),
    ("close_range", "file"),
    ("unshare", "connection"),
    ("unshare", "file"),
    ("unshare", "nothing"),
    ("closefrom", "file"),
    ("exec", "nothing"),
    ("spawn", "nothing"),
];
const SENT: &str = "closed: heard all, then 0\nall: heard all, then -7\nthe end: 0\n";
const UNTOUCHED: &str = "numbers that lost what the program put there: 0\nof the file: 1\nof the connection: 1\nflags: 2\n\
                         at its peer: -1 EAGAIN\nits end: 0\n";
const SERVES: &str = "SIDECORE_TEST_SERVES_AT";

#[test]
fn of_a_program_in_rings() {
    taken_over("promoted", &["service", "pipe", "pipe"]);
}

#[test]
fn of_a_program_that_has_a_child() {
    taken_over("parent", &["service", "pipe", "pipe", "pipe"]);
}

#[test]
fn of_a_child() {
    taken_over("child", &["event", "pipe", "pipe", "pipe", "service", "pipe", "pipe"]);
}

#[test]
fn of_a_program_that_the_service_has_not_answered_yet() {
    taken_over("attaching", &["service"]);
}

#[test]
fn of_a_program_that_closed_a_connection_whose_service_died() {
    taken_over("left", &["service", "pipe", "pipe", "service", "pipe", "pipe", "socket"]);
}

fn taken_over(stage: &str, kinds: &[&str]) {
    let directory = TempDir::new().unwrap();
    let fixture =
        Fixture { program: compiled(directory.path(), &["../owned/owned.c"]), socket: directory.path().join("socket") };
    let mut listed = fixture.run(stage, &[["list", "dup2", "file"]]).remove(0);
    listed = listed.replace("restart\n", "");
    let mut found: Vec<&str> = listed.lines().take(kinds.len()).collect();
    let (mut found, mut kinds) = (std::mem::take(&mut found), kinds.to_vec());
    found.sort_unstable();
    kinds.sort_unstable();
    assert_eq!(found, kinds, "{listed}");
    for which in (0..kinds.len()).map(|which| which.to_string()).chain(["all".to_owned()]) {
        fixture.takes(stage, &which);
    }
}

struct Fixture {
    program: PathBuf,
    socket: PathBuf,
}

impl Fixture {
    fn takes(&self, stage: &str, which: &str) {
        // In stage `left`, the descriptors end on exec, and a thread after `unshare` keeps the former numbers. Several
        // numbers are not passed on.
        let is_left_out = |way: &str| {
            matches!(way, "exec" | "unshare") && stage == "left" || matches!(way, "exec" | "spawn") && which == "all"
        };
        let ways: Vec<_> = WAYS.into_iter().filter(|(way, _)| !is_left_out(way)).collect();
        let runs: Vec<_> = ways.iter().map(|(way, by)| [which, way, by]).collect();
        let mut wrong = Vec::new();
        for ([_, way, by], said) in runs.iter().zip(self.run(stage, &runs)) {
            let mut expected = match *way {
                "exec" => format!("closed by another program: heard all, then 0\n{}", SENT.split_once('\n').unwrap().1),
                _ => SENT.to_owned(),
            };
            if stage == "left" {
                expected += "of what was left: 1\n";
            }
            if *way != "exec" {
                expected += UNTOUCHED;
            }
            if stage == "child" {
                expected += "of its parent: heard all, then -7\n";
            }
            let expected = expected.replace("all: heard", "of a child: heard all, then -7\nall: heard");
            let sorted =
                |said: &str| said.lines().filter(|line| *line != "restart").map(str::to_owned).collect::<Vec<_>>();
            let (mut expected, mut said) = (sorted(&expected), sorted(&said));
            expected.sort();
            said.sort();
            if said != expected {
                wrong.push(format!("{stage}, {which} by {way}, {by}: {}", said.join("; ")));
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }

    fn run(&self, stage: &str, runs: &[[&str; 3]]) -> Vec<String> {
        let mut silent = (stage == "attaching").then(|| silent(&self.socket));
        let mut service = silent.is_none().then(|| Service::start(&self.socket));
        let started = runs.iter().map(|run| Run::start(&self.program, &self.socket, &[&[stage], &run[..]].concat()));
        let mut running: Vec<Run> = started.collect();
        while running.iter_mut().map(Run::goes_on).fold(false, |any, goes_on| any | goes_on) {
            drop((service.take(), silent.take()));
            service = Some(Service::start(&self.socket));
            running.iter_mut().for_each(Run::go_on);
        }
        running.into_iter().map(Run::end).collect()
    }
}

struct Run {
    program: Child,
    input: ChildStdin,
    said: String,
    output: Box<dyn Iterator<Item = String>>,
    waits: bool,
}

impl Run {
    fn start(program: &Path, socket: &Path, arguments: &[&str]) -> Self {
        let mut command = command(program, arguments, Some(socket));
        let mut program = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let input = program.stdin.take().unwrap();
        let output = Box::new(BufReader::new(program.stdout.take().unwrap()).lines().map(Result::unwrap));
        Self { program, input, said: String::new(), output, waits: false }
    }

    /// False: it has ended.
    fn goes_on(&mut self) -> bool {
        self.waits = false;
        for line in self.output.by_ref() {
            let _ = writeln!(self.said, "{line}");
            if line == "restart" {
                self.waits = true;
                break;
            }
        }
        self.waits
    }

    fn go_on(&mut self) {
        if self.waits {
            // A program that has ended by now has reported it.
            let _ = self.input.write_all(b"x");
        }
    }

    fn end(mut self) -> String {
        let status = self.program.wait().unwrap();
        if !status.success() {
            let _ = writeln!(self.said, "{status}");
        }
        self.said
    }
}

struct Service(Child);

impl Service {
    fn start(socket: &Path) -> Self {
        let mut command = Command::new(env::current_exe().unwrap());
        command.args(["--exact", "serves", "--nocapture"]).env(SERVES, socket);
        let mut service = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(service.stdout.as_mut().unwrap()).lines().map(Result::unwrap);
        assert!(lines.any(|line| line.ends_with("serving")), "no service");
        Self(service)
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

#[test]
fn serves() {
    if let Some(socket) = env::var_os(SERVES) {
        let _service = started(Path::new(&socket));
        println!("serving");
        std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
    }
}

fn silent(socket: &Path) -> OwnedFd {
    let _ = fs::remove_file(socket);
    let listener = packet::socket().unwrap();
    bind(&listener, &SocketAddrUnix::new(socket).unwrap()).unwrap();
    listen(&listener, 256).unwrap();
    listener
}
