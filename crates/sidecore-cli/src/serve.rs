//! `sidecore serve`: the service in its sandbox, until a signal ends it.

use crate::args::Serve;
use sd_notify::NotifyState;
use sidecore::config::{Config, SOCKET_VARIABLE, Waiters, default_socket};
use sidecore::sandbox;
use sidecore::service::Service;
use sidecore::sys::cpu;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// Runs until SIGINT or SIGTERM.
pub(crate) fn run(args: &Serve) -> Result<(), String> {
    let mut config = if let Some(path) = &args.config {
        Config::read(path).map_err(|error| error.to_string())?
    } else {
        let socket = default_socket(std::env::var(SOCKET_VARIABLE).ok().as_deref());
        Config { socket, ..Config::default() }
    };
    if args.passphrase_file.is_some() {
        config.keys.passphrase_file.clone_from(&args.passphrase_file);
    }
    // Before the threads start, so that none of them takes the signal.
    let mut signals = Signals::new([SIGINT, SIGTERM]).map_err(|error| error.to_string())?;
    // Before the user changes: the file may be root's.
    let passphrase = config.keys.passphrase()?;
    let mut sandbox = sandbox::enter(&config).map_err(|error| error.to_string())?;
    let policies = Waiters::of(&config, &cpu::allowed()).in_words(config.notify.hops().map(Some));
    let service = Service::start_with(config, passphrase.as_ref()).map_err(|error| error.to_string())?;
    drop(passphrase);
    // Where systemd did not start it, there is nobody to tell. The filter leaves no way to.
    let _ = sd_notify::notify(&[NotifyState::Ready]);
    sandbox.filter_calls(&service).map_err(|error| error.to_string())?;
    for warning in sandbox.warnings() {
        eprintln!("sidecore: warning: {warning}");
    }
    eprintln!("sidecore: notify: {policies}");
    eprintln!("sidecore: serving at {}", service.socket().display());
    let _ = signals.forever().next();
    eprintln!("sidecore: stopping");
    drop(service);
    Ok(())
}
