//! A service's files while it runs: its socket, its counter file, and the lock that assigns them to one service.
//!
//! Checking that a socket is dead, removing it and making another are three steps, between which a second service
//! could do the same. So the lock comes first. It is held as long as the service runs, and the kernel releases it
//! with the process, at any kind of end.
//!
//! A service may give socket and lock to the next one while both run. The lock belongs to the open file, so it passes
//! with its descriptor and is never free in between.
//!
//! A service manager may hold the socket from one service to the next, so that clients meanwhile wait in its queue.
//! The kernel tells clients of a listening socket which process called `listen` last: so each service calls it again.

use crate::start::StartError;
use crate::sys::packet;
use nix::sched::{CloneFlags, unshare};
use rustix::fs::{FileType, FlockOperation, Mode, OFlags, Stat, flock, fstat, lstat, open, unlink};
use rustix::io::Errno;
use rustix::process::umask;
use std::fs::{self, Permissions};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::thread;

/// Most retries if the lock file is removed by its last holder while it is opened here.
const ATTEMPTS: u32 = 100;

/// A socket of one service alone. Dropping it removes its files.
#[derive(Debug)]
pub struct RuntimeFiles {
    files: Vec<Owned>,
    lock: Owned,
    inherited: Option<OwnedFd>,
    stays: bool,
    /// The next service has the socket and the lock.
    handed: bool,
}

/// A file by name. As long as it is open here, no other file has its number.
#[derive(Debug)]
struct Owned {
    path: PathBuf,
    file: OwnedFd,
}

impl RuntimeFiles {
    /// Takes the socket's path, also from a service that died. `held`: sockets from a service manager.
    ///
    /// # Errors
    /// Another service has the path, or it cannot be used.
    pub fn take(path: &Path, held: Vec<OwnedFd>) -> Result<Self, StartError> {
        let at = |error| StartError::Path(path.to_owned(), error);
        if let Some(directory) = path.parent().filter(|directory| !directory.as_os_str().is_empty()) {
            if directory.exists() && !directory.is_dir() {
                return Err(at(io::ErrorKind::NotADirectory.into()));
            }
            fs::create_dir_all(directory).map_err(at)?;
        }
        let lock = lock(path)?;
        // While this service has the lock, a socket that listens there is not another service's.
        let inherited = held.into_iter().find(|socket| packet::listens_at(socket, path));
        if inherited.is_none() {
            remove_dead(path)?;
        }
        Ok(Self { files: Vec::new(), lock, inherited, stays: false, handed: false })
    }

    /// Takes the path from the service that gave its listening socket and its lock.
    ///
    /// # Errors
    /// They are not those of this path.
    pub fn take_over(path: &Path, socket: OwnedFd, lock: OwnedFd) -> Result<Self, StartError> {
        let file = lock_beside(path);
        let lock = Owned { path: file.clone(), file: lock };
        // Locked already, or free: a lock of another process on the same file would be an error here.
        let is_locked = flock(&lock.file, FlockOperation::NonBlockingLockExclusive).is_ok();
        if !is_locked || !lock.is_there() {
            let why = "the former service gave another lock than this: stop it, then start this one";
            return Err(StartError::Path(file, io::Error::new(io::ErrorKind::InvalidData, why)));
        }
        if !packet::listens_at(&socket, path) {
            let why = "the former service gave another socket than this: stop it, then start this one";
            return Err(StartError::Path(path.to_owned(), io::Error::new(io::ErrorKind::InvalidData, why)));
        }
        Ok(Self { files: Vec::new(), lock, inherited: Some(socket), stays: false, handed: false })
    }

    /// Another descriptor of the lock.
    ///
    /// # Errors
    /// No descriptor is left.
    pub fn lock(&self) -> io::Result<OwnedFd> {
        self.lock.file.try_clone()
    }

    /// The next service has socket and lock: all files stay.
    pub fn hand_over(&mut self) {
        self.handed = true;
    }

    /// Listens there. Before this, clients find no service. During a start they therefore act as without a service,
    /// and do not mistake the start for a late answer.
    ///
    /// # Errors
    /// The path cannot be used.
    pub fn listen(&mut self, path: &Path, mode: u32) -> Result<OwnedFd, StartError> {
        let at = |error| StartError::Path(path.to_owned(), error);
        let socket = match self.inherited.take() {
            Some(socket) => packet::prepare(&socket).map(|()| socket),
            None => bind(path, mode),
        };
        let socket = socket.map_err(at)?;
        let entry = self.add(path).map_err(at)?;
        set_mode(entry, mode).map_err(at)?;
        packet::listen(&socket).map_err(at)?;
        Ok(socket)
    }

    /// A service manager holds the socket for the next service: its file stays in place.
    pub fn leave_socket(&mut self) {
        self.stays = true;
    }

    /// Removes this file as well when the service ends.
    ///
    /// # Errors
    /// It is not there.
    pub fn keep(&mut self, path: &Path) -> Result<(), StartError> {
        self.add(path).map(drop).map_err(|error| StartError::Path(path.to_owned(), error))
    }

    fn add(&mut self, path: &Path) -> io::Result<&Owned> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        self.files.push(Owned { path: path.to_owned(), file: open(path, flags, Mode::empty())? });
        Ok(&self.files[self.files.len() - 1])
    }
}

impl Drop for RuntimeFiles {
    fn drop(&mut self) {
        if self.handed {
            return;
        }
        let is_socket = |file: &&Owned| fstat(&file.file).is_ok_and(|stat| is_socket(&stat));
        self.files.iter().filter(|file| !(self.stays && is_socket(file))).for_each(Owned::remove);
        // Before the release: a process that waits for the lock checks whether the file still exists.
        self.lock.remove();
        // A child of this process may have the file open as well.
        let _ = flock(&self.lock.file, FlockOperation::Unlock);
    }
}

/// Binds a socket with its final mode, because a client that gets EACCES does not retry. Clients can connect only
/// after the listen.
///
/// The mask of the file system's modes belongs to the process. So a thread with a mask of its own binds.
fn bind(path: &Path, mode: u32) -> io::Result<OwnedFd> {
    let bind = || {
        // After a failure, as in some containers, the mode becomes final a moment later.
        if unshare(CloneFlags::CLONE_FS).is_ok() {
            umask(Mode::from_raw_mode(!mode & 0o777));
        }
        packet::bind_to(path)
    };
    thread::scope(|scope| scope.spawn(bind).join())
        .unwrap_or_else(|_| Err(io::Error::other("the binding thread ended")))
}

/// Sets the mode through the open file: in a directory where others may write, the name could lead to another file by
/// now. Without `/proc` by the name, if that is the file's.
fn set_mode(entry: &Owned, mode: u32) -> io::Result<()> {
    // A socket of a service manager may belong to another user.
    if fstat(&entry.file).is_ok_and(|stat| stat.st_mode & 0o777 == mode) {
        return Ok(());
    }
    let mode = Permissions::from_mode(mode);
    match fs::set_permissions(format!("/proc/self/fd/{}", entry.file.as_raw_fd()), mode.clone()) {
        Err(error) if error.kind() == io::ErrorKind::NotFound && entry.is_there() => {
            fs::set_permissions(&entry.path, mode)
        }
        other => other,
    }
}

impl Owned {
    fn is_there(&self) -> bool {
        let number = |stat: Stat| (stat.st_dev, stat.st_ino);
        fstat(&self.file).is_ok_and(|own| lstat(&self.path).is_ok_and(|found| number(own) == number(found)))
    }

    fn remove(&self) {
        if self.is_there() {
            let _ = unlink(&self.path);
        }
    }
}

fn is_socket(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::Socket
}

fn lock_beside(socket: &Path) -> PathBuf {
    let mut path = socket.as_os_str().to_owned();
    path.push(".lock");
    path.into()
}

fn lock(socket: &Path) -> Result<Owned, StartError> {
    let path = lock_beside(socket);
    for _ in 0..ATTEMPTS {
        let file = open_lock(&path).map_err(|error| StartError::Path(path.clone(), error))?;
        let locked = flock(&file, FlockOperation::NonBlockingLockExclusive);
        let owned = Owned { path: path.clone(), file };
        match locked {
            Ok(()) if owned.is_there() => return Ok(owned),
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => break,
            Err(error) => return Err(StartError::Path(path, error.into())),
        }
    }
    Err(StartError::AlreadyRunning(socket.to_owned()))
}

/// Never follows a link, nor waits for the other end of a pipe.
fn open_lock(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::CREATE | OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let no_file = || io::Error::new(io::ErrorKind::AlreadyExists, "it exists and is no regular file: remove it");
    let file = open(path, flags, Mode::RUSR | Mode::WUSR).map_err(|error| match error {
        Errno::LOOP | Errno::NXIO | Errno::ISDIR => no_file(),
        Errno::ACCESS if path.exists() => io::Error::new(
            io::ErrorKind::PermissionDenied,
            "it belongs to another user's service: if that runs no more, remove it",
        ),
        error => error.into(),
    })?;
    match FileType::from_raw_mode(fstat(&file)?.st_mode) {
        FileType::RegularFile => Ok(file),
        _ => Err(no_file()),
    }
}

fn remove_dead(path: &Path) -> Result<(), StartError> {
    let at = |error| StartError::Path(path.to_owned(), error);
    let exists = |what: &str| Err(at(io::Error::new(io::ErrorKind::AlreadyExists, what)));
    let Ok(found) = fs::symlink_metadata(path) else { return Ok(()) };
    let is_socket = found.file_type().is_socket();
    match packet::connect_to(path) {
        Ok(_) => Err(StartError::AlreadyRunning(path.to_owned())),
        Err(error) if is_socket && error.kind() == io::ErrorKind::ConnectionRefused => {
            fs::remove_file(path).map_err(at)
        }
        Err(error) if is_socket => exists(&format!("it is another program's socket ({error})")),
        Err(_) => exists("it exists and is no socket"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_that_is_held_goes_on_listening_at_the_same_place() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("socket");
        let mut first = RuntimeFiles::take(&path, Vec::new()).unwrap();
        let held = first.listen(&path, 0o600).unwrap();
        first.leave_socket();
        drop(first);
        let waiting = packet::connect_to(&path).unwrap();
        // A socket that listens nowhere, or at another place, is not used.
        let other = packet::bind_to(&scratch.path().join("other")).unwrap();
        packet::listen(&other).unwrap();
        let mut second = RuntimeFiles::take(&path, vec![other, held]).unwrap();
        let socket = second.listen(&path, 0o640).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
        drop(packet::accept(&socket).unwrap());
        drop(waiting);
        drop(second);
        assert!(!path.exists(), "nobody holds it any more");
    }

    #[test]
    fn a_place_passes_to_the_next_service_and_its_lock_is_never_free() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("socket");
        let is_taken = || matches!(RuntimeFiles::take(&path, Vec::new()), Err(StartError::AlreadyRunning(_)));
        let mut first = RuntimeFiles::take(&path, Vec::new()).unwrap();
        let socket = first.listen(&path, 0o600).unwrap();
        let mut second = RuntimeFiles::take_over(&path, socket.try_clone().unwrap(), first.lock().unwrap()).unwrap();
        first.hand_over();
        drop((first, socket));
        assert!(path.exists() && is_taken());
        let waiting = packet::connect_to(&path).unwrap();
        let socket = second.listen(&path, 0o600).unwrap();
        drop(packet::accept(&socket).unwrap());
        drop(waiting);
        // Another file than the lock, another socket, and a lock that another process has.
        let other = scratch.path().join("other");
        let mut third = RuntimeFiles::take(&other, Vec::new()).unwrap();
        let elsewhere = third.listen(&other, 0o600).unwrap();
        let lock = || open_lock(&lock_beside(&path)).unwrap();
        assert!(RuntimeFiles::take_over(&path, socket.try_clone().unwrap(), third.lock().unwrap()).is_err());
        assert!(RuntimeFiles::take_over(&path, socket.try_clone().unwrap(), lock()).is_err());
        assert!(RuntimeFiles::take_over(&path, elsewhere, second.lock().unwrap()).is_err());
        assert!(is_taken());
        drop(second);
        assert!(!path.exists());
    }

    #[test]
    fn a_socket_that_is_held_and_whose_file_is_gone_is_made_anew() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("socket");
        let held = RuntimeFiles::take(&path, Vec::new()).unwrap().listen(&path, 0o600).unwrap();
        // Its file was removed with the first place.
        let mut second = RuntimeFiles::take(&path, vec![held]).unwrap();
        let socket = second.listen(&path, 0o600).unwrap();
        let _client = packet::connect_to(&path).unwrap();
        packet::accept(&socket).unwrap();
    }

    #[test]
    fn a_socket_has_its_mode_when_it_is_made() {
        let scratch = tempfile::tempdir().unwrap();
        let mask = || {
            let status = fs::read_to_string("/proc/self/status").unwrap();
            status.lines().find(|line| line.starts_with("Umask")).unwrap().to_owned()
        };
        let before = mask();
        for mode in [0o600, 0o640, 0o666] {
            let path = scratch.path().join(format!("{mode:o}"));
            let _socket = bind(&path, mode).unwrap();
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, mode);
        }
        assert_eq!(mask(), before);
    }

    #[test]
    fn a_place_is_taken_before_clients_find_it() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("socket");
        let mut place = RuntimeFiles::take(&path, Vec::new()).unwrap();
        assert!(!path.exists() && matches!(RuntimeFiles::take(&path, Vec::new()), Err(StartError::AlreadyRunning(_))));
        let _socket = place.listen(&path, 0o640).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
        packet::connect_to(&path).unwrap();
    }
}
