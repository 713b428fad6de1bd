//! Caddy with the module of `go/caddy`, built by Go from the modules that its `go.sum` names.

use crate::guides::project;
use crate::handshake::{Load, TLS_12, TLS_13, shake};
use crate::library;
use crate::material::{Kind, Material};
use crate::memory::{Needles, Seen};
use crate::programs::{BOUND, Daemon, free_port, program, run, wait_for};
use crate::secrets::directory;
use crate::server::search;
use crate::service::Service;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// In the directory of `sidecore`, where the guide has it built. Compiling its modules takes minutes once.
pub(crate) fn built() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let go = Path::new(env!("CARGO_TARGET_TMPDIR")).join("go");
        let built = Path::new(env!("CARGO_BIN_EXE_sidecore")).with_file_name("caddy");
        let mut command = program("go");
        command.args(["build", "-modcacherw", "-o"]).arg(&built).arg("./cmd/caddy");
        command.current_dir(project().join("go/caddy")).env("GOPATH", &go).env("GOCACHE", go.join("cache"));
        let done = command.env_remove("GOFLAGS").output().unwrap();
        assert!(done.status.success(), "go build: {}", String::from_utf8_lossy(&done.stderr));
        built
    })
}

struct Caddy {
    daemon: Daemon,
    ports: Vec<u16>,
}

impl Caddy {
    /// A site for each line of its `tls` block.
    fn start(directory: &Path, lines: &[String]) -> Self {
        let home = directory.display();
        let mut text = format!(
            "{{\nadmin off\nauto_https disable_redirects\nskip_install_trust\nstorage file_system {home}/caddy\n}}\n"
        );
        let ports: Vec<u16> = lines.iter().map(|_| free_port()).collect();
        for (port, line) in ports.iter().zip(lines) {
            let names = format!("https://localhost:{port}, https://127.0.0.1:{port}");
            writeln!(text, "{names} {{\ntls {line}\nrespond \"it works\"\n}}").unwrap();
        }
        let file = directory.join("Caddyfile");
        fs::write(&file, text).unwrap();
        let mut command = Command::new(built());
        command.args(["run", "--adapter", "caddyfile", "--config"]).arg(&file);
        command.env("HOME", directory).env("XDG_CONFIG_HOME", directory).env("XDG_DATA_HOME", directory);
        let mut daemon = Daemon::start("caddy", &mut command, &directory.join("caddy.log"));
        ports.iter().for_each(|port| daemon.wait_for_port(*port));
        Self { daemon, ports }
    }

    /// Handshakes, and a search under load and at rest.
    fn search_in_use(&self, keys: &[Material], directory: &Path) -> Seen {
        let needles = Needles::of(keys);
        let mut seen = Seen::default();
        for (key, port) in keys.iter().zip(&self.ports) {
            for how in [TLS_12, TLS_13] {
                shake(*port, key, how);
            }
            let load = Load::start(*port, directory);
            seen.add(search(&[self.daemon.pid()], &needles));
            assert!(load.answered() > 0, "{}", self.daemon.log());
        }
        seen.add(search(&[self.daemon.pid()], &needles));
        seen
    }
}

fn agent(directory: &Path, service: &Service) -> (Daemon, PathBuf) {
    let socket = directory.join("agent");
    let mut command = Command::new(library::file("sidecore-agent", "sidecore-agent"));
    command.arg("agent").arg("--service").arg(service.socket()).arg("--socket").arg(&socket);
    let agent = Daemon::start("agent", &mut command, &directory.join("agent.log"));
    assert!(wait_for(BOUND, || UnixStream::connect(&socket).is_ok()), "{}", agent.log());
    (agent, socket)
}

fn lines(keys: &[Material], socket: &Path) -> Vec<String> {
    let line = |key: &Material| {
        let (name, certificate, socket) = (key.kind.name(), key.certificate.display(), socket.display());
        format!("{{\nget_certificate sidecore {name} {certificate} {socket}\n}}")
    };
    keys.iter().map(line).collect()
}

#[test]
fn keys_in_files_are_found_in_caddy() {
    let directory = directory();
    let keys = Kind::ALL.map(|kind| Material::make(directory.path(), kind));
    let lines = keys.each_ref().map(|key| format!("{} {}", key.certificate.display(), key.key.display()));
    let caddy = Caddy::start(directory.path(), &lines);
    let seen = caddy.search_in_use(&keys, directory.path());
    for number in ["rsa: prime1", "p-256: priv", "ed25519: priv"] {
        assert!(seen.numbers.contains(number), "{number}: {seen:?}");
    }
}

#[test]
fn stored_keys_never_enter_caddy_and_restarts_cost_it_no_handshake() {
    let directory = directory();
    let keys = Kind::ALL.map(|kind| Material::make(directory.path(), kind));
    let mut service = Service::start(directory.path());
    for key in &keys {
        service.import_for(key, &[]);
    }
    let (mut first, socket) = agent(directory.path(), &service);
    let caddy = Caddy::start(directory.path(), &lines(&keys, &socket));
    let seen = caddy.search_in_use(&keys, directory.path());
    assert_eq!(seen.numbers, BTreeSet::new());
    for key in &keys {
        assert!(service.signatures(key) > 2, "{:?}: {}", key.kind, caddy.daemon.log());
    }
    first.stop();
    let (_second, _) = agent(directory.path(), &service);
    shake(caddy.ports[0], &keys[0], TLS_13);
    // Its keys are in memory only.
    service.stop();
    service.run();
    for key in &keys {
        service.import_for(key, &[]);
    }
    for (key, port) in keys.iter().zip(&caddy.ports) {
        shake(*port, key, TLS_12);
    }
}

#[test]
fn caddy_says_why_it_does_not_start_or_sign() {
    let directory = directory();
    let keys = [Material::make(directory.path(), Kind::P256)];
    let nowhere = directory.path().join("no-agent");
    let caddy = Caddy::start(directory.path(), &lines(&keys, &nowhere));
    let done = crate::handshake::handshake(caddy.ports[0], &keys[0], TLS_13);
    assert!(!done.ok() && caddy.daemon.log().contains("no sidecore agent answers"), "{}", caddy.daemon.log());
    fs::write(&keys[0].certificate, "none").unwrap();
    let mut command = Command::new(built());
    command.args(["validate", "--adapter", "caddyfile", "--config"]).arg(directory.path().join("Caddyfile"));
    let done = run(command.env("HOME", directory.path()));
    assert!(!done.ok() && done.stderr.contains("no usable certificate"), "{done:?}");
}
