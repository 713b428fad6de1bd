//! `sidecore serve`: the service in its sandbox, until a signal ends it.

use crate::args::Serve;
use crate::output;
use sd_notify::NotifyState;
use sidecore::config::{Config, Waiters, socket_of_environment};
use sidecore::core::session::Class;
use sidecore::sandbox;
use sidecore::service::Service;
use sidecore::sys::cpu;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// Runs until SIGINT or SIGTERM.
pub(crate) fn run(args: &Serve) -> Result<(), String> {
    let socket = socket_of_environment();
    let mut config = if let Some(path) = &args.config {
        Config::read(path, socket)?
    } else {
        Config { socket, ..Config::default() }
    };
    let unserved = config.unserved();
    if args.passphrase_file.is_some() {
        config.keys.passphrase_file.clone_from(&args.passphrase_file);
    }
    // Before the threads start, so that none of them takes the signal.
    let mut signals = Signals::new([SIGINT, SIGTERM]).map_err(|error| error.to_string())?;
    // Before the user changes: the file may be root's.
    let passphrase = config.keys.passphrase()?;
    end_with_any_thread();
    let mut sandbox = sandbox::enter(&config)?;
    let policies = Waiters::of(&config, &cpu::allowed()).in_words(config.notify.hops().map(Some));
    let service = Service::start_with(config, passphrase.as_ref()).map_err(|error| error.to_string())?;
    drop(passphrase);
    // Where systemd did not start it, there is nobody to tell. The filter leaves no way to.
    let _ = sd_notify::notify(&[NotifyState::Ready]);
    sandbox.filter_calls(&service)?;
    for warning in sandbox.warnings().iter().chain(&refused(&unserved)) {
        output::tell(format_args!("warning: {warning}"));
    }
    if let Some(changes) = service.key_changes() {
        // Whoever compares it with the last one sees an old copy of the directory.
        output::tell(format_args!("keys at rest are of change {changes}"));
    }
    output::tell(format_args!("notify: {policies}"));
    output::tell(format_args!("serving at {}", service.socket().display()));
    let _ = signals.forever().next();
    output::tell("stopping");
    drop(service);
    Ok(())
}

/// A service that lacks one of its threads looks alive and answers nobody: it ends, and whoever supervises it starts another.
fn end_with_any_thread() {
    let tell = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        tell(panic);
        std::process::abort();
    }));
}

/// What to say of operations that no device does.
fn refused(unserved: &[Class]) -> Option<String> {
    let (first, more) = (unserved.first()?.name(), unserved.len() - 1);
    let all = if more == 0 { first.to_owned() } else { format!("{first} and {more} more operations") };
    Some(format!(
        "no device does {all}: requests for it are refused; add to the ops of a device, or a device without ops"
    ))
}
