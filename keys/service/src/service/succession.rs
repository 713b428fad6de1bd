//! The service before this one, which answers at its socket and gives it up step by step.
//!
//! This is the side of the next service; [`listener`](super::listener) has that of the former one. The former service
//! knows by the kernel's word that the same user or root asks, and this one that the same user or root answers. What
//! each may do when is decided by [`sidecore_core::policy::succession`].

use super::start_error::StartError;
use crate::config::Config;
use crate::control::{self, Reply, Request, Succession};
use crate::keys::{Store, Stretched};
use crate::spec::Secret;
use crate::sys::poll::wait_readable;
use rustix::process::geteuid;
use sidecore_core::time::Nanos;
use sidecore_daemon::runtime_dir::RuntimeFiles;
use sidecore_daemon::sys::{packet, peer};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;

/// Longest wait for an answer of the former service, ns: on a machine with too much to do, it takes long for a turn.
const ANSWER: Nanos = 120_000_000_000;
/// Longest wait for the end of its process, ns.
const END: Nanos = 30_000_000_000;

/// Why a service ends by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The next service answers at its socket.
    Succeeded,
    /// The next service died with the socket, and this one cannot go on: another must be started.
    Orphaned,
}

/// How a service begins and ends beside others.
#[derive(Debug, Default)]
pub struct Beside<'a> {
    /// The passphrase of the stored keys, for a process that can no longer read its file.
    pub passphrase: Option<&'a Secret>,
    /// Sockets from a service manager: one that listens at the configuration's path is used, with all clients in its
    /// queue.
    pub held: Vec<OwnedFd>,
    /// Take the place of the service that answers at the configuration's path, if there is one. It goes on until
    /// [`Service::end_former`](super::Service::end_former).
    pub take_over: bool,
    /// Where it says that it is to end. `None`: no other service may take its place.
    pub ended: Option<Sender<Ended>>,
}

/// What a service gives to the next one, and how its process learns that it did.
#[derive(Debug)]
pub(super) struct Legacy {
    /// The lock of its place.
    pub(super) lock: OwnedFd,
    pub(super) handed: Arc<AtomicBool>,
    pub(super) ended: Sender<Ended>,
}

impl Legacy {
    pub(super) fn end(&self, why: Ended) {
        self.handed.store(why == Ended::Succeeded, Ordering::Release);
        // Without a receiver the process is ending.
        let _ = self.ended.send(why);
    }
}

/// A connection to the former service.
#[derive(Debug)]
pub(super) struct Former {
    connection: OwnedFd,
    path: PathBuf,
}

impl Former {
    /// The service that answers there, if it is one of this user or of root.
    fn find(path: &Path) -> Option<Self> {
        let connection = packet::connect_to(path).ok()?;
        let user = peer::credentials(&connection).ok()?.uid;
        let former = Self { connection, path: path.to_owned() };
        (user == 0 || user == geteuid().as_raw()).then_some(former)
    }

    /// `None`: it has ended.
    fn ask(&self, step: Succession) -> Result<Option<(Reply, Vec<OwnedFd>)>, StartError> {
        let failed = |why: String| StartError::NotHandedOver { socket: self.path.clone(), why };
        let asked = control::send(&self.connection, &Request::Succeed(step), &[]);
        let heard = asked.and_then(|()| {
            if wait_readable(self.connection.as_fd(), Some(ANSWER))? {
                control::receive(&self.connection)
            } else {
                Err(io::ErrorKind::TimedOut.into())
            }
        });
        match heard {
            Ok((Reply::Refused(why), _)) if why.is_of_older_version() => {
                Err(StartError::OlderService(self.path.clone()))
            }
            Ok((Reply::Refused(why), _)) => Err(failed(why.to_string())),
            Ok(heard) => Ok(Some(heard)),
            Err(error) if is_gone(&error) => Ok(None),
            Err(error) => Err(failed(error.to_string())),
        }
    }

    /// Lets it end, and waits for that. `false`: it has not.
    pub(super) fn end(self) -> bool {
        let process = peer::process_of(&self.connection);
        // If it died instead, it has ended as well.
        let _ = self.ask(Succession::End);
        match process {
            Ok(process) => wait_readable(process.as_fd(), Some(END)).unwrap_or(false),
            Err(error) => error.raw_os_error() == Some(libc::ESRCH),
        }
    }
}

/// The place of a service: its own, or still that of a former one.
#[derive(Debug)]
pub(super) enum Place {
    Own(RuntimeFiles),
    Formers(Former, Vec<OwnedFd>),
}

impl Place {
    /// Opens the stored keys, and then takes the place, or asks its service for both.
    pub(super) fn find(config: &Config, beside: Beside<'_>) -> Result<(Self, Store), StartError> {
        let Beside { passphrase, held, take_over, .. } = beside;
        let open = |ahead: Option<&Stretched>| {
            Store::open(&config.keys, passphrase, ahead, config.limits.keys, geteuid().as_raw())
        };
        if !take_over {
            let store = open(None)?;
            return Ok((Self::Own(RuntimeFiles::take(&config.socket, held)?), store));
        }
        // The former service can still change keys meanwhile.
        let ahead = Store::stretch(&config.keys, passphrase);
        let mut former = Former::find(&config.socket);
        if let Some(asked) = &former
            && asked.ask(Succession::Keys)?.is_none()
        {
            former = None;
        }
        let store = open(ahead.as_ref())?;
        let place = match former {
            Some(former) => Self::Formers(former, held),
            None => Self::Own(RuntimeFiles::take(&config.socket, held)?),
        };
        Ok((place, store))
    }

    /// The service's own files. The former service, if there is one, accepts no client from now on.
    pub(super) fn take(self, socket: &Path) -> Result<(RuntimeFiles, Option<Former>), StartError> {
        let (former, held) = match self {
            Self::Own(files) => return Ok((files, None)),
            Self::Formers(former, held) => (former, held),
        };
        let Some((_, given)) = former.ask(Succession::Socket)? else {
            // It died, and its lock is free.
            return Ok((RuntimeFiles::take(socket, held)?, None));
        };
        let [listening, lock] = <[OwnedFd; 2]>::try_from(given).map_err(|given| StartError::NotHandedOver {
            socket: socket.to_owned(),
            why: format!("it gave {} descriptors and not 2", given.len()),
        })?;
        Ok((RuntimeFiles::take_over(socket, listening, lock)?, Some(former)))
    }
}

fn is_gone(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, NotConnected, UnexpectedEof};
    matches!(error.kind(), BrokenPipe | ConnectionReset | NotConnected | UnexpectedEof)
}
