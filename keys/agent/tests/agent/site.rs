//! A service with keys, and agents.

use sidecore::client::{Admin, Options};
use sidecore::config::Config;
use sidecore::keys::{Acl, KeyCommand, Kind};
use sidecore::service::Service;
use sidecore_testing::{copy_program, skipped};
use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;

const PROGRAM: &str = env!("CARGO_BIN_EXE_sidecore-agent");
pub(crate) const MAX_WAIT: Duration = Duration::from_secs(60);
/// One of each kind that SSH knows.
pub(crate) const KEYS: [(&str, Kind); 4] =
    [("rsa", Kind::Rsa2048), ("p256", Kind::P256), ("p384", Kind::P384), ("ed25519", Kind::Ed25519)];

pub(crate) struct Site {
    service: Option<Service>,
    config: Config,
    directory: TempDir,
}

impl Site {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        // Other users reach the sockets; service and agent decide about their rights.
        fs::set_permissions(directory.path(), Permissions::from_mode(0o755)).unwrap();
        let config = Config { socket: directory.path().join("service"), socket_mode: 0o666, ..Config::default() };
        let mut site = Self { service: None, config, directory };
        site.start_service();
        site
    }

    pub(crate) fn with(keys: &[(&str, Kind)]) -> Self {
        let site = Self::new();
        for (name, kind) in keys {
            site.make(name, *kind, Acl::default());
        }
        site
    }

    pub(crate) fn start_service(&mut self) {
        self.service = Some(Service::start(self.config.clone()).unwrap());
    }

    pub(crate) fn stop_service(&mut self) {
        self.service = None;
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn keys(&self, command: KeyCommand) {
        let options = Options { socket: self.config.socket.clone(), ..Options::default() };
        Admin::connect(&options).unwrap().keys(command).unwrap();
    }

    pub(crate) fn make(&self, name: &str, kind: Kind, acl: Acl) {
        self.keys(KeyCommand::Generate { name: name.to_owned(), kind, acl });
    }

    fn command(&self, program: &Path, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.arg("agent").arg("--service").arg(&self.config.socket).args(arguments);
        command.env_remove("SIDECORE_SOCKET").stdin(Stdio::null());
        command
    }

    pub(crate) fn agent(&self, arguments: &[&str]) -> Agent {
        self.agent_at("agent", arguments)
    }

    pub(crate) fn agent_at(&self, socket: &str, arguments: &[&str]) -> Agent {
        Agent::start(self.command(PROGRAM.as_ref(), arguments), self.path(socket))
    }

    /// Of another user. The program is copied: cargo's directory may be closed to others.
    pub(crate) fn agent_of(&self, user: u32, arguments: &[&str]) -> Agent {
        let copy = self.path("sidecore-agent");
        copy_program(PROGRAM, &copy);
        let own = self.path("own");
        fs::create_dir_all(&own).unwrap();
        std::os::unix::fs::chown(&own, Some(user), Some(user)).unwrap();
        let mut command = self.command(&copy, arguments);
        command.uid(user).gid(user);
        Agent::start(command, own.join("agent"))
    }

    /// An agent that does not start.
    pub(crate) fn refused(&self, socket: &str, arguments: &[&str]) -> Output {
        self.command(PROGRAM.as_ref(), arguments).arg("--socket").arg(self.path(socket)).output().unwrap()
    }

    /// A program with the agent, which must succeed. Returns its output.
    pub(crate) fn run(&self, agent: &Agent, program: &str, arguments: &[&str], input: &str) -> String {
        let done = self.output(agent, program, arguments, input);
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{program} {arguments:?}: {said}\n{}", agent.said());
        String::from_utf8(done.stdout).unwrap()
    }

    pub(crate) fn output(&self, agent: &Agent, program: &str, arguments: &[&str], input: &str) -> Output {
        let mut command = Command::new("timeout");
        command.args(["--kill-after=5", "120", program]).args(arguments).current_dir(self.directory.path());
        command.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").env("LC_ALL", "C");
        command.env("HOME", self.directory.path()).env("SSH_AUTH_SOCK", &agent.socket);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // The program may end without reading.
        let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
        let done = child.wait_with_output().unwrap();
        assert_ne!(done.status.code(), Some(127), "{program}: apt-get install openssh-client openssh-server git");
        assert_ne!(done.status.code(), Some(124), "{program} {arguments:?} hangs");
        done
    }
}

pub(crate) struct Agent {
    child: Child,
    pub(crate) socket: PathBuf,
    log: PathBuf,
}

impl Agent {
    fn start(mut command: Command, socket: PathBuf) -> Self {
        command.arg("--socket").arg(&socket);
        Self::of(command, socket)
    }

    pub(crate) fn of(mut command: Command, socket: PathBuf) -> Self {
        let log = socket.with_extension("log");
        let child = command.stderr(fs::File::create(&log).unwrap()).spawn().unwrap();
        let mut agent = Self { child, socket, log };
        let begun = Instant::now();
        while UnixStream::connect(&agent.socket).is_err() {
            assert!(agent.child.try_wait().unwrap().is_none() && begun.elapsed() < MAX_WAIT, "{}", agent.said());
            thread::sleep(Duration::from_millis(5));
        }
        agent
    }

    pub(crate) fn said(&self) -> String {
        let mut said = String::new();
        fs::File::open(&self.log).unwrap().read_to_string(&mut said).unwrap();
        said
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Ends it as a service manager does.
    pub(crate) fn end(&mut self) -> ExitStatus {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
        self.child.wait().unwrap()
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn program() -> &'static Path {
    Path::new(PROGRAM)
}

pub(crate) fn root_or_skipped(to: &str) -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        skipped(&format!("only root can {to}"));
    }
    is_root
}
