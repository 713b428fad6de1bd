//! `sidecore serve`: the service in its sandbox, until a signal or the next service ends it.

mod detach;

use crate::args::Serve;
use crate::error::CliError;
use crate::log::Log;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pipe::PipeFlags;
use sd_notify::NotifyState;
use sidecore::config::{Config, DUTY, socket_of_environment};
use sidecore::core::policy::notify::{Waiters, in_force};
use sidecore::core::session::Class;
use sidecore::events;
use sidecore::service::Service;
use sidecore::service::succession::{Beside, Ended};
use sidecore_daemon::events as common;
use sidecore_daemon::sandbox;
use sidecore_daemon::sys::{cpu, duplicate};
use sidecore_sockets_service::{self as sockets_service, Sockets};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::{Handle, Signals};
use signal_hook::low_level::signal_name;
use std::any::Any;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::panic::{self, PanicHookInfo};
use std::path::Path;
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, channel};
use std::thread;

/// Longest wait for the service manager to take note of the new main process, s.
const BARRIER_S: i64 = 30;

pub(crate) fn run(args: &Serve) -> Result<(), CliError> {
    if args.detach {
        return detach::run();
    }
    let parent = args.detached.then(detach::parent).transpose()?;
    let socket = socket_of_environment();
    // Before the threads start, so that none of them takes the signal.
    let signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
    let log = Log::collect(args)?;
    match &args.config {
        Some(path) if sockets_service::Config::is_in(path).map_err(CliError::library)? => {
            let mut config = sockets_service::Config::read(path).map_err(CliError::library)?;
            args.socket.iter().for_each(|socket| config.socket.clone_from(socket));
            serve_sockets(config, args, signals, &log, parent)
        }
        path => {
            let read = path.as_ref().map(|path| Config::read(path, socket.clone())).transpose();
            let mut config = read.map_err(CliError::library)?.unwrap_or(Config { socket, ..Config::default() });
            args.socket.iter().for_each(|socket| config.socket.clone_from(socket));
            serve_keys(config, args, signals, &log, parent)
        }
    }
}

fn serve_keys(
    mut config: Config,
    args: &Serve,
    signals: Signals,
    log: &Log,
    parent: Option<OwnedFd>,
) -> Result<(), CliError> {
    // The record is only written at the end, too late to report a wrong path.
    for (key, file) in [("record", &config.record), ("counters", &config.counters)] {
        if let Some(directory) = file.as_ref().filter(|file| file.is_dir()) {
            return Err(CliError::Usage(format!("{key}: {} is a directory: name a file", directory.display())));
        }
    }
    let unserved = config.unserved();
    if args.passphrase_file.is_some() {
        config.keys.passphrase_file.clone_from(&args.passphrase_file);
    }
    // Before the change of the user and the sandbox: only root may be able to read these files.
    let passphrase = config.keys.passphrase().map_err(CliError::library)?;
    config.keys.partners = Some(config.keys.read_partners().map_err(CliError::library)?);
    let unread = config.read_subordinates().map_err(CliError::library)?;
    let mut sandbox = sandbox::enter(&config.sandbox, DUTY, &config.directories()).map_err(CliError::library)?;
    begin(log)?;
    events::start(env!("CARGO_PKG_VERSION"), &config);
    let policies = config.waiters(&cpu::allowed()).in_words(config.notify.hops().map(Some));
    let (ended, end) = channel();
    let beside =
        Beside { passphrase: passphrase.as_ref(), held: held()?, take_over: args.take_over, ended: Some(ended) };
    let mut service = Service::start_with(config, beside)?;
    drop(passphrase);
    let takes_over = service.has_former();
    service.hand_over(|socket| hold(socket, takes_over));
    ready(takes_over);
    let end = watch(end, signals.handle())?;
    sandbox.filter_calls(service.door()).map_err(CliError::library)?;
    warn(sandbox.warnings().iter().chain(&refused(&unserved)).chain(&unread));
    if let Some(changes) = service.key_changes() {
        events::keys_at_rest(changes);
    }
    if takes_over {
        events::took_over();
    }
    if !service.end_former() {
        events::former_stays();
    }
    parent.into_iter().for_each(detach::served);
    until_the_end(&policies, service.socket(), signals, end);
    match end.get() {
        Some(Ended::Orphaned) => Err(CliError::Orphaned),
        _ => Ok(()),
    }
}

/// Ends the wait for signals when the service has to end by itself. Returns the reason.
fn watch(end: Receiver<Ended>, signals: Handle) -> Result<&'static OnceLock<Ended>, CliError> {
    static WHY: OnceLock<Ended> = OnceLock::new();
    let watch = thread::Builder::new().name("end".to_owned());
    watch.spawn(move || {
        if let Ok(why) = end.recv() {
            let _ = WHY.set(why);
            signals.close();
        }
    })?;
    Ok(&WHY)
}

fn serve_sockets(
    mut config: sockets_service::Config,
    args: &Serve,
    signals: Signals,
    log: &Log,
    parent: Option<OwnedFd>,
) -> Result<(), CliError> {
    if args.passphrase_file.is_some() {
        return Err(CliError::usage(
            "--passphrase-file with a section [sockets]: the service of sockets has no keys, leave it out",
        ));
    }
    if args.take_over {
        return Err(CliError::usage(
            "--take-over with a section [sockets]: the service of sockets hands nothing over, stop it first",
        ));
    }
    let unread = config.read_subordinates().map_err(CliError::library)?;
    let config = &config;
    let mut sandbox =
        sandbox::enter(&config.sandbox, Sockets::DUTY, &config.directories()).map_err(CliError::library)?;
    begin(log)?;
    sockets_service::events::start(env!("CARGO_PKG_VERSION"), config);
    let waits = [Some(config.notify.service), None, None, None];
    let threads = Waiters::of(&config.sidecores.cpus, config.sidecores.owned, Vec::new(), &cpu::allowed());
    let [parked, ..] = threads.parked(waits);
    let policy = format!("service {}", in_force(waits[0], parked.as_deref()));
    let mut sockets = Sockets::start(config)?;
    ready(false);
    sandbox.filter_calls(sockets.door()).map_err(CliError::library)?;
    warn(sandbox.warnings().iter().chain(&unread));
    if let Some(warnings) = sockets.take_warnings() {
        let tell = thread::Builder::new().name("warnings".to_owned());
        tell.spawn(move || warnings.iter().for_each(|warning| warn([warning].iter())))?;
    }
    parent.into_iter().for_each(detach::served);
    until_the_end(&policy, sockets.socket(), signals, &OnceLock::new());
    Ok(())
}

/// Sockets that the service manager kept from the former service.
fn held() -> Result<Vec<OwnedFd>, CliError> {
    let held = sd_notify::listen_fds().map_err(CliError::HeldSockets)?;
    held.map(|number| duplicate(number).map_err(CliError::HeldSockets)).collect()
}

/// Asks the service manager to keep this socket for the next service, in the place of the former one. A manager without
/// a store for descriptors ignores the request. Returns whether there is a manager.
fn hold(socket: BorrowedFd<'_>, takes_over: bool) -> bool {
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

/// Must come before the filter, which forbids it. Without systemd it does nothing. A service that takes another one's
/// place becomes the main process before the other one ends. Else the manager would take that for the service's end.
fn ready(takes_over: bool) {
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

fn warn<'a>(warnings: impl Iterator<Item = &'a String>) {
    warnings.for_each(|warning| common::warning(warning));
}

fn until_the_end(policies: &str, socket: &Path, mut signals: Signals, end: &OnceLock<Ended>) {
    common::policies(policies);
    common::ready(socket);
    let mut ending = None;
    for signal in signals.forever() {
        if signal != SIGHUP {
            ending = signal_name(signal);
            break;
        }
        common::warning(
            "SIGHUP changes nothing, since the sandbox keeps the configuration out of reach: run `sidecore reload --config FILE`",
        );
    }
    let by_itself = || match end.get() {
        Some(Ended::Succeeded) => "the next service answers",
        Some(Ended::Orphaned) => "the next service died with the socket",
        None => "no signal",
    };
    common::stop(ending.unwrap_or_else(by_itself));
}

/// Starts the log, and sends panics to it. Earlier panics go to standard error.
fn begin(log: &Log) -> Result<(), CliError> {
    log.write()?;
    end_with_any_thread(log.flusher());
    Ok(())
}

/// A service without one of its threads would look alive and answer no client. It ends instead, so that its supervisor
/// starts another.
fn end_with_any_thread(flush: impl Fn() + Send + Sync + 'static) {
    panic::set_hook(Box::new(move |panic| {
        let place = panic.location().map_or_else(String::new, ToString::to_string);
        common::panic(thread::current().name().unwrap_or_default(), &place, words(panic));
        flush();
        std::process::abort();
    }));
}

fn words<'p>(panic: &'p PanicHookInfo<'_>) -> &'p str {
    let what: &dyn Any = panic.payload();
    let text = what.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| what.downcast_ref::<&str>().copied()).unwrap_or_default()
}

fn refused(unserved: &[Class]) -> Option<String> {
    let (first, more) = (unserved.first()?.name(), unserved.len() - 1);
    let all = if more == 0 { first.to_owned() } else { format!("{first} and {more} more operations") };
    Some(format!(
        "no device does {all}: requests for it are refused; add to the ops of a device, or a device without ops"
    ))
}
