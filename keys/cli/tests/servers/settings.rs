//! The installed configuration of OpenSSL: settings of the system's own file stay in force.

use crate::handshake::{TLS_12, TLS_13, handshake, shake};
use crate::material::{Kind, Material};
use crate::module;
use crate::programs::{Daemon, free_port, program, run};
use crate::secrets::directory;
use crate::server::Identity;
use crate::service::Service;
use std::path::{Path, PathBuf};

const CONFIGURATION: &str = include_str!("../../../openssl/openssl-sidecore.cnf");
pub(crate) const INCLUDE: &str = ".include /etc/ssl/openssl.cnf\n";

/// A system's openssl.cnf with a distribution's settings, one more provider, and no TLS before 1.3.
const SYSTEM: &str = "\
HOME = .
openssl_conf = openssl_init
[openssl_init]
providers = provider_sect
ssl_conf = ssl_sect
[provider_sect]
default = default_sect
legacy = legacy_sect
[default_sect]
activate = 1
[legacy_sect]
activate = 1
[ssl_sect]
system_default = system_default_sect
[system_default_sect]
MinProtocol = TLSv1.3
[last]
of = the file
";

pub(crate) fn configuration(module: &Path, socket: &Path, include: &str) -> String {
    assert!(CONFIGURATION.contains(INCLUDE));
    CONFIGURATION
        .replace(INCLUDE, include)
        .replace("module = sidecore.so", &format!("module = {}", module.display()))
        .replace("/run/sidecore/sidecore.sock", &socket.display().to_string())
}

fn written(directory: &Path, name: &str, text: &str) -> PathBuf {
    let file = directory.join(name);
    std::fs::write(&file, text).unwrap();
    file
}

fn serving(identity: &Identity, configuration: &Path, directory: &Path) -> (Daemon, u16) {
    let port = free_port();
    let mut command = program("openssl");
    command.env("OPENSSL_CONF", configuration).args(["s_server", "-quiet", "-accept"]).arg(format!("127.0.0.1:{port}"));
    command.arg("-cert").arg(&identity.certificate).arg("-key").arg(&identity.key);
    let mut daemon = Daemon::start("s_server", &mut command, &directory.join(format!("{port}.log")));
    daemon.wait_for_port(port);
    (daemon, port)
}

#[test]
fn the_systems_settings_hold_with_the_installed_configuration() {
    let directory = directory();
    let path = directory.path();
    let key = Material::make(path, Kind::P256);
    let service = Service::start(path);
    let identity = service.import(&key);
    let system = written(path, "system.cnf", SYSTEM);
    let with = |include: &str| configuration(&module::path(), &service.socket(), include);
    let included = written(path, "included.cnf", &with(&format!(".include {}\n", system.display())));
    let appended = written(path, "appended.cnf", &format!("{SYSTEM}{}", with("")));
    let alone = written(path, "alone.cnf", &with(".include /nowhere/openssl.cnf\n"));
    for configuration in [included, appended] {
        let said = run(program("openssl").env("OPENSSL_CONF", &configuration).args(["list", "-providers"]));
        let said = said.expect("list -providers");
        assert!(["default\n", "legacy\n", "sidecore\n"].iter().all(|name| said.contains(name)), "{said}");
        let (_daemon, port) = serving(&identity, &configuration, path);
        shake(port, &key, TLS_13);
        assert!(!handshake(port, &key, TLS_12).ok(), "the system allows no TLS 1.2: {}", configuration.display());
    }
    let (_daemon, port) = serving(&identity, &alone, path);
    shake(port, &key, TLS_13);
    shake(port, &key, TLS_12);
    assert!(service.signatures(&key) >= 4);
}
