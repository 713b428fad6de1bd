//! Programs of these tests, with and without the library, and their service.

use sidecore_core::policy::notify::Notify;
use sidecore_sockets_service::{Config, NotifyConfig, Sockets};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Time limit of a program, seconds.
const TIME_LIMIT_S: &str = "120";

pub(crate) fn library() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let library = test.with_file_name("libsidecore_preload.so");
    assert!(library.exists(), "no library at {}: cargo build -p sidecore-preload", library.display());
    library
}

pub(crate) fn compiled(directory: &Path, files: &[&str]) -> PathBuf {
    compiled_with(directory, files, &[])
}

pub(crate) fn compiled_with(directory: &Path, files: &[&str], libraries: &[&str]) -> PathBuf {
    let program = directory.join("program");
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/calls");
    let files = files.iter().map(|file| sources.join(file));
    let mut cc = Command::new("cc");
    cc.args(["-O1", "-w", "-o"]).arg(&program).args(files);
    let output = cc.arg("-lpthread").args(libraries).output();
    let output = output.expect("no `cc` here: apt-get install gcc");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    program
}

pub(crate) fn command(program: &Path, arguments: &[&str], service: Option<&Path>) -> Command {
    command_for(program, arguments, service, TIME_LIMIT_S)
}

/// As [`command`], with another time limit, seconds.
pub(crate) fn command_for(program: &Path, arguments: &[&str], service: Option<&Path>, limit: &str) -> Command {
    let mut command = Command::new("timeout");
    command.args(["-k", "5", limit]).arg(program).args(arguments);
    if let Some(service) = service {
        command.env("LD_PRELOAD", library()).env("SIDECORE_SOCKETS", service);
    }
    command
}

pub(crate) fn started(socket: &Path) -> Sockets {
    let (notify, socket) = (NotifyConfig { service: Notify::Park }, socket.to_owned());
    Sockets::start(&Config { notify, socket, ..Config::default() }).unwrap()
}
