//! A real service process.

use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process};
use sidecore::client::{Admin, Client, Options};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::thread;
use std::time::Duration;
use tempfile::TempDir;

pub(crate) const USER: &str = "nobody";
pub(crate) const USER_ID: u32 = 65534;

/// Number of polls, 10 ms apart, for steps that take milliseconds.
const MAX_POLLS: u32 = 3000;

pub(crate) fn sidecore() -> Command {
    Command::new(env!("CARGO_BIN_EXE_sidecore"))
}

pub(crate) struct ServiceFolder(TempDir);

impl ServiceFolder {
    /// `top`: lines of the configuration after the paths. `sandbox`: lines of its section `[sandbox]`.
    pub(crate) fn new(top: &str, sandbox: &str) -> Self {
        let folder = Self(tempfile::tempdir().unwrap());
        // Other users need access to the service's files.
        fs::set_permissions(folder.0.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let config = format!("socket = '{}'\n{top}\n[sandbox]\n{sandbox}\n", folder.socket().display());
        fs::write(folder.config(), config).unwrap();
        folder
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.file("run/sidecore/socket")
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn config(&self) -> PathBuf {
        self.file("sidecore.toml")
    }

    pub(crate) fn start(&self) -> Running {
        self.start_by(sidecore())
    }

    pub(crate) fn start_by(&self, mut command: Command) -> Running {
        let log = self.file("log");
        let stderr = fs::File::create(&log).unwrap();
        let child = command.arg("serve").arg("--config").arg(self.config()).stderr(stderr).spawn().unwrap();
        let mut running = Running { child, log };
        running.await_serving();
        running
    }

    pub(crate) fn refusal(&self, mut command: Command) -> String {
        let output = command.arg("serve").arg("--config").arg(self.config()).stdin(Stdio::null()).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        let mut command = sidecore();
        command.args(arguments).env("SIDECORE_SOCKET", self.socket()).env("SIDECORE_SERVICE_USER", USER);
        command.output().unwrap()
    }

    pub(crate) fn connect(&self) -> Client {
        Client::connect(&self.options()).unwrap()
    }

    pub(crate) fn administer(&self) -> Admin {
        Admin::connect(&self.options()).unwrap()
    }

    pub(crate) fn options(&self) -> Options {
        let service_users = vec![USER.to_owned()];
        Options { socket: self.socket(), service_users, name: "test".to_owned(), ..Options::default() }
    }
}

pub(crate) struct Running {
    child: Child,
    log: PathBuf,
}

impl Running {
    fn await_serving(&mut self) {
        for _ in 0..MAX_POLLS {
            if self.said().contains("serving at") {
                return;
            }
            assert_eq!(self.child.try_wait().unwrap(), None, "{}", self.said());
            thread::sleep(Duration::from_millis(10));
        }
        panic!("it does not serve: {}", self.said());
    }

    pub(crate) fn said(&self) -> String {
        fs::read_to_string(&self.log).unwrap()
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    pub(crate) fn status(&self, key: &str) -> String {
        value(&format!("/proc/{}/status", self.child.id()), key)
    }

    pub(crate) fn status_of_threads(&self, key: &str) -> Vec<String> {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.child.id())).unwrap();
        // A thread that closes a client's lane may end meanwhile.
        let files = tasks.map(|task| task.unwrap().path().join("status"));
        let values: Vec<_> = files.filter_map(|file| Some(value_in(&of_thread(&file)?, key))).collect();
        assert!(!values.is_empty(), "it has no threads");
        values
    }

    pub(crate) fn end(mut self, signal: Signal) -> ExitStatus {
        kill_process(self.pid(), signal).unwrap();
        for _ in 0..MAX_POLLS {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            thread::sleep(Duration::from_millis(10));
        }
        panic!("{signal:?} does not end it");
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// `None`: the thread has ended.
fn of_thread(status: &Path) -> Option<String> {
    match fs::read_to_string(status) {
        // The thread ended before or after the file was opened.
        Err(error) if matches!(Errno::from_io_error(&error), Some(Errno::NOENT | Errno::SRCH)) => None,
        other => Some(other.unwrap()),
    }
}

fn value(file: &str, key: &str) -> String {
    value_in(&fs::read_to_string(file).unwrap(), key)
}

fn value_in(status: &str, key: &str) -> String {
    let line = status.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
    line.unwrap_or_else(|| panic!("no {key} in {status}")).trim().to_owned()
}
