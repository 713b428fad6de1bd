//! nginx and `HAProxy` from their packages, with one port for each key.

use crate::material::Material;
use crate::memory::{Needles, Seen};
use crate::programs::{Daemon, free_port, is_root, program};
use sidecore_testing::{go_on, stop};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The workers' user if the tests run as root, by its packages' name.
pub(crate) const WORKER: &str = "www-data";

/// A key in a server's configuration: a PEM file with a key or a key's name.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
    /// The certificate that clients must have, if any; only for nginx.
    pub(crate) client: Option<PathBuf>,
}

impl From<&Material> for Identity {
    fn from(material: &Material) -> Self {
        Self { certificate: material.certificate.clone(), key: material.key.clone(), client: None }
    }
}

pub(crate) struct Server {
    pub(crate) daemon: Daemon,
    pub(crate) ports: Vec<u16>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Program {
    Nginx,
    HaProxy,
}

impl Program {
    pub(crate) fn configure(self, directory: &Path, identities: &[Identity]) -> Configured {
        let ports: Vec<u16> = identities.iter().map(|_| free_port()).collect();
        let text = match self {
            Self::Nginx => nginx(directory, identities, &ports),
            Self::HaProxy => haproxy(directory, identities, &ports),
        };
        let file = directory.join(format!("{self:?}.conf"));
        std::fs::write(&file, text).unwrap();
        Configured { program: self, file, log: directory.join(format!("{self:?}.log")), ports }
    }
}

pub(crate) struct Configured {
    program: Program,
    pub(crate) file: PathBuf,
    log: PathBuf,
    pub(crate) ports: Vec<u16>,
}

impl Configured {
    pub(crate) fn command(&self) -> Command {
        match self.program {
            Program::Nginx => {
                let mut command = program("nginx");
                command.args(["-e", "stderr", "-c"]).arg(&self.file);
                command
            }
            Program::HaProxy => {
                let mut command = program("haproxy");
                command.args(["-W", "-db", "-f"]).arg(&self.file);
                command
            }
        }
    }

    pub(crate) fn check(&self) -> Command {
        let mut command = self.command();
        command.arg(match self.program {
            Program::Nginx => "-t",
            Program::HaProxy => "-c",
        });
        command
    }

    pub(crate) fn start(&self, command: &mut Command) -> Server {
        let mut daemon = Daemon::start(&format!("{:?}", self.program), command, &self.log);
        self.ports.iter().for_each(|port| daemon.wait_for_port(*port));
        Server { daemon, ports: self.ports.clone() }
    }
}

impl Server {
    pub(crate) fn search(&self, needles: &Needles) -> Seen {
        let family = self.daemon.family();
        assert!(family.len() > 1, "a server without workers: {}", self.daemon.log());
        search(&family, needles)
    }
}

pub(crate) fn search(processes: &[u32], needles: &Needles) -> Seen {
    let mut seen = Seen::default();
    for pid in processes {
        stop(*pid);
        let found = needles.in_process(*pid);
        go_on(*pid);
        seen.add(found.unwrap_or_else(|error| panic!("memory of process {pid}: {error}")));
    }
    seen
}

fn nginx(directory: &Path, identities: &[Identity], ports: &[u16]) -> String {
    let user = if is_root() { format!("user {WORKER};\n") } else { String::new() };
    let directory = directory.display();
    let mut text = format!(
        "{user}daemon off;\nworker_processes 2;\npid {directory}/nginx.pid;\nerror_log stderr info;\n\
         events {{ worker_connections 512; }}\nhttp {{\naccess_log off;\nssl_session_cache off;\n\
         ssl_session_tickets off;\nssl_protocols TLSv1.2 TLSv1.3;\n"
    );
    for temporary in ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"] {
        writeln!(text, "{temporary}_temp_path {directory}/nginx.{temporary};").unwrap();
    }
    for (identity, port) in identities.iter().zip(ports) {
        let (certificate, key) = (identity.certificate.display(), identity.key.display());
        let client = identity.client.as_ref().map_or_else(String::new, |certificate| {
            format!("ssl_client_certificate {}; ssl_verify_client on;", certificate.display())
        });
        writeln!(
            text,
            "server {{ listen 127.0.0.1:{port} ssl; ssl_certificate {certificate}; ssl_certificate_key {key}; {client}\n\
             location / {{ return 200 ok; }}\nlocation /slow {{ limit_rate_after 1k; limit_rate 1; return 200 {}; }} }}",
            "x".repeat(2048)
        )
        .unwrap();
    }
    text + "}\n"
}

/// `HAProxy` takes certificate and key from one file.
fn haproxy(directory: &Path, identities: &[Identity], ports: &[u16]) -> String {
    let user = if is_root() { format!("user {WORKER}\ngroup {WORKER}\n") } else { String::new() };
    let mut text = format!(
        "global\n{user}ssl-mode-async\nnbthread 2\nlog stderr local0\ntune.ssl.cachesize 0\n\
         ssl-default-bind-options ssl-min-ver TLSv1.2 no-tls-tickets\n\
         defaults\nmode http\nlog global\ntimeout client 10s\ntimeout connect 10s\ntimeout server 10s\n"
    );
    for (number, (identity, port)) in identities.iter().zip(ports).enumerate() {
        let bundle = directory.join(format!("haproxy.{number}.pem"));
        let both = [&identity.certificate, &identity.key].map(|file| std::fs::read_to_string(file).unwrap());
        std::fs::write(&bundle, both.concat()).unwrap();
        writeln!(
            text,
            "frontend f{number}\nbind 127.0.0.1:{port} ssl crt {}\nhttp-request return status 200 content-type \
             text/plain string ok",
            bundle.display()
        )
        .unwrap();
    }
    text
}
