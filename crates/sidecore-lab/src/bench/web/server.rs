//! A web server that runs on the loopback interface: where it listens, its processes and their CPU time.

use super::program::Program;
use crate::bench::BenchError;
use crate::bench::programs::{Server, cpu, free_port};
use std::fs::{self, File};
use std::net::TcpStream;
use std::path::Path;

/// Who the server is, and who signs for it.
pub(in crate::bench) struct Identity<'p> {
    pub(in crate::bench) certificate: &'p Path,
    /// A key, or the name of a stored one.
    pub(in crate::bench) key: &'p Path,
    /// OpenSSL's configuration, where the key is a stored one.
    pub(in crate::bench) openssl: Option<&'p Path>,
}

/// A running web server.
pub(in crate::bench) struct WebServer {
    _first: Server,
    workers: Vec<u32>,
    /// Where it listens.
    pub(in crate::bench) port: u16,
}

impl WebServer {
    /// With its files in that directory; tied to a core if one is given.
    pub(in crate::bench) fn start(
        program: Program,
        directory: &Path,
        identity: &Identity<'_>,
        cpu: Option<usize>,
    ) -> Result<Self, BenchError> {
        fs::create_dir_all(directory)?;
        let (port, name, errors) = (free_port()?, program.name(), directory.join("errors"));
        let mut command = program.configure(directory, port, identity, cpu)?;
        if let Some(openssl) = identity.openssl {
            command.env("OPENSSL_CONF", openssl);
        }
        let mut first = Server::start(&mut command, name, File::create(&errors)?)?;
        let (mut workers, started) = (Vec::new(), first.0.id());
        // A socket may be there before the processes are that it is for.
        let listens = first.wait_until(|| {
            workers = program.workers(started)?;
            Ok(!workers.is_empty() && TcpStream::connect(("127.0.0.1", port)).is_ok())
        })?;
        if !listens {
            let errors = fs::read_to_string(errors).unwrap_or_default();
            return Err(
                format!("{name} does not listen: {}", errors.lines().last().unwrap_or("it says nothing")).into()
            );
        }
        Ok(Self { _first: first, workers, port })
    }

    /// The first process that makes handshakes.
    pub(in crate::bench) fn worker(&self) -> u32 {
        self.workers[0]
    }

    /// CPU time that the processes which make handshakes used so far, ns. Each has one thread.
    pub(in crate::bench) fn cpu(&self) -> Result<u64, BenchError> {
        self.workers.iter().map(|worker| cpu(*worker, *worker)).sum()
    }
}
