//! `sidecore serve`: the service in its sandbox, until a signal or the next service ends it.

use crate::args::Serve;
use crate::error::{CliError, failed};
use sidecore::config::{Config, DUTY, socket_of_environment};
use sidecore::core::session::Class;
use sidecore::events;
use sidecore::service::Service;
use sidecore::service::succession::{Beside, Ended};
use sidecore_daemon::detach::{self, Detached};
use sidecore_daemon::events::{self as common, Level};
use sidecore_daemon::log::Log;
use sidecore_daemon::process::{begin, held, hold, ready, signals, until_a_signal};
use sidecore_daemon::sandbox;
use sidecore_daemon::sys::cpu;
use sidecore_terminal::output;
use signal_hook::iterator::{Handle, Signals};
use std::os::fd::OwnedFd;
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, channel};
use std::thread;

const RELOAD: &str = "SIGHUP changes nothing, since the sandbox keeps the configuration out of reach: run `sidecore reload --config FILE`";

pub(crate) fn run(args: &Serve) -> Result<(), CliError> {
    if args.detach {
        return match detach::run().map_err(failed("the service"))? {
            Detached::Serves(process) => Ok(output::print(&format!("{process}\n"))?),
            Detached::Ended(code) => Err(CliError::NotStarted(code)),
        };
    }
    let parent = args.detached.then(detach::parent).transpose()?;
    let socket = socket_of_environment();
    let mut config = match &args.config {
        Some(path) => Config::read(path, socket).map_err(CliError::library)?,
        None => Config { socket, ..Config::default() },
    };
    if let Some(socket) = &args.socket {
        config.socket.clone_from(socket);
    }
    let signals = signals()?;
    let log = Log::collect(args.log.is_json(), Level::from_number(args.log.number())).map_err(failed("the log"))?;
    serve(config, args, signals, &log, parent)
}

fn serve(
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
    begin(log).map_err(failed("the log"))?;
    events::start(env!("CARGO_PKG_VERSION"), &config);
    let policies = config.waiters(&cpu::allowed()).in_words(config.notify.hops().map(Some));
    let (ended, end) = channel();
    let beside = Beside {
        passphrase: passphrase.as_ref(),
        held: held().map_err(CliError::HeldSockets)?,
        take_over: args.take_over,
        ended: Some(ended),
    };
    let mut service = Service::start_with(config, beside)?;
    drop(passphrase);
    let takes_over = service.has_former();
    service.hand_over(|socket| hold(socket, takes_over));
    ready(takes_over);
    let end = watch(end, signals.handle())?;
    sandbox.filter_calls(service.door()).map_err(CliError::library)?;
    let refused = refused(&unserved);
    let warnings = sandbox.warnings().iter().chain(&refused).chain(&unread);
    warnings.for_each(|warning| common::warning(warning));
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
    common::policies(&policies);
    common::ready(service.socket());
    let signal = until_a_signal(signals, RELOAD);
    let why = end.get();
    common::stop(signal.unwrap_or(match why {
        Some(Ended::Succeeded) => "the next service answers",
        Some(Ended::Orphaned) => "the next service died with the socket",
        None => "no signal",
    }));
    match why {
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

fn refused(unserved: &[Class]) -> Option<String> {
    let (first, more) = (unserved.first()?.name(), unserved.len() - 1);
    let all = if more == 0 { first.to_owned() } else { format!("{first} and {more} more operations") };
    Some(format!(
        "no device does {all}: requests for it are refused; add to the ops of a device, or a device without ops"
    ))
}
