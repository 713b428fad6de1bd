//! `sidecore serve`: the service in its sandbox, until a signal ends it.

use crate::args::Serve;
use crate::error::CliError;
use crate::log::Log;
use sd_notify::NotifyState;
use sidecore::config::{Config, Waiters, in_force, socket_of_environment};
use sidecore::core::session::Class;
use sidecore::events;
use sidecore::sandbox::{self, Duty};
use sidecore::service::Service;
use sidecore::sys::{cpu, duplicate};
use sidecore_sockets_service::{self as sockets_service, Sockets, SocketsConfig};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::signal_name;
use std::any::Any;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::panic::{self, PanicHookInfo};
use std::path::Path;
use std::thread;

pub(crate) fn run(args: &Serve) -> Result<(), CliError> {
    let socket = socket_of_environment();
    let (mut config, sockets) = match &args.config {
        Some(path) => Config::read_with::<SocketsConfig>(path, socket).map_err(CliError::library)?,
        None => (Config { socket, ..Config::default() }, None),
    };
    if let Some(socket) = &args.socket {
        config.socket.clone_from(socket);
    }
    // Before the threads start, so that none of them takes the signal.
    let signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
    let log = Log::collect(args)?;
    match sockets {
        Some(limits) => serve_sockets(config, &limits, args, signals, &log),
        None => serve_keys(config, args, signals, &log),
    }
}

fn serve_keys(mut config: Config, args: &Serve, signals: Signals, log: &Log) -> Result<(), CliError> {
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
    let mut sandbox = sandbox::enter(&config, Duty::KEYS).map_err(CliError::library)?;
    begin(log)?;
    events::start(env!("CARGO_PKG_VERSION"), &config);
    let policies = Waiters::of(&config, &cpu::allowed()).in_words(config.notify.hops().map(Some));
    let mut service = Service::start_with(config, passphrase.as_ref(), held()?)?;
    drop(passphrase);
    service.hand_over(hold);
    ready();
    sandbox.filter_calls(service.door()).map_err(CliError::library)?;
    warn(sandbox.warnings().iter().chain(&refused(&unserved)).chain(&unread));
    if let Some(changes) = service.key_changes() {
        events::keys_at_rest(changes);
    }
    until_a_signal(&policies, service.socket(), signals);
    Ok(())
}

fn serve_sockets(
    mut config: Config,
    limits: &SocketsConfig,
    args: &Serve,
    signals: Signals,
    log: &Log,
) -> Result<(), CliError> {
    if args.passphrase_file.is_some() {
        return Err(CliError::usage(
            "--passphrase-file with a section [sockets]: the service of sockets has no keys, leave it out",
        ));
    }
    let unread = config.read_subordinates().map_err(CliError::library)?;
    let config = &config;
    let mut sandbox = sandbox::enter(config, Sockets::DUTY).map_err(CliError::library)?;
    begin(log)?;
    sockets_service::events::start(env!("CARGO_PKG_VERSION"), config, limits);
    let waits = [Some(config.notify.service), None, None, None];
    let [parked, ..] = Waiters::of(config, &cpu::allowed()).parked(waits);
    let policy = format!("service {}", in_force(waits[0], parked.as_deref()));
    let mut sockets = Sockets::start(config, limits)?;
    ready();
    sandbox.filter_calls(sockets.door()).map_err(CliError::library)?;
    warn(sandbox.warnings().iter().chain(&unread));
    if let Some(warnings) = sockets.take_warnings() {
        let tell = thread::Builder::new().name("warnings".to_owned());
        tell.spawn(move || warnings.iter().for_each(|warning| warn([warning].iter())))?;
    }
    until_a_signal(&policy, sockets.socket(), signals);
    Ok(())
}

/// Sockets that the service manager kept from the former service.
fn held() -> Result<Vec<OwnedFd>, CliError> {
    let held = sd_notify::listen_fds().map_err(CliError::HeldSockets)?;
    held.map(|number| duplicate(number).map_err(CliError::HeldSockets)).collect()
}

/// Asks the service manager to keep this socket for the next service, in the place of the former one. A manager without
/// a store for descriptors ignores the request. Returns whether there is a manager.
fn hold(socket: BorrowedFd<'_>) -> bool {
    const NAME: NotifyState<'_> = NotifyState::FdName("socket");
    if std::env::var_os("NOTIFY_SOCKET").is_none() {
        return false;
    }
    // There is room for one socket.
    let former = sd_notify::notify(&[NotifyState::FdStoreRemove, NAME]);
    former.and_then(|()| sd_notify::notify_with_fds(&[NotifyState::FdStore, NAME], &[socket])).is_ok()
}

/// Must come before the filter, which forbids it. Without systemd it does nothing.
fn ready() {
    let _ = sd_notify::notify(&[NotifyState::Ready]);
}

fn warn<'a>(warnings: impl Iterator<Item = &'a String>) {
    warnings.for_each(|warning| events::warning(warning));
}

fn until_a_signal(policies: &str, socket: &Path, mut signals: Signals) {
    events::policies(policies);
    events::ready(socket);
    let mut ending = None;
    for signal in signals.forever() {
        if signal != SIGHUP {
            ending = signal_name(signal);
            break;
        }
        events::warning(
            "SIGHUP changes nothing, since the sandbox keeps the configuration out of reach: run `sidecore reload --config FILE`",
        );
    }
    events::stop(ending.unwrap_or("no signal"));
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

fn refused(unserved: &[Class]) -> Option<String> {
    let (first, more) = (unserved.first()?.name(), unserved.len() - 1);
    let all = if more == 0 { first.to_owned() } else { format!("{first} and {more} more operations") };
    Some(format!(
        "no device does {all}: requests for it are refused; add to the ops of a device, or a device without ops"
    ))
}
