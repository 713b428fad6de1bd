//! Reads the judges' inputs: files of the system, limits, answers of the service and of OpenSSL. Changes nothing.

use super::cores::{CPUS, Cores};
use super::kernel::Kernel;
use super::memory::Memory;
use super::openssl::{OpenSsl, module_directory};
use super::service::{Owned, Service};
use super::topology;
use super::waiting::{self, Waiting};
use crate::error::CliError;
use rustix::process::{Resource, geteuid, getrlimit};
use sidecore::client::{Client, Options};
use sidecore::config::Config;
use sidecore::sys::features;
use sidecore_counters::Snapshot;
use sidecore_daemon::sys::cpu;
use sidecore_terminal::programs;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

const MODULE: &str = "libsidecore_openssl.so";

pub(super) fn text(path: &str) -> Option<String> {
    fs::read_to_string(path).ok()
}

pub(super) fn cores(waiting: &Waiting) -> Cores {
    let tied = waiting.waiters.sidecores.iter().filter_map(|place| place.cpu);
    let sidecores: Vec<usize> = tied.filter(|cpu| cpu::is_usable(*cpu)).collect();
    // A core that the kernel isolates is only usable if the configuration names it.
    let allowed: BTreeSet<usize> = cpu::allowed().into_iter().chain(sidecores.iter().copied()).collect();
    let allowed: Vec<usize> = allowed.into_iter().collect();
    Cores { topology: topology::read(Path::new(CPUS), &allowed), sidecores, allowed }
}

pub(super) fn waiting(config: &Config, counters: Option<&Snapshot>) -> Waiting {
    let (waiters, notify) = match counters {
        Some(counters) => (counters.waiters(), counters.notify),
        None => (config.waiters(&cpu::allowed()), config.notify.hops().map(Some)),
    };
    let owned = waiting::owned_cores(&waiters);
    let except = [std::process::id(), counters.map_or(0, |counters| counters.start.pid)];
    let others = if owned.is_empty() { None } else { waiting::others(Path::new("/proc"), &owned, &except) };
    Waiting { waiters, notify, others }
}

pub(super) fn kernel() -> Kernel {
    Kernel {
        sealing: features::sealing(),
        process_descriptors: features::process_descriptors(),
        landlock: features::landlock(),
    }
}

pub(super) fn memory() -> Memory {
    Memory {
        lockable: getrlimit(Resource::Memlock).maximum.unwrap_or(u64::MAX),
        root: geteuid().is_root(),
        descriptors: getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX),
    }
}

pub(super) fn service(config: &Config) -> (Service, Option<Snapshot>) {
    let options = Options { socket: config.socket.clone(), slots: 2, arena_bytes: 4096, ..Options::default() };
    let answer = Client::connect(&options).map(drop).map_err(Into::into);
    // A dead service's counter file names a process id that another program may have by now.
    let counters = answer.as_ref().ok().and_then(|()| Snapshot::read(&config.counters_path()).ok());
    let service = Service {
        status: counters.as_ref().and_then(|counters| text(&format!("/proc/{}/status", counters.start.pid))),
        directory: config.socket.parent().and_then(owned),
        keys: config.keys.directory.as_deref().and_then(owned),
        answer: Some(answer),
    };
    (service, counters)
}

fn owned(path: &Path) -> Option<Owned> {
    let metadata = fs::metadata(path).ok()?;
    Some(Owned { uid: metadata.uid(), mode: metadata.mode() })
}

pub(super) fn openssl() -> OpenSsl {
    let Ok(output) = Command::new("openssl").args(["version", "-v", "-m"]).output() else { return OpenSsl::default() };
    let version = String::from_utf8_lossy(&output.stdout).into_owned();
    let module = module(&version);
    let loads = module.as_deref().map(loads);
    OpenSsl { module: module.map(|path| path.display().to_string()), loads, version: Some(version) }
}

fn module(version: &str) -> Option<PathBuf> {
    let installed = module_directory(version).map(|directory| Path::new(directory).join(MODULE));
    installed.filter(|path| path.exists()).or_else(|| programs::find(&[MODULE], &["."]))
}

fn loads(module: &Path) -> Result<(), CliError> {
    let directory = module.parent().unwrap_or(Path::new("."));
    let name = module.file_stem().unwrap_or_default();
    let mut list = Command::new("openssl");
    list.args(["list", "-providers", "-provider-path"]).arg(directory).arg("-provider").arg(name);
    let output = list.output()?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(CliError::OpenSsl(said.lines().next().unwrap_or("openssl says nothing").to_owned()))
}
