//! nginx whose key is on other machines, connected by NATS and with their own services, to which requests go sealed.

use crate::handshake::{Load, TLS_12, TLS_13, handshake, shake};
use crate::library;
use crate::material::{Kind, Material};
use crate::programs::{BOUND, Daemon, free_port, program, wait_for};
use crate::secrets::directory;
use crate::server::{Program, Server};
use crate::service::Service;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// Lines of `[limits]`, and the rest of the configuration.
const NEAR: &str = "device_timeout_ms = 20000\n[[device]]\nname = 'here'\nkind = 'inline'\n\
                    [[device]]\nname = 'far'\nkind = 'remote'\nfarm = 'keys'";

struct Machines {
    _directory: TempDir,
    near: Service,
    far: [Far; 2],
    gateway: Daemon,
    _nats: Daemon,
    url: String,
    key: Material,
    server: Server,
}

struct Far {
    directory: PathBuf,
    service: Service,
    key_server: Option<Daemon>,
}

impl Machines {
    fn start() -> Self {
        let scratch = directory();
        let directory = scratch.path();
        let key = Material::make(directory, Kind::P256);
        let (nats, url) = nats(directory);
        let mut near = Service::keeping_keys_with(directory, NEAR);
        let mut far = ["one", "two"].map(|name| Far::start(&directory.join(name), &key));
        seal(&mut near, &mut far, &key);
        let identity = near.knows(&key);
        let gateway =
            remote(&directory.join("gateway.log"), &near, &url, &["gateway", "--device", "far", "--name", "near"]);
        let configured = Program::Nginx.configure(directory, std::slice::from_ref(&identity));
        let server = configured.start(near.told(&mut configured.command()));
        Self { _directory: scratch, near, far, gateway, _nats: nats, url, key, server }
    }

    fn serve(&mut self, far: usize) {
        self.far[far].serve(&self.url);
    }

    fn shakes(&self) -> bool {
        handshake(self.server.ports[0], &self.key, TLS_13).ok()
    }
}

impl Far {
    fn start(directory: &Path, key: &Material) -> Self {
        std::fs::create_dir(directory).unwrap();
        let service = Service::keeping_keys(directory);
        service.import(key);
        Self { directory: directory.to_owned(), service, key_server: None }
    }

    fn serve(&mut self, url: &str) {
        let name = self.directory.file_name().unwrap().to_str().unwrap();
        let arguments = ["key-server", "--farm", "keys", "--name", name];
        self.key_server = Some(remote(&self.directory.join("key-server.log"), &self.service, url, &arguments));
    }
}

/// Requests go sealed from service to service.
fn seal(near: &mut Service, far: &mut [Far], key: &Material) {
    let (address, name) = (near.address(), key.kind.name());
    for far in &mut *far {
        let serve_to = format!("serve_to = [{{ address = '{}', keys = ['{name}'] }}]", address.display());
        far.service.start_again_with(&serve_to);
    }
    let addresses: Vec<String> = far.iter().map(|far| far.service.address().display().to_string()).collect();
    near.start_again_with(&format!("served_by = {addresses:?}"));
}

fn nats(directory: &Path) -> (Daemon, String) {
    let port = free_port();
    let mut command = program("nats-server");
    command.args(["-a", "127.0.0.1", "-p", &port.to_string()]);
    let mut daemon = Daemon::start("nats-server", &mut command, &directory.join("nats.log"));
    daemon.wait_for_port(port);
    (daemon, format!("nats://127.0.0.1:{port}"))
}

fn remote(log: &Path, service: &Service, url: &str, arguments: &[&str]) -> Daemon {
    library::file("sidecore-remote", "sidecore-remote");
    let mut command = Command::new(env!("CARGO_BIN_EXE_sidecore"));
    command.args(arguments).args(["--server", url, "--socket"]).arg(service.socket());
    Daemon::start("sidecore-remote", &mut command, log)
}

#[test]
fn nginx_serves_with_a_key_that_is_on_another_machine_only() {
    let mut machines = Machines::start();
    assert!(!machines.shakes(), "nobody has the key yet");
    machines.serve(0);
    assert!(wait_for(BOUND, || machines.shakes()), "{}{}", machines.gateway.log(), machines.server.daemon.log());
    let before = machines.far[0].service.signatures(&machines.key);
    for how in [TLS_12, TLS_13] {
        shake(machines.server.ports[0], &machines.key, how);
    }
    assert!(machines.far[0].service.signatures(&machines.key) >= before + 2, "{}", machines.near.top());
}

#[test]
fn handshakes_go_on_elsewhere_when_a_machine_with_the_key_is_killed_under_load() {
    let mut machines = Machines::start();
    machines.serve(0);
    machines.serve(1);
    assert!(wait_for(BOUND, || machines.gateway.log().contains("key server two offers")), "{}", machines.gateway.log());
    assert!(wait_for(BOUND, || machines.shakes()));
    let load = Load::start(machines.server.ports[0], machines.far[0].directory.as_path());
    let before = machines.far[1].service.signatures(&machines.key);
    machines.far[0].key_server.take().unwrap().kill();
    machines.far[0].service.kill();
    assert!(load.answered() > 0);
    assert!(machines.far[1].service.signatures(&machines.key) > before);
    shake(machines.server.ports[0], &machines.key, TLS_13);
    // Without any key server a handshake fails with a named reason, and nginx survives.
    machines.far[1].key_server.take().unwrap().kill();
    assert!(wait_for(BOUND, || !machines.shakes()));
    let said = || machines.server.daemon.log().contains("the key is on other machines");
    assert!(wait_for(BOUND, said), "{}", machines.server.daemon.log());
    machines.serve(1);
    assert!(wait_for(BOUND, || machines.shakes()), "{}", machines.gateway.log());
}
