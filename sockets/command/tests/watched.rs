//! `sidecore sockets`, `sidecore sockets top` and `sidecore sockets export` with a service.

use sidecore_sockets_service::{Config, Sockets};
use sidecore_testing::terminal::{ENTER, LEAVE, Terminal};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

struct Served {
    folder: TempDir,
    service: Sockets,
}

impl Served {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let config = Config { socket: socket(folder.path()), ..Config::default() };
        Self { service: Sockets::start(&config).unwrap(), folder }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sidecore-sockets"));
        command.arg("sockets").args(arguments).arg("--socket").arg(socket(self.folder.path()));
        command
    }
}

fn socket(folder: &Path) -> PathBuf {
    folder.join("socket")
}

/// Killed at its end: an exporter runs until then.
struct Ending(Child);

impl Drop for Ending {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_service_without_programs_is_listed_and_printed_as_such() {
    let served = Served::new();
    for arguments in [&[][..], &["--all"], &["top"], &["top", "--once"]] {
        let output = served.command(arguments).output().unwrap();
        assert!(output.status.success() && output.stdout.starts_with(b"no sockets: "), "{arguments:?}: {output:?}");
    }
    let output = served.command(&["--json"]).output().unwrap();
    assert!(output.status.success() && output.stdout.is_empty(), "{output:?}");
}

#[test]
fn without_a_service_each_command_that_needs_one_says_so() {
    let folder = tempfile::tempdir().unwrap();
    for arguments in [&["sockets"][..], &["sockets", "top"], &["sockets", "top", "--once"]] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sidecore-sockets"));
        // The variable is as good as the option.
        let output = command.args(arguments).env("SIDECORE_SOCKETS", socket(folder.path())).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.starts_with("sidecore: no service of sockets at ") && said.lines().count() == 1, "{said}");
    }
}

#[test]
fn a_service_of_sockets_is_shown_live_and_q_ends_it() {
    let served = Served::new();
    let mut terminal = Terminal::new();
    let mut top = terminal.start(&mut served.command(&["top"]));
    terminal.read_until(ENTER);
    terminal.read_until("sockets:");
    assert!(!terminal.is_cooked());
    terminal.press("q");
    terminal.read_until(LEAVE);
    assert!(top.wait().unwrap().success() && terminal.is_cooked());
}

#[test]
fn an_exporter_says_whether_the_service_answers_and_outlives_it() {
    let served = Served::new();
    let mut export = served.command(&["export", "--listen", "127.0.0.1:0"]);
    let mut export = Ending(export.stderr(Stdio::piped()).spawn().unwrap());
    let line = BufReader::new(export.0.stderr.take().unwrap()).lines().next().unwrap().unwrap();
    let address = line.split_once("http://").and_then(|(_, rest)| rest.split_once('/')).unwrap().0.to_owned();
    let page = |path: &str| {
        let mut scrape = TcpStream::connect(&address).unwrap();
        write!(scrape, "GET {path} HTTP/1.0\r\n\r\n").unwrap();
        let mut page = String::new();
        scrape.read_to_string(&mut page).unwrap();
        page
    };
    assert!(page("/metrics").contains("\nsidecore_sockets_up 1\n"));
    assert!(page("/").contains("<p>The service of sockets answers.</p>"));
    drop(served.service);
    let is_down = |page: String| page.contains("\nsidecore_sockets_up 0\n") && page.contains("\nsidecore_build_info{");
    // The list is made once a second at most, so the first pages may be of the time before.
    assert!((0..100_000).any(|_| is_down(page("/metrics"))));
}
