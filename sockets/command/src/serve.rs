//! `sidecore sockets serve`: the service in its sandbox, until a signal ends it.

use crate::args::Serve;
use crate::error::CommandError;
use sidecore_core::policy::notify::{Waiters, in_force};
use sidecore_daemon::detach::{self, Detached};
use sidecore_daemon::events::{self as common, Level};
use sidecore_daemon::log::Log;
use sidecore_daemon::process::{begin, ready, signals, until_a_signal};
use sidecore_daemon::sandbox;
use sidecore_daemon::start::check_cpus;
use sidecore_daemon::sys::cpu;
use sidecore_sockets::protocol::SOCKET_VARIABLE;
use sidecore_sockets_service::{Config, Sockets, events};
use sidecore_terminal::output;
use std::env;
use std::path::PathBuf;
use std::thread;

const RELOAD: &str =
    "SIGHUP changes nothing, since the sandbox keeps the configuration out of reach: start the service again";

pub(crate) fn run(args: &Serve) -> Result<(), CommandError> {
    if args.detach {
        return match detach::run().map_err(CommandError::Service)? {
            Detached::Serves(process) => Ok(output::print(&format!("{process}\n"))?),
            Detached::Ended(code) => Err(CommandError::NotStarted(code)),
        };
    }
    let parent = args.detached.then(detach::parent).transpose()?;
    let mut config = configured(args)?;
    if args.check {
        return Ok(output::print(&format!("{}\n", judged(args, &config)?))?);
    }
    let signals = signals()?;
    let log = Log::collect(args.log.is_json(), Level::from_number(args.log.number())).map_err(CommandError::Log)?;
    let unread = config.read_subordinates()?;
    let mut sandbox = sandbox::enter(&config.sandbox, Sockets::DUTY, &config.directories())?;
    begin(&log).map_err(CommandError::Log)?;
    events::start(env!("CARGO_PKG_VERSION"), &config);
    let waits = [Some(config.notify.service), None, None, None];
    let threads = Waiters::of(&config.sidecores.cpus, config.sidecores.owned, Vec::new(), &cpu::allowed());
    let [parked, ..] = threads.parked(waits);
    let mut sockets = Sockets::start(&config)?;
    ready(false);
    sandbox.filter_calls(sockets.door())?;
    sandbox.warnings().iter().chain(&unread).for_each(|warning| common::warning(warning));
    if let Some(warnings) = sockets.take_warnings() {
        let tell = thread::Builder::new().name("warnings".to_owned());
        tell.spawn(move || warnings.iter().for_each(|warning| common::warning(&warning)))?;
    }
    parent.into_iter().for_each(detach::served);
    common::policies(&format!("service {}", in_force(waits[0], parked.as_deref())));
    common::ready(sockets.socket());
    common::stop(until_a_signal(signals, RELOAD).unwrap_or("no signal"));
    Ok(())
}

fn configured(args: &Serve) -> Result<Config, CommandError> {
    let of_environment = || env::var_os(SOCKET_VARIABLE).filter(|path| !path.is_empty()).map(PathBuf::from);
    let mut config = match &args.config {
        Some(path) => Config::read(path)?,
        None => of_environment().map_or_else(Config::default, |socket| Config { socket, ..Config::default() }),
    };
    if let Some(socket) = &args.socket {
        config.socket.clone_from(socket);
    }
    Ok(config)
}

/// Whether what the configuration names is on this machine.
fn judged(args: &Serve, config: &Config) -> Result<String, CommandError> {
    let file = args.config.clone().unwrap_or_else(|| "the defaults".into());
    let cpus = check_cpus(config.sidecores.cpus.iter().copied());
    cpus.map_err(|why| CommandError::WouldNotStart { file: file.clone(), why })?;
    if let Some(user) = config.sandbox.user.as_ref().filter(|user| !sandbox::is_user(user)) {
        return Err(CommandError::NoUser { file, user: user.clone() });
    }
    Ok(format!("{}: a service of sockets would start with it, at {}", file.display(), config.socket.display()))
}
