//! `sidecore net measure` under failures: earlier rows are reported after the loss of any part, and nothing is left
//! behind.

use futures_util::TryStreamExt;
use nix::sched::{CloneFlags, setns};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, Uid};
use serde_json::Value;
use sidecore_testing::{BusyProgram, copy_program, skipped};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::Duration;
use tempfile::TempDir;

const PROGRAM: &str = env!("CARGO_BIN_EXE_sidecore-lab");
const MOMENT: Duration = Duration::from_millis(5);
/// Short runs, and more of them than will be made.
const MANY: [&str; 10] =
    ["--traffic", "round-trip", "--size", "64", "--connections", "1", "--ms", "50", "--repeats", "1000"];
const NOBODY: u32 = 65534;

struct Measuring {
    process: Option<Child>,
    scratch: TempDir,
}

fn lab(arguments: &[&str]) -> Command {
    let mut command = Command::new(PROGRAM);
    command.args(["net", "measure", "--pair"]).args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout)
}

fn number(row: &Value, key: &str) -> f64 {
    row[key].as_f64().unwrap_or_else(|| panic!("no {key} in {row}"))
}

fn measured(arguments: &[&str]) -> (Output, Vec<Value>) {
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("rows.json");
    let output = lab(arguments).arg("--json").arg(&file).output().unwrap();
    (output, rows(&file))
}

fn rows(file: &Path) -> Vec<Value> {
    let text = fs::read_to_string(file).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn is_impossible(output: &Output) -> bool {
    let said = said(output);
    let is = ["cannot make a network namespace", "cannot make the interface"].iter().any(|why| said.contains(why));
    if is {
        skipped(&said);
    }
    is
}

impl Measuring {
    fn start(arguments: &[&str]) -> Self {
        let scratch = tempfile::tempdir().unwrap();
        let process = lab(arguments).arg("--json").arg(scratch.path().join("rows.json")).spawn().unwrap();
        Self { process: Some(process), scratch }
    }

    fn id(&self) -> u32 {
        self.process.as_ref().unwrap().id()
    }

    fn far_after(&mut self, flows: usize) -> Option<u32> {
        let mut seen = BTreeSet::new();
        let mut far = None;
        while seen.len() < flows {
            if self.process.as_mut().unwrap().try_wait().unwrap().is_some() {
                return None;
            }
            let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", self.id())).unwrap_or_default();
            far = children.trim().parse().ok();
            seen.extend(far.into_iter().flat_map(flows_of));
            thread::sleep(MOMENT);
        }
        far
    }

    fn end(mut self) -> (Output, Vec<Value>) {
        let output = self.process.take().unwrap().wait_with_output().unwrap();
        (output, rows(&self.scratch.path().join("rows.json")))
    }
}

impl Drop for Measuring {
    fn drop(&mut self) {
        // A failed test leaves it running.
        if let Some(process) = &mut self.process {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

fn flows_of(process: u32) -> Vec<PathBuf> {
    let threads = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let is_flow = |thread: &PathBuf| fs::read_to_string(thread.join("comm")).is_ok_and(|name| name == "flow\n");
    threads.map(|thread| thread.path()).filter(is_flow).collect()
}

fn send(signal: Signal, process: u32) {
    kill(Pid::from_raw(process.cast_signed()), signal).unwrap();
}

fn is_gone(process: u32) -> bool {
    !Path::new("/proc").join(process.to_string()).exists()
}

#[track_caller]
fn check_lost(output: &Output, rows: &[Value], far: u32) {
    assert_eq!(output.status.code(), Some(2), "{}", said(output));
    assert!(said(output).contains("the peer is lost"), "{}", said(output));
    assert!(!rows.is_empty() && number(&rows[0], "ops_per_s") > 0.0, "{rows:?}");
    assert!(is_gone(far), "the other end still runs");
}

#[test]
fn a_peer_that_is_killed_leaves_the_rows_until_then() {
    let mut measuring = Measuring::start(&MANY);
    // The first flow has ended when the second begins.
    let Some(far) = measuring.far_after(2) else {
        return assert!(is_impossible(&measuring.end().0));
    };
    send(Signal::SIGKILL, far);
    let (output, rows) = measuring.end();
    check_lost(&output, &rows, far);
}

fn remove(name: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
    runtime.block_on(async {
        let (connection, handle, _) = rtnetlink::new_connection().unwrap();
        tokio::spawn(connection);
        let found = handle.link().get().match_name(name.to_owned()).execute().try_next().await.unwrap().unwrap();
        handle.link().del(found.header.index).execute().await.unwrap();
    });
}

#[test]
fn an_interface_that_is_removed_leaves_the_rows_until_then() {
    if !Uid::effective().is_root() {
        return skipped("only root enters the namespaces of another process");
    }
    let mut measuring = Measuring::start(&MANY);
    let Some(far) = measuring.far_after(2) else {
        return assert!(is_impossible(&measuring.end().0));
    };
    let near = File::open(format!("/proc/{}/ns/net", measuring.id())).unwrap();
    let removing = thread::spawn(move || {
        setns(near, CloneFlags::CLONE_NEWNET).unwrap();
        remove("near");
    });
    removing.join().unwrap();
    let (output, rows) = measuring.end();
    check_lost(&output, &rows, far);
}

#[test]
fn an_interrupt_gives_what_there_is_and_leaves_no_process() {
    let mut measuring = Measuring::start(&MANY);
    let Some(far) = measuring.far_after(2) else {
        return assert!(is_impossible(&measuring.end().0));
    };
    send(Signal::SIGINT, measuring.id());
    let (output, rows) = measuring.end();
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert!(said(&output).contains("Stopped before its end"), "{}", said(&output));
    assert!(!rows.is_empty() && is_gone(far), "{rows:?}");
}

#[test]
fn an_interrupt_ends_a_run_before_its_window_does() {
    let mut measuring = Measuring::start(&["--traffic", "tcp", "--size", "64", "--connections", "1", "--ms", "60000"]);
    let Some(far) = measuring.far_after(1) else {
        return assert!(is_impossible(&measuring.end().0));
    };
    send(Signal::SIGINT, measuring.id());
    let (output, rows) = measuring.end();
    assert_eq!((output.status.code(), rows.len()), (Some(0), 0), "{}", said(&output));
    assert!(is_gone(far), "the other end still runs");
}

#[test]
fn a_path_that_loses_packets_is_measured_all_the_same() {
    let lossy = ["--by", "link", "--no-offload", "--loss-percent", "5"];
    let loads = ["--traffic", "tcp,udp", "--size", "1000", "--connections", "4", "--ms", "500", "--repeats", "1"];
    let (output, rows) = measured(&[&lossy[..], &loads].concat());
    if is_impossible(&output) {
        return;
    }
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert_eq!(rows.len(), 4, "{}", said(&output));
    for row in rows {
        assert!(number(&row, "ops_per_s") > 0.0, "{row}");
        if row["op"] == "tcp" {
            assert!(number(&row, "retransmitted_per_s") > 0.0, "{row}");
        } else {
            assert!(number(&row, "lost") > 0.0, "{row}");
        }
    }
}

#[test]
fn without_privileges_it_says_what_is_missing_and_measures_the_rest() {
    let scratch = tempfile::tempdir().unwrap();
    // Other users may not read the build directory.
    let program = scratch.path().join("sidecore-lab");
    copy_program(PROGRAM, &program);
    fs::set_permissions(scratch.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = Command::new(program);
    command.args(["net", "measure", "--pair", "--traffic", "tcp", "--size", "64", "--connections", "1"]);
    command.args(["--ms", "50", "--repeats", "1", "--where"]);
    if Uid::effective().is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    let output = command.output().unwrap();
    let said = said(&output);
    if said.contains("cannot make a network namespace") {
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("run it as root, or allow user namespaces"), "{said}");
        return;
    }
    assert_eq!(output.status.code(), Some(0), "{said}");
    let is_said = ["CAP_PERFMON", "CAP_SYSLOG", "perf_event_open"].iter().any(|right| said.contains(right));
    assert!(is_said && said.contains("receive"), "{said}");
}

#[test]
fn one_repeat_is_doubted_and_the_header_says_what_its_figures_depend_on() {
    let one = ["--traffic", "tcp,round-trip", "--size", "64", "--connections", "1", "--ms", "50", "--repeats", "1"];
    let (output, rows) = measured(&one);
    if is_impossible(&output) {
        return;
    }
    for row in &rows {
        assert!(row["spread"].is_null() && row["doubts"][0]["reason"] == "few runs", "{row}");
    }
    let said = said(&output);
    assert!(!rows.is_empty() && said.contains("\nnear: congestion-control "), "{said}");
    let header: Vec<_> = said.lines().take(8).flat_map(str::split_whitespace).collect();
    let header = header.join(" ");
    assert!(["mtu 1500, tso on", "gso on", "gro o", "tx-checksum on", "Linux "].iter().all(|it| header.contains(it)));
}

#[test]
fn other_programs_on_the_machine_are_said() {
    let _busy = BusyProgram::start();
    let (output, rows) = measured(&["--traffic", "tcp", "--size", "64", "--connections", "1", "--repeats", "2"]);
    if is_impossible(&output) {
        return;
    }
    assert!(
        !rows.is_empty() && said(&output).contains("busy: other programs took processor time"),
        "{}",
        said(&output)
    );
}

#[test]
fn what_registers_cost_is_time_of_the_driver() {
    let scratch = tempfile::tempdir().unwrap();
    let stacks = scratch.path().join("stacks");
    let link = ["--by", "link", "--no-offload", "--register-us", "50", "--where", "--folded", stacks.to_str().unwrap()];
    let loads = ["--traffic", "round-trip", "--size", "64", "--connections", "1", "--ms", "300", "--repeats", "2"];
    let (output, rows) = measured(&[&link[..], &loads].concat());
    if is_impossible(&output) || said(&output).contains("where the time goes: ") {
        return skipped(&said(&output));
    }
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let rows: Vec<_> = rows.iter().filter(|row| row["scenario"] == "net-parts").collect();
    assert!(!rows.is_empty());
    for row in rows {
        let parts = row["packet_us"].as_object().unwrap();
        assert_eq!(parts.len(), 10, "{row}");
        for (name, us) in parts {
            let [low, high] = ["low", "high"].map(|end| number(&row["packet_us_bounds"][name], end));
            assert!((low..=high).contains(&us.as_f64().unwrap()), "{name} in {row}");
        }
        // Each frame is handled singly: four accesses, 200 us. The thread may miss a part of them while others run.
        // Without them the driver of a link takes a few us.
        assert!(number(&row["packet_us"], "driver") > 50.0, "{row}");
        assert!(number(row, "unplaced") <= 0.05 && number(row, "sampled") > 0.0, "{row}");
    }
    let stacks = fs::read_to_string(stacks).unwrap();
    assert!(stacks.lines().any(|line| line.starts_with("tcp round trip, 64 B, 1 connection;device;")), "{stacks}");
    assert!(stacks.lines().all(|line| line.contains(" round trip, 64 B, 1 connection;")), "{stacks}");
}

fn cpus(thread: &Path) -> String {
    let status = fs::read_to_string(thread.join("status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    line.unwrap_or_default().trim().to_owned()
}

#[test]
fn each_end_runs_on_as_many_cpus_as_are_asked_for() {
    let mut measuring = Measuring::start(&[&MANY[..], &["--cpus", "1"]].concat());
    let Some(far) = measuring.far_after(1) else {
        return assert!(is_impossible(&measuring.end().0));
    };
    let all = cpus(Path::new("/proc/self"));
    let [first, last] = [all.split([',', '-']).next(), all.split([',', '-']).next_back()];
    // Flows start and end during the search.
    let of = |process| loop {
        if let Some(found) = flows_of(process).iter().map(|thread| cpus(thread)).find(|cpus| !cpus.is_empty()) {
            return found;
        }
    };
    assert_eq!([Some(of(measuring.id()).as_str()), Some(of(far).as_str())], [first, last]);
    send(Signal::SIGINT, measuring.id());
    let (output, rows) = measuring.end();
    assert!(rows.iter().all(|row| row["cpus"] == 1), "{}", said(&output));
}

#[test]
fn why_a_peer_refused_is_said_though_it_hung_up() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let at = listener.local_addr().unwrap().to_string();
    let refusing = thread::spawn(move || {
        let (mut connection, _) = listener.accept().unwrap();
        BufReader::new(&connection).read_line(&mut String::new()).unwrap();
        connection.write_all(b"{\"Refused\":\"this peer is busy\"}\n").unwrap();
    });
    let loads = ["--traffic", "tcp", "--size", "64,128", "--connections", "1", "--repeats", "1", "--ms", "50"];
    let output = Command::new(PROGRAM).args(["net", "measure", "--peer", &at]).args(loads).output().unwrap();
    refusing.join().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    for why in ["the peer refused: this peer is busy", "the peer is lost"] {
        assert!(said(&output).contains(why), "{}", said(&output));
    }
}

#[test]
fn what_cannot_be_is_said_with_what_can() {
    for (arguments, why) in [
        (&["--traffic", "tcp", "--size", "64", "--cpus", "100000"][..], "the near end has 1 to "),
        (&["--traffic", "udp", "--size", "65508"], "messages have 1 to 65507 bytes, not 65508"),
        (&["--repeats", "0"], "write a whole number from 1 to 1000"),
        (&["--folded", "stacks"], "--where"),
    ] {
        let output = lab(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", said(&output));
        assert!(said(&output).contains(why), "{arguments:?}: {}", said(&output));
    }
}
