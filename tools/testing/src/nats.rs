//! NATS servers for tests of farm and remote keys.

use crate::skipped;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::ffi::OsStr;
use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;

const START_TIMEOUT: Duration = Duration::from_secs(30);
const MOMENT: Duration = Duration::from_millis(5);

/// A NATS server for one test, with a private port and directory. It ends with the test.
#[derive(Debug)]
pub struct Server {
    process: Option<Child>,
    port: u16,
    jetstream: bool,
    further: Vec<String>,
    scratch: TempDir,
}

impl Server {
    /// Starts one with JetStream. `None`, and the test is skipped: there is no nats-server.
    pub fn start() -> Option<Self> {
        Self::start_with(&[])
    }

    /// The same, with further arguments.
    pub fn start_with(further: &[&str]) -> Option<Self> {
        Self::new(true, further)
    }

    /// The same without JetStream.
    pub fn without_jetstream() -> Option<Self> {
        Self::new(false, &[])
    }

    fn new(jetstream: bool, further: &[&str]) -> Option<Self> {
        let scratch = tempfile::tempdir().unwrap();
        let further = further.iter().map(|argument| (*argument).to_owned()).collect();
        let mut server = Self { process: None, port: 0, jetstream, further, scratch };
        server.begin("-1").then_some(server)
    }

    /// Its address for clients.
    pub fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    /// The port of `127.0.0.1` where it listens.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.process.as_ref().unwrap().id()
    }

    /// Kills it, if it runs.
    pub fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill().unwrap();
            process.wait().unwrap();
        }
    }

    /// Kills it and starts it again, at the same port and with what it has stored.
    pub fn start_again(&mut self) {
        self.kill();
        let port = self.port.to_string();
        assert!(self.begin(&port), "the server was there before");
    }

    /// Restarts it with these settings. Its store stays.
    pub fn reconfigure(&mut self, settings: &str) {
        self.configure(settings);
        // The configuration enables JetStream: settings of the command line alone end with a reload.
        self.jetstream = false;
        self.further = vec!["-c".into(), self.configuration().to_str().unwrap().into()];
        self.start_again();
    }

    /// Reloads these settings; [`Self::reconfigure`] must have run before.
    pub fn reload(&self, settings: &str) {
        self.configure(settings);
        self.signal(Signal::HUP);
    }

    fn configure(&self, settings: &str) {
        let store = self.scratch.path().join("store");
        fs::write(self.configuration(), format!("jetstream: {{ store_dir: \"{}\" }}\n{settings}", store.display()))
            .unwrap();
    }

    fn configuration(&self) -> PathBuf {
        self.scratch.path().join("conf")
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        let process = self.process.as_ref().unwrap();
        kill_process(Pid::from_child(process), signal).unwrap();
    }

    /// Restarts it with JetStream or without. Its store stays.
    pub fn start_again_with(&mut self, jetstream: bool) {
        self.jetstream = jetstream;
        self.start_again();
    }

    fn begin(&mut self, port: &str) -> bool {
        let directory = self.scratch.path();
        let log = directory.join("log");
        let mut command = Command::new("nats-server");
        command.args(["-a", "127.0.0.1", "-p", port]);
        if self.jetstream {
            command.args(["-js", "-sd"]).arg(directory.join("store"));
        }
        command.arg("--ports_file_dir").arg(directory).arg("-l").arg(&log).args(&self.further);
        match command.stdout(Stdio::null()).stderr(Stdio::null()).spawn() {
            Ok(process) => self.process = Some(process),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                skipped("no nats-server: apt-get install nats-server");
                return false;
            }
            Err(error) => panic!("cannot start nats-server: {error}"),
        }
        self.port = self.listening();
        true
    }

    fn listening(&mut self) -> u16 {
        let begun = Instant::now();
        let process = self.process.as_mut().unwrap();
        let id = process.id().to_string();
        loop {
            if let Some(port) = port_of(&self.scratch, &id) {
                return port;
            }
            if let Some(status) = process.try_wait().unwrap() {
                let log = fs::read_to_string(self.scratch.path().join("log")).unwrap_or_default();
                panic!("nats-server ended, {status}: {log}");
            }
            assert!(begun.elapsed() < START_TIMEOUT, "nats-server does not listen");
            thread::sleep(MOMENT);
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

fn port_of(scratch: &TempDir, id: &str) -> Option<u16> {
    let mine = |path: &PathBuf| {
        let name = path.file_stem().and_then(OsStr::to_str).unwrap_or_default();
        path.extension() == Some(OsStr::new("ports")) && name.rsplit('_').next() == Some(id)
    };
    let entries = fs::read_dir(scratch.path()).unwrap();
    let file = entries.map(|entry| entry.unwrap().path()).find(mine)?;
    let ports: Value = serde_json::from_slice(&fs::read(file).unwrap()).ok()?;
    ports["nats"][0].as_str()?.rsplit(':').next()?.parse().ok()
}
