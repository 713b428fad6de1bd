//! The thread that accepts programs, and hands each to the thread of its user. It never waits for them. It pauses
//! while the system lacks resources, or while too many declined connections are not closed yet.

use super::ledger::Kind;
use super::shared::Shared;
use super::user::{Alive, User};
use rustix::io::Errno;
use sidecore_core::policy::rate::RateLimit;
use sidecore_core::time::Nanos;
use sidecore_daemon::door::Door;
use sidecore_daemon::events::{self, Source};
use sidecore_daemon::sys::poller::Poller;
use sidecore_daemon::sys::{packet, peer, wake};
use sidecore_ipc::message;
use sidecore_ipc::sys::clock;
use sidecore_sockets::protocol::{Refused, Reply};
use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::SyncSender;

const LISTENER: u64 = 0;
const WAKE: u64 = 1;
/// Pause of accepting after the system lacked resources, ns.
const PAUSE: Nanos = 100_000_000;
/// The same while too many declined connections are not closed yet, ns.
const SHORT_PAUSE: Nanos = 10_000_000;
const WARN_EVERY: Nanos = 60_000_000_000;
/// Most declined connections that wait to be closed.
const MAX_DECLINED: usize = 32;
/// Reason of a decline: service or system have no room for the program.
const REASON: &str = "limit";
/// User of a connection where the kernel names none.
const NOBODY: u32 = u32::MAX;

#[derive(Debug)]
pub(super) struct Listener {
    shared: Arc<Shared>,
    door: Door,
    poller: Poller,
    users: HashMap<u32, Arc<User>>,
    alive: Alive,
    /// Closed for a moment when no other descriptor is left, to send the refusal.
    spare: Option<OwnedFd>,
    resumes: Option<Nanos>,
    /// Warnings for the operator; a slow reader loses some.
    warnings: SyncSender<String>,
    warned: Option<Nanos>,
    declines: RateLimit<Source<()>>,
}

impl Listener {
    /// # Errors
    /// Those of the system.
    pub(super) fn new(
        socket: OwnedFd,
        shared: Arc<Shared>,
        alive: Alive,
        warnings: SyncSender<String>,
    ) -> io::Result<Self> {
        let poller = Poller::new()?;
        poller.add_once(&socket, LISTENER)?;
        poller.add_edge(&shared.wake, WAKE)?;
        let door = Door::new(socket, MAX_DECLINED);
        let (users, spare) = (HashMap::new(), wake::event().ok());
        Ok(Self {
            shared,
            door,
            poller,
            users,
            alive,
            spare,
            resumes: None,
            warnings,
            warned: None,
            declines: RateLimit::new(events::PACE),
        })
    }

    pub(super) fn run(mut self) {
        while !self.shared.stop.load(Ordering::Acquire) {
            let resumes = self.resumes.map(|resumes| resumes.saturating_sub(clock::now()));
            // Suppressed counts are reported later, even without a new occurrence.
            let untold = self.declines.is_behind().then_some(events::PACE.every);
            let wide = self.door.set_backlog(clock::now()).map(|at| at.saturating_sub(clock::now()));
            let pause = resumes.into_iter().chain(untold).chain(wide).min();
            let came = self.poller.wait(pause).any(|number| number == LISTENER);
            if came || self.resumes.is_some_and(|resumes| resumes <= clock::now()) {
                self.resumes = None;
                if let Err(error) = self.accept_some() {
                    self.pause(error);
                }
            }
            self.tell_overdue();
        }
        while let Some(quiet) = self.declines.rest() {
            events::suppressed(&quiet, |()| REASON, Some(REASON));
        }
        self.door.leave();
        self.users.values().for_each(|user| user.ring());
    }

    /// Accepts waiting programs, up to a limit.
    ///
    /// # Errors
    /// As for [`Listener::accept`].
    fn accept_some(&mut self) -> Result<(), Errno> {
        self.door.wasted(self.shared.wasted.swap(0, Ordering::Relaxed));
        for _ in 0..self.door.at_once() {
            if self.door.is_full() {
                self.resumes = Some(clock::now().saturating_add(SHORT_PAUSE));
                return Ok(());
            }
            match self.accept() {
                Err(Errno::AGAIN) => break,
                other => other?,
            }
        }
        self.listen_again()
    }

    fn tell_overdue(&mut self) {
        while let Some(quiet) = self.declines.overdue(clock::now()) {
            events::suppressed(&quiet, |()| REASON, Some(REASON));
        }
    }

    fn listen_again(&self) -> Result<(), Errno> {
        let error = |error: io::Error| Errno::from_io_error(&error).unwrap_or(Errno::IO);
        self.poller.watch_again(&self.door, LISTENER).map_err(error)
    }

    /// Accepts the next program.
    ///
    /// # Errors
    /// `AGAIN`: no program waits. Otherwise the system lacks resources: the program still waits, and the poller would
    /// report it again immediately.
    fn accept(&mut self) -> Result<(), Errno> {
        let accepted = match self.door.accept() {
            Err(error @ (Errno::MFILE | Errno::NFILE)) => self.accept_without_descriptors(error),
            Ok(None) | Err(Errno::CONNABORTED) => Ok(()),
            Err(error) => Err(error),
            Ok(Some(socket)) => {
                if let Err((socket, why)) = self.admit(socket) {
                    self.decline(socket, why);
                }
                Ok(())
            }
        };
        self.spare = self.spare.take().or_else(|| wake::event().ok());
        accepted
    }

    /// Without this the program would get no answer.
    fn accept_without_descriptors(&mut self, error: Errno) -> Result<(), Errno> {
        drop(self.spare.take());
        let socket = packet::accept(&self.door)?;
        self.decline(socket, Refused::limit("the service has no descriptor left: end some programs"));
        self.warn(error);
        Ok(())
    }

    /// Stops the reports of waiting programs until the pause is over; the service may end meanwhile.
    fn pause(&mut self, error: Errno) {
        self.resumes = Some(clock::now().saturating_add(PAUSE));
        self.warn(error);
    }

    fn warn(&mut self, error: Errno) {
        let now = clock::now();
        if self.warned.is_some_and(|warned| now < warned.saturating_add(WARN_EVERY)) {
            return;
        }
        self.warned = Some(now);
        let remedy = match error {
            Errno::MFILE => "raise its limit on files (LimitNOFILE= in its unit), or lower sockets.max_sockets",
            Errno::NFILE => "raise the system's limit on files, fs.file-max",
            _ => "the machine needs more memory, or fewer programs",
        };
        // A full channel holds an earlier warning.
        let _ = self.warnings.try_send(format!(
            "the service cannot accept programs: {error}; their connections stay on the kernel; {remedy}"
        ));
    }

    fn admit(&mut self, socket: OwnedFd) -> Result<(), (OwnedFd, Refused)> {
        let mut socket = socket;
        let uid = match peer::credentials(&socket) {
            Ok(peer) => peer.uid,
            Err(error) => return Err((socket, Refused::other(error))),
        };
        loop {
            let user = match self.user(uid) {
                Ok(user) => user,
                Err(why) => return Err((socket, why)),
            };
            let permit = match user.ledger.take(Kind::Programs, 1) {
                Ok(permit) => permit,
                Err(why) => return Err((socket, why)),
            };
            match user.hand(socket, permit) {
                Ok(()) => return Ok(()),
                // Its thread ended just now.
                Err(back) => socket = back,
            }
        }
    }

    fn user(&mut self, uid: u32) -> Result<Arc<User>, Refused> {
        if let Some(user) = self.users.get(&uid).filter(|user| !user.has_ended()) {
            return Ok(user.clone());
        }
        self.users.retain(|_, user| !user.has_ended());
        let most = self.shared.limits.max_users;
        if self.users.len() >= most as usize {
            self.users.retain(|_, user| !user.dismiss_if_idle());
        }
        if self.users.len() >= most as usize {
            let why = format_args!("the service has all the users that sockets.max_users = {most} allows: raise it");
            return Err(Refused::limit(why));
        }
        let user = User::start(uid, &self.shared, &self.alive).map_err(|error| {
            Refused::limit(format_args!(
                "the service has no means for one more user: {error}; end some programs, or raise its limits on files and threads"
            ))
        })?;
        self.users.insert(uid, user.clone());
        Ok(user)
    }

    /// Sends the reason of a refused connection. A program without room for even that gets none.
    fn decline(&mut self, socket: OwnedFd, why: Refused) {
        let (uid, pid) = peer::credentials(&socket).map_or((NOBODY, 0), |peer| (peer.uid, peer.pid));
        if let Some(suppressed) =
            self.declines.tell(clock::now(), Source { what: (), uid, tenant: self.shared.subordinates.tenant(uid) })
        {
            events::refused(uid, pid, REASON, &why.text, suppressed);
        }
        let _ = message::send(&socket, &Reply::Refused(why), &[]);
        self.door.wasted(1);
        self.door.close(socket);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SocketsConfig;
    use rustix::net::{SocketAddrUnix, bind, listen, sockopt};
    use sidecore_ipc::sys::packet::{connect_by, send, socket};
    use sidecore_ipc::sys::poll::wait_readable;
    use sidecore_testing::lingering;
    use std::net::TcpStream;
    use std::os::fd::{AsFd, BorrowedFd};
    use std::path::Path;
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    const TIMEOUT_NS: Nanos = 60_000_000_000;
    const HOSTILE: usize = 100;

    fn declined(path: &Path) -> bool {
        let program = connect_by(path, clock::now() + TIMEOUT_NS).unwrap();
        assert!(wait_readable(program.as_fd(), Some(TIMEOUT_NS)).unwrap(), "nobody accepts");
        matches!(message::receive(&program), Ok((Reply::Refused(_), _)))
    }

    /// On a socket whose kernel passes descriptors: Linux before 6.16, and here a socket without the option.
    #[test]
    fn who_comes_with_descriptors_that_take_long_to_close_keeps_no_other_from_being_accepted() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("socket");
        let listening = socket().unwrap();
        sockopt::set_socket_passcred(&listening, true).unwrap();
        bind(&listening, &SocketAddrUnix::new(&path).unwrap()).unwrap();
        listen(&listening, 1024).unwrap();
        rustix::io::ioctl_fionbio(&listening, true).unwrap();
        let limits = SocketsConfig { max_programs: 1, ..SocketsConfig::default() };
        let shared = Arc::new(Shared::of(limits));
        let ((alive, running), (warnings, _)) = (mpsc::channel(), mpsc::sync_channel(1));
        let listener = Listener::new(listening, shared.clone(), alive, warnings).unwrap();
        // All that this user may have: each further one is declined.
        let _one = connect_by(&path, clock::now() + TIMEOUT_NS).unwrap();
        let peers: Vec<TcpStream> = (0..HOSTILE)
            .map(|_| {
                let (here, there) = lingering();
                let program = connect_by(&path, clock::now() + TIMEOUT_NS).unwrap();
                // Among others, after a message without content.
                let with_it: [(&[u8], &[BorrowedFd<'_>]); 3] = [(b"one", &[]), (b"", &[]), (b"two", &[here.as_fd()])];
                for (said, fds) in with_it {
                    send(&program, said, fds).unwrap();
                }
                there
            })
            .collect();
        let accepts = thread::spawn(move || listener.run());
        assert!(declined(&path));
        // They close when their peers are gone.
        drop(peers);
        shared.stop.store(true, Ordering::Release);
        wake::ring(&shared.wake);
        accepts.join().unwrap();
        assert!(running.recv_timeout(Duration::from_nanos(TIMEOUT_NS)).is_err());
    }
}
