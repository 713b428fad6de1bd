//! A service, and a library context with the provider that uses it.

use sidecore::client::{Admin, Options};
use sidecore::config::{Config, DeviceConfig};
use sidecore::engine::crypto::Secret;
use sidecore::keys::{Acl, KeyCommand, Kind};
use sidecore::service::Service;
use sidecore_counters::{DeviceCounter, Snapshot};
use sidecore_libcrypto::Context;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tempfile::TempDir;

/// Properties of a program that prefers the provider, but also gets OpenSSL's own code.
pub(crate) const PREFERRED: &str = "?provider=sidecore";
pub(crate) const REQUIRED: &str = "provider=sidecore";

pub(crate) const EXCHANGE: &str = "sidecore.exchange=yes";

static NEXT: AtomicUsize = AtomicUsize::new(0);

#[derive(Clone)]
pub(crate) struct House {
    service: Arc<Service>,
    directory: Arc<TempDir>,
}

impl House {
    pub(crate) fn start(devices: Vec<DeviceConfig>) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut config = Config { socket: directory.path().join("socket"), ..Config::default() };
        // Each context stores the vectors' keys again.
        config.limits.keys = 4096;
        if !devices.is_empty() {
            config.devices = devices;
        }
        Self { service: Arc::new(Service::start(config).unwrap()), directory: Arc::new(directory) }
    }

    pub(crate) fn count(&self, counter: DeviceCounter) -> u64 {
        let devices = Snapshot::read(self.service.counters()).unwrap().devices;
        devices.iter().map(|device| device.get(counter)).sum()
    }
}

pub(crate) struct Site {
    pub(crate) context: Context,
    house: House,
    cnf: PathBuf,
}

impl Site {
    /// With the default provider first, then ours, as in `openssl-sidecore.cnf`.
    pub(crate) fn start() -> Self {
        Self::with(&["default", "sidecore"], "")
    }

    /// With providers in this order, and properties for each fetch of an algorithm, if any.
    pub(crate) fn with(providers: &[&str], properties: &str) -> Self {
        Self::of(&House::start(Vec::new()), providers, properties)
    }

    pub(crate) fn of(house: &House, providers: &[&str], properties: &str) -> Self {
        let directory = house.directory.path();
        // Contexts of one service may begin simultaneously.
        let cnf = directory.join(format!("openssl-{}.cnf", NEXT.fetch_add(1, Ordering::Relaxed)));
        fs::write(&cnf, configuration(&directory.join("socket"), providers, properties)).unwrap();
        Self { context: Context::load(&cnf, "sidecore").unwrap(), house: house.clone(), cnf }
    }

    pub(crate) fn cnf(&self) -> PathBuf {
        self.cnf.clone()
    }

    fn admin(&self) -> Admin {
        let socket = self.house.directory.path().join("socket");
        Admin::connect(&Options { socket, ..Options::default() }).unwrap()
    }

    pub(crate) fn store(&self, name: &str, pkcs8: Secret) -> Result<String, String> {
        let name = format!("{name}-{}", NEXT.fetch_add(1, Ordering::Relaxed));
        let command = KeyCommand::Import { name: name.clone(), pkcs8, acl: Acl::default() };
        self.admin().keys(command).map_err(|error| error.to_string())?;
        Ok(format!("sidecore:{name}"))
    }

    pub(crate) fn generate(&self, kind: Kind) -> (String, Vec<u8>) {
        let name = format!("generated-{}", kind.name());
        let mut admin = self.admin();
        admin.keys(KeyCommand::Generate { name: name.clone(), kind, acl: Acl::default() }).unwrap();
        let public = admin.key_info(&name).unwrap().public;
        (format!("sidecore:{name}"), public)
    }
}

fn configuration(socket: &Path, providers: &[&str], properties: &str) -> String {
    let list: Vec<String> = providers.iter().map(|name| format!("{name} = {name}_section\n")).collect();
    let list = list.concat();
    let properties = if properties.is_empty() { String::new() } else { format!("default_properties = {properties}\n") };
    format!(
        "openssl_conf = main\n[main]\nproviders = providers\nalg_section = algorithms\n[algorithms]\n{properties}\
         [providers]\n{list}[default_section]\nactivate = 1\n\
         [sidecore_section]\nmodule = {}\nactivate = 1\nsocket = {}\n",
        module().display(),
        socket.display()
    )
}

fn module() -> PathBuf {
    // The name as called: with another libc, the program is that libc's loader.
    let test = std::env::args_os().next().map(PathBuf::from).unwrap_or_default();
    let module = test.parent().map(|directory| directory.join("libsidecore_openssl.so")).unwrap_or_default();
    assert!(module.exists(), "no module at {}: cargo build -p sidecore-openssl", module.display());
    module
}
