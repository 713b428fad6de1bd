//! What a process has of the service of sockets: at most one connection to it, and its streams.

use super::ask::connect;
use super::attachment::{Attachment, Target};
use super::protocol::{DEFAULT_SOCKET, SOCKET_VARIABLE};
use super::stream::Stream;
use crate::environment::trusted_variable;
use crate::sys::connections::{Connections, Listed};
use crate::sys::process::PerProcess;
use crate::sys::thread::spawn_without_signals;
use crate::sys::{clock, tcp, udp};
use sidecore_core::streams::rule::Why;
use sidecore_core::time::Nanos;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// How long a service that is not there is left alone, ns: at first, and at most.
const FIRST_RETRY: Nanos = 10_000_000;
const LAST_RETRY: Nanos = 1_000_000_000;
/// How long a connection may take, ns.
const CONNECT_TIMEOUT: Nanos = 50_000_000;
/// How often what a dead service left is offered to a kernel that is full.
const OFFER: Duration = Duration::from_millis(1);
/// Stack of the thread that waits for the service's end, bytes.
const STACK: usize = 256 * 1024;

static PROGRAM: PerProcess<Program> = PerProcess::new();
static CONNECTIONS: Connections = Connections::new();

#[derive(Default)]
struct Program {
    current: Mutex<Current>,
    streams: Mutex<Streams>,
}

#[derive(Default)]
struct Current {
    attachment: Option<(Arc<Attachment>, Option<Listed>)>,
    /// Not before that instant, ns.
    retry_at: Nanos,
    retry_after: Nanos,
}

/// None is ever freed: another thread may still have it in its hands.
#[derive(Default)]
struct Streams {
    all: Vec<&'static Stream>,
    free: Vec<&'static Stream>,
}

/// This process's sending on that connection goes through a ring from now on. While it is promoted nothing else may be sent on
/// it but by [`Stream::with_kernel`].
///
/// # Errors
/// It stays on the kernel, and why.
pub fn promote(socket: BorrowedFd<'_>) -> Result<&'static Stream, Why> {
    if tcp::is_connected_tcp(socket) {
        return enter(socket, None);
    }
    let packet = if udp::is_connected_udp(socket) { udp::most_bytes(socket, None) } else { None };
    enter(socket, Some(Target { to: None, packet: packet.ok_or(Why::Special)? }))
}

/// The same for what is sent to that address, which has no flow and no scope, on a UDP socket that is connected to nobody.
///
/// # Errors
/// As for [`promote`].
pub fn promote_to(socket: BorrowedFd<'_>, to: SocketAddr) -> Result<&'static Stream, Why> {
    if !udp::may_send_to(socket, &to) {
        // It may be connected now, and not for ever.
        return Err(Why::Few);
    }
    let packet = udp::most_bytes(socket, Some(&to)).ok_or(Why::Special)?;
    enter(socket, Some(Target { to: Some(to), packet }))
}

fn enter(socket: BorrowedFd<'_>, target: Option<Target>) -> Result<&'static Stream, Why> {
    let program = PROGRAM.get(|| Ok(Program::default()), |_| CONNECTIONS.let_go()).map_err(|_| Why::NoService)?;
    let attachment = program.attachment()?;
    let seat = match target {
        None => attachment.seat(socket),
        Some(target) => attachment.seat_of_datagrams(socket, target),
    };
    let seat = seat.map_err(|_| Why::Refused)?;
    let stream = program.stream();
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
        lock(&program.streams).free.push(stream);
    }
}

/// In a forked child, before anything else: its parent's connection is the parent's alone.
pub fn after_fork_in_child() {
    CONNECTIONS.let_go();
}

/// Descriptors of this process that belong to this library, which programs that close all that they do not know of are to
/// leave alone.
pub fn own_descriptors() -> [Option<RawFd>; 3] {
    let current = PROGRAM.peek().and_then(|program| program.current.try_lock().ok());
    current.as_ref().and_then(|current| current.attachment.as_ref()).map_or([None; 3], |(at, _)| at.descriptors())
}

impl Program {
    fn attachment(&'static self) -> Result<Arc<Attachment>, Why> {
        let mut current = lock(&self.current);
        if let Some((attachment, _)) = current.attachment.as_ref().filter(|(attachment, _)| !attachment.is_gone()) {
            return Ok(attachment.clone());
        }
        current.attachment = None;
        let now = clock::now();
        if now < current.retry_at {
            return Err(Why::NoService);
        }
        if let Ok(fresh) = self.attach() {
            let listed = fresh.connection().and_then(|connection| CONNECTIONS.list(connection));
            *current = Current { attachment: Some((fresh.clone(), listed)), ..Current::default() };
            return Ok(fresh);
        }
        current.retry_after = (current.retry_after * 2).clamp(FIRST_RETRY, LAST_RETRY);
        current.retry_at = now.saturating_add(current.retry_after);
        Err(Why::NoService)
    }

    fn attach(&'static self) -> io::Result<Arc<Attachment>> {
        let path = trusted_variable(SOCKET_VARIABLE).filter(|path| !path.is_empty());
        let path = path.map_or_else(|| PathBuf::from(DEFAULT_SOCKET), PathBuf::from);
        let socket = connect(&path, CONNECT_TIMEOUT)?;
        let attachment = Arc::new(Attachment::new(socket, &name())?);
        let waiting = attachment.clone();
        spawn_without_signals("sidecore-sockets", STACK, move || {
            waiting.wait_for_end();
            self.go_on_alone(&waiting);
        })?;
        Ok(attachment)
    }

    /// The service has ended: what it had accepted for this program goes to the kernel, however long that is full.
    fn go_on_alone(&self, attachment: &Arc<Attachment>) {
        let mut streams = lock(&self.streams).all.clone();
        loop {
            streams.retain(|stream| stream.abandon(attachment).is_none());
            if attachment.drain_adopted() && streams.is_empty() {
                return;
            }
            thread::sleep(OFFER);
        }
    }

    fn stream(&self) -> &'static Stream {
        let mut streams = lock(&self.streams);
        streams.free.pop().unwrap_or_else(|| {
            let fresh: &'static Stream = Box::leak(Box::default());
            streams.all.push(fresh);
            fresh
        })
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The program's, for people.
fn name() -> String {
    let program = std::env::args_os().next().map(PathBuf::from);
    program.as_ref().and_then(|path| path.file_name()).unwrap_or_default().to_string_lossy().into_owned()
}
