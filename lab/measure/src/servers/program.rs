//! The programs that serve TLS: their configuration, start, and worker processes.

use crate::programs::{ProgramError, on_core};
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::Command;

/// A program that serves TLS.
#[derive(Clone, Copy, Debug)]
pub enum Program {
    /// A worker is blocked while the service signs for it.
    Nginx {
        /// Its worker processes.
        workers: usize,
    },
    /// One process with one thread. It continues with other handshakes while a service signs.
    HaProxy,
}

/// Certificate and key of a server.
pub struct Identity<'p> {
    /// Its certificate, PEM.
    pub certificate: &'p Path,
    /// Its key, PEM: the key itself, or the name of a stored one.
    pub key: &'p Path,
    /// OpenSSL's configuration for it, if any.
    pub openssl: Option<&'p Path>,
}

impl Program {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Nginx { .. } => "nginx",
            Self::HaProxy => "haproxy",
        }
    }

    /// Returns the command that starts the program, pinned to a core if one is given.
    pub(super) fn configure(
        self,
        directory: &Path,
        port: u16,
        identity: &Identity<'_>,
        cpu: Option<usize>,
    ) -> Result<Command, ProgramError> {
        let configuration = directory.join("configuration");
        let mut command = on_core(cpu, self.name());
        let text = match self {
            Self::Nginx { workers } => {
                command.args(["-e", "stderr", "-c"]);
                nginx(directory, workers, port, identity)
            }
            Self::HaProxy => {
                command.args(["-db", "-f"]);
                haproxy(directory, port, identity)?
            }
        };
        fs::write(&configuration, text)?;
        command.arg(&configuration);
        Ok(command)
    }

    /// The processes that make handshakes, from the started one. Empty until all of them exist.
    pub(super) fn workers(self, started: u32) -> Result<Vec<u32>, ProgramError> {
        let Self::Nginx { workers } = self else { return Ok(vec![started]) };
        let children = children_of(started)?;
        Ok(if children.len() < workers { Vec::new() } else { children })
    }
}

fn nginx(directory: &Path, workers: usize, port: u16, identity: &Identity<'_>) -> String {
    let mut text = format!("daemon off;\nworker_processes {workers};\n");
    // The worker of an nginx started by root must be able to read this run's files, which belong to root.
    text.push_str("user root;\n");
    let _ = write!(
        text,
        "pid {0}/pid;\nerror_log stderr;\nevents {{ worker_connections 512; }}\nhttp {{\n  access_log off;\n  \
         client_body_temp_path {0}/body;\n  proxy_temp_path {0}/proxy;\n  fastcgi_temp_path {0}/fastcgi;\n  \
         uwsgi_temp_path {0}/uwsgi;\n  scgi_temp_path {0}/scgi;\n  server {{\n    listen 127.0.0.1:{port} ssl;\n    \
         ssl_certificate {1};\n    ssl_certificate_key {2};\n    ssl_protocols TLSv1.3;\n    ssl_session_cache off;\n    \
         ssl_session_tickets off;\n    return 200;\n  }}\n}}\n",
        directory.display(),
        identity.certificate.display(),
        identity.key.display()
    );
    text
}

/// Pauses handshakes only if the service signs: with the key in a file, pauses would cost time without benefit.
fn haproxy(directory: &Path, port: u16, identity: &Identity<'_>) -> Result<String, ProgramError> {
    let bundle = directory.join("bundle.pem");
    fs::write(&bundle, [fs::read(identity.certificate)?, fs::read(identity.key)?].concat())?;
    let pauses = if identity.openssl.is_some() { "ssl-mode-async\n" } else { "" };
    Ok(format!(
        "global\n{pauses}nbthread 1\nmaxconn 512\ntune.ssl.cachesize 0\n\
         ssl-default-bind-options ssl-min-ver TLSv1.3 no-tls-tickets\n\
         defaults\nmode http\ntimeout client 10s\ntimeout connect 10s\ntimeout server 10s\n\
         frontend www\nbind 127.0.0.1:{port} ssl crt {}\nhttp-request return status 200\n",
        bundle.display()
    ))
}

fn children_of(master: u32) -> Result<Vec<u32>, ProgramError> {
    let path = format!("/proc/{master}/task/{master}/children");
    let children = fs::read_to_string(&path).map_err(ProgramError::on(&path))?;
    Ok(children.split_whitespace().filter_map(|pid| pid.parse().ok()).collect())
}
