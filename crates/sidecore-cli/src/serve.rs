//! `sidecore serve`: the service until a signal ends it.

use crate::args::Serve;
use sidecore::config::{Config, SOCKET_VARIABLE, default_socket};
use sidecore::service::Service;
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
    let service = Service::start(config).map_err(|error| error.to_string())?;
    eprintln!("sidecore: serving at {}", service.socket().display());
    let _ = signals.forever().next();
    eprintln!("sidecore: stopping");
    drop(service);
    Ok(())
}
