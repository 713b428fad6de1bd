//! Common behaviour of the command's programs: closed output, and the search for each other.

use std::fs::{self, OpenOptions};
use std::io::pipe;
use std::path::Path;
use std::process::{Command, Stdio};

const PLAN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../plans/lhcb.toml");
const PROGRAM: &str = env!("CARGO_BIN_EXE_sidecore-lab");

fn lab(arguments: &[&str]) -> Command {
    let mut command = Command::new(PROGRAM);
    command.args(arguments);
    command
}

fn full() -> Stdio {
    OpenOptions::new().write(true).open("/dev/full").unwrap().into()
}

fn closed() -> Stdio {
    pipe().unwrap().1.into()
}

fn ran(command: &mut Command) -> (Option<i32>, String) {
    let output = command.stderr(Stdio::piped()).spawn().unwrap().wait_with_output().unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn a_full_disk_is_an_error_and_a_closed_pipe_is_none() {
    for arguments in [&["bench", "--help"][..], &["sim", PLAN], &["sim", "explain", PLAN]] {
        let own = ran(lab(arguments).stdout(Stdio::null()));
        assert_eq!(own.0, Some(0), "{arguments:?}: {}", own.1);
        assert_eq!(ran(lab(arguments).stdout(closed())), own, "{arguments:?}");
        let (code, said) = ran(lab(arguments).stdout(full()));
        assert_eq!(code, Some(2), "{arguments:?}: {said}");
        assert!(said.contains("cannot write to standard output: No space left"), "{arguments:?}: {said}");
    }
}

#[test]
fn what_was_asked_for_in_a_file_is_written_though_nothing_can_be_printed() {
    let scratch = tempfile::tempdir().unwrap();
    let rows = scratch.path().join("rows.json");
    let rows = rows.to_str().unwrap();
    for arguments in [&["sim", PLAN, "--json", rows][..], &["bench", "lane", "--quick", "--json", rows]] {
        assert_eq!(ran(lab(arguments).stdout(full())).0, Some(2), "{arguments:?}");
        assert!(fs::read_to_string(rows).unwrap().lines().count() > 1, "{arguments:?}");
        fs::remove_file(rows).unwrap();
    }
}

#[test]
fn help_shows_the_command_that_people_type() {
    for arguments in [["bench", "--help"], ["help", "bench"]] {
        let output = lab(&arguments).output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        assert!(said.contains("Usage: sidecore bench") && said.contains("--quick"), "{said}");
    }
}

/// Copies by another program: a file that this process has open for writing could not be run while another test starts
/// a process.
fn install(from: &Path, to: &Path) {
    assert!(Command::new("install").args(["-m", "755"]).args([from, to]).status().unwrap().success());
}

#[test]
fn what_the_other_program_does_is_left_to_it() {
    let root = tempfile::tempdir().unwrap();
    let [program, other, script] = ["sidecore-lab", "sidecore", "script"].map(|name| root.path().join(name));
    install(PROGRAM.as_ref(), &program);
    let missing = Command::new(&program).arg("serve").output().unwrap();
    let said = String::from_utf8_lossy(&missing.stderr).into_owned();
    assert!(
        missing.status.code() == Some(2) && said.contains("sidecore is not installed here: apt-get install sidecore,"),
        "{said}"
    );
    fs::write(&script, "#!/bin/sh\necho \"$@\"\nexit 7\n").unwrap();
    install(&script, &other);
    let done = Command::new(&program).args(["keys", "--help"]).output().unwrap();
    assert_eq!((done.status.code(), &done.stdout[..]), (Some(7), &b"keys --help\n"[..]));
}
