//! The client: one lane to a service, without a thread and without a lock.
//!
//! ```no_run
//! use sidecore_client::client::{Client, Options};
//! use sidecore_core::session::Op;
//! use sidecore_client::spec::{Cipher, KeyMaterial, Scheme, Secret, SessionSpec};
//!
//! let mut client = Client::connect(&Options::default())?;
//! let key = KeyMaterial::Symmetric(Secret::new(vec![7; 32]));
//! let session = client.open_session(&SessionSpec { scheme: Scheme::Cipher(Cipher::Aes256Gcm), key })?;
//! let nonce_and_text = [&[0; 12][..], b"hello"].concat();
//! let sealed = client.call(session, Op::Encrypt, 0, &nonce_and_text, 21)?;
//! assert_eq!(sealed.len(), 5 + 16);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! For throughput, keep many requests in flight: [`Client::alloc`] buffers in the arena once, then [`Client::write`],
//! [`Client::submit`] many, [`Client::ring`] once, and [`Client::poll`] or [`Client::wait`] for completions.
//!
//! After a `fork`, the child's first call opens a lane of its own, with the sessions of the parent's lane. The
//! parent's lane is never touched. Buffers and requests made before the fork belong to the parent: using them in the
//! child is an error.

mod admin;
mod arena;
mod error;
mod lane;
mod made;
mod trust;

pub use admin::Admin;
pub use arena::Buffer;
pub use error::{ConnectError, Error};
pub use lane::{Received, WaitReport};
pub(crate) use lane::{after, question};
pub use made::MadeKey;
pub use sidecore_ipc::trust::number_of;
pub(crate) use trust::connect as connect_trusted;

use crate::control::{self, Reply, Token};
use crate::keys::KeyInfo;
use crate::spec::SessionSpec;
use lane::Lane;
use sidecore_core::policy::notify::Notify;
use sidecore_core::session::Op;
use sidecore_core::time::Nanos;
use sidecore_core::wire::{self, Extent, Status};
use sidecore_ipc::environment::{service_users, socket_of_environment};
use sidecore_ipc::shm::fork::ForkGuard;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// How to connect, and the shape of the lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The service's socket.
    pub socket: PathBuf,
    /// Users, by name or number, whose service is trusted, in addition to root and this program's own user. A service
    /// of another user receives no message.
    pub service_users: Vec<String>,
    /// Most requests in flight: a power of two.
    pub slots: u32,
    /// Bytes of payload arena: a multiple of 4096.
    pub arena_bytes: u32,
    /// Name in the service's tables; default: the program's.
    pub name: String,
    /// Wait policy; takes precedence over the service's advice.
    pub notify: Option<Notify>,
    /// Allows the service to end the lane while it is idle: it does so when its user has reached the limit of lanes or
    /// processes and another process of this user needs one. The lanes of [keyops](crate::keyops) are reclaimable: its
    /// operations continue on another lane.
    pub reclaimable: bool,
    /// Time limit for connecting and attaching, and for each question over the socket; changes of the service and its
    /// keys may take longer. It does not limit how long [`Client::wait`] waits for completions.
    pub timeout: Duration,
    /// How long the operations of [keyops](crate::keyops) wait for a missing service before they fail. All threads of a
    /// process share this wait; after it, operations fail immediately until a service is available. Five times as long
    /// where a service manager holds the socket of a service that is starting. A [`Client`] itself does not wait.
    pub restart_wait: Duration,
}

impl Default for Options {
    fn default() -> Self {
        let program = std::env::args_os().next().map(PathBuf::from);
        let name = program.as_ref().and_then(|path| path.file_name()).unwrap_or_default();
        Self {
            socket: socket_of_environment(),
            service_users: service_users(),
            slots: 256,
            arena_bytes: 4 << 20,
            name: name.to_string_lossy().into_owned(),
            notify: None,
            reclaimable: false,
            timeout: Self::DEFAULT_TIMEOUT,
            restart_wait: Self::RESTART_WAIT,
        }
    }
}

impl Options {
    /// [`Options::timeout`] unless set otherwise.
    pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(2);
    /// [`Options::restart_wait`] unless set otherwise.
    pub const RESTART_WAIT: Duration = Duration::from_secs(2);

    /// Replaces user names by numbers, for programs that will not find the system's files later, e.g. after a
    /// `chroot`. An unknown name stays as it is.
    pub fn look_up_users(&mut self) {
        for user in &mut self.service_users {
            if let Some(number) = number_of(user) {
                *user = number.to_string();
            }
        }
    }
}

/// A session on a client's lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Session {
    handle: u32,
    /// Asymmetric: each request carries stage times.
    long: bool,
}

/// One operation: its session, and the extents of the arena to read and write.
#[derive(Clone, Copy, Debug)]
pub struct Request<'e> {
    /// The session.
    pub session: Session,
    /// The operation.
    pub op: Op,
    /// Leading bytes of the input that are additional data, or the signature to verify.
    pub head_len: u32,
    /// Extents to read, in order.
    pub inputs: &'e [Extent],
    /// Extents to write, in order.
    pub outputs: &'e [Extent],
    /// Announce the completion immediately, under any notify policy.
    pub urgent: bool,
}

/// A connection to a service. It can move between threads, but only one thread uses it at a time.
#[derive(Debug)]
pub struct Client {
    options: Options,
    guard: ForkGuard,
    lane: Lane,
    token: Token,
}

impl Client {
    /// Attaches to a service.
    ///
    /// # Errors
    /// No service, no permission, another version, or a lane that the service refuses. Each message names a remedy.
    pub fn connect(options: &Options) -> Result<Self, ConnectError> {
        let (lane, token) = Self::attach(options, None)?;
        Ok(Self { options: options.clone(), guard: ForkGuard::new()?, lane, token })
    }

    /// Opens a session. The key goes to the service, which keeps its key schedule; no request reads it back.
    ///
    /// # Errors
    /// The service refused, with its reason, or is gone.
    pub fn open_session(&mut self, spec: &SessionSpec) -> Result<Session, Error> {
        self.own_lane()?;
        // The service validates the spec; only the cost class matters here.
        let long = spec.scheme.is_asymmetric();
        match self.lane.ask(&control::Request::OpenSession(spec.clone()))? {
            Reply::Session { handle } => Ok(Session { handle, long }),
            other => Err(Error::unexpected(other)),
        }
    }

    /// Closes a session. Requests in flight are finished.
    ///
    /// # Errors
    /// The service does not know the session, or is gone.
    pub fn close_session(&mut self, session: Session) -> Result<(), Error> {
        self.own_lane()?;
        match self.lane.ask(&control::Request::CloseSession { handle: session.handle })? {
            Reply::Done => Ok(()),
            other => Err(Error::unexpected(other)),
        }
    }

    /// Kind and public part of a stored key.
    ///
    /// # Errors
    /// No key has this name, this user may not use it, or the service is gone.
    pub fn key_info(&mut self, name: &str) -> Result<KeyInfo, Error> {
        self.own_lane()?;
        match self.lane.ask(&control::Request::KeyInfo { name: name.to_owned() })? {
            Reply::KeyInfo(info) => Ok(info),
            other => Err(Error::unexpected(other)),
        }
    }

    /// Latest time to wait for an answer over the socket; [`Options::timeout`] applies before it.
    pub fn set_deadline(&mut self, deadline: Option<Instant>) {
        self.lane.set_deadline(deadline);
    }

    /// Whether this is a forked child that has made no call yet: its next one opens a lane of its own.
    pub fn forked(&self) -> bool {
        self.guard.forked()
    }

    /// The lane's descriptor; it becomes readable when the service wakes the client. For programs with an event loop
    /// of their own: call [`Client::arm`] before sleeping and [`Client::poll`] after waking. It lives as long as the
    /// client.
    ///
    /// # Errors
    /// A forked child could not attach a lane of its own.
    pub fn wake_fd(&mut self) -> Result<BorrowedFd<'_>, Error> {
        self.own_lane()?;
        self.lane.wake_fd()
    }

    /// The socket over which the lane was attached, if it is still usable. The service answers only the process that
    /// connected it.
    pub fn connection(&self) -> Option<BorrowedFd<'_>> {
        self.lane.connection()
    }

    /// True if a service manager held the connection until a service started. Call right after connecting.
    pub fn took_a_start(&self) -> bool {
        self.lane.took_a_start()
    }

    /// Arms the wake-up for the next completion, through [`Client::wake_fd`]. `false`: a completion is ready, poll it.
    /// Also drains earlier wake-ups from the descriptor, and rings for pending submissions.
    ///
    /// # Errors
    /// The service is gone: nothing in flight will come back.
    pub fn arm(&mut self) -> Result<bool, Error> {
        self.own_lane()?;
        self.lane.arm()
    }

    /// The wait policy in force: this client's own choice, else the service's current advice.
    ///
    /// # Errors
    /// A forked child could not attach a lane of its own.
    pub fn notify(&mut self) -> Result<Notify, Error> {
        self.own_lane()?;
        Ok(self.lane.notify())
    }

    /// Checks whether the service still holds the lane. For programs that poll and never wait.
    ///
    /// # Errors
    /// The service is gone: nothing in flight will come back.
    pub fn check(&mut self) -> Result<(), Error> {
        self.own_lane()?;
        self.lane.check()
    }

    /// Allocates a buffer of `len` bytes in the arena.
    ///
    /// # Errors
    /// The arena has no room for it.
    pub fn alloc(&mut self, len: u32) -> Result<Buffer, Error> {
        self.own_lane()?;
        self.lane.arena.alloc(len)
    }

    /// Frees a buffer. In a forked child, a buffer made before the fork is only forgotten.
    pub fn free(&mut self, buffer: Buffer) {
        if !self.guard.forked() {
            self.lane.arena.free(buffer);
        }
    }

    /// Copies bytes into a buffer.
    ///
    /// # Errors
    /// The bytes do not fit, or the buffer was made before a fork.
    #[inline]
    pub fn write(&mut self, buffer: &Buffer, offset: u32, bytes: &[u8]) -> Result<(), Error> {
        self.own_lane()?;
        self.lane.span(buffer, offset, bytes.len())?.copy_from(bytes);
        Ok(())
    }

    /// Copies bytes out of a buffer.
    ///
    /// # Errors
    /// The buffer is shorter, or was made before a fork.
    #[inline]
    pub fn read(&mut self, buffer: &Buffer, offset: u32, bytes: &mut [u8]) -> Result<(), Error> {
        self.own_lane()?;
        self.lane.span(buffer, offset, bytes.len())?.copy_to(bytes);
        Ok(())
    }

    /// Overwrites a buffer with zeros: the service can read it until the lane ends.
    pub fn wipe(&mut self, buffer: &Buffer) {
        let zeros = [0; 1024];
        for offset in (0..buffer.extent().len).step_by(zeros.len()) {
            let left = zeros.len().min((buffer.extent().len - offset) as usize);
            // The bytes fit; in a forked child the memory is the parent's.
            let _ = self.write(buffer, offset, &zeros[..left]);
        }
    }

    /// Makes the client usable again after the owner of its buffers was lost: forgets these, and wipes them if nothing is
    /// in flight. `false`: a request is, so the service may still read and write there.
    pub fn recover(&mut self) -> bool {
        if self.guard.forked() || self.lane.drain_answers() > 0 {
            return false;
        }
        self.lane.forget_buffers();
        let all = self.alloc(self.lane.arena_bytes());
        all.is_ok_and(|all| {
            self.wipe(&all);
            self.free(all);
            true
        })
    }

    /// Starts the transfer of a buffer's first lines to this core, for reading and writing. Call it after taking many
    /// completions and before reading their results, so that the transfers overlap.
    #[inline]
    pub fn prefetch(&self, buffer: &Buffer) {
        if !self.guard.forked() {
            self.lane.prefetch(buffer);
        }
    }

    /// Queues a request with a tag chosen by the caller. The service sees it at the latest after [`Client::ring`].
    ///
    /// # Errors
    /// [`Error::Full`] if every slot of the lane is in use: take completions first.
    #[inline]
    pub fn submit(&mut self, tag: u32, request: &Request<'_>) -> Result<(), Error> {
        self.own_lane()?;
        let Request { session, op, head_len, inputs, outputs, urgent } = *request;
        let handle = session.handle;
        let request = wire::Request { tag, op, session: handle, head_len, inputs, outputs, urgent, submitted: None };
        self.lane.submit(request, session)
    }

    /// Wakes the service if it sleeps. Call once after a batch of [`Client::submit`].
    #[inline]
    pub fn ring(&mut self) {
        if !self.guard.forked() {
            self.lane.ring();
        }
    }

    /// The next completion, if it is ready. Never blocks.
    #[inline]
    pub fn poll(&mut self) -> Option<Received> {
        if self.guard.forked() { None } else { self.lane.poll() }
    }

    /// Waits for the next completion by the notify policy. Rings first if there are submissions without a ring.
    ///
    /// # Errors
    /// Nothing is in flight, or the service is gone: then nothing in flight will complete.
    #[inline]
    pub fn wait(&mut self) -> Result<Received, Error> {
        self.own_lane()?;
        self.lane.wait(None)
    }

    /// As [`Client::wait`], for at most `timeout` ns; `None` after that.
    ///
    /// # Errors
    /// As for [`Client::wait`].
    pub fn wait_for(&mut self, timeout: Nanos) -> Result<Option<Received>, Error> {
        self.own_lane()?;
        match self.lane.wait(Some(timeout)) {
            Err(Error::TimedOut) => Ok(None),
            other => other.map(Some),
        }
    }

    /// Runs one request on private memory and waits for it. `max_output`: room for the result. Fails with
    /// [`Error::Busy`] while other requests are in flight.
    ///
    /// # Errors
    /// Refused, failed, or the service is gone.
    pub fn call(
        &mut self,
        session: Session,
        op: Op,
        head_len: u32,
        input: &[u8],
        max_output: u32,
    ) -> Result<Vec<u8>, Error> {
        self.own_lane()?;
        if self.lane.in_flight() > 0 {
            return Err(Error::Busy);
        }
        let len = u32::try_from(input.len()).map_err(|_| Error::ArenaFull)?;
        let (input_buffer, output) = (self.alloc(len.max(1))?, self.alloc(max_output.max(1)));
        let result = output.and_then(|output| {
            let result = self.call_in(session, op, head_len, input, &input_buffer, &output);
            self.free(output);
            result
        });
        self.free(input_buffer);
        result
    }

    /// Requests submitted and not yet received.
    pub fn in_flight(&self) -> u32 {
        self.lane.in_flight()
    }

    /// Largest input or output of one request, bytes.
    pub fn max_request_bytes(&self) -> u32 {
        self.lane.max_request_bytes()
    }

    /// Most requests in flight.
    pub fn slots(&self) -> u32 {
        self.lane.slots()
    }

    /// Bytes of payload arena.
    pub fn arena_bytes(&self) -> u32 {
        self.lane.arena_bytes()
    }

    /// Cost of this client's waits so far.
    pub fn wait_report(&self) -> WaitReport {
        self.lane.wait_report()
    }

    fn call_in(
        &mut self,
        session: Session,
        op: Op,
        head_len: u32,
        input: &[u8],
        from: &Buffer,
        to: &Buffer,
    ) -> Result<Vec<u8>, Error> {
        self.write(from, 0, input)?;
        let inputs = [Extent::new(from.extent().offset, input.len() as u32)];
        let request = Request { session, op, head_len, inputs: &inputs, outputs: &[to.extent()], urgent: true };
        self.submit(0, &request)?;
        self.ring();
        match self.wait()?.status {
            Status::Done { len } => {
                let mut result = vec![0; len as usize];
                self.read(to, 0, &mut result)?;
                Ok(result)
            }
            Status::Refused(refusal) => Err(Error::Refused(refusal)),
            Status::DeviceFailed { device } => Err(Error::DeviceFailed(device)),
        }
    }

    #[inline]
    fn own_lane(&mut self) -> Result<(), Error> {
        if self.guard.forked() { self.attach_child() } else { Ok(()) }
    }

    #[cold]
    fn attach_child(&mut self) -> Result<(), Error> {
        let (lane, token) = Self::attach(&self.options, Some(self.token)).map_err(Error::Connect)?;
        self.lane = lane;
        self.token = token;
        self.guard.claim();
        Ok(())
    }

    fn attach(options: &Options, adopt: Option<Token>) -> Result<(Lane, Token), ConnectError> {
        Lane::attach(options, adopt)
    }
}
