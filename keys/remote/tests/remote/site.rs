//! A machine of a test: a service, and a gateway or a key server.

use sidecore::client::{Admin, Client, Error, Options, Received, Session};
use sidecore::config::{Config, DeviceConfig, KeysConfig, LimitsConfig, Partners};
use sidecore::core::session::{Op, Refusal};
use sidecore::keys::{Acl, KeyCommand, Kind, Served, Usage};
use sidecore::service::Service;
use sidecore::spec::{Hash, KeyMaterial, Scheme, SessionSpec, SignaturePadding};
use sidecore_testing::Limit;
use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;

pub(super) const MAX_WAIT: Duration = Duration::from_secs(60);
const FARM: &str = "keys";
const PROGRAM: &str = env!("CARGO_BIN_EXE_sidecore-remote");
pub(super) const STRANGER: u32 = 65534;

pub(super) struct Site {
    service: Option<Service>,
    config: Config,
    directory: TempDir,
}

impl Site {
    pub(super) fn near() -> Self {
        let devices = vec![DeviceConfig::inline("here"), DeviceConfig::remote("far", FARM)];
        Self::with(devices)
    }

    pub(super) fn far() -> Self {
        Self::with(vec![DeviceConfig::inline("here")])
    }

    /// A near service and some far ones, each of which does signatures and decryptions with the key `www` for it, sealed.
    pub(super) fn sealed(far: usize) -> (Self, Vec<Self>) {
        let (mut near, mut all_far) = (Self::near(), (0..far).map(|_| Self::far()).collect::<Vec<_>>());
        let address = |site: &mut Self| {
            site.at_rest();
            site.start_again();
            site.admin().transfer_address().unwrap()
        };
        let of_near = address(&mut near);
        let far = all_far.iter_mut().map(address).collect();
        let usage = Usage::SIGN.with(Usage::DECRYPT);
        let served = vec![Served { address: of_near, keys: vec!["www".to_owned()], usage, rate: None }];
        near.config.keys.partners = Some(Partners { far, ..Partners::default() });
        near.start_again();
        for site in &mut all_far {
            site.config.keys.partners = Some(Partners { served: served.clone(), ..Partners::default() });
            site.start_again();
        }
        (near, all_far)
    }

    /// Requests go to that far service from now on, and to no other.
    pub(super) fn asks(&mut self, far: &Self) {
        let far = vec![far.admin().transfer_address().unwrap()];
        self.config.keys.partners = Some(Partners { far, ..Partners::default() });
        self.start_again();
    }

    /// From the next start on, keys are in a directory, and the service has one address for life.
    fn at_rest(&mut self) {
        let passphrase = self.directory.path().join("passphrase");
        fs::write(&passphrase, self.directory.path().as_os_str().as_encoded_bytes()).unwrap();
        fs::set_permissions(&passphrase, Permissions::from_mode(0o600)).unwrap();
        let directory = Some(self.directory.path().join("keys"));
        self.config.keys = KeysConfig { directory, passphrase_file: Some(passphrase), ..KeysConfig::default() };
    }

    fn with(devices: Vec<DeviceConfig>) -> Self {
        let directory = tempfile::tempdir().unwrap();
        // Other users reach the socket; the service decides about their rights.
        fs::set_permissions(directory.path(), Permissions::from_mode(0o755)).unwrap();
        let limits = LimitsConfig { device_timeout_ms: 20_000, ..LimitsConfig::default() };
        let socket = directory.path().join("socket");
        let config = Config { socket, socket_mode: 0o666, devices, limits, ..Config::default() };
        let mut site = Self { service: None, config, directory };
        site.start_again();
        site
    }

    pub(super) fn start_again(&mut self) {
        self.service = None;
        self.service = Some(Service::start(self.config.clone()).unwrap());
    }

    pub(super) fn stop(&mut self) {
        self.service = None;
    }

    pub(super) fn options(&self) -> Options {
        Options { socket: self.config.socket.clone(), name: "test".to_owned(), ..Options::default() }
    }

    pub(super) fn admin(&self) -> Admin {
        Admin::connect(&self.options()).unwrap()
    }

    pub(super) fn make(&self, name: &str, kind: Kind) -> Vec<u8> {
        let command = KeyCommand::Generate { name: name.to_owned(), kind, acl: Acl::default() };
        self.admin().keys(command).unwrap();
        self.admin().key_info(name).unwrap().public
    }

    pub(super) fn import(&self, name: &str, pkcs8: &[u8], acl: Acl) -> Vec<u8> {
        let command = KeyCommand::Import { name: name.to_owned(), pkcs8: pkcs8.into(), acl };
        self.admin().keys(command).unwrap();
        self.admin().key_info(name).unwrap().public
    }

    pub(super) fn knows(&self, name: &str, public: &[u8]) {
        let command = KeyCommand::ImportPublic { name: name.to_owned(), public: public.to_vec(), acl: Acl::default() };
        self.admin().keys(command).unwrap();
    }

    pub(super) fn gateway(&self, nats: &str) -> Process {
        self.gateway_with(nats, &[])
    }

    pub(super) fn gateway_with(&self, nats: &str, further: &[&str]) -> Process {
        Process::start(self.farm("gateway", nats, "near").args(["--device", "far"]).args(further))
    }

    pub(super) fn key_server(&self, nats: &str, name: &str) -> Process {
        Process::start(&mut self.farm("key-server", nats, name))
    }

    pub(super) fn key_server_with(&self, nats: &str, name: &str, further: &[&str]) -> Process {
        Process::start(self.farm("key-server", nats, name).args(further))
    }

    pub(super) fn key_server_of(&self, user: u32, nats: &str, name: &str, keys: &[&str]) -> Process {
        Process::start(self.farm_of(user, "key-server", nats, name).arg("--allow").args(keys))
    }

    pub(super) fn key_server_without(&self, user: u32, nats: &str) -> Process {
        Process::start(&mut self.farm_of(user, "key-server", nats, "one"))
    }

    fn farm(&self, role: &str, nats: &str, name: &str) -> Command {
        self.program(PROGRAM.as_ref(), role, nats, name)
    }

    /// Uses a copy of the program: other users may have no access to cargo's directory.
    fn farm_of(&self, user: u32, role: &str, nats: &str, name: &str) -> Command {
        let copy = self.directory.path().join("sidecore-remote");
        // Copies in another process: a child of another thread could hold the copy open for writing, and then it could
        // not be executed.
        assert!(Command::new("cp").arg(PROGRAM).arg(&copy).status().unwrap().success());
        let mut command = self.program(&copy, role, nats, name);
        command.uid(user).gid(user);
        command
    }

    fn program(&self, program: &Path, role: &str, nats: &str, name: &str) -> Command {
        let mut command = Command::new(program);
        command.args([role, "--server", nats, "--farm", FARM, "--name", name, "--socket"]).arg(&self.config.socket);
        command
    }
}

pub(super) struct Process {
    child: Child,
    lines: Receiver<String>,
    _limit: Limit,
}

impl Process {
    fn start(command: &mut Command) -> Self {
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let (sender, lines) = channel();
        thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
        let limit = Limit::of(&child);
        Self { child, lines, _limit: limit }
    }

    pub(super) fn says(&self, words: &str) -> String {
        let end = Instant::now() + MAX_WAIT;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let line = self.lines.recv_timeout(left).unwrap_or_else(|_| panic!("it never said: {words}"));
            if line.contains(words) {
                return line;
            }
        }
    }

    pub(super) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    pub(super) fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal).unwrap();
    }

    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(super) fn ended(&mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

pub(super) fn pkcs1() -> Scheme {
    Scheme::RsaSignature { padding: SignaturePadding::Pkcs1, hash: Hash::Sha256 }
}

pub(super) struct User {
    pub(super) client: Client,
    pub(super) session: Session,
}

impl User {
    pub(super) fn new(site: &Site, key: &str, scheme: Scheme) -> Self {
        let mut client = Client::connect(&site.options()).unwrap();
        let spec = SessionSpec { scheme, key: KeyMaterial::Stored(key.to_owned()) };
        let session = client.open_session(&spec).unwrap();
        Self { client, session }
    }

    pub(super) fn wait(&mut self) -> Received {
        self.client.wait_for(MAX_WAIT.as_nanos() as u64).unwrap().expect("no answer")
    }

    pub(super) fn call(&mut self, op: Op, input: &[u8]) -> Result<Vec<u8>, Error> {
        self.client.call(self.session, op, 0, input, 4096)
    }

    pub(super) fn call_soon(&mut self, op: Op, input: &[u8]) -> Vec<u8> {
        let end = Instant::now() + MAX_WAIT;
        loop {
            match self.call(op, input) {
                Ok(result) => return result,
                Err(error) if named(&error) && Instant::now() < end => thread::sleep(Duration::from_millis(2)),
                Err(error) => panic!("{error}"),
            }
        }
    }

    pub(super) fn refused_soon(&mut self, op: Op, input: &[u8]) -> Error {
        self.fails_soon(op, input, named)
    }

    pub(super) fn denied_soon(&mut self, op: Op, input: &[u8]) -> Error {
        self.fails_soon(op, input, |error| matches!(error, Error::Refused(Refusal::KeyDenied)))
    }

    fn fails_soon(&mut self, op: Op, input: &[u8], is_it: fn(&Error) -> bool) -> Error {
        let end = Instant::now() + MAX_WAIT;
        loop {
            match self.call(op, input) {
                Err(error) if is_it(&error) => return error,
                other => assert!(Instant::now() < end, "it never came to that refusal: {other:?}"),
            }
        }
    }
}

pub(super) fn named(error: &Error) -> bool {
    matches!(error, Error::Refused(Refusal::KeyElsewhere) | Error::DeviceFailed(_))
}
