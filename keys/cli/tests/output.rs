//! Commands whose output cannot be written: a closed pipe, a full disk. None of them panics.

use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, OpenOptions};
use std::io::pipe;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

fn sidecore(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sidecore"));
    command.args(arguments).env("SIDECORE_SOCKET", "/no/socket");
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
    for arguments in [&["--help"][..], &["--version"], &["check"], &["check", "--json"]] {
        let own = ran(sidecore(arguments).stdout(Stdio::null()));
        assert!(matches!(own.0, Some(0 | 1)), "{arguments:?}: {}", own.1);
        assert_eq!(ran(sidecore(arguments).stdout(closed())), own, "{arguments:?}");
        let (code, said) = ran(sidecore(arguments).stdout(full()));
        assert_eq!(code, Some(2), "{arguments:?}: {said}");
        assert!(said.contains("cannot write to standard output: No space left"), "{arguments:?}: {said}");
    }
}

#[test]
fn messages_that_nobody_takes_leave_the_exit_code_as_it_is() {
    let unheard = |arguments: &[&str], stderr: Stdio| sidecore(arguments).stderr(stderr).status().unwrap().code();
    for arguments in [&["set", "notify=park"][..], &["nonsense"], &["run", "--module", "/no/module", "--", "true"]] {
        assert_eq!((unheard(arguments, full()), unheard(arguments, closed())), (Some(2), Some(2)), "{arguments:?}");
    }
    assert_eq!(unheard(&["run", "--module", "/dev/null", "--", "/no/command"], closed()), Some(127));
}

#[test]
fn a_service_whose_log_is_closed_ends_as_it_is_told() {
    let scratch = tempfile::tempdir().unwrap();
    let (config, socket) = (scratch.path().join("config"), scratch.path().join("socket"));
    fs::write(&config, format!("socket = '{}'\n", socket.display())).unwrap();
    let mut serve = sidecore(&["serve", "--config", config.to_str().unwrap()]);
    let mut child = serve.stderr(closed()).spawn().unwrap();
    await_file(&socket);
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    assert!(child.wait().unwrap().success());
}

fn await_file(path: &Path) {
    for _ in 0..3000 {
        if path.exists() {
            return;
        }
        thread::sleep(Duration::from_millis(10));
    }
    panic!("no {}", path.display());
}
