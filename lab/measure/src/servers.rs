//! A web server on the loopback interface: its port, processes and CPU time.

mod program;

use crate::programs::{ProgramError, Server, cpu, free_port};
pub use program::{Identity, Program};
use std::fs::{self, File};
use std::net::TcpStream;
use std::path::Path;

/// A running web server.
pub struct WebServer {
    _first: Server,
    workers: Vec<u32>,
    /// Its port on the loopback interface.
    pub port: u16,
}

impl WebServer {
    /// Starts it in this directory, pinned to a core if one is given.
    ///
    /// # Errors
    /// It is not installed, or does not listen.
    pub fn start(
        program: Program,
        directory: &Path,
        identity: &Identity<'_>,
        cpu: Option<usize>,
    ) -> Result<Self, ProgramError> {
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
            Ok::<_, ProgramError>(!workers.is_empty() && TcpStream::connect(("127.0.0.1", port)).is_ok())
        })?;
        if !listens {
            let errors = fs::read_to_string(errors).unwrap_or_default();
            let errors = errors.lines().last().unwrap_or("it says nothing").to_owned();
            return Err(ProgramError::Silent { name, errors });
        }
        Ok(Self { _first: first, workers, port })
    }

    /// Process id of its first worker.
    pub fn worker(&self) -> u32 {
        self.workers[0]
    }

    /// CPU time of the processes that make handshakes so far, ns. Each has one thread.
    ///
    /// # Errors
    /// A worker has ended.
    pub fn cpu(&self) -> Result<u64, ProgramError> {
        self.workers.iter().map(|worker| cpu(*worker, *worker)).sum()
    }
}
