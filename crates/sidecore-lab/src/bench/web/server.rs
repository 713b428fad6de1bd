//! A web server on the loopback interface: its port, processes and CPU time.

use super::program::{Identity, Program};
use crate::bench::error::BenchError;
use crate::bench::programs::{Server, cpu, free_port};
use std::fs::{self, File};
use std::net::TcpStream;
use std::path::Path;

pub(in crate::bench) struct WebServer {
    _first: Server,
    workers: Vec<u32>,
    pub(in crate::bench) port: u16,
}

impl WebServer {
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
        // The socket may exist before the processes that serve it.
        let listens = first.wait_until(|| {
            workers = program.workers(started)?;
            Ok(!workers.is_empty() && TcpStream::connect(("127.0.0.1", port)).is_ok())
        })?;
        if !listens {
            let errors = fs::read_to_string(errors).unwrap_or_default();
            let errors = errors.lines().last().unwrap_or("it says nothing").to_owned();
            return Err(BenchError::Silent { name, errors });
        }
        Ok(Self { _first: first, workers, port })
    }

    pub(in crate::bench) fn worker(&self) -> u32 {
        self.workers[0]
    }

    /// CPU time of the processes that make handshakes so far, ns. Each has one thread.
    pub(in crate::bench) fn cpu(&self) -> Result<u64, BenchError> {
        self.workers.iter().map(|worker| cpu(*worker, *worker)).sum()
    }
}
