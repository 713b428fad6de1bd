//! The setup of `sidecore try` in its own directory: a key with a certificate, a service that stores the key, and TLS
//! servers.

use crate::error::TryError;
use sidecore::client::{Admin, Options};
use sidecore::config::{Config, KeysConfig};
use sidecore::keys::uri::Uri;
use sidecore::keys::{Acl, KeyCommand, read_private_key};
use sidecore::service::Service;
use sidecore_counters::Snapshot;
use sidecore_ipc::sys::clock;
use sidecore_measure::programs::{self, certify, counted, done, free_port};
use sidecore_measure::provider::{module, openssl_configuration};
use sidecore_measure::servers::{Identity, Program, WebServer};
use std::fs::{self, Permissions};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;
use tempfile::TempDir;

pub(super) const NAME: &str = "www";
/// Longest wait for the return of a lane, ns.
const MAX_WAIT_NS: u64 = 5_000_000_000;

pub(super) struct Fixture {
    directory: TempDir,
    pub(super) key: PathBuf,
    certificate: PathBuf,
    stored: PathBuf,
    configuration: PathBuf,
    /// `None` only during a restart.
    service: Option<Service>,
}

pub(super) struct Server {
    program: programs::Server,
    port: u16,
}

pub(super) struct Load(Child);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Made {
    pub(super) count: u64,
    pub(super) failed: bool,
}

impl Fixture {
    pub(super) fn build() -> Result<Self, TryError> {
        let directory = tempfile::Builder::new().prefix("sidecore-try-").tempdir()?;
        let file = |name: &str| directory.path().join(name);
        let (key, certificate, stored) = (file("key.pem"), file("certificate.pem"), file("stored.pem"));
        let configuration = file("openssl.cnf");
        fs::write(&configuration, openssl_configuration(&module()?, &file("socket")))?;
        let mut make = Command::new("openssl");
        done(make.args(["genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out"]).arg(&key))?;
        certify(&key, &certificate)?;
        fs::write(file("passphrase"), "of a service that lasts half a minute\n")?;
        fs::set_permissions(file("passphrase"), Permissions::from_mode(0o600))?;
        let mut fixture = Self { directory, key, certificate, stored, configuration, service: None };
        fixture.restart()?;
        let mut admin = fixture.admin()?;
        let pkcs8 = read_private_key(&fs::read(&fixture.key)?, None)?;
        admin.keys(KeyCommand::Import { name: NAME.to_owned(), pkcs8, acl: Acl::default() })?;
        let uri = Uri::new(NAME)?.with_public(admin.key_info(NAME)?.public)?;
        fs::write(&fixture.stored, uri.to_pem())?;
        Ok(fixture)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn admin(&self) -> Result<Admin, TryError> {
        Ok(Admin::connect(&Options { socket: self.file("socket"), ..Options::default() })?)
    }

    pub(super) fn restart(&mut self) -> Result<(), TryError> {
        self.service = None;
        let keys = KeysConfig {
            directory: Some(self.file("keys")),
            passphrase_file: Some(self.file("passphrase")),
            ..KeysConfig::default()
        };
        let config = Config { socket: self.file("socket"), keys, sample_every: 1, ..Config::default() };
        self.service = Some(Service::start(config)?);
        Ok(())
    }

    pub(super) fn server_with_file(&self) -> Result<Server, TryError> {
        Server::start(&self.certificate, &self.key, None)
    }

    pub(super) fn server_with_service(&self) -> Result<Server, TryError> {
        Server::start(&self.certificate, &self.stored, Some(&self.configuration))
    }

    pub(super) fn nginx(&self, in_service: bool) -> Result<WebServer, TryError> {
        let (name, key, openssl) = if in_service {
            ("nginx-with-service", &self.stored, Some(&*self.configuration))
        } else {
            ("nginx-with-file", &self.key, None)
        };
        let identity = Identity { certificate: &self.certificate, key, openssl };
        Ok(WebServer::start(Program::Nginx { workers: 1 }, &self.file(name), &identity, None)?)
    }

    pub(super) fn handshake(&self, port: u16) -> Result<(), TryError> {
        let mut client = Command::new("openssl");
        client.args(["s_client", "-brief", "-verify_return_error", "-CAfile"]).arg(&self.certificate);
        Ok(done(client.args(["-connect", &address(port)]))?)
    }

    pub(super) fn handshakes(&self, port: u16, seconds: u64) -> Result<Load, TryError> {
        let mut client = Command::new("openssl");
        client.args(["s_time", "-new", "-tls1_3", "-connect", &address(port), "-time", &seconds.to_string()]);
        client.args(["-verify", "1", "-CAfile"]).arg(&self.certificate);
        Ok(Load(client.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?))
    }

    pub(super) fn counters(&self) -> Result<Snapshot, TryError> {
        let service = self.service.as_ref().ok_or(TryError::State("the service does not run"))?;
        Ok(Snapshot::read(service.counters())?)
    }

    pub(super) fn lanes(&self) -> Result<usize, TryError> {
        Ok(self.counters()?.lanes.len())
    }

    /// Waits until the service has a lane of this process, or has none.
    pub(super) fn wait_for_lane(&self, pid: u32, exists: bool, otherwise: &'static str) -> Result<(), TryError> {
        let until = clock::now() + MAX_WAIT_NS;
        while self.counters()?.lanes.iter().any(|lane| lane.pid == pid) != exists {
            if clock::now() > until {
                return Err(TryError::State(otherwise));
            }
            thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }
}

impl Server {
    fn start(certificate: &Path, key: &Path, configuration: Option<&Path>) -> Result<Self, TryError> {
        let port = free_port()?;
        let mut command = Command::new("openssl");
        command
            .args(["s_server", "-www", "-quiet", "-accept", &address(port), "-cert"])
            .arg(certificate)
            .arg("-key")
            .arg(key);
        if let Some(configuration) = configuration {
            command.env("OPENSSL_CONF", configuration);
        }
        let mut program = programs::Server::start(&mut command, "openssl s_server", Stdio::null())?;
        if !program.wait_until(|| Ok::<_, TryError>(TcpStream::connect(("127.0.0.1", port)).is_ok()))? {
            return Err(TryError::State("openssl s_server does not listen: try it with `openssl s_server -www`"));
        }
        Ok(Self { program, port })
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    pub(super) fn id(&self) -> u32 {
        self.program.0.id()
    }

    pub(super) fn kill(&mut self) -> Result<(), TryError> {
        self.program.0.kill()?;
        self.program.0.wait()?;
        Ok(())
    }
}

impl Load {
    pub(super) fn ended(self) -> Result<Made, TryError> {
        let output = self.0.wait_with_output()?;
        let count = counted(&String::from_utf8_lossy(&output.stdout));
        Ok(Made { count: count.unwrap_or(0), failed: count.is_none() || !output.status.success() })
    }
}

impl Made {
    pub(super) fn per_s(self, seconds: u64) -> f64 {
        self.count as f64 / seconds as f64
    }
}

fn address(port: u16) -> String {
    format!("127.0.0.1:{port}")
}
