//! What a process has of the service of sockets: at most one connection to it, and its streams.

use super::ask::connect;
use super::attachment::{Attachment, Target};
use super::protocol::{DEFAULT_SERVICE_USER, DEFAULT_SOCKET, SOCKET_VARIABLE};
use super::stream::Stream;
use crate::environment::{service_users_or, trusted_variable};
use crate::sys::connections::{Connections, Listed};
use crate::sys::process::PerProcess;
use crate::sys::thread::{Started, spawn_without_signals};
use crate::sys::undisturbed::Undisturbed;
use crate::sys::{clock, tcp, udp};
use sidecore_core::streams::rule::Why;
use sidecore_core::time::Nanos;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::Duration;

/// How long a service that is not there is left alone, ns: at first, and at most.
const FIRST_RETRY: Nanos = 10_000_000;
const LAST_RETRY: Nanos = 1_000_000_000;
/// How long a connection may take, ns.
const CONNECT_TIMEOUT: Nanos = 50_000_000;
/// How often what a dead service left is offered to a kernel that is full.
const OFFER: Duration = Duration::from_millis(1);
/// How long a thread may take to end, in naps and their length: it has nothing more to do.
const NAPS: u32 = 20_000;
const NAP: Duration = Duration::from_micros(50);
/// Stack of the thread that waits for the service's end, bytes.
const STACK: usize = 256 * 1024;

static PROGRAM: PerProcess<Program> = PerProcess::new();
static CONNECTIONS: Connections = Connections::new();

#[derive(Default)]
struct Program {
    current: Mutex<Current>,
    streams: Mutex<Streams>,
    /// Numbers of the connection's descriptors, or what they were: others are known without a lock. 0 is never one.
    own: [AtomicI32; 3],
}

#[derive(Default)]
struct Current {
    attached: Option<Attached>,
    /// Not before that instant, ns.
    retry_at: Nanos,
    retry_after: Nanos,
}

struct Attached {
    /// That children let go of it, until it is closed.
    _listed: Option<Listed>,
    attachment: Arc<Attachment>,
    /// Who waits for its end.
    waiter: Started,
}

/// None is ever freed: another thread may still have it in its hands.
#[derive(Default)]
struct Streams {
    all: Vec<&'static Stream>,
    free: Vec<&'static Stream>,
}

/// The process's environment, as far as it concerns the service.
struct Given {
    path: PathBuf,
    /// Users whose service is trusted like root's.
    users: Vec<String>,
}

static GIVEN: OnceLock<Given> = OnceLock::new();

/// Reads the environment. At load: some programs clear it later, and no other thread can change it then.
pub fn prepare() {
    let _ = given();
}

fn given() -> &'static Given {
    GIVEN.get_or_init(|| {
        let path = trusted_variable(SOCKET_VARIABLE).filter(|path| !path.is_empty());
        let path = path.map_or_else(|| PathBuf::from(DEFAULT_SOCKET), PathBuf::from);
        Given { path, users: service_users_or(DEFAULT_SERVICE_USER) }
    })
}

/// This process's sending on that connection goes through a ring from now on. While it is promoted nothing else may be sent on
/// it but by [`Stream::with_kernel`]. No handler of a signal may come between, as it would find half of it done.
///
/// # Errors
/// It stays on the kernel, and why.
pub fn promote(socket: BorrowedFd<'_>, undisturbed: &Undisturbed) -> Result<&'static Stream, Why> {
    if tcp::is_connected_tcp(socket) {
        return enter(socket, None, undisturbed);
    }
    let packet = if udp::is_connected_udp(socket) { udp::most_bytes(socket, None) } else { None };
    enter(socket, Some(Target { to: None, packet: packet.ok_or(Why::Special)? }), undisturbed)
}

/// The same for what is sent to that address, which has no flow and no scope, on a UDP socket that is connected to nobody.
///
/// # Errors
/// As for [`promote`].
pub fn promote_to(socket: BorrowedFd<'_>, to: SocketAddr, undisturbed: &Undisturbed) -> Result<&'static Stream, Why> {
    if !udp::may_send_to(socket, &to) {
        // It may be connected now, and not for ever.
        return Err(Why::Few);
    }
    let packet = udp::most_bytes(socket, Some(&to)).ok_or(Why::Special)?;
    enter(socket, Some(Target { to: Some(to), packet }), undisturbed)
}

fn enter(socket: BorrowedFd<'_>, target: Option<Target>, undisturbed: &Undisturbed) -> Result<&'static Stream, Why> {
    let program = PROGRAM.get(|| Ok(Program::default()), |_| CONNECTIONS.let_go()).map_err(|_| Why::NoService)?;
    let attachment = program.attachment(undisturbed)?;
    let seat = match target {
        None => attachment.seat(socket),
        Some(target) => attachment.seat_of_datagrams(socket, target),
    };
    let seat = seat.map_err(|_| Why::Refused)?;
    let stream = program.stream(undisturbed);
    stream.begin(seat, socket.as_raw_fd());
    Ok(stream)
}

/// That stream is on no descriptor any more.
pub fn retire(stream: &'static Stream) {
    // A handler's: the thread that it interrupted still has it, and so nobody else gets it, ever.
    if stream.is_within() {
        return;
    }
    if let Some(program) = PROGRAM.peek() {
        Undisturbed::new().lock(&program.streams).free.push(stream);
    }
}

/// In a forked child, before anything else: its parent's connection is the parent's alone.
pub fn after_fork_in_child() {
    CONNECTIONS.let_go();
}

/// Ends this process's connection to the service, and the thread that waits for it: the kernel has that no more when this returns.
/// Where a stream is in a ring they stay. The caller sees to it that none enters one meanwhile.
pub fn let_go() {
    if let Some(program) = PROGRAM.peek() {
        program.let_go();
    }
}

/// Descriptors of this process that belong to this library, which programs that close all that they do not know of are to
/// leave alone.
pub fn own_descriptors() -> [Option<RawFd>; 3] {
    PROGRAM.peek().map_or([None; 3], |program| Undisturbed::new().lock(&program.current).descriptors())
}

/// Whether that is one of them. The library asks as well, for what it closes itself while it attaches: no lock is waited for.
pub fn is_own(fd: RawFd) -> bool {
    let Some(program) = PROGRAM.peek() else { return false };
    if !program.own.iter().any(|own| own.load(Ordering::Relaxed) == fd) {
        return false;
    }
    let undisturbed = Undisturbed::new();
    // While another thread attaches, the numbers alone say it.
    undisturbed.try_lock(&program.current).is_none_or(|current| current.descriptors().contains(&Some(fd)))
}

impl Current {
    fn descriptors(&self) -> [Option<RawFd>; 3] {
        self.attached.as_ref().map_or([None; 3], |attached| attached.attachment.descriptors())
    }
}

impl Program {
    fn attachment(&'static self, undisturbed: &Undisturbed) -> Result<Arc<Attachment>, Why> {
        let mut current = undisturbed.lock(&self.current);
        if let Some(attached) = current.attached.as_ref().filter(|attached| !attached.attachment.is_gone()) {
            return Ok(attached.attachment.clone());
        }
        // What is closed from here on is the library's to close.
        self.own_are([None; 3]);
        current.attached = None;
        let now = clock::now();
        if now < current.retry_at {
            return Err(Why::NoService);
        }
        if let Ok(attached) = self.attach() {
            let fresh = attached.attachment.clone();
            self.own_are(fresh.descriptors());
            *current = Current { attached: Some(attached), ..Current::default() };
            return Ok(fresh);
        }
        current.retry_after = (current.retry_after * 2).clamp(FIRST_RETRY, LAST_RETRY);
        current.retry_at = now.saturating_add(current.retry_after);
        Err(Why::NoService)
    }

    fn own_are(&self, descriptors: [Option<RawFd>; 3]) {
        for (own, fd) in self.own.iter().zip(descriptors) {
            own.store(fd.unwrap_or_default(), Ordering::Relaxed);
        }
    }

    fn attach(&'static self) -> io::Result<Attached> {
        let Given { path, users } = given();
        let socket = connect(path, users, CONNECT_TIMEOUT)?;
        let attachment = Arc::new(Attachment::new(socket, &name())?);
        let waiting = attachment.clone();
        let waiter = spawn_without_signals("sidecore-sockets", STACK, move || {
            waiting.wait_for_end();
            self.go_on_alone(&waiting);
        })?;
        let listed = attachment.connection().and_then(|connection| CONNECTIONS.list(connection));
        Ok(Attached { attachment, _listed: listed, waiter })
    }

    fn let_go(&self) {
        let attached = Undisturbed::new().lock(&self.current).attached.as_ref().map(|at| at.attachment.clone());
        let Some(attachment) = attached else { return };
        if self.streams().iter().any(|stream| stream.is_in(&attachment)) {
            return;
        }
        let Some(attached) = Undisturbed::new().lock(&self.current).attached.take() else { return };
        self.own_are([None; 3]);
        attached.attachment.end();
        for _ in 0..NAPS {
            if attached.waiter.has_ended() {
                return;
            }
            thread::sleep(NAP);
        }
    }

    /// All that there ever were. A lock of one of them may be waited for by a handler that interrupted who has another's: so
    /// none is taken while that of all is held.
    fn streams(&self) -> Vec<&'static Stream> {
        Undisturbed::new().lock(&self.streams).all.clone()
    }

    /// The service has ended: what it had accepted for this program goes to the kernel, however long that is full.
    fn go_on_alone(&self, attachment: &Arc<Attachment>) {
        let mut streams = self.streams();
        loop {
            streams.retain(|stream| stream.abandon(attachment).is_none());
            if attachment.drain_adopted() && streams.is_empty() {
                return;
            }
            thread::sleep(OFFER);
        }
    }

    fn stream(&self, undisturbed: &Undisturbed) -> &'static Stream {
        let mut streams = undisturbed.lock(&self.streams);
        streams.free.pop().unwrap_or_else(|| {
            let fresh: &'static Stream = Box::leak(Box::default());
            streams.all.push(fresh);
            // So that retiring takes no memory: a handler of a signal may do it, which interrupted who takes some.
            let all = streams.all.len();
            streams.free.reserve(all);
            fresh
        })
    }
}

/// The program's, for people.
fn name() -> String {
    let program = std::env::args_os().next().map(PathBuf::from);
    program.as_ref().and_then(|path| path.file_name()).unwrap_or_default().to_string_lossy().into_owned()
}
