//! The package `keys/go/sidecore`, whose tests have the service and the agent changed by commands on a socket.

use crate::site::{Agent, KEYS, Site, root_or_skipped};
use sidecore::keys::{Acl, KeyCommand, Kind};
use sidecore::spec::Secret;
use std::fs;
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::thread;
use std::time::Duration;

/// User of the keys and of the agent.
const OWN: u32 = 6_000;

fn own() -> Acl {
    Acl { uids: vec![OWN], gids: vec![] }
}

fn make_keys(site: &Site) {
    for (name, kind) in KEYS {
        site.make(name, kind, own());
    }
}

struct Stage {
    site: Site,
    agent: Option<Agent>,
}

impl Stage {
    fn new() -> Self {
        let site = Site::new();
        make_keys(&site);
        let agent = Some(site.agent_of(OWN, &[]));
        Self { site, agent }
    }

    fn end_agent(&mut self) {
        assert!(self.agent.take().is_some_and(|mut agent| agent.end().success()));
    }

    fn obey(&mut self, command: &str) {
        match command.split(' ').collect::<Vec<_>>()[..] {
            ["agent", "stop"] => self.end_agent(),
            ["agent", "start"] => self.agent = Some(self.site.agent_of(OWN, &[])),
            ["agent", "restart"] => {
                self.end_agent();
                self.agent = Some(self.site.agent_of(OWN, &[]));
            }
            ["service", "stop"] => self.site.stop_service(),
            ["service", "start"] => {
                self.site.start_service();
                make_keys(&self.site);
            }
            ["make", name] => self.site.make(name, Kind::P256, own()),
            ["withdraw", name] => {
                self.site.keys(KeyCommand::SetAcl { name: name.to_owned(), acl: Acl::default() });
            }
            ["permit", name] => self.site.keys(KeyCommand::SetAcl { name: name.to_owned(), acl: own() }),
            ["replace", name, file] => {
                let pkcs8 = Secret::new(fs::read(file).unwrap());
                self.site.keys(KeyCommand::Replace { name: name.to_owned(), pkcs8 });
            }
            ["delete", name] => self.site.keys(KeyCommand::Delete { name: name.to_owned() }),
            _ => panic!("{command}"),
        }
    }

    /// Obeys the commands of a program until it ends.
    fn run(&mut self, control: &UnixListener, mut program: Child) -> bool {
        control.set_nonblocking(true).unwrap();
        loop {
            match control.accept() {
                Ok((stream, _)) => self.answer(&stream),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    if let Some(status) = program.try_wait().unwrap() {
                        return status.success();
                    }
                    thread::sleep(Duration::from_millis(5));
                }
                Err(error) => panic!("{error}"),
            }
        }
    }

    fn answer(&mut self, mut stream: &UnixStream) {
        stream.set_nonblocking(false).unwrap();
        let mut command = String::new();
        BufReader::new(stream).read_line(&mut command).unwrap();
        self.obey(command.trim_end());
        stream.write_all(b"done\n").unwrap();
    }
}

fn module() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../go/sidecore")
}

/// Go without a network.
fn go(arguments: &[&str]) -> Command {
    let mut command = Command::new("timeout");
    command.args(["--kill-after=5", "600", "go"]).args(arguments).current_dir(module());
    command.env("GOFLAGS", "-mod=mod").env("GOPROXY", "off").env("GOTOOLCHAIN", "local");
    command
}

#[test]
fn programs_in_go_sign_over_restarts_and_withdrawn_rights() {
    if !root_or_skipped("start an agent of another user") {
        return;
    }
    let vetted = go(&["vet", "./..."]).output().unwrap();
    assert!(vetted.status.success(), "apt-get install golang-go: {vetted:?}");
    let mut stage = Stage::new();
    let [control, log] = ["control", "go.log"].map(|name| stage.site.path(name));
    let listener = UnixListener::bind(&control).unwrap();
    let mut test = go(&["test", "-v", "-count=1", "-bench=.", "./..."]);
    let socket = &stage.agent.as_ref().unwrap().socket;
    test.env("SIDECORE_TEST_CONTROL", &control).env("SSH_AUTH_SOCK", socket);
    let file = fs::File::create(&log).unwrap();
    test.stdout(file.try_clone().unwrap()).stderr(file);
    let passed = stage.run(&listener, test.spawn().unwrap());
    let said = fs::read_to_string(log).unwrap();
    assert!(passed && !said.contains("SKIP"), "{said}\n{}", stage.agent.map_or(String::new(), |agent| agent.said()));
    for test in [
        "TestARenewalOfKeyAndChainCostsNoHandshake",
        "TestHandshakes",
        "TestHostileAgents",
        "TestRightsAreWithdrawn",
        "TestTheAgentRestarts",
    ] {
        assert!(said.contains(&format!("--- PASS: {test}")), "{said}");
    }
    for figure in ["BenchmarkSign", "handshakes during the renewal"] {
        println!("{}", said.lines().find(|line| line.contains(figure)).unwrap_or_default());
    }
}
