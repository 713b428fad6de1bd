//! `sidecore try`, as a new user runs it.

use std::fs;
use std::process::{Command, Output};

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Removes line breaks: notes are wrapped to the terminal's width.
fn on_one_line(bytes: &[u8]) -> String {
    text(bytes).split_whitespace().collect::<Vec<_>>().join(" ")
}

fn run(command: &mut Command) -> Output {
    command.output().unwrap()
}

fn command() -> Command {
    Command::new(env!("CARGO_BIN_EXE_sidecore-try"))
}

#[test]
fn a_key_moves_out_of_a_server_and_everything_said_of_it_is_seen() {
    let folder = tempfile::tempdir().unwrap();
    let [page, rows] = ["page.html", "rows.json"].map(|name| folder.path().join(name));
    let done = run(command().arg("try").arg("--html").arg(&page).arg("--json").arg(&rows));
    let said = on_one_line(&done.stdout);
    assert!(done.status.success(), "{said}{}", text(&done.stderr));
    for words in [
        "key in a file: a handshake was verified; 2 of 2 pieces of the private key are in the server's",
        "key in sidecore: a handshake was verified; 0 of 2 pieces of the private key are in the server's",
        "with its key in a file 2 of 2 pieces of it are in the worker's memory, with its key in sidecore 0 of 2",
        "a server was killed (SIGKILL) while it signed: the service gave its lane back (2 lanes before, 1 after)",
        "the service was restarted 2 times under load:",
        "handshakes in 4 s, none failed",
        "after all of this, 0 of 2 pieces are in the server's memory",
        "from submission to the sidecore",
    ] {
        assert!(said.contains(words), "{words}: {said}");
        let page = fs::read_to_string(&page).unwrap();
        assert!(page.contains(&words.replace('\'', "&#39;")) || page.contains(words), "{words} is not in the page");
    }
    let rows = fs::read_to_string(&rows).unwrap();
    let rows: Vec<serde_json::Value> = rows.lines().map(|row| serde_json::from_str(row).unwrap()).collect();
    assert_eq!(rows.len(), 4);
    assert!(rows.iter().all(|row| row["ops_per_s"].as_f64().unwrap() > 1.0), "{rows:?}");
    for (row, baseline) in [(1, "key in a file"), (3, "nginx, key in a file")] {
        assert!(rows[row]["baseline"] == baseline && rows[row]["ratio"].as_f64().unwrap() > 0.0, "{rows:?}");
    }
}

#[test]
fn where_there_is_no_openssl_that_is_said() {
    let done = run(command().arg("try").env("PATH", "/nonexistent"));
    assert_eq!(done.status.code(), Some(2));
    let said = text(&done.stderr);
    assert!(said.contains("openssl is not installed: apt-get install openssl"), "{said}");
}

#[test]
fn wrong_arguments_are_usage() {
    let done = run(command().args(["try", "--htlm", "x"]));
    assert_eq!(done.status.code(), Some(2));
    assert!(text(&done.stderr).contains("--html"), "{}", text(&done.stderr));
}
