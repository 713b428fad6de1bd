//! `sidecore top` on its own terminal.

use rustix::process::{Pid, Signal, kill_process};
use sidecore::config::Config;
use sidecore::service::Service;
use sidecore_counters::counters_beside;
use sidecore_testing::terminal::{ENTER, LEAVE, Terminal};
use std::os::unix::net::UnixListener;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;

fn top(counters: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sidecore-watch"));
    command.args(["top", "--counters"]).arg(counters);
    command
}

#[test]
fn a_signal_gives_the_terminal_back() {
    let scratch = tempfile::tempdir().unwrap();
    let socket = scratch.path().join("socket");
    let _service = Service::start(Config { socket: socket.clone(), ..Config::default() }).unwrap();
    for signal in [Signal::TERM, Signal::HUP] {
        let mut terminal = Terminal::new();
        let mut top = terminal.start(&mut top(&counters_beside(&socket)));
        terminal.read_until(ENTER);
        terminal.read_until("overview");
        assert!(!terminal.is_cooked());
        kill_process(Pid::from_child(&top), signal).unwrap();
        terminal.read_until(LEAVE);
        assert_eq!(top.wait().unwrap().signal(), Some(signal.as_raw()), "whoever asked sees that it was heard");
        assert!(terminal.is_cooked());
    }
}

#[test]
fn what_was_for_a_service_of_sockets_names_the_command_that_is() {
    let scratch = tempfile::tempdir().unwrap();
    let socket = scratch.path().join("socket");
    let _listener = UnixListener::bind(&socket).unwrap();
    let at = socket.to_str().unwrap();
    for (arguments, successor) in [
        (&["top", "--sockets"][..], "`sidecore sockets top`"),
        (&["top", "--once", "--sockets", at], "`sidecore sockets top`"),
        (&["top", "--once", "--socket", at], "`sidecore sockets top --socket "),
        (&["export", "--sockets", at], "`sidecore sockets export`"),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_sidecore-watch")).args(arguments).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), said.lines().count()), (Some(2), 1), "{said}");
        assert!(said.contains(successor), "{said}");
    }
}

#[test]
fn a_terminal_that_is_gone_ends_it() {
    let scratch = tempfile::tempdir().unwrap();
    let socket = scratch.path().join("socket");
    let _service = Service::start(Config { socket: socket.clone(), ..Config::default() }).unwrap();
    let mut terminal = Terminal::new();
    let mut top = terminal.start(&mut top(&counters_beside(&socket)));
    terminal.read_until("overview");
    drop(terminal);
    // The kernel sends this signal to the terminal's controlling process.
    kill_process(Pid::from_child(&top), Signal::HUP).unwrap();
    assert_eq!(top.wait().unwrap().signal(), Some(Signal::HUP.as_raw()));
}
