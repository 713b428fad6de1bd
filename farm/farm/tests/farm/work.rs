//! A node and its programs: their work, their failures, and the node's end.

use crate::program::{Running, farm, fine, refused, run, run_with, said, until};
use crate::queue::count;
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use sidecore_testing::nats::Server;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;

const STRANGER: u32 = 65534;

pub(crate) struct Farm {
    pub(crate) server: Server,
    _dispatcher: Running,
    scratch: TempDir,
}

impl Farm {
    pub(crate) fn new() -> Option<Self> {
        let server = Server::start()?;
        let dispatcher = Running::start(&mut farm(&server.url(), &["dispatch"]));
        let new = Self { server, _dispatcher: dispatcher, scratch: tempfile::tempdir().unwrap() };
        until("a dispatcher", || run(&new.url(), &["status"]).status.success());
        Some(new)
    }

    pub(crate) fn url(&self) -> String {
        self.server.url()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    pub(crate) fn node(&self, options: &[&str], program: &[&str]) -> Running {
        Running::start(&mut node(&self.url(), options, program))
    }

    pub(crate) fn feed(&self, lines: &str) {
        fine(&run_with(&self.url(), &["feed", "--lines", "--name", "f"], lines.as_bytes()));
    }

    pub(crate) fn results(&self, count: usize) -> BTreeMap<String, String> {
        let taken =
            fine(&run(&self.url(), &["results", "--stdout", "--lines", "--ids", "--count", &count.to_string()]));
        taken
            .lines()
            .filter_map(|line| line.split_once('\t'))
            .map(|(id, body)| (id.to_owned(), body.to_owned()))
            .collect()
    }
}

fn node(url: &str, options: &[&str], program: &[&str]) -> Command {
    let mut command = farm(url, &[&["work"], options].concat());
    if !program.is_empty() {
        command.arg("--").args(program);
    }
    command
}

fn process(file: &Path) -> Pid {
    until("the program's number", || fs::read_to_string(file).is_ok_and(|number| number.ends_with('\n')));
    Pid::from_raw(fs::read_to_string(file).unwrap().trim().parse().unwrap()).unwrap()
}

fn has_ended(process: Pid) -> bool {
    test_kill_process(process).is_err()
}

#[test]
fn events_go_through_a_program_each_or_through_programs_that_live_on() {
    let Some(farm) = Farm::new() else { return };
    let node = farm.node(&["--jobs", "3"], &["tr", "a-z", "A-Z"]);
    farm.feed("one\ntwo\nthree\n");
    let expected = [("f-0", "ONE"), ("f-1", "TWO"), ("f-2", "THREE")];
    assert_eq!(farm.results(3).into_values().collect::<Vec<_>>(), expected.map(|(_, result)| result));
    drop(node);
    let _node = farm.node(&["--jobs", "3", "--pipe"], &["cat"]);
    fine(&run_with(&farm.url(), &["feed", "--lines", "--name", "g"], b"four\nfive\n"));
    assert_eq!(farm.results(2).into_values().collect::<Vec<_>>(), ["four", "five"]);
}

#[test]
fn without_a_program_a_node_sleeps() {
    let Some(farm) = Farm::new() else { return };
    let _node = farm.node(&["--sleep", "100us", "--jobs", "2"], &[]);
    farm.feed("1\n2.5 and so on\n0\n");
    assert!(farm.results(3).iter().all(|(id, result)| id == result));
}

#[test]
fn an_event_that_fails_on_every_try_is_a_dead_letter_with_the_programs_last_words() {
    let Some(farm) = Farm::new() else { return };
    let script = "read event; [ $event = good ] || { echo cannot do $event >&2; exit 3; }; echo $event";
    let _node = farm.node(&["--jobs", "2"], &["sh", "-c", script]);
    farm.feed("bad\ngood\n");
    assert_eq!(farm.results(1).into_values().collect::<Vec<_>>(), ["good"]);
    until("a dead letter", || count(&farm.url(), "farm-dead") == 1);
    let listed = fine(&run(&farm.url(), &["dead"]));
    assert!(listed.contains("exit code 3: cannot do bad"), "{listed}");
}

#[test]
fn a_node_that_cannot_start_its_program_does_not_join() {
    // The missing program is reported before the search for a server.
    let nowhere = "nats://127.0.0.1:1";
    let output = node(nowhere, &[], &["no-such-program"]).output().unwrap();
    refused(&output, 2, &["no program no-such-program", "install it"]);
    let scratch = tempfile::tempdir().unwrap();
    let script = scratch.path().join("script");
    fs::write(&script, "#!/no/such/interpreter\n").unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let output = node(nowhere, &["--pipe"], &[script.to_str().unwrap()]).output().unwrap();
    refused(&output, 2, &["cannot start", "No such file"]);
    for wrong in [&[][..], &["--sleep", "1ms", "--pipe"], &["--name", "a.b"], &["--jobs", "0"], &["--time-limit", "1"]]
    {
        refused(&node(nowhere, wrong, &[]).output().unwrap(), 2, &[]);
    }
    refused(&node(nowhere, &[], &["cat"]).output().unwrap(), 2, &["no NATS server"]);
}

#[test]
fn a_node_that_is_told_to_leave_finishes_what_it_has() {
    let Some(farm) = Farm::new() else { return };
    let (begun, go) = (farm.path("begun"), farm.path("go"));
    let script =
        format!("echo $$ > {}; until [ -e {} ]; do sleep 0.02; done; echo done", begun.display(), go.display());
    let node = farm.node(&["--jobs", "1"], &["sh", "-c", &script]);
    farm.feed("one\n");
    let program = process(&begun);
    node.stop();
    fs::write(go, "").unwrap();
    let (code, _, err) = said(&node.end());
    assert_eq!((code, err.as_str()), (0, ""));
    assert_eq!(farm.results(1).into_values().collect::<Vec<_>>(), ["done"]);
    assert!(has_ended(program));
}

#[test]
fn a_second_signal_ends_a_node_and_its_programs_at_once() {
    let Some(farm) = Farm::new() else { return };
    let begun = farm.path("begun");
    let script = format!("trap '' TERM INT; echo $$ > {}; sleep 600", begun.display());
    let mut node = farm.node(&["--jobs", "1"], &["sh", "-c", &script]);
    farm.feed("one\n");
    let program = process(&begun);
    node.stop();
    // Two signals of one kind count as one until the first is taken.
    until("the end", || {
        node.stop();
        node.child.try_wait().unwrap().is_some()
    });
    refused(&node.end(), 1, &["ended at the second signal"]);
    until("the program's end", || has_ended(program));
}

#[test]
fn a_node_that_is_killed_takes_its_programs_along() {
    let Some(farm) = Farm::new() else { return };
    for (options, name) in [(&["--jobs", "1"][..], "each"), (&["--jobs", "1", "--pipe"], "pipe")] {
        let begun = farm.path(name);
        let script = format!("echo $$ > {}; exec sleep 600", begun.display());
        let mut node = farm.node(options, &["sh", "-c", &script]);
        fine(&run_with(&farm.url(), &["feed", "--lines", "--name", name], b"one\n"));
        let program = process(&begun);
        kill_process(Pid::from_child(&node.child), Signal::KILL).unwrap();
        node.child.wait().unwrap();
        until("the program's end", || has_ended(program));
    }
}

#[test]
fn a_program_gets_none_of_the_nodes_descriptors() {
    let Some(farm) = Farm::new() else { return };
    // The shell gives the node one more descriptor.
    let mut shell = Command::new("sh");
    let own = node(&farm.url(), &["--jobs", "1"], &["sh", "-c", "ls /proc/self/fd | xargs"]);
    shell.args(["-c", "exec 9</dev/null; exec \"$@\"", "sh"]).arg(own.get_program()).args(own.get_args());
    shell.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let _node = Running::start(&mut shell);
    farm.feed("one\n");
    let listed = farm.results(1).into_values().next().unwrap();
    // The last one is of the directory itself.
    assert_eq!(listed.split_whitespace().collect::<Vec<_>>(), ["0", "1", "2", "3"]);
}

/// Password in a node's environment, as part of an address. Its programs look for it.
const SECRET: &str = "pa55w0rd";

/// Looks for the password in its own environment, in the node's, and in the node's memory.
const THIEF: &str = "echo $MODEL $(env | grep -c pa55w0rd; cat /proc/$PPID/environ | grep -ac pa55w0rd; \
                     head -c 0 /proc/$PPID/mem && echo memory)";

#[test]
fn a_program_finds_no_password_in_its_environment_and_none_in_the_nodes() {
    let Some(farm) = Farm::new() else { return };
    let url = farm.url().replace("//", &format!("//user:{SECRET}@"));
    let scratch = tempfile::tempdir().unwrap();
    fs::set_permissions(scratch.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let copy = scratch.path().join("sidecore-farm");
    // Copies in another process: a child of another thread could hold the copy open for writing, and then it could not
    // be executed.
    assert!(Command::new("cp").arg(env!("CARGO_BIN_EXE_sidecore-farm")).arg(&copy).status().unwrap().success());
    let mut node = Command::new(&copy);
    node.args(["work", "--jobs", "1", "--env", "MODEL", "--", "sh", "-c", THIEF]);
    node.env("NATS_URL", &url).env("MODEL", "small").env_remove("NATS_CREDS");
    node.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // The kernel hides nothing from root.
    if rustix::process::geteuid().is_root() {
        node.uid(STRANGER).gid(STRANGER);
    }
    let _node = Running::start(&mut node);
    farm.feed("one\n");
    assert_eq!(farm.results(1).into_values().collect::<Vec<_>>(), ["small 0 0"]);
}
