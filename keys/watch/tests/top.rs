//! `sidecore top` on its own terminal.

use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};
use sidecore::config::Config;
use sidecore::service::Service;
use sidecore_counters::counters_beside;
use sidecore_sockets_service::Sockets;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};

const ENTER: &str = "\x1b[?1049h";
const LEAVE: &str = "\x1b[?1049l";

struct Terminal {
    screen: File,
    program: File,
    shown: String,
}

impl Terminal {
    fn new() -> Self {
        let screen = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&screen).unwrap();
        unlockpt(&screen).unwrap();
        let path = ptsname(&screen, Vec::new()).unwrap();
        let program = OpenOptions::new().read(true).write(true).open(path.to_str().unwrap()).unwrap();
        tcsetwinsize(&program, Winsize { ws_row: 30, ws_col: 120, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
        Self { screen: screen.into(), program, shown: String::new() }
    }

    fn start(&self, arguments: &[&str]) -> Child {
        let end = || Stdio::from(self.program.try_clone().unwrap());
        let mut command = Command::new(env!("CARGO_BIN_EXE_sidecore-watch"));
        command.args(arguments).env("TERM", "xterm").stdin(end()).stdout(end()).stderr(end()).spawn().unwrap()
    }

    fn read_until(&mut self, text: &str) {
        while !self.shown.contains(text) {
            let mut bytes = [0; 4096];
            let len = self.screen.read(&mut bytes).unwrap();
            self.shown += &String::from_utf8_lossy(&bytes[..len]);
        }
    }

    /// Whether line editing and echo are on, as a shell expects.
    fn is_cooked(&self) -> bool {
        tcgetattr(&self.program).unwrap().local_modes.contains(LocalModes::ICANON | LocalModes::ECHO)
    }
}

#[test]
fn a_signal_gives_the_terminal_back() {
    let scratch = tempfile::tempdir().unwrap();
    let socket = scratch.path().join("socket");
    let _service = Service::start(Config { socket: socket.clone(), ..Config::default() }).unwrap();
    for signal in [Signal::TERM, Signal::HUP] {
        let mut terminal = Terminal::new();
        let mut top = terminal.start(&["top", "--counters", counters_beside(&socket).to_str().unwrap()]);
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
fn a_service_of_sockets_is_shown_live_and_q_ends_it() {
    let scratch = tempfile::tempdir().unwrap();
    let socket = scratch.path().join("socket");
    let config = sidecore_sockets_service::Config { socket: socket.clone(), ..Default::default() };
    let _service = Sockets::start(&config).unwrap();
    for option in ["--sockets", "--socket"] {
        let mut terminal = Terminal::new();
        let mut top = terminal.start(&["top", option, socket.to_str().unwrap()]);
        terminal.read_until(ENTER);
        terminal.read_until("sockets:");
        terminal.screen.write_all(b"q").unwrap();
        terminal.read_until(LEAVE);
        assert!(top.wait().unwrap().success() && terminal.is_cooked());
    }
}

#[test]
fn a_terminal_that_is_gone_ends_it() {
    let scratch = tempfile::tempdir().unwrap();
    let socket = scratch.path().join("socket");
    let _service = Service::start(Config { socket: socket.clone(), ..Config::default() }).unwrap();
    let mut terminal = Terminal::new();
    let mut top = terminal.start(&["top", "--counters", counters_beside(&socket).to_str().unwrap()]);
    terminal.read_until("overview");
    drop(terminal);
    // The kernel sends this signal to the terminal's controlling process.
    kill_process(Pid::from_child(&top), Signal::HUP).unwrap();
    assert_eq!(top.wait().unwrap().signal(), Some(Signal::HUP.as_raw()));
}
