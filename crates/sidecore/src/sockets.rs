//! The service of sockets: what programs write into rings goes to their sockets, many messages by one system call.
//!
//! A program's socket stays the kernel's, and the program can take a stream back at any time: see
//! [`sidecore_core::streams`]. The service has duplicates of sockets and no keys. What a user's sockets hold up is that
//! user's threads: `user` serves and another closes; `listener` accepts and waits for nobody.

mod content;
mod cores;
mod desk;
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

use crate::config::{Config, SocketsConfig};
use crate::events;
use crate::service::place::Place;
use crate::service::{ParkTimes, StartError, check_cpus, park_times, raise_file_limit};
use crate::sys::wake;
use cores::Cores;
use listener::Listener;
use rows::Registry;
pub use sidecore_client::sockets::{ask, loadable, protocol};
use sidecore_core::policy::notify::Notify;
use std::convert::Infallible;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

/// How long a service that ends waits for threads that a user's sockets may hold up.
const PARTING: Duration = Duration::from_secs(2);
/// Warnings that wait to be taken.
const WARNINGS: usize = 16;

/// A running service of sockets. Dropping it stops it in order: what the kernel takes at once is sent, and programs go on
/// themselves.
#[derive(Debug)]
pub struct Sockets {
    socket: PathBuf,
    shared: Arc<Shared>,
    /// Ends when all threads have.
    running: Receiver<Infallible>,
    warnings: Option<Receiver<String>>,
    /// The number of the socket that listens, which the listener has.
    door: RawFd,
    /// Given back last.
    _place: Place,
}

/// What all its threads have.
#[derive(Debug)]
struct Shared {
    limits: SocketsConfig,
    notify: Notify,
    /// Empty until the measurement ends.
    park: OnceLock<ParkTimes>,
    cores: Arc<Cores>,
    registry: Registry,
    /// Connections that were accepted so far.
    serials: AtomicU32,
    /// Wasted connections that the listener does not know of.
    wasted: AtomicU32,
    stop: AtomicBool,
    /// Wakes the listener.
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
    /// As far as they are measured.
    fn park_times(&self) -> &ParkTimes {
        self.park.get().unwrap_or(&ParkTimes::ASSUMED)
    }
}

impl Sockets {
    /// Starts the threads and listens.
    ///
    /// # Errors
    /// What is wrong with configuration, cores, paths or the system, each with what to do.
    pub fn start(config: &Config) -> Result<Self, StartError> {
        config.check().map_err(StartError::Config)?;
        let no_sockets = || StartError::Config("no section [sockets]: this is no service of sockets".to_owned());
        let limits = config.sockets.clone().ok_or_else(no_sockets)?;
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
        let mut place = Place::take(&config.socket, Vec::new())?;
        let socket = place.listen(&config.socket, config.socket_mode)?;
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
        Ok(Self { socket: config.socket.clone(), shared, running, warnings: Some(warnings), door, _place: place })
    }

    /// What people should know as it happens: in words, rarely, until the service ends. For whoever takes it first.
    pub fn take_warnings(&mut self) -> Option<Receiver<String>> {
        self.warnings.take()
    }

    /// The number of the socket that listens: no other has it until the service ends.
    pub(crate) fn door(&self) -> RawFd {
        self.door
    }

    /// Where programs connect.
    pub fn socket(&self) -> &Path {
        &self.socket
    }
}

impl Drop for Sockets {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        wake::ring(&self.shared.wake);
        // Threads that are held up by their users' sockets are left behind.
        let _ = self.running.recv_timeout(PARTING + user::DRAIN);
    }
}
