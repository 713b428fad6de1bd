//! The service of sockets: it moves messages from programs' rings to their sockets, many by one system call.
//!
//! A program's socket stays the kernel's, and the program can take a stream back at any time: see
//! [`sidecore_core::streams`]. The service has duplicates of sockets and no keys. A user's blocking sockets delay
//! that user's threads only: `user` serves and another thread closes; `listener` accepts and never waits.

mod content;
mod cores;
mod gone;
mod ledger;
mod listener;
mod meter;
mod program;
mod reports;
mod rows;
mod source;
mod transfer;
mod user;
mod user_context;

use crate::config::{Config, ConfigErrorKind, SocketsConfig};
use crate::events;
use crate::service::runtime_dir::RuntimeFiles;
use crate::service::{StartError, check_cpus, raise_file_limit};
use crate::sys::park::{ParkTimes, park_times};
use crate::sys::wake;
use cores::Cores;
use listener::Listener;
use rows::Registry;
use sidecore_core::policy::notify::Notify;
use std::convert::Infallible;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

/// Time for users' blocked threads to end when the service ends.
const PARTING: Duration = Duration::from_secs(2);
/// Most warnings that wait to be taken.
const WARNINGS: usize = 16;

/// A running service of sockets. Dropping it stops it in order: bytes that the kernel takes immediately are sent, and
/// programs continue by themselves.
#[derive(Debug)]
pub struct Sockets {
    socket: PathBuf,
    shared: Arc<Shared>,
    /// Closed once all threads have ended.
    running: Receiver<Infallible>,
    warnings: Option<Receiver<String>>,
    /// The number of the listening socket, which the listener has.
    door: RawFd,
    /// Released last.
    _files: RuntimeFiles,
}

#[derive(Debug)]
struct Shared {
    limits: SocketsConfig,
    notify: Notify,
    /// Empty until the measurement ends.
    park: OnceLock<ParkTimes>,
    cores: Arc<Cores>,
    registry: Registry,
    serials: AtomicU32,
    /// Wasted connections that are not reported to the listener yet.
    wasted: AtomicU32,
    stop: AtomicBool,
    wake: OwnedFd,
}

#[cfg(test)]
impl Shared {
    /// With these limits, for a test.
    fn of(limits: SocketsConfig) -> Self {
        Self {
            limits,
            notify: Notify::Park,
            park: OnceLock::new(),
            cores: Cores::new(&crate::config::Sidecores::default()),
            registry: Registry::default(),
            serials: AtomicU32::new(0),
            wasted: AtomicU32::new(0),
            stop: AtomicBool::new(false),
            wake: wake::event().unwrap(),
        }
    }
}

impl Shared {
    /// The measured times, or the defaults before.
    fn park_times(&self) -> &ParkTimes {
        self.park.get().unwrap_or(&ParkTimes::ASSUMED)
    }
}

impl Sockets {
    /// Starts the threads and listens.
    ///
    /// # Errors
    /// An error of configuration, cores, paths or the system, each with the remedy.
    pub fn start(config: &Config) -> Result<Self, StartError> {
        config.check()?;
        let no_sockets = || ConfigErrorKind::Sockets("no section [sockets]: this is no service of sockets".to_owned());
        let limits = config.sockets.clone().ok_or_else(|| StartError::Config(no_sockets().into()))?;
        check_cpus(config)?;
        raise_file_limit();
        let shared = Arc::new(Shared {
            limits,
            notify: config.notify.service,
            park: OnceLock::new(),
            cores: Cores::new(&config.sidecores),
            registry: Registry::default(),
            serials: AtomicU32::new(0),
            wasted: AtomicU32::new(0),
            stop: AtomicBool::new(false),
            wake: wake::event()?,
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
            Err(error) => events::not_measured(&error),
        };
        thread::Builder::new().name("sockets-measure".to_owned()).spawn(measure)?;
        Ok(Self { socket: config.socket.clone(), shared, running, warnings: Some(warnings), door, _files: files })
    }

    /// Rare warnings for the operator, in words, until the service ends. The first caller gets them.
    pub fn take_warnings(&mut self) -> Option<Receiver<String>> {
        self.warnings.take()
    }

    /// The number of the listening socket: no other file has it until the service ends.
    pub(crate) fn door(&self) -> RawFd {
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
