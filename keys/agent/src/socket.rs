//! The agent's socket: one of a service manager, or one made here, for its user alone.
//!
//! A path where an agent listens is left alone, also by agents that start simultaneously: that a socket is dead, its
//! removal and the next one's making are three steps, so they are taken under a lock on the directory.

use crate::error::AgentError;
use crate::sys;
use nix::sched::{CloneFlags, unshare};
use rustix::fs::{FlockOperation, Mode, OFlags, flock, open};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with, sockopt};
use rustix::process::umask;
use std::fs::{self, Permissions};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

/// Attempts to lock the directory, and the time between them.
const ATTEMPTS: u32 = 100;
const PAUSE: Duration = Duration::from_millis(20);

/// A socket that listens. Dropping it removes its file if that was made here.
pub(crate) struct Listening {
    socket: UnixListener,
    file: Option<Owned>,
}

struct Owned {
    path: PathBuf,
    /// Device and number.
    identity: (u64, u64),
}

impl Listening {
    /// The socket of the service manager, else one at this path.
    ///
    /// # Errors
    /// There is neither, or both, or the path cannot be used.
    pub(crate) fn open(path: Option<&Path>) -> Result<Self, AgentError> {
        match (handed()?, path) {
            (Some(_), Some(_)) => Err(AgentError::TwoSockets),
            (Some(socket), None) => Ok(Self { socket, file: None }),
            (None, Some(path)) => make(path),
            (None, None) => Err(AgentError::NoSocket),
        }
    }

    /// Another handle of the socket.
    ///
    /// # Errors
    /// The system has no descriptor.
    pub(crate) fn socket(&self) -> io::Result<UnixListener> {
        self.socket.try_clone()
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        let Some(file) = &self.file else { return };
        // Another agent's, if a user removed this one's.
        if identity(&file.path).is_ok_and(|found| found == file.identity) {
            let _ = fs::remove_file(&file.path);
        }
    }
}

fn handed() -> Result<Option<UnixListener>, AgentError> {
    let mut numbers = sd_notify::listen_fds().map_err(AgentError::Handed)?;
    let Some(number) = numbers.next() else { return Ok(None) };
    let socket = sys::duplicate(number).map_err(AgentError::Handed)?;
    if numbers.next().is_some() || !listens(&socket).unwrap_or(false) {
        return Err(AgentError::HandedOther);
    }
    let socket = UnixListener::from(socket);
    socket.set_nonblocking(false)?;
    Ok(Some(socket))
}

fn listens(socket: &OwnedFd) -> rustix::io::Result<bool> {
    Ok(sockopt::socket_domain(socket)? == AddressFamily::UNIX
        && sockopt::socket_type(socket)? == SocketType::STREAM
        && sockopt::socket_acceptconn(socket)?)
}

fn make(path: &Path) -> Result<Listening, AgentError> {
    let at = |error: io::Error| AgentError::Path(path.to_owned(), error);
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = open(directory, flags, Mode::empty()).map_err(|error| at(error.into()))?;
    lock(&directory).map_err(|error| match error {
        Errno::WOULDBLOCK => AgentError::Locked(path.to_owned()),
        other => at(other.into()),
    })?;
    remove_dead(path)?;
    let socket = bind(path).map_err(at)?;
    let file = Owned { path: path.to_owned(), identity: identity(path).map_err(at)? };
    Ok(Listening { socket, file: Some(file) })
}

/// The mask of file modes belongs to the process, so a thread with a mask of its own binds.
fn bind(path: &Path) -> io::Result<UnixListener> {
    let bind = || {
        let masked = unshare(CloneFlags::CLONE_FS).map(|()| umask(Mode::from_raw_mode(0o177)));
        let socket = UnixListener::bind(path)?;
        // As in some containers: the mode becomes final a moment later.
        if masked.is_err() {
            fs::set_permissions(path, Permissions::from_mode(0o600))?;
        }
        Ok(socket)
    };
    let bound = thread::scope(|scope| scope.spawn(bind).join());
    bound.unwrap_or_else(|_| Err(io::Error::other("the binding thread ended")))
}

fn lock(directory: impl AsFd) -> rustix::io::Result<()> {
    for _ in 1..ATTEMPTS {
        match flock(&directory, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK | Errno::INTR) => thread::sleep(PAUSE),
            done => return done,
        }
    }
    flock(&directory, FlockOperation::NonBlockingLockExclusive)
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    fs::symlink_metadata(path).map(|found| (found.dev(), found.ino()))
}

/// Removes a socket where nothing listens.
fn remove_dead(path: &Path) -> Result<(), AgentError> {
    let at = |error: io::Error| AgentError::Path(path.to_owned(), error);
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(at(error)),
        Ok(found) if !found.file_type().is_socket() => return Err(AgentError::NoSocketThere(path.to_owned())),
        Ok(_) => {}
    }
    match try_connect(path) {
        Err(Errno::CONNREFUSED) => fs::remove_file(path).map_err(at),
        // Its queue is full.
        Ok(()) | Err(Errno::AGAIN) => Err(AgentError::Running(path.to_owned())),
        Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(at(error.into())),
    }
}

/// Does not wait for an agent that takes no connections.
fn try_connect(path: &Path) -> rustix::io::Result<()> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    connect(&socket, &SocketAddrUnix::new(path)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixDatagram;

    fn refused(path: &Path) -> AgentError {
        make(path).err().unwrap()
    }

    #[test]
    fn a_socket_is_for_its_user_alone_and_gone_in_the_end() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("agent");
        let listening = make(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(matches!(refused(&path), AgentError::Running(_)));
        assert!(try_connect(&path).is_ok(), "the first one goes on");
        drop(listening);
        assert!(!path.exists());
    }

    #[test]
    fn a_dead_socket_is_replaced_and_no_other_file() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("agent");
        drop(UnixListener::bind(&path).unwrap());
        let listening = make(&path).unwrap();
        // The file is another agent's by now.
        fs::remove_file(&path).unwrap();
        let other = UnixListener::bind(&path).unwrap();
        drop(listening);
        assert!(path.exists());
        drop(other);
        fs::remove_file(&path).unwrap();
        fs::write(&path, "text").unwrap();
        assert!(matches!(refused(&path), AgentError::NoSocketThere(_)));
        let link = scratch.path().join("link");
        symlink(&path, &link).unwrap();
        assert!(matches!(refused(&link), AgentError::NoSocketThere(_)));
        assert_eq!(fs::read_to_string(&path).unwrap(), "text");
        let datagrams = scratch.path().join("datagrams");
        let _socket = UnixDatagram::bind(&datagrams).unwrap();
        assert!(matches!(refused(&datagrams), AgentError::Path(..)) && datagrams.exists());
    }

    #[test]
    fn of_many_that_start_simultaneously_one_has_the_path() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("agent");
        drop(UnixListener::bind(&path).unwrap());
        let made: Vec<_> = thread::scope(|scope| {
            let started: Vec<_> = (0..8).map(|_| scope.spawn(|| make(&path))).collect();
            started.into_iter().map(|one| one.join().unwrap()).collect()
        });
        assert_eq!(made.iter().filter(|made| made.is_ok()).count(), 1);
        assert!(try_connect(&path).is_ok());
    }

    #[test]
    fn a_directory_that_another_program_locks_is_an_error_and_no_wait_forever() {
        let scratch = tempfile::tempdir().unwrap();
        let held = fs::File::open(scratch.path()).unwrap();
        flock(&held, FlockOperation::LockExclusive).unwrap();
        assert!(matches!(refused(&scratch.path().join("agent")), AgentError::Locked(_)));
        let missing = scratch.path().join("none/agent");
        assert!(refused(&missing).to_string().contains("--socket"));
    }
}
