//! `sidecore check`: properties that the promises need and this machine lacks.
//!
//! `read` fetches the system's state as text and numbers. The judges see nothing else.

mod batch;
mod configured;
mod cores;
mod finding;
mod kernel;
mod memory;
mod openssl;
mod read;
mod round_trip;
mod service;
mod topology;
mod waiting;

use crate::args::Check;
use crate::error::CliError;
use finding::Finding;
use sidecore::config::{Config, default_socket};
use sidecore_terminal::output;
use std::path::PathBuf;

/// Configuration file that `packaging/install` writes.
const INSTALLED: &str = "/etc/sidecore/sidecore.toml";

/// Prints one finding a line. `false`: a missing property breaks a promise.
pub(crate) fn run(args: &Check) -> Result<bool, CliError> {
    // A service with another socket may have another configuration.
    let installed = || Some(PathBuf::from(INSTALLED)).filter(|path| args.socket.is_none() && path.exists());
    let path = args.config.clone().or_else(installed);
    let config = if let Some(path) = &path {
        Config::read(path, default_socket(None)).map_err(CliError::library)?
    } else {
        let socket = args.socket.clone().unwrap_or_else(|| default_socket(None));
        Config { socket, ..Config::default() }
    };
    let mut findings = findings(&config);
    if let Some(path) = &path {
        findings.insert(0, configured::judge(path, &config));
    }
    let text: String = findings.iter().map(|finding| if args.json { finding.json() } else { finding.text() }).collect();
    output::print(&text)?;
    Ok(findings.iter().all(|finding| !finding.breaks_a_promise()))
}

fn findings(config: &Config) -> Vec<Finding> {
    let (service, counters) = read::service(config);
    let waiting = read::waiting(config, counters.as_ref());
    let cores = read::cores(&waiting);
    let mut findings = cores::judge(&cores, &read::text);
    findings.extend(waiting::judge(&waiting));
    let taken = if counters.is_some() { waiting::owned_cores(&waiting.waiters) } else { Vec::new() };
    let trips = round_trip::measure(&cores.allowed, &cores.sidecores, &taken);
    findings.extend(round_trip::judge(trips.as_ref(), &taken, &cores.topology));
    findings.extend(kernel::judge(&read::kernel(), &read::text));
    findings.extend(memory::judge(&read::memory(), &read::text));
    findings.push(batch::judge(&sidecore::engine::crypto::batch::units()));
    findings.extend(service::judge(&service));
    findings.extend(openssl::judge(&read::openssl()));
    findings
}
