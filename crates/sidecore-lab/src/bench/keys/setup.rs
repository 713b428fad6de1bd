//! A service with stored keys, OpenSSL's configuration for the provider, and client processes that sign.

use crate::bench::client::private_key;
use crate::bench::crew::{HEAD_START, Member, Pinning};
use crate::bench::error::BenchError;
use crate::bench::experiment::{Counted, Run};
use crate::bench::programs::service_cpu;
use crate::bench::task::{Measured, Signatures, Task};
use crate::beside;
use sidecore::client::{Admin, Options};
use sidecore::config::{Config, DeviceConfig, NotifyConfig, Sidecores};
use sidecore::core::policy::notify::Notify;
use sidecore::counters::Snapshot;
use sidecore::engine::crypto::Secret;
use sidecore::keys::uri::Uri;
use sidecore::keys::{Acl, KeyCommand};
use sidecore::service::Service;
use sidecore::sys::{clock, cpu};
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

/// Names of the provider's file: as cargo builds it, and as it is installed.
const MODULE: [&str; 2] = ["libsidecore_openssl.so", "sidecore.so"];
/// Where it may be. The first one is where cargo builds it as a part of this program: no other is newer.
const PLACES: [&str; 2] = ["deps", "."];
/// Time in which the service copies what clients report to the counter file.
const REPORTED: Duration = Duration::from_millis(270);

/// A service and its signing clients.
pub(in crate::bench) struct Setup {
    pub(in crate::bench) pinning: Pinning,
    members: Vec<Member>,
    /// For changes of the service.
    control: Admin,
    /// The file of each stored key, by operation.
    pems: HashMap<String, String>,
    /// Dropped after the clients.
    service: Service,
    directory: PathBuf,
}

/// The provider module that was built or installed with this program.
///
/// # Errors
/// Says which command builds it.
pub(in crate::bench) fn module() -> Result<PathBuf, BenchError> {
    beside::find(&MODULE, &PLACES).ok_or_else(|| {
        let profile = if cfg!(debug_assertions) { "" } else { " --release" };
        let remedy = format!("build it with cargo build{profile} -p sidecore-openssl");
        BenchError::new(format!("no provider module beside this program: {remedy}"))
    })
}

/// OpenSSL's configuration: its own provider, and sidecore's with that service.
pub(in crate::bench) fn openssl_configuration(module: &Path, socket: &Path) -> String {
    format!(
        "openssl_conf = openssl_init\n\n[openssl_init]\nproviders = providers\n\n[providers]\ndefault = default_provider\n\
         sidecore = sidecore_provider\n\n[default_provider]\nactivate = 1\n\n[sidecore_provider]\nmodule = {}\n\
         socket = {}\nactivate = 1\n",
        module.display(),
        socket.display()
    )
}

impl Setup {
    /// A service that has the last core for itself, with those devices, that many client processes, and a stored key for
    /// each of the operations whose keys the store takes.
    pub(in crate::bench) fn start(
        processes: usize,
        devices: Vec<DeviceConfig>,
        ops: &[&str],
    ) -> Result<Self, BenchError> {
        let pinning = Pinning::new(1).unwrap_or_else(Pinning::none);
        let sidecores = Sidecores { cpus: pinning.sidecores.clone(), owned: !pinning.sidecores.is_empty() };
        Self::start_on(sidecores, pinning, processes, devices, ops)
    }

    /// The same with a sidecore on each core, beside the clients. They are pinned as if the service had the last core.
    pub(in crate::bench) fn start_beside(ops: &[&str]) -> Result<Self, BenchError> {
        let sidecores = Sidecores { cpus: cpu::allowed(), owned: false };
        let pinning = Pinning::new(1).unwrap_or_else(Pinning::none);
        Self::start_on(sidecores, pinning, 0, vec![DeviceConfig::inline("inline")], ops)
    }

    fn start_on(
        sidecores: Sidecores,
        pinning: Pinning,
        processes: usize,
        devices: Vec<DeviceConfig>,
        ops: &[&str],
    ) -> Result<Self, BenchError> {
        let module = module()?;
        let directory = std::env::temp_dir().join(format!("sidecore-keys-{}-{}", std::process::id(), clock::now()));
        fs::create_dir_all(&directory).map_err(BenchError::new)?;
        let config = Config {
            socket: directory.join("socket"),
            sidecores,
            notify: NotifyConfig::all(Notify::BreakEven),
            devices,
            ..Config::default()
        };
        let service = Service::start(config).map_err(BenchError::new)?;
        let options = Options { socket: service.socket().to_owned(), ..Options::default() };
        let control = Admin::connect(&options).map_err(BenchError::new)?;
        let mut setup = Self { pinning, members: Vec::new(), control, pems: HashMap::new(), service, directory };
        setup.store_keys(ops)?;
        let configuration = setup.directory.join("openssl.cnf");
        let text = openssl_configuration(&module, setup.service.socket());
        fs::write(&configuration, text).map_err(BenchError::new)?;
        for index in 0..processes {
            let mut member = Member::start()?;
            member
                .measure(&Task::Provide { configuration: configuration.clone(), cpu: setup.pinning.client(index) })?;
            setup.members.push(member);
        }
        Ok(setup)
    }

    fn store_keys(&mut self, ops: &[&str]) -> Result<(), BenchError> {
        for op in ops.iter().filter(|op| !op.starts_with("rsa-1024")) {
            let pkcs8 = private_key(op).ok_or_else(|| BenchError::new(format!("no key for {op}")))?;
            let import = KeyCommand::Import { name: (*op).to_owned(), pkcs8: Secret::new(pkcs8), acl: Acl::default() };
            self.control.keys(import).map_err(BenchError::new)?;
            let uri = Uri::new(op).map_err(BenchError::new)?;
            self.pems.insert((*op).to_owned(), uri.to_pem());
        }
        Ok(())
    }

    /// A directory that ends with this.
    pub(in crate::bench) fn directory(&self) -> &Path {
        &self.directory
    }

    /// The file that stands for the stored key of an operation.
    pub(in crate::bench) fn pem(&self, op: &str) -> Option<&str> {
        self.pems.get(op).map(String::as_str)
    }

    /// Changes the service, as `sidecore set` does.
    pub(in crate::bench) fn set(&mut self, setting: &str) -> Result<(), BenchError> {
        self.control.set(setting).map(drop).map_err(BenchError::new)
    }

    /// The first `processes` clients sign by the provider, with that many jobs each.
    pub(in crate::bench) fn provided(
        &mut self,
        op: &str,
        processes: usize,
        jobs: u32,
        ns: u64,
    ) -> Result<Run, BenchError> {
        self.spread(processes, false)?;
        let before = self.counters()?;
        let cpu = service_cpu()?;
        let measured = self.together(op, processes, jobs, true, ns)?;
        let service_cpu = service_cpu()?.saturating_sub(cpu);
        let counted = self.counters()?.since(&before);
        thread::sleep(REPORTED);
        let reported = self.counters()?.since(&before);
        Ok(Run::of(measured).counted(Counted::with_reports(&counted, &reported, service_cpu)))
    }

    /// The same by OpenSSL's own code. Several processes may use the sidecore's core as well: it is there in any case.
    pub(in crate::bench) fn own(&mut self, op: &str, processes: usize, ns: u64) -> Result<Run, BenchError> {
        self.spread(processes, true)?;
        Ok(Run::of(self.together(op, processes, 1, false, ns)?))
    }

    fn together(
        &mut self,
        op: &str,
        processes: usize,
        jobs: u32,
        provided: bool,
        ns: u64,
    ) -> Result<Vec<Measured>, BenchError> {
        let start = clock::now() + HEAD_START * processes.max(2) as u64 / 2;
        let pem = self.pems.get(op).cloned();
        let task = Task::Sign(Signatures { op: op.to_owned(), provided, pem, jobs, start, ns });
        let members = &mut self.members[..processes];
        members.iter_mut().try_for_each(|member| member.send(&task))?;
        members.iter_mut().map(Member::receive_measured).collect()
    }

    fn spread(&mut self, processes: usize, everywhere: bool) -> Result<(), BenchError> {
        let mut cpus = self.pinning.clients.clone();
        if everywhere {
            cpus.extend(&self.pinning.sidecores);
        }
        for (member, cpu) in self.members.iter_mut().take(processes).zip(cpus.iter().cycle()) {
            member.measure(&Task::Pin { cpu: *cpu })?;
        }
        Ok(())
    }

    fn counters(&self) -> Result<Snapshot, BenchError> {
        Snapshot::read(self.service.counters()).map_err(BenchError::new)
    }
}

impl Drop for Setup {
    fn drop(&mut self) {
        self.members.clear();
        // Temporary files of an ended run: what cannot be removed stays behind and harms nobody.
        let _ = fs::remove_dir_all(&self.directory);
    }
}
