//! The service of sockets: it moves messages from programs' rings to their sockets, many by one system call.
//!
//! [`Sockets`] is the service, a process of its own. What it shares with the service of keys is in `sidecore_daemon`, and
//! neither links the other. The program's side and the messages are in `sidecore_sockets`.
//!
//! A program's socket stays the kernel's, and the program can take a stream back at any time: see
//! [`sidecore_streams`]. The service has duplicates of sockets and no keys. A user's blocking sockets delay
//! that user's threads only: `user` serves and another thread closes; `listener` accepts and never waits.
//!
//! |Module|For|
//! |---|---|
//! |`config`|the configuration, with its section `[sockets]`|
//! |`listener`, `shared`|accepts programs, and starts the threads of a user; what all threads share|
//! |`user`, `user_context`|one thread for each user: rounds over its streams; the state that these share|
//! |`program`, `source`|one program: its messages, banks and streams; numbers of what wakes the thread|
//! |`transfer`, `content`|one stream: from its ring to its socket; the kinds of sockets that are taken|
//! |`ledger`, `cores`|limits of a user; the core of each user's thread|
//! |`rows`, `gone`, `reports`|lists of sockets, of ended programs, and of sockets that are in no ring|
//! |`meter`|CPU time of a transfer, for the estimate of what is saved|
//! |`events`, `sandbox`|the event of the start; the duty that the sandbox permits|

// The macros panic where standard output or error is closed, which must not end a service.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod config;
mod content;
mod cores;
pub mod events;
mod gone;
mod ledger;
mod listener;
mod meter;
mod program;
mod reports;
mod rows;
mod sandbox;
mod shared;
mod source;
mod transfer;
mod user;
mod user_context;

pub use config::{Config, NotifyConfig, SocketsConfig};
use cores::Cores;
use listener::Listener;
use rows::Registry;
use shared::Shared;
use sidecore_daemon::config::ConfigError;
use sidecore_daemon::events::not_measured;
use sidecore_daemon::runtime_dir::RuntimeFiles;
use sidecore_daemon::start::{self, check_cpus, raise_file_limit};
use sidecore_daemon::sys::park::park_times;
use sidecore_daemon::sys::wake;
use std::convert::Infallible;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

/// Time for users' blocked threads to end when the service ends.
const PARTING: Duration = Duration::from_secs(2);
const WARNINGS: usize = 16;

/// Why a service of sockets did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The configuration contradicts itself.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A reason that any service may have: its cores, its place, the system.
    #[error(transparent)]
    Daemon(#[from] start::StartError),
}

impl From<io::Error> for StartError {
    fn from(error: io::Error) -> Self {
        Self::Daemon(error.into())
    }
}

/// A running service of sockets. Dropping it stops it in order: bytes that the kernel takes immediately are sent, and
/// programs continue by themselves.
#[derive(Debug)]
pub struct Sockets {
    socket: PathBuf,
    shared: Arc<Shared>,
    /// Closed once all threads have ended.
    running: Receiver<Infallible>,
    warnings: Option<Receiver<String>>,
    door: RawFd,
    /// Released last.
    _files: RuntimeFiles,
}

impl Sockets {
    /// Starts the threads and listens.
    ///
    /// # Errors
    /// An error of configuration, cores, paths or the system, each with the remedy.
    pub fn start(config: &Config) -> Result<Self, StartError> {
        config.check()?;
        check_cpus(config.sidecores.cpus.iter().copied())?;
        raise_file_limit();
        let shared = Arc::new(Shared {
            limits: config.sockets.clone(),
            notify: config.notify.service,
            park: OnceLock::new(),
            cores: Cores::new(&config.sidecores),
            registry: Registry::default(),
            serials: AtomicU32::new(0),
            wasted: AtomicU32::new(0),
            stop: AtomicBool::new(false),
            wake: wake::event()?,
            subordinates: config.subordinates.clone(),
        });
        let mut files = RuntimeFiles::take(&config.socket, Vec::new())?;
        let socket = files.listen(&config.socket, config.socket_mode)?;
        let door = socket.as_raw_fd();
        let (alive, running) = mpsc::channel();
        let (warn, warnings) = mpsc::sync_channel(WARNINGS);
        let listener = Listener::new(socket, shared.clone(), alive, warn)?;
        thread::Builder::new().name("sockets-accept".to_owned()).spawn(move || listener.run())?;
        let measured = shared.clone();
        let measure = move || match park_times() {
            Ok(park) => drop(measured.park.set(park)),
            Err(error) => not_measured(&error),
        };
        thread::Builder::new().name("sockets-measure".to_owned()).spawn(measure)?;
        Ok(Self { socket: config.socket.clone(), shared, running, warnings: Some(warnings), door, _files: files })
    }

    /// Rare warnings for the operator, in words, until the service ends. The first caller gets them.
    pub fn take_warnings(&mut self) -> Option<Receiver<String>> {
        self.warnings.take()
    }

    /// The number of the listening socket: no other file has it until the service ends.
    pub fn door(&self) -> RawFd {
        self.door
    }

    /// The path where programs connect.
    pub fn socket(&self) -> &Path {
        &self.socket
    }
}

impl Drop for Sockets {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        wake::ring(&self.shared.wake);
        // Threads that their users' sockets block are left behind.
        let _ = self.running.recv_timeout(PARTING + user::DRAIN);
    }
}
