//! A service with a thread that reads its log line by line.

use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use rustix::process::{Pid, Signal, kill_process};
use sidecore::client::{Client, Options, Request as Submission, Session};
use sidecore::control::{Reply, Request, receive, send};
use sidecore::core::session::Op;
use sidecore::engine::crypto::{KeyMaterial, Scheme, SessionSpec};
use sidecore::keys::KeyCommand;
use sidecore_testing::copy_program;
use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader, Read};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;
use tempfile::TempDir;

/// Longest wait for steps that take milliseconds.
const MAX_WAIT: Duration = Duration::from_secs(60);

pub(crate) struct Home(TempDir);

impl Home {
    pub(crate) fn new(more: &str) -> Self {
        let home = Self(tempfile::tempdir().unwrap());
        let config = format!("socket = '{}'\nsocket_mode = '0666'\n{more}", home.socket().display());
        fs::write(home.path("config"), config).unwrap();
        home
    }

    pub(crate) fn path(&self, file: &str) -> PathBuf {
        self.0.path().join(file)
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.path("run/socket")
    }

    pub(crate) fn lets_others_in(&self) {
        fs::set_permissions(self.0.path(), Permissions::from_mode(0o755)).unwrap();
        copy_program(env!("CARGO_BIN_EXE_sidecore"), self.path("sidecore"));
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut serve = Command::new(env!("CARGO_BIN_EXE_sidecore"));
        serve.arg("serve").arg("--config").arg(self.path("config")).args(arguments);
        serve
    }

    pub(crate) fn serve(&self, arguments: &[&str]) -> Serving {
        let mut child = self.command(arguments).stderr(Stdio::piped()).spawn().unwrap();
        let lines = read_lines(child.stderr.take().unwrap());
        let serving = Serving { child, lines, socket: self.socket() };
        self.await_answers();
        serving
    }

    pub(crate) fn serve_unread(&self) -> Child {
        let child = self.command(&["--log", "json"]).stderr(Stdio::piped()).spawn().unwrap();
        self.await_answers();
        child
    }

    pub(crate) fn await_answers(&self) {
        for _ in 0..6000 {
            if let Some(socket) = dial(&self.socket()) {
                let list = Request::Keys(KeyCommand::List { after: String::new() });
                assert!(matches!(Dialled(socket).ask(&list), Reply::Keys(_)));
                return;
            }
            thread::sleep(Duration::from_millis(10));
        }
        panic!("no service at {}", self.socket().display());
    }
}

pub(crate) struct Serving {
    child: Child,
    lines: Receiver<String>,
    socket: PathBuf,
}

impl Serving {
    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_sidecore"))
            .args(arguments)
            .env("SIDECORE_SOCKET", &self.socket)
            .output()
            .unwrap()
    }

    pub(crate) fn done(&self, arguments: &[&str]) -> u64 {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sidecore"));
        command.args(arguments).env("SIDECORE_SOCKET", &self.socket).stdout(Stdio::null());
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let id = child.id();
        let mut said = String::new();
        child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        assert!(child.wait().unwrap().success(), "{arguments:?}: {said}");
        u64::from(id)
    }

    pub(crate) fn client(&self) -> Client {
        let options = Options { socket: self.socket.clone(), name: "test".to_owned(), ..Options::default() };
        Client::connect(&options).unwrap()
    }

    pub(crate) fn dial(&self) -> Dialled {
        Dialled::to(&self.socket)
    }

    pub(crate) fn refuse(&self, count: usize) {
        let line = self.dial();
        for _ in 0..count {
            assert!(matches!(line.ask(&Request::KeyInfo { name: "absent".to_owned() }), Reply::Refused(_)));
        }
    }

    pub(crate) fn wait_for(&self, event: &str) -> String {
        loop {
            let line = self.lines.recv_timeout(MAX_WAIT).unwrap_or_else(|_| panic!("no event {event}"));
            if field(&line, "event") == event {
                return line;
            }
        }
    }

    pub(crate) fn end(mut self) -> Vec<String> {
        terminate(&mut self.child);
        self.lines.iter().collect()
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        // The process has ended already, unless the test failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) struct Dialled(pub(crate) OwnedFd);

impl Dialled {
    pub(crate) fn to(path: &Path) -> Self {
        Self(dial(path).unwrap())
    }

    pub(crate) fn say(&self, request: &Request) {
        send(&self.0, request, &[]).unwrap();
    }

    pub(crate) fn hear(&self) -> Reply {
        receive(&self.0).unwrap().0
    }

    pub(crate) fn ask(&self, request: &Request) -> Reply {
        self.say(request);
        self.hear()
    }
}

fn dial(path: &Path) -> Option<OwnedFd> {
    let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
    connect(&socket, &SocketAddrUnix::new(path).unwrap()).ok().map(|()| socket)
}

pub(crate) fn read_lines(from: impl Read + Send + 'static) -> Receiver<String> {
    let (tell, lines) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(from).lines() {
            if tell.send(line.unwrap()).is_err() {
                return;
            }
        }
    });
    lines
}

pub(crate) fn terminate(child: &mut Child) {
    kill_process(Pid::from_child(child), Signal::TERM).unwrap();
    assert!(child.wait().unwrap().success());
}

fn value(line: &str, name: &str) -> serde_json::Value {
    let object: serde_json::Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
    object[name].clone()
}

pub(crate) fn field(line: &str, name: &str) -> String {
    value(line, name).as_str().unwrap_or_default().to_owned()
}

pub(crate) fn number(line: &str, name: &str) -> u64 {
    value(line, name).as_u64().unwrap_or_default()
}

pub(crate) fn noop(client: &mut Client) -> Session {
    client.open_session(&SessionSpec { scheme: Scheme::Noop, key: KeyMaterial::None }).unwrap()
}

pub(crate) fn submit_noop(client: &mut Client) {
    let session = noop(client);
    let request = Submission { session, op: Op::Noop, head_len: 0, inputs: &[], outputs: &[], urgent: false };
    client.submit(1, &request).unwrap();
    client.ring();
}
