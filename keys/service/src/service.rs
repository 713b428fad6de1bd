//! The service: sidecores for lanes, and one thread that answers the socket.
//!
//! `sidecore serve` runs [`Service::start`], and a Rust program can embed it.

macro_rules! ensure {
    ($holds:expr, $($why:tt)+) => {
        if !$holds {
            return Err(crate::control::Refused::other(format_args!($($why)+)));
        }
    };
}

macro_rules! ensure_limit {
    ($holds:expr, $($why:tt)+) => {
        if !$holds {
            return Err(crate::control::Refused::limit(format!($($why)+)));
        }
    };
}

mod advice;
mod calibrate;
mod command;
mod job_queue;
mod jobs;
mod key_change;
mod listener;
mod quotas;
mod reactor;
mod reaper;
mod sessions;
mod start_error;
pub mod succession;

use crate::config::Config;
use advice::Advice;
use calibrate::Calibration;
use command::{Mailbox, SidecoreHandle, mailbox};
use listener::state::{self, Listener};
use reactor::Setup;
use reactor::thread::Reactor;
use sidecore_core::dispatch::MAX_DEVICES;
use sidecore_counters::{Counters, Draft, Shape, Start};
use sidecore_daemon::events::{not_measured, warning};
use sidecore_daemon::runtime_dir::RuntimeFiles;
use sidecore_daemon::start::{self, check_cpus, raise_file_limit};
use sidecore_daemon::sys::{cpu, wake};
use sidecore_ipc::sys::clock;
pub use start_error::StartError;
use std::convert::Infallible;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use succession::{Beside, Former, Legacy, Place};

/// A running service. Dropping it stops it: clients then notice its end.
#[derive(Debug)]
pub struct Service {
    socket: PathBuf,
    counters: PathBuf,
    stop: Arc<AtomicBool>,
    listener_wake: Arc<OwnedFd>,
    sidecores: Vec<Arc<SidecoreHandle<Reactor>>>,
    threads: Vec<JoinHandle<()>>,
    measuring: Option<JoinHandle<()>>,
    /// Released last, after all threads. `None`: the former service still has the place.
    files: Option<RuntimeFiles>,
    former: Option<Former>,
    /// The next service has the place.
    handed: Arc<AtomicBool>,
    key_changes: Option<u64>,
    listening: Option<OwnedFd>,
    /// The number of the listening socket, which the control thread has.
    door: RawFd,
}

impl Service {
    /// Reads the passphrase file of the configuration, starts the threads, listens, and measures this machine.
    ///
    /// # Errors
    /// An error of configuration, cores, paths or the system, each with the remedy.
    pub fn start(config: Config) -> Result<Self, StartError> {
        let mut service = Self::start_with(config, Beside::default())?;
        // A thread that panicked has reported it on stderr; default values hold instead of its measurements.
        let _ = service.measuring.take().map(JoinHandle::join);
        Ok(service)
    }

    /// As [`Service::start`], but returns as soon as clients are answered; the measurement goes on.
    ///
    /// # Errors
    /// As for [`Service::start`].
    pub fn start_with(config: Config, mut beside: Beside<'_>) -> Result<Self, StartError> {
        config.check()?;
        check_cpus(config.cpus())?;
        let mut config = config;
        config.read_subordinates()?.iter().for_each(|wrong| warning(wrong));
        raise_file_limit();
        let ended = beside.ended.take();
        let (place, store) = Place::find(&config, beside)?;
        let listener_wake = Arc::new(wake::event()?);
        let mut service = Self {
            socket: config.socket.clone(),
            counters: config.counters_path(),
            stop: Arc::new(AtomicBool::new(false)),
            listener_wake: listener_wake.clone(),
            sidecores: Vec::new(),
            threads: Vec::new(),
            measuring: None,
            files: None,
            former: None,
            handed: Arc::default(),
            key_changes: store.changes(),
            listening: None,
            door: -1,
        };
        let (counters, draft) = draft_counters(&config)?;
        let calibration = Calibration::default();
        let advice = Advice::new(&config, &calibration);
        let (events, inbox) = mpsc::channel();
        for (index, cpu) in sidecore_cpus(&config).into_iter().enumerate() {
            let wake = Arc::new(wake::event()?);
            let (handle, mailbox) = mailbox(wake.clone());
            let setup = Setup {
                index,
                cpu,
                config: config.clone(),
                calibration: calibration.clone(),
                counters: counters.clone(),
                mailbox: mailbox.flag(),
                wake,
                events: events.clone(),
                listener: listener_wake.clone(),
                advice: advice.clone(),
            };
            service.threads.push(start_sidecore(setup, mailbox)?);
            service.sidecores.push(Arc::new(handle));
        }
        let (socket, lock) = service.take(place, draft, &config)?;
        let legacy = ended.map(|ended| Legacy { lock, handed: service.handed.clone(), ended });
        service.listening = Some(socket.try_clone()?);
        service.door = socket.as_raw_fd();
        let free = config.waiters(&cpu::allowed()).free(&cpu::allowed());
        let max_request = config.limits.max_request_bytes;
        let setup = state::Setup {
            config,
            advice,
            wake: listener_wake,
            events: inbox,
            tell: events,
            sidecores: service.sidecores.clone(),
            counters,
            store,
            legacy,
        };
        let listener = Listener::new(setup, socket)?;
        let stopped = service.stop.clone();
        let control = thread::Builder::new().name("sidecore-control".to_owned());
        service.threads.push(control.spawn(move || listener.run(&stopped))?);
        service.measure(calibration, free, max_request)?;
        Ok(service)
    }

    /// Takes the place, and listens. Returns the socket, and the lock of the place.
    fn take(&mut self, place: Place, counters: Draft, config: &Config) -> Result<(OwnedFd, OwnedFd), StartError> {
        let (files, former) = place.take(&config.socket)?;
        self.former = former;
        let files = self.files.insert(files);
        counters.publish().map_err(|error| start::StartError::Path(self.counters.clone(), error))?;
        files.keep(&self.counters)?;
        let socket = files.listen(&config.socket, config.socket_mode)?;
        Ok((socket, files.lock()?))
    }

    fn measure(&mut self, calibration: Calibration, free: Vec<usize>, max_request: u32) -> io::Result<()> {
        let (stop, sidecores) = (self.stop.clone(), self.sidecores.clone());
        let measuring = thread::Builder::new().name("sidecore-measure".to_owned());
        self.measuring = Some(measuring.spawn(move || {
            // A failure only lets it run on a sidecore's core.
            let _ = cpu::limit(&free);
            if let Err(error) = calibration.measure(max_request, &stop) {
                return not_measured(&error);
            }
            let (known, all_know) = mpsc::channel::<Infallible>();
            for sidecore in &sidecores {
                let known = known.clone();
                sidecore.send(move |reactor| {
                    reactor.calibrated();
                    drop(known);
                });
            }
            drop(known);
            // Returns when the last sidecore has dropped its end.
            let _ = all_know.recv();
        })?);
        Ok(())
    }

    /// The path where clients connect.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Passes the listening socket to `hold`. If that keeps it, its file stays in place when the service ends.
    pub fn hand_over(&mut self, hold: impl FnOnce(BorrowedFd<'_>) -> bool) {
        if self.listening.take().is_some_and(|socket| hold(socket.as_fd()))
            && let Some(files) = &mut self.files
        {
            files.leave_socket();
        }
    }

    /// Whether it took the place of a service that still runs.
    pub fn has_former(&self) -> bool {
        self.former.is_some()
    }

    /// Lets the former service end, if there is one. `false`: it has not.
    pub fn end_former(&mut self) -> bool {
        self.former.take().is_none_or(Former::end)
    }

    /// The number of the listening socket: no other file has it while all threads run.
    pub fn door(&self) -> RawFd {
        self.door
    }

    /// The number of the last change of the keys at rest when it started; `None`: there are none.
    pub fn key_changes(&self) -> Option<u64> {
        self.key_changes
    }

    /// The counter file.
    pub fn counters(&self) -> &Path {
        &self.counters
    }

    /// Whether all its threads still run.
    pub fn is_alive(&self) -> bool {
        self.threads.iter().all(|thread| !thread.is_finished())
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        wake::ring(&*self.listener_wake);
        self.sidecores.iter().for_each(|sidecore| sidecore.send(Reactor::stop));
        for thread in self.threads.drain(..) {
            // A thread that panicked has reported it on stderr.
            let _ = thread.join();
        }
        let _ = self.measuring.take().map(JoinHandle::join);
        if self.handed.load(Ordering::Acquire)
            && let Some(files) = &mut self.files
        {
            files.hand_over();
        }
    }
}

fn start_sidecore(setup: Setup, mailbox: Mailbox<Reactor>) -> Result<JoinHandle<()>, StartError> {
    let name = format!("sidecore-{}", setup.index);
    let (started, result) = mpsc::channel();
    let thread = thread::Builder::new().name(name).spawn(move || {
        let reactor = Reactor::start(setup, mailbox).map_err(|error| started.send(Err(error)));
        if let Ok(reactor) = reactor {
            let _ = started.send(Ok(()));
            reactor.run();
        }
    })?;
    result.recv().unwrap_or_else(|_| Err(io::Error::other("a sidecore ended while starting")))?;
    Ok(thread)
}

fn sidecore_cpus(config: &Config) -> Vec<Option<usize>> {
    if config.sidecores.cpus.is_empty() {
        return vec![None];
    }
    config.sidecores.cpus.iter().copied().map(Some).collect()
}

/// They replace those of a former service only once this one has its place.
fn draft_counters(config: &Config) -> Result<(Arc<Counters>, Draft), StartError> {
    let sidecores = sidecore_cpus(config).len() as u32;
    let shape = Shape {
        sidecores,
        lanes: config.limits.lanes,
        devices: sidecores * MAX_DEVICES as u32,
        keys: u32::from(config.limits.keys),
    };
    let start = Start { pid: std::process::id(), sample_every: config.sample_every, now: clock::now() };
    let path = config.counters_path();
    Counters::draft(&path, shape, start).map_err(|error| start::StartError::Path(path, error).into())
}
