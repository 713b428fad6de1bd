//! A service as a process: it tells its manager when it serves, logs, and ends by a signal.

use crate::events;
use crate::log::Log;
use crate::sys::duplicate;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pipe::PipeFlags;
use sd_notify::NotifyState;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::signal_name;
use std::any::Any;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::panic::{self, PanicHookInfo};
use std::thread;

/// Longest wait for the service manager to take note of the new main process, s.
const BARRIER_S: i64 = 30;

/// The signals of a service. Taken before its threads start, so that none of them gets one.
///
/// # Errors
/// Those of the system.
pub fn signals() -> io::Result<Signals> {
    Signals::new([SIGINT, SIGTERM, SIGHUP])
}

/// Waits for a signal that ends the service, and returns its name. `None`: the signals were closed. SIGHUP ends nothing:
/// `reload` says what to do in its place.
pub fn until_a_signal(mut signals: Signals, reload: &str) -> Option<&'static str> {
    for signal in signals.forever() {
        if signal != SIGHUP {
            return signal_name(signal);
        }
        events::warning(reload);
    }
    None
}

/// Starts the log, and sends panics to it. Earlier panics go to standard error.
///
/// # Errors
/// No descriptor or no thread is left.
pub fn begin(log: &Log) -> io::Result<()> {
    log.write()?;
    end_with_any_thread(log.flusher());
    Ok(())
}

/// A service without one of its threads would look alive and answer no client. It ends instead, so that its supervisor
/// starts another.
fn end_with_any_thread(flush: impl Fn() + Send + Sync + 'static) {
    panic::set_hook(Box::new(move |panic| {
        let place = panic.location().map_or_else(String::new, ToString::to_string);
        events::panic(thread::current().name().unwrap_or_default(), &place, words(panic));
        flush();
        std::process::abort();
    }));
}

fn words<'p>(panic: &'p PanicHookInfo<'_>) -> &'p str {
    let what: &dyn Any = panic.payload();
    let text = what.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| what.downcast_ref::<&str>().copied()).unwrap_or_default()
}

/// Sockets that the service manager kept from the former service.
///
/// # Errors
/// The variables that name them are wrong.
pub fn held() -> io::Result<Vec<OwnedFd>> {
    sd_notify::listen_fds()?.map(duplicate).collect()
}

/// Asks the service manager to keep this socket for the next service, in the place of the former one. A manager without
/// a store for descriptors ignores the request. Returns whether there is a manager.
pub fn hold(socket: BorrowedFd<'_>, takes_over: bool) -> bool {
    const NAME: NotifyState<'_> = NotifyState::FdName("socket");
    if !has_manager() {
        return false;
    }
    // There is room for one socket, and that of a service whose place this one takes is the same.
    let former = if takes_over { Ok(()) } else { sd_notify::notify(&[NotifyState::FdStoreRemove, NAME]) };
    former.and_then(|()| sd_notify::notify_with_fds(&[NotifyState::FdStore, NAME], &[socket])).is_ok()
}

fn has_manager() -> bool {
    std::env::var_os("NOTIFY_SOCKET").is_some()
}

/// Must come before the filter of system calls, which forbids it. Without systemd it does nothing. A service that takes
/// another one's place becomes the main process before the other one ends. Else the manager would take that for the
/// service's end.
pub fn ready(takes_over: bool) {
    if !takes_over {
        let _ = sd_notify::notify(&[NotifyState::Ready]);
        return;
    }
    let _ = sd_notify::notify(&[NotifyState::MainPid(std::process::id()), NotifyState::Ready]);
    let _ = barrier();
}

/// Waits until the manager has read all messages so far: it closes its end of a pipe then (`sd_notify_barrier(3)`).
fn barrier() -> io::Result<()> {
    if !has_manager() {
        return Ok(());
    }
    let (ours, theirs) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
    sd_notify::notify_with_fds(&[NotifyState::Custom("BARRIER=1")], &[theirs.as_fd()])?;
    drop(theirs);
    let bound = Timespec { tv_sec: BARRIER_S, tv_nsec: 0 };
    poll(&mut [PollFd::new(&ours, PollFlags::IN)], Some(&bound))?;
    Ok(())
}
