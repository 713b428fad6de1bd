//! Behaviour of `sidecore bench` apart from its rows: its files, early ends, doubts, and use of a running service.

use serde_json::Value;
use sidecore::config::Config;
use sidecore::service::Service;
use sidecore_testing::skipped;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

fn command() -> Command {
    Command::new(env!("CARGO_BIN_EXE_sidecore-lab"))
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn rows(file: &Path) -> Vec<Value> {
    let text = fs::read_to_string(file).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn what_cannot_be_written_is_said_before_anything_runs() {
    let folder = tempfile::tempdir().unwrap();
    let kept = folder.path().join("kept.json");
    fs::write(&kept, "kept").unwrap();
    let missing = folder.path().join("none/out");
    let missing = missing.to_str().unwrap();
    let both = ["lane", "--json", kept.to_str().unwrap(), "--html", missing];
    for (arguments, named) in [
        (&["bench", "lane", "--json", missing][..], "--json"),
        (&["bench", "lane", "--markdown", "/"], "--markdown"),
        (&[&["bench"], &both[..]].concat(), "--html"),
        (&["bench", "calibrate", "--plan", missing], "--plan"),
        (&["bench", "calibrate", "notify", "--html", missing], "--html"),
        (&["try", "--json", missing], "--json"),
        (&["net", "measure", "--pair", "--json", missing], "--json"),
    ] {
        let output = command().args(arguments).output().unwrap();
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        // A single line: no scenario began.
        assert!(said.starts_with(&format!("sidecore: {named} ")) && said.lines().count() == 1, "{arguments:?}: {said}");
        assert!(output.stdout.is_empty() && (said.contains("mkdir -p") || said.contains("name a file")), "{said}");
    }
    assert_eq!(fs::read_to_string(&kept).unwrap(), "kept");
}

fn under_way(folder: &Path) -> Child {
    let mut bench = command();
    // Pipes separate the bench from this test's terminal.
    bench.args(["bench", "crypto", "balance", "--op", "aes-256-gcm"]).stdout(Stdio::piped()).stderr(Stdio::piped());
    for (argument, name) in [("--json", "rows.json"), ("--markdown", "rows.md"), ("--html", "rows.html")] {
        bench.arg(argument).arg(folder.join(name));
    }
    let mut bench = bench.arg("--quick").spawn().unwrap();
    let lines = BufReader::new(bench.stderr.take().unwrap()).lines();
    let begun = lines.map_while(Result::ok).any(|line| line.starts_with("balance"));
    assert!(begun, "it ended before its second scenario");
    bench
}

fn signal(bench: &Child, name: &str) {
    let sent = Command::new("kill").args(["-s", name, &bench.id().to_string()]).status().unwrap();
    assert!(sent.success());
}

#[test]
fn an_interrupt_leaves_all_complete_rows_in_each_format_marked_as_stopped() {
    for name in ["INT", "TERM"] {
        let folder = tempfile::tempdir().unwrap();
        let bench = under_way(folder.path());
        signal(&bench, name);
        let output = bench.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(130), "{name}");
        let rows = rows(&folder.path().join("rows.json"));
        let crypto: Vec<_> = rows.iter().filter(|row| row["scenario"] == "crypto").collect();
        for size in [64, 1_024, 16_384] {
            let of_size = crypto.iter().filter(|row| row["size"] == size && row["repeats"] == 3);
            assert!(of_size.count() >= 2, "the scenario before is whole: {rows:?}");
        }
        assert!(rows.iter().filter(|row| row["scenario"] == "balance").count() < 10, "{name}: it was not stopped");
        for row in &rows {
            assert_eq!(row["run"]["stopped"], true);
            assert_eq!(row["run"]["doubts"].as_array().unwrap().iter().filter(|d| d["reason"] == "stopped").count(), 1);
        }
        let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        for text in [text, read("rows.md"), read("rows.html")] {
            assert!(text.contains("stopped: the run was stopped before its end"), "{name}: {text}");
        }
    }
}

#[test]
fn an_interrupt_before_the_first_row_leaves_files_as_they_were() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rows.json");
    fs::write(&file, "kept").unwrap();
    // A row is complete when all of its repeats are, which takes seconds.
    let bench = command().args(["bench", "balance", "--json"]).arg(&file).stderr(Stdio::piped()).spawn();
    let mut bench = bench.unwrap();
    let mut lines = BufReader::new(bench.stderr.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "balance");
    signal(&bench, "INT");
    let last = lines.map_while(Result::ok).last().unwrap_or_default();
    assert_eq!(bench.wait().unwrap().code(), Some(130));
    assert!(last.contains("files are as they were"), "{last}");
    assert_eq!(fs::read_to_string(&file).unwrap(), "kept");
}

#[test]
fn a_scenario_that_fails_leaves_the_rows_of_those_before_it() {
    let folder = tempfile::tempdir().unwrap();
    let nginx = folder.path().join("nginx");
    fs::write(&nginx, "#!/bin/sh\nexit 1\n").unwrap();
    fs::set_permissions(&nginx, fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap());
    let file = folder.path().join("rows.json");
    let mut bench = command();
    bench.args(["bench", "crypto", "nginx", "--quick", "--op", "rsa-2048-sign", "--json"]).arg(&file).env("PATH", path);
    let output = bench.output().unwrap();
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.lines().last().unwrap().starts_with("sidecore: nginx does not listen"), "{said}");
    assert!(rows(&file).iter().any(|row| row["scenario"] == "crypto" && row["op"] == "rsa-2048-sign"));
    assert!(String::from_utf8(output.stdout).unwrap().contains("what comes after it was not measured"));
}

#[test]
fn a_second_interrupt_ends_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let mut bench = under_way(folder.path());
    // Any number of signals, because two pending ones merge.
    while bench.try_wait().unwrap().is_none() {
        signal(&bench, "INT");
        std::thread::yield_now();
    }
    assert_eq!(bench.wait().unwrap().code(), Some(130));
}

#[test]
fn a_calibration_that_is_interrupted_leaves_the_plan_that_was_there() {
    let folder = tempfile::tempdir().unwrap();
    if sidecore_daemon::sys::cpu::allowed().len() < 2 {
        return skipped("there is one core");
    }
    let plan = folder.path().join("machine.toml");
    fs::write(&plan, "kept").unwrap();
    let bench = command().args(["bench", "calibrate", "--plan"]).arg(&plan).stderr(Stdio::piped()).spawn();
    let mut bench = bench.unwrap();
    let mut lines = BufReader::new(bench.stderr.take().unwrap()).lines();
    assert!(lines.next().unwrap().unwrap().starts_with("calibrate"));
    signal(&bench, "INT");
    let last = lines.map_while(Result::ok).last().unwrap_or_default();
    assert_eq!(bench.wait().unwrap().code(), Some(130));
    assert!(last.contains("machine.toml is not written"), "{last}");
    assert_eq!(fs::read_to_string(&plan).unwrap(), "kept");
}

fn git(arguments: &[&str], folder: &Path) -> Option<String> {
    let said = Command::new("git").arg("-C").arg(folder).args(arguments).output().ok()?;
    said.status.success().then(|| String::from_utf8(said.stdout).unwrap().trim().to_owned())
}

#[test]
fn a_page_and_rows_say_which_program_measured_what_and_where() {
    let folder = tempfile::tempdir().unwrap();
    // Another checkout that resembles sidecore's: the working directory must not matter.
    let elsewhere = folder.path();
    fs::create_dir_all(elsewhere.join("base/core")).unwrap();
    fs::write(elsewhere.join("base/core/Cargo.toml"), "").unwrap();
    git(&["init", "-q"], elsewhere);
    git(&["add", "."], elsewhere);
    git(&["-c", "user.name=x", "-c", "user.email=x", "commit", "-q", "-m", "other"], elsewhere);
    let other = git(&["rev-parse", "--short", "HEAD"], elsewhere);
    let output = command()
        .args(["bench", "balance", "--quick", "--json", "my rows.json", "--html", "page.html"])
        .current_dir(elsewhere)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let rows = rows(&elsewhere.join("my rows.json"));
    let (row, page) = (&rows[0], fs::read_to_string(elsewhere.join("page.html")).unwrap());
    let run = &row["run"];
    assert_eq!(run["command"], "sidecore bench balance --quick --json 'my rows.json' --html page.html");
    assert_eq!((&run["version"], &run["stopped"]), (&env!("CARGO_PKG_VERSION").into(), &false.into()));
    assert_eq!(run["cores"], sidecore_daemon::sys::cpu::allowed().len());
    for name in ["cpu", "kernel", "date"] {
        assert!(run[name].as_str().is_some_and(|text| !text.is_empty()), "{name}: {run}");
    }
    assert!(
        page.contains("balance --quick --json &#39;my rows.json&#39;") && page.contains(run["date"].as_str().unwrap())
    );
    let commit = row["commit"].as_str().unwrap();
    assert_ne!(Some(commit), other.as_deref());
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    let is_checkout = git(&["rev-parse", "--show-toplevel"], &root).is_some_and(|top| Path::new(&top) == root);
    let own = git(&["rev-parse", "--short", "HEAD"], &root).filter(|_| is_checkout);
    assert_eq!(commit.trim_end_matches("-dirty"), own.as_deref().unwrap_or("unknown"));
    assert!(page.contains(commit));
    // Two repeats are always too few, and tests are not optimised.
    let reasons = |doubts: &Value| -> Vec<String> {
        doubts.as_array().unwrap().iter().map(|doubt| doubt["reason"].as_str().unwrap().to_owned()).collect()
    };
    assert!(rows.iter().all(|row| reasons(&row["doubts"]).contains(&"repeats".to_owned())));
    assert_eq!(reasons(&run["doubts"]).contains(&"unoptimised".to_owned()), cfg!(debug_assertions));
    assert!(
        page.contains("repeats: the same was measured too seldom")
            && page.contains("What to do: measure with `sidecore bench` without --quick")
    );
}

#[test]
fn scenarios_run_with_a_service_that_runs_already_and_leave_it_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("socket");
    let service = Service::start(Config { socket: socket.clone(), ..Config::default() }).unwrap();
    let file = folder.path().join("rows.json");
    let bench = |arguments: &[&str]| {
        command()
            .arg("bench")
            .args(arguments)
            .arg("--quick")
            .arg("--socket")
            .arg(&socket)
            .arg("--json")
            .arg(&file)
            .output()
    };
    let output = bench(&["lane", "crypto", "keys", "--op", "aes-256-gcm,ed25519-sign"]).unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let found = rows(&file);
    for (scenario, variant) in [
        ("lane", "round-trip"),
        ("lane", "pipelined"),
        ("crypto", "inline"),
        ("crypto", "sidecore"),
        ("keys", "sidecore"),
    ] {
        let mut own = found.iter().filter(|row| row["scenario"] == scenario && row["variant"] == variant);
        let row = own.next().unwrap_or_else(|| panic!("{scenario} {variant} in {found:?}"));
        assert!(row["ops_per_s"].as_f64().unwrap() > 0.0);
        assert_eq!(row["pinned"], "nothing pinned, the service ran already");
    }
    // Scenarios that change their service are left out, or refused if they are named.
    let refused = bench(&["notify"]).unwrap();
    assert_eq!(refused.status.code(), Some(2));
    assert!(stderr(&refused).contains("notify cannot be measured at --socket: it changes how"), "{}", stderr(&refused));
    assert_eq!(bench(&["calibrate"]).unwrap().status.code(), Some(2));
    drop(service);
    let gone = bench(&["lane"]).unwrap();
    assert_eq!(gone.status.code(), Some(2));
    assert!(stderr(&gone).contains("cannot use the service at"), "{}", stderr(&gone));
}
