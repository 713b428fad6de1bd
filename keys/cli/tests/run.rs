//! `sidecore run`: the environment, exit codes and signals of the command that it runs.

use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader};
use std::process::{Command, Output, Stdio};

fn shell(script: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sidecore"));
    command.args(["run", "--module", "/dev/null", "--socket", "/run/test", "--", "sh", "-c", script]);
    command
}

fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn the_command_has_a_configuration_while_it_runs() {
    let output = shell("cat $OPENSSL_CONF; echo $SIDECORE_SOCKET; echo $OPENSSL_CONF").output().unwrap();
    let said = out(&output);
    assert!(said.contains("module = /dev/null\n") && said.contains("/run/test\n"), "{said}");
    let file = said.lines().last().unwrap();
    assert!(!std::path::Path::new(file).exists(), "{file} is left behind");
}

#[test]
fn exit_codes_are_handed_on() {
    for code in [0, 1, 77] {
        assert_eq!(shell(&format!("exit {code}")).status().unwrap().code(), Some(code));
    }
    assert_eq!(shell("kill -KILL $$").status().unwrap().code(), Some(128 + 9));
}

#[test]
fn signals_reach_the_command() {
    let script = "trap 'echo got it; exit 5' TERM; echo ready; while :; do read line; done";
    let mut child = shell(script).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert_eq!(lines.next().as_deref(), Some("ready"));
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    assert_eq!(lines.next().as_deref(), Some("got it"));
    assert_eq!(child.wait().unwrap().code(), Some(5));
}

#[test]
fn what_cannot_be_run_is_said_with_the_exit_code_of_shells() {
    let told = |code: i32, args: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_sidecore")).arg("run").args(args).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{args:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    assert!(told(2, &["--module", "/no/module", "--", "true"]).contains("/no/module"));
    assert!(told(127, &["--module", "/dev/null", "--", "/no/command"]).contains("/no/command"));
    assert!(told(127, &["--module", "/dev/null", "--", "no-such-command"]).contains("no-such-command"));
    assert!(told(126, &["--module", "/dev/null", "--", "/dev/null"]).contains("/dev/null"));
    assert!(told(126, &["--module", "/dev/null", "--", "/"]).contains("/: "));
    assert!(told(2, &[]).contains("COMMAND"));
}
