//! A process's state for the service of sockets: at most one connection to it, and its streams.
//!
//! A thread of this library prepares everything for the program's calls: a call may come from a signal handler that
//! interrupted the allocator, or from a thread with a small stack. Memory is allocated and freed while no lock is held
//! that a handler also takes. A call starts the thread, unless it comes from a handler.

use super::ask::connect;
use super::attachment::{Attachment, Target};
use super::protocol::{DEFAULT_SERVICE_USER, DEFAULT_SOCKET, Report, SOCKET_VARIABLE, Seated, USERS_VARIABLE};
use super::ring::{ADOPTED, AdoptedRings};
use super::stream::Stream;
use crate::sys::signals_blocked::SignalsBlocked;
use crate::sys::thread::{Started, spawn_without_signals};
use crate::sys::{tcp, udp};
use sidecore_core::time::Nanos;
use sidecore_ipc::environment::{named_users, service_users_or, trusted_variable};
use sidecore_ipc::sys::clock;
use sidecore_ipc::sys::connections::{Connections, Listed};
use sidecore_ipc::sys::process::PerProcess;
use sidecore_streams::layout::PLACES;
use sidecore_streams::rule::PathReason;
use sidecore_streams::slot::Key;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{BorrowedFd, RawFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::Duration;

/// Interval between attempts to reach a missing service, ns: the first, and the longest.
const FIRST_RETRY: Nanos = 10_000_000;
const LAST_RETRY: Nanos = 1_000_000_000;
const CONNECT_TIMEOUT: Nanos = 50_000_000;
/// Interval between attempts to give rings to the kernel after the service's end: the first, and the longest.
const OFFER: Duration = Duration::from_millis(1);
const LAST_OFFER: Duration = Duration::from_millis(32);
/// Limit of naps while a thread ends, and length of a nap: the thread has nothing more to do.
const NAPS: u32 = 20_000;
/// Limit of naps of a fork, while the thread waits for a service's answer.
const FORK_NAPS: u32 = 4_000;
const NAP: Duration = Duration::from_micros(50);
const STACK: usize = 256 * 1024;

static PROGRAM: PerProcess<Program> = PerProcess::empty();
const MAX_CONNECTIONS: usize = 128;
static CONNECTIONS: Connections<MAX_CONNECTIONS> = Connections::empty();

#[derive(Default)]
struct Program {
    current: Mutex<Current>,
    streams: Mutex<Streams>,
    /// Present or former numbers of the connection's descriptors: other numbers are ruled out without a lock. 0 is
    /// never one.
    own: [AtomicI32; 3],
}

/// A connection to a service, and the rings that were left with bytes in it.
#[derive(Clone)]
struct Attached {
    attachment: Arc<Attachment>,
    adopted: Arc<AdoptedRings>,
}

#[derive(Default)]
struct Current {
    attached: Option<Attached>,
    thread: Option<Started>,
    helper: Option<Started>,
    let_go: bool,
    retry_at: Nanos,
    retry_after: Nanos,
}

/// At most one per place of all attachments. None is ever freed: another thread may still use it.
#[derive(Default)]
struct Streams {
    all: Vec<&'static Stream>,
    free: Vec<&'static Stream>,
}

/// A socket that may enter a ring.
#[derive(Clone, Copy, Debug)]
pub struct Candidate<'a> {
    /// The program's descriptor.
    pub socket: BorrowedFd<'a>,
    /// Key for the ring.
    pub key: Key,
    /// Receiver of its datagrams, without flow and scope. `None`: the socket is connected.
    pub to: Option<&'a SocketAddr>,
    /// Bytes that the program is known to have sent on a TCP connection, plus one if it connected. `None`: unknown.
    pub sent: Option<u64>,
}

/// Functions with facts about the process that only the preloaded library knows.
#[derive(Clone, Copy, Debug)]
pub struct Process {
    /// True if this thread is surely not in a signal handler.
    pub may_prepare: fn() -> bool,
    /// True if the process sends in ways that the library does not see. Called by the library's thread.
    pub sends_unseen: fn() -> bool,
    /// The sockets in no ring. Called by the library's thread.
    pub sockets: fn() -> Report,
    /// Called by the library's thread about once a second.
    pub tick: fn(),
}

struct Given {
    path: PathBuf,
    users: Vec<String>,
}

static GIVEN: OnceLock<Given> = OnceLock::new();

/// Reads the environment at load time: some programs clear it later, and no other thread can change it yet.
pub fn prepare() {
    let _ = given();
}

fn given() -> &'static Given {
    GIVEN.get_or_init(|| {
        let path = trusted_variable(SOCKET_VARIABLE).filter(|path| !path.is_empty());
        let path = path.map_or_else(|| PathBuf::from(DEFAULT_SOCKET), PathBuf::from);
        let users = trusted_variable(USERS_VARIABLE)
            .map_or_else(|| service_users_or(DEFAULT_SERVICE_USER), |users| named_users(&users));
        Given { path, users }
    })
}

/// Moves a socket's sending to a ring. During promotion, and afterwards except by [`Stream::with_kernel`], nothing
/// else may send on it. Signal handlers must be blocked, because they would find a half-made state; one thread
/// promotes at a time.
///
/// # Errors
/// The socket stays on the kernel, for this reason. `PathReason::Few`: not yet. `PathReason::Unseen`: the kernel's count
/// of bytes differs from the candidate's.
pub fn promote(
    candidate: &Candidate<'_>,
    process: Process,
    blocked: &SignalsBlocked,
) -> Result<&'static Stream, PathReason> {
    let target = target(candidate)?;
    let Some((program, Attached { attachment, adopted })) = attached(blocked) else {
        return Err(attach(process, blocked));
    };
    let mut accepted = 0;
    if target.is_none() {
        accepted = tcp::accepted(candidate.socket).map_err(|_| PathReason::Refused)?;
        // Kernels differ on whether the handshake counts.
        if candidate.sent.is_some_and(|sent| sent.abs_diff(accepted) > 1) {
            return Err(PathReason::Unseen);
        }
    }
    let slot = attachment.slot(target).map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => PathReason::Few,
        _ => PathReason::Refused,
    })?;
    // A place without a stream must not be announced to the service.
    let Some(stream) = program.stream(blocked) else {
        slot.unused();
        return Err(PathReason::Few);
    };
    let slot = slot.open(candidate.socket, accepted).map_err(|_| {
        retire(stream);
        PathReason::Refused
    })?;
    stream.begin(slot, candidate.key, adopted);
    Ok(stream)
}

/// Receiver of datagrams; `None`: a TCP connection.
fn target(of: &Candidate<'_>) -> Result<Option<Target>, PathReason> {
    let packet = match of.to {
        None if tcp::is_connected_tcp(of.socket) => {
            return if tcp::has_usual_options(of.socket) { Ok(None) } else { Err(PathReason::Inherited) };
        }
        None if !udp::is_connected_udp(of.socket) => None,
        // It may be connected only temporarily.
        Some(to) if !udp::may_send_to(of.socket, to) => return Err(PathReason::Few),
        to => udp::most_bytes(of.socket, to),
    };
    Ok(Some(Target { to: of.to.copied(), packet: packet.ok_or(PathReason::Special)? }))
}

fn attached(blocked: &SignalsBlocked) -> Option<(&'static Program, Attached)> {
    let program = PROGRAM.peek()?;
    let current = blocked.lock(&program.current);
    let attached = current.attached.as_ref().filter(|attached| !attached.attachment.is_gone());
    attached.map(|attached| (program, attached.clone()))
}

/// Starts the library's thread if there is none. Returns the reason why the socket stays on the kernel until
/// then.
#[cold]
fn attach(process: Process, blocked: &SignalsBlocked) -> PathReason {
    if let Some(why) = PROGRAM.peek().and_then(|program| program.is_to_wait(blocked)) {
        return why;
    }
    if !(process.may_prepare)() {
        // The search may take a millisecond, so it is not repeated immediately.
        return PathReason::NoService;
    }
    let started = PROGRAM.get(|| Ok(Program::default()), |_| CONNECTIONS.let_go()).and_then(|program| {
        let thread = spawn_without_signals("sidecore-sockets", STACK, move || program.run(process))?;
        let before = blocked.lock(&program.current).thread.replace(thread);
        drop(before);
        Ok(())
    });
    started.map_or(PathReason::NoService, |()| PathReason::Few)
}

/// Starts a thread of the library beside the one that attaches. `work` must end by itself soon. `false`: there can be
/// none. Not for signal handlers.
pub fn start_helper(name: &str, work: fn()) -> bool {
    let started = PROGRAM.get(|| Ok(Program::default()), |_| CONNECTIONS.let_go()).and_then(|program| {
        let thread = spawn_without_signals(name, STACK, work)?;
        let before = SignalsBlocked::new().lock(&program.current).helper.replace(thread);
        drop(before);
        Ok(())
    });
    started.is_ok()
}

/// Releases a stream that has no descriptor any more.
pub fn retire(stream: &'static Stream) {
    if let Some(program) = PROGRAM.peek() {
        SignalsBlocked::new().lock(&program.streams).free.push(stream);
    }
}

/// Notes that the program closes the socket with its last ring at `seat`.
pub fn closed(seat: Seated) {
    let Some(program) = PROGRAM.peek() else { return };
    let attachment = SignalsBlocked::new().lock(&program.current).attachment();
    if let Some(attachment) = attachment {
        attachment.closed(seat);
    }
}

/// Must come first in a forked child: drops the parent's connection, and the adopted connections that the parent
/// closed.
pub fn after_fork_in_child() {
    CONNECTIONS.let_go();
    ADOPTED.let_go();
}

/// After a possible change of the user: leaves a service that serves the former user. Streams continue without it, and
/// enter rings as the new user.
pub fn user_changed() {
    let Some(program) = PROGRAM.peek() else { return };
    let blocked = SignalsBlocked::new();
    let attachment = blocked.lock(&program.current).attachment();
    if let Some(attachment) = attachment.filter(|attachment| !attachment.is_of_this_user()) {
        attachment.end();
    }
}

/// Before a fork: waits while the library's thread opens descriptors, because a child must find all of them in a list.
pub fn before_fork() {
    if let Some(program) = PROGRAM.peek() {
        wait_until(FORK_NAPS, || !program.is_attaching());
    }
}

/// Ends this process's connection to the service, and the library's thread. False: a stream is in a ring, or the
/// thread takes too long, so both stay. The caller must keep streams from entering rings during the call.
#[must_use]
pub fn let_go() -> bool {
    PROGRAM.peek().is_none_or(Program::let_go)
}

/// Numbers of this library's descriptors, for programs that close all unknown ones. A number may refer to another file
/// now: see [`is_own`].
pub fn own_numbers() -> impl Iterator<Item = RawFd> {
    let own = PROGRAM.peek().into_iter().flat_map(|program| &program.own).map(|own| own.load(Ordering::Relaxed));
    own.filter(|fd| *fd > 0).chain(ADOPTED.numbers())
}

/// Whether this number is one of the library's descriptors. Waits for no lock.
pub fn is_own(fd: RawFd) -> bool {
    if ADOPTED.is(fd) {
        return true;
    }
    let Some(program) = PROGRAM.peek() else { return false };
    if !program.own.iter().any(|own| own.load(Ordering::Relaxed) == fd) {
        return false;
    }
    let blocked = SignalsBlocked::new();
    // While another thread attaches, the numbers alone decide.
    blocked.try_lock(&program.current).is_none_or(|current| current.descriptors().contains(&Some(fd)))
}

impl Current {
    fn attachment(&self) -> Option<Arc<Attachment>> {
        self.attached.as_ref().map(|attached| attached.attachment.clone())
    }

    fn descriptors(&self) -> [Option<RawFd>; 3] {
        self.attached.as_ref().map_or([None; 3], |attached| attached.attachment.descriptors())
    }
}

impl Program {
    /// Reason for not attaching now; `None`: a thread may be started.
    fn is_to_wait(&self, blocked: &SignalsBlocked) -> Option<PathReason> {
        let current = blocked.lock(&self.current);
        if clock::now() < current.retry_at {
            return Some(PathReason::NoService);
        }
        let is_running = current.thread.as_ref().is_some_and(|thread| !thread.has_ended());
        is_running.then_some(PathReason::Few)
    }

    fn run(&self, process: Process) {
        let attachment = if (process.sends_unseen)() { Err(Nanos::MAX) } else { fresh().map_err(|_| 0) };
        let attached = match attachment {
            Ok(attachment) => Attached { attachment, adopted: Arc::default() },
            Err(retry_at) => return self.retry(retry_at),
        };
        let Attached { attachment, adopted } = &attached;
        let _listed: Option<Listed> = attachment.connection().and_then(|connection| CONNECTIONS.list(connection));
        let have_places = |places| {
            self.have_streams(places);
            adopted.have_room(places);
        };
        have_places(PLACES as usize);
        let is_current = self.publish(&attached);
        if is_current {
            let tick = || {
                adopted.release();
                (process.tick)();
            };
            attachment.wait_for_end(have_places, process.sockets, tick);
            self.withdraw(attachment);
            self.fall_back(&attached);
            (process.tick)();
        }
    }

    fn retry(&self, at: Nanos) {
        let blocked = SignalsBlocked::new();
        let mut current = blocked.lock(&self.current);
        current.retry_after = (current.retry_after * 2).clamp(FIRST_RETRY, LAST_RETRY);
        current.retry_at = at.max(clock::now().saturating_add(current.retry_after));
    }

    /// False: the process is ending its attachment.
    fn publish(&self, attached: &Attached) -> bool {
        let blocked = SignalsBlocked::new();
        let mut current = blocked.lock(&self.current);
        if !current.let_go {
            self.own_are(attached.attachment.descriptors());
            current.attached = Some(attached.clone());
            current.retry_after = 0;
        }
        !current.let_go
    }

    /// Removes the attachment of a service that has ended, so that another can be made. This thread is its last user.
    fn withdraw(&self, attachment: &Arc<Attachment>) {
        let blocked = SignalsBlocked::new();
        let mut current = blocked.lock(&self.current);
        if current.attached.as_ref().is_some_and(|current| Arc::ptr_eq(&current.attachment, attachment)) {
            self.own_are([None; 3]);
            let before = (current.attached.take(), current.thread.take());
            drop(current);
            drop(before);
        }
    }

    fn own_are(&self, descriptors: [Option<RawFd>; 3]) {
        for (own, fd) in self.own.iter().zip(descriptors) {
            own.store(fd.unwrap_or_default(), Ordering::Relaxed);
        }
    }

    fn let_go(&self) -> bool {
        let attachment = SignalsBlocked::new().lock(&self.current).attachment();
        if attachment.as_ref().is_some_and(|attachment| self.streams().iter().any(|stream| stream.is_in(attachment))) {
            return false;
        }
        let close = |current: &mut Current| {
            current.let_go = true;
            [current.thread.take(), current.helper.take()]
        };
        let threads = close(&mut SignalsBlocked::new().lock(&self.current));
        if let Some(attachment) = attachment {
            attachment.end();
        }
        let has_ended = wait_until(NAPS, || threads.iter().flatten().all(Started::has_ended));
        SignalsBlocked::new().lock(&self.current).let_go = false;
        has_ended
    }

    /// True while the library's thread opens descriptors that children must not inherit.
    fn is_attaching(&self) -> bool {
        let blocked = SignalsBlocked::new();
        let current = blocked.lock(&self.current);
        current.attached.is_none() && current.thread.as_ref().is_some_and(|thread| !thread.has_ended())
    }

    /// All streams ever made. A signal handler may wait for one stream's lock while the interrupted thread holds
    /// another's, so none is taken while the lock of the list is held.
    fn streams(&self) -> Vec<&'static Stream> {
        let mut streams = Vec::new();
        loop {
            let count = SignalsBlocked::new().lock(&self.streams).all.len();
            streams.reserve(count);
            let blocked = SignalsBlocked::new();
            let all = blocked.lock(&self.streams);
            if all.all.len() == count {
                streams.extend_from_slice(&all.all);
                return streams;
            }
        }
    }

    /// After the end of the service: gives this program's rings to the kernel, waiting as long as the kernel is full.
    /// At the end, this thread is the only owner of the attachment and of its list of left rings: a handler that dropped
    /// the last of its references would free memory, perhaps within a call of the allocator.
    fn fall_back(&self, Attached { attachment, adopted }: &Attached) {
        let is_owned_here = || Arc::strong_count(attachment) == 1 && Arc::strong_count(adopted) == 1;
        let mut interval = OFFER;
        loop {
            let left = self.streams().iter().filter(|stream| stream.abandon(attachment).is_none()).count();
            if adopted.drain() && left == 0 && is_owned_here() {
                return;
            }
            thread::sleep(interval);
            interval = (interval * 2).min(LAST_OFFER);
        }
    }

    fn have_streams(&self, places: usize) {
        let more = places.saturating_sub(self.streams().len());
        let mut next = Streams { all: Vec::with_capacity(places), free: Vec::with_capacity(places) };
        next.free.extend((0..more).map(|_| -> &'static Stream { Box::leak(Box::default()) }));
        next.all.extend_from_slice(&next.free);
        if more > 0 {
            let blocked = SignalsBlocked::new();
            let mut streams = blocked.lock(&self.streams);
            next.all.append(&mut streams.all);
            next.free.append(&mut streams.free);
            std::mem::swap(&mut *streams, &mut next);
        }
    }

    /// A free stream that this thread is not using further up its stack.
    fn stream(&self, blocked: &SignalsBlocked) -> Option<&'static Stream> {
        let free = &mut blocked.lock(&self.streams).free;
        let at = free.iter().rposition(|stream| !stream.is_within())?;
        Some(free.swap_remove(at))
    }
}

fn fresh() -> io::Result<Arc<Attachment>> {
    let Given { path, users } = given();
    Ok(Arc::new(Attachment::new(connect(path, users, CONNECT_TIMEOUT)?, &name())?))
}

fn wait_until(naps: u32, holds: impl Fn() -> bool) -> bool {
    let waits = |_| {
        let is_over = holds();
        if !is_over {
            thread::sleep(NAP);
        }
        is_over
    };
    (0..naps).any(waits)
}

fn name() -> String {
    let program = std::env::args_os().next().map(PathBuf::from);
    program.as_ref().and_then(|path| path.file_name()).unwrap_or_default().to_string_lossy().into_owned()
}
