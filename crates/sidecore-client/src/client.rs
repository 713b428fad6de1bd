//! The client: one lane to a service, without a thread and without a lock.
//!
//! ```no_run
//! use sidecore_client::client::{Client, Options};
//! use sidecore_client::core::session::Op;
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
//! After a `fork` the child's first call opens a lane of its own, with the sessions of the parent's; the parent's lane
//! is never touched. Buffers and requests of before the fork belong to the parent: the child's use of them is an error.

mod admin;
mod arena;
mod error;
mod lane;
mod made;
mod trust;
mod watch;

pub use admin::Admin;
pub use arena::Buffer;
pub(crate) use error::refused;
pub use error::{ConnectError, Error};
pub use lane::{Received, WaitReport};
pub(crate) use lane::{after, question};
pub use made::MadeKey;
pub(crate) use trust::connect as connect_trusted;
pub(crate) use trust::{is_trusted, number_of};

use crate::control::{self, Reply, Token};
use crate::environment::{service_users, socket_of_environment};
use crate::keys::KeyInfo;
use crate::shm::fork::ForkGuard;
use crate::spec::SessionSpec;
use lane::Lane;
use sidecore_core::policy::notify::Notify;
use sidecore_core::session::{Algorithm, Op};
use sidecore_core::time::Nanos;
use sidecore_core::wire::{self, Extent, Status};
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// How to connect, and the shape of the lane.
#[derive(Clone, Debug)]
pub struct Options {
    /// The service's socket.
    pub socket: PathBuf,
    /// Users, by name or number, whose service is trusted beside root's and that of this program's own user. Another gets no
    /// message.
    pub service_users: Vec<String>,
    /// Most requests in flight: a power of two.
    pub slots: u32,
    /// Bytes of payload arena: a multiple of 4096.
    pub arena_bytes: u32,
    /// Name in the service's tables; default: the program's.
    pub name: String,
    /// How to wait, whatever the service advises.
    pub notify: Option<Notify>,
    /// The service may end the lane while it is idle, where its user has as many lanes or processes as it may have and another
    /// process of it needs one. A [face](crate::face)'s lanes are so: its operations go on with another lane.
    pub reclaimable: bool,
    /// How long the service may take to accept the connection and give a lane, and to answer each question over the socket;
    /// changes of the service and its keys may take longer. It does not limit how long [`Client::wait`] waits for completions.
    pub patience: Duration,
    /// How long a [face](crate::face)'s operations wait for a service while none is there, all of a process together, before they
    /// fail; then they fail at once until one is. Five times as long where a service manager holds the socket of one that starts. A
    /// [`Client`] itself does not wait for one.
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
            patience: Self::PATIENCE,
            restart_wait: Self::RESTART_WAIT,
        }
    }
}

impl Options {
    /// [`Options::patience`] unless set otherwise.
    pub const PATIENCE: Duration = Duration::from_secs(2);
    /// [`Options::restart_wait`] unless set otherwise.
    pub const RESTART_WAIT: Duration = Duration::from_secs(2);

    /// Makes numbers of the names among the service's users: for programs that will not find the system's files later,
    /// e.g. behind a `chroot`. A name that is not known stays one.
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
    /// A long operation: each request carries stage times.
    long: bool,
    algorithm: Algorithm,
}

/// What to do with which bytes of the arena.
#[derive(Clone, Copy, Debug)]
pub struct Request<'e> {
    /// The session.
    pub session: Session,
    /// The operation.
    pub op: Op,
    /// Bytes of the input that are head: additional data, or a signature to verify.
    pub head_len: u32,
    /// What to read, in order.
    pub inputs: &'e [Extent],
    /// Where to write, in order.
    pub outputs: &'e [Extent],
    /// Announce the completion at once, whatever the notify policy.
    pub urgent: bool,
}

/// A connection to a service. It can move between threads but is used by one at a time.
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
    /// No service, no permission, another version, or a lane that the service refuses; each says what to do.
    pub fn connect(options: &Options) -> Result<Self, ConnectError> {
        let (lane, token) = Self::attach(options, None)?;
        Ok(Self { options: options.clone(), guard: ForkGuard::new()?, lane, token })
    }

    /// Opens a session. The key goes to the service, which keeps its schedule; it cannot be read back.
    ///
    /// # Errors
    /// The service's reason, or that it is gone.
    pub fn open_session(&mut self, spec: &SessionSpec) -> Result<Session, Error> {
        self.own_lane()?;
        // The service decides whether the spec is valid; here only its cost class is of interest.
        let long = spec.scheme.is_asymmetric();
        match self.lane.ask(&control::Request::OpenSession(spec.clone()))? {
            Reply::Session { handle, algorithm } => {
                let algorithm = Algorithm::from_u8(algorithm).unwrap_or(Algorithm::Noop);
                Ok(Session { handle, long, algorithm })
            }
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

    /// What is known of a stored key.
    ///
    /// # Errors
    /// There is none of this name, this user may not use it, or the service is gone.
    pub fn key_info(&mut self, name: &str) -> Result<KeyInfo, Error> {
        self.own_lane()?;
        match self.lane.ask(&control::Request::KeyInfo { name: name.to_owned() })? {
            Reply::KeyInfo(info) => Ok(info),
            other => Err(Error::unexpected(other)),
        }
    }

    /// No question is waited for beyond this moment, whatever [`Options::patience`] says.
    pub fn set_deadline(&mut self, deadline: Option<Instant>) {
        self.lane.set_deadline(deadline);
    }

    /// Whether this is a forked child that has made no call yet: its next one opens a lane of its own.
    pub fn forked(&self) -> bool {
        self.guard.forked()
    }

    /// The lane's descriptor that becomes readable when the service wakes the client. For programs with an event loop
    /// of their own: [`Client::arm`] before it sleeps, [`Client::poll`] after it woke. It lives as long as the client.
    ///
    /// # Errors
    /// A forked child gets no lane of its own.
    pub fn wake_fd(&mut self) -> Result<BorrowedFd<'_>, Error> {
        self.own_lane()?;
        self.lane.wake_fd()
    }

    /// The socket that the lane came over, if it is of use. The service answers nobody on it but the process that made it.
    pub fn connection(&self) -> Option<BorrowedFd<'_>> {
        self.lane.connection()
    }

    /// True if the connection waited in a socket held by a service manager until a service started. Ask right after connecting.
    pub fn took_a_start(&self) -> bool {
        self.lane.took_a_start()
    }

    /// Asks to be woken by the next completion, through [`Client::wake_fd`]. `false`: one is there already, poll it.
    /// Takes wake-ups of before out of the descriptor, and rings for what was submitted.
    ///
    /// # Errors
    /// The service is gone: nothing in flight will come back.
    pub fn arm(&mut self) -> Result<bool, Error> {
        self.own_lane()?;
        self.lane.arm()
    }

    /// The policy that this client's waits follow: its own choice, else the service's advice of this moment.
    ///
    /// # Errors
    /// A forked child gets no lane of its own.
    pub fn notify(&mut self) -> Result<Notify, Error> {
        self.own_lane()?;
        Ok(self.lane.notify())
    }

    /// Looks whether the service still holds the lane. For programs that poll and never wait.
    ///
    /// # Errors
    /// The service is gone: nothing in flight will come back.
    pub fn check(&mut self) -> Result<(), Error> {
        self.own_lane()?;
        self.lane.check()
    }

    /// A buffer of `len` bytes in the arena.
    ///
    /// # Errors
    /// The arena has no such room.
    pub fn alloc(&mut self, len: u32) -> Result<Buffer, Error> {
        self.own_lane()?;
        self.lane.arena.alloc(len)
    }

    /// Gives a buffer back. One of before a fork is let go of only.
    pub fn free(&mut self, buffer: Buffer) {
        if !self.guard.forked() {
            self.lane.arena.free(buffer);
        }
    }

    /// Copies bytes into a buffer.
    ///
    /// # Errors
    /// They do not fit, or the buffer is of before a fork.
    #[inline]
    pub fn write(&mut self, buffer: &Buffer, offset: u32, bytes: &[u8]) -> Result<(), Error> {
        self.own_lane()?;
        self.lane.span(buffer, offset, bytes.len())?.copy_from(bytes);
        Ok(())
    }

    /// Copies bytes out of a buffer.
    ///
    /// # Errors
    /// The buffer is shorter, or of before a fork.
    #[inline]
    pub fn read(&mut self, buffer: &Buffer, offset: u32, bytes: &mut [u8]) -> Result<(), Error> {
        self.own_lane()?;
        self.lane.span(buffer, offset, bytes.len())?.copy_to(bytes);
        Ok(())
    }

    /// Overwrites a buffer with zeros: the service sees it for as long as the lane lasts.
    pub fn wipe(&mut self, buffer: &Buffer) {
        let zeros = [0; 1024];
        for offset in (0..buffer.extent().len).step_by(zeros.len()) {
            let left = zeros.len().min((buffer.extent().len - offset) as usize);
            // It fits; in a forked child the memory is the parent's.
            let _ = self.write(buffer, offset, &zeros[..left]);
        }
    }

    /// Starts the transfer of a buffer's first lines to this core, for reading and writing. After taking many completions
    /// and before looking at their results, so that the transfers overlap.
    #[inline]
    pub fn prefetch(&self, buffer: &Buffer) {
        if !self.guard.forked() {
            self.lane.prefetch(buffer);
        }
    }

    /// Queues a request under a tag of the caller's choice. The service sees it at the latest after [`Client::ring`].
    ///
    /// # Errors
    /// [`Error::Full`] with as many requests in flight as the lane has slots: take completions first.
    #[inline]
    pub fn submit(&mut self, tag: u32, request: &Request<'_>) -> Result<(), Error> {
        self.own_lane()?;
        let Request { session, op, head_len, inputs, outputs, urgent } = *request;
        let handle = session.handle;
        let request = wire::Request { tag, op, session: handle, head_len, inputs, outputs, urgent, submitted: None };
        self.lane.submit(request, session)
    }

    /// Wakes the service if it sleeps. Once after a batch of [`Client::submit`].
    #[inline]
    pub fn ring(&mut self) {
        if !self.guard.forked() {
            self.lane.ring();
        }
    }

    /// The next completion, if one is there. Never blocks.
    #[inline]
    pub fn poll(&mut self) -> Option<Received> {
        if self.guard.forked() { None } else { self.lane.poll() }
    }

    /// The next completion; waits for it as the notify policy says. Rings first if something was submitted since.
    ///
    /// # Errors
    /// Nothing is in flight, or the service is gone: then nothing in flight will come back.
    #[inline]
    pub fn wait(&mut self) -> Result<Received, Error> {
        self.own_lane()?;
        self.lane.wait(None)
    }

    /// As [`Client::wait`], but for at most `timeout` ns: then `None`.
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

    /// One request from private memory to private memory, waited for. `max_output`: room for the result.
    /// For single requests; it must not be mixed with requests in flight.
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

    /// What this client's waits cost so far.
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

    /// In a forked child, opens a lane of its own first.
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
