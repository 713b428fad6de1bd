//! Caddy with the module of `keys/go/caddy`, built by Go from the modules that its `go.sum` names.

use crate::guides::project;
use crate::handshake::{Load, TLS_12, TLS_13, handshake, shake};
use crate::library;
use crate::material::{Kind, Material};
use crate::memory::{Needles, Seen};
use crate::programs::{Daemon, free_port, program, run};
use crate::secrets::directory;
use crate::server::search;
use crate::service::Service;
use sidecore_testing::skipped;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Compiling Caddy's modules takes ten minutes on two cores, and a newer Go than that of Debian 12.
const WANTED: &str = "SIDECORE_CADDY";

/// Caddy in the directory of `sidecore`, where the guide has it built. `None`, and a reported skip: it is not wanted.
pub(crate) fn built() -> Option<&'static Path> {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    if std::env::var_os(WANTED).is_none() {
        skipped("Caddy is built and tested with SIDECORE_CADDY=1");
        return None;
    }
    let caddy = BUILT.get_or_init(|| {
        let built = Path::new(env!("CARGO_BIN_EXE_sidecore")).with_file_name("caddy");
        let mut command = program("go");
        command.args(["build", "-o"]).arg(&built).arg("./cmd/caddy").current_dir(project().join("keys/go/caddy"));
        let done = command.env("GOFLAGS", "-buildvcs=false").output().unwrap();
        assert!(done.status.success(), "go build: {}", String::from_utf8_lossy(&done.stderr));
        built
    });
    Some(caddy)
}

struct Caddy {
    daemon: Daemon,
    port: u16,
}

impl Caddy {
    /// With one site: Caddy chooses certificates by names, and these keys have the same. The site has no name, because
    /// some clients send none.
    fn start(program: &Path, directory: &Path, kind: Kind, tls: &str) -> Self {
        let home = directory.join(format!("caddy-{}", kind.name()));
        fs::create_dir(&home).unwrap();
        let (port, file) = (free_port(), home.join("Caddyfile"));
        let text = format!(
            "{{\nadmin off\nauto_https disable_redirects\nskip_install_trust\nstorage file_system {}\n}}\n\
             https://:{port} {{\ntls {tls}\nrespond \"it works\"\n}}\n",
            home.display()
        );
        fs::write(&file, text).unwrap();
        let mut command = Command::new(program);
        command.args(["run", "--adapter", "caddyfile", "--config"]).arg(&file).env("HOME", &home);
        let mut daemon = Daemon::start("caddy", &mut command, &home.join("log"));
        daemon.wait_for_port(port);
        Self { daemon, port }
    }

    fn shake(&self, key: &Material) {
        for how in [TLS_12, TLS_13] {
            shake(self.port, key, how);
        }
    }

    /// Handshakes and load, and a search under load.
    fn search_in_use(&self, key: &Material, directory: &Path) -> Seen {
        self.shake(key);
        let answered = Load::start(self.port, directory).answered();
        assert!(answered > 0, "{}", self.daemon.log());
        // The search takes longer than the load, and Caddy is stopped meanwhile.
        let _load = Load::start(self.port, directory);
        search(&[self.daemon.pid()], &Needles::of([key]))
    }
}

/// One key is enough: Go reserves more than a gigabyte of addresses, and the search takes its time for each.
const SEARCHED: Kind = Kind::P256;

fn agent(directory: &Path, service: &Service) -> (Daemon, PathBuf) {
    let socket = directory.join("agent");
    let mut command = Command::new(library::file("sidecore-agent", "sidecore-agent"));
    command.arg("agent").arg("--service").arg(service.socket()).arg("--socket").arg(&socket);
    let mut agent = Daemon::start("agent", &mut command, &directory.join("agent.log"));
    agent.wait_for_socket(&socket);
    (agent, socket)
}

fn stored(key: &Material, socket: &Path) -> String {
    let (name, certificate, socket) = (key.kind.name(), key.certificate.display(), socket.display());
    format!("{{\nget_certificate sidecore {name} {certificate} {socket}\n}}")
}

#[test]
fn keys_in_files_are_found_in_caddy() {
    let Some(caddy) = built() else { return };
    let directory = directory();
    let key = Material::make(directory.path(), SEARCHED);
    let files = format!("{} {}", key.certificate.display(), key.key.display());
    let seen = Caddy::start(caddy, directory.path(), SEARCHED, &files).search_in_use(&key, directory.path());
    assert!(!seen.numbers.is_empty(), "{seen:?}");
}

#[test]
fn stored_keys_never_enter_caddy_and_restarts_cost_it_no_handshake() {
    let Some(caddy) = built() else { return };
    let directory = directory();
    let keys = Kind::ALL.map(|kind| Material::make(directory.path(), kind));
    let mut service = Service::start(directory.path());
    let import = |service: &Service| {
        for key in &keys {
            service.import_for(key, &[]);
        }
    };
    import(&service);
    let (mut first, socket) = agent(directory.path(), &service);
    let start = |key: &Material| Caddy::start(caddy, directory.path(), key.kind, &stored(key, &socket));
    let servers = keys.each_ref().map(start);
    for (caddy, key) in servers.iter().zip(&keys) {
        caddy.shake(key);
        if key.kind == SEARCHED {
            assert_eq!(caddy.search_in_use(key, directory.path()).numbers, BTreeSet::new());
        }
        assert!(service.signatures(key) >= 2, "{:?}: {}", key.kind, caddy.daemon.log());
    }
    first.stop();
    let (_second, _) = agent(directory.path(), &service);
    // Its keys are in memory only.
    service.stop();
    service.run();
    import(&service);
    for (caddy, key) in servers.iter().zip(&keys) {
        caddy.shake(key);
    }
}

#[test]
fn a_renewal_of_key_and_chain_costs_caddy_no_handshake() {
    let Some(caddy) = built() else { return };
    let directory = directory();
    let [old, new] = ["old", "new"].map(|name| {
        let folder = directory.path().join(name);
        fs::create_dir(&folder).unwrap();
        Material::make(&folder, SEARCHED)
    });
    let chain = directory.path().join("chain.pem");
    let put = |certificate: &Path| {
        fs::copy(certificate, chain.with_extension("new")).unwrap();
        fs::rename(chain.with_extension("new"), &chain).unwrap();
    };
    put(&old.certificate);
    let service = Service::start(directory.path());
    service.import_for(&old, &[]);
    let (_agent, socket) = agent(directory.path(), &service);
    let name = SEARCHED.name();
    let tls = format!("{{\nget_certificate sidecore {name} {} {}\n}}", chain.display(), socket.display());
    let server = Caddy::start(caddy, directory.path(), SEARCHED, &tls);
    server.shake(&old);
    let load = Load::for_seconds(server.port, directory.path(), 10);
    // certbot has put the new chain in its place, and its hook has not run yet.
    put(&new.certificate);
    for _ in 0..5 {
        server.shake(&old);
    }
    let mut renew = Command::new(env!("CARGO_BIN_EXE_sidecore"));
    renew.args(["keys", "renew", name]).arg(&new.key).arg("--certificate").arg(&new.certificate);
    let done = run(renew.env("SIDECORE_SOCKET", service.socket()));
    assert!(done.ok(), "{done:?}");
    for _ in 0..5 {
        server.shake(&new);
    }
    let (answered, errors) = load.ended();
    println!("{answered} answered during the renewal");
    assert!(answered > 0 && errors.is_none(), "{answered}, {errors:?}\n{}", server.daemon.log());
    assert_eq!(server.daemon.log().matches("does not offer the key of the changed chain").count(), 1);
}

#[test]
fn caddy_says_why_it_does_not_start_or_sign() {
    let Some(caddy) = built() else { return };
    let directory = directory();
    let key = Material::make(directory.path(), Kind::P256);
    let server = Caddy::start(caddy, directory.path(), key.kind, &stored(&key, &directory.path().join("no-agent")));
    let done = handshake(server.port, &key, TLS_13);
    assert!(
        !done.ok() && server.daemon.log().contains("no sidecore agent answers"),
        "{done:?}\n{}",
        server.daemon.log()
    );
    fs::write(&key.certificate, "none").unwrap();
    let home = directory.path().join("caddy-p-256");
    let mut command = Command::new(caddy);
    command.args(["validate", "--adapter", "caddyfile", "--config"]).arg(home.join("Caddyfile"));
    let done = run(command.env("HOME", home));
    assert!(!done.ok() && done.stderr.contains("no usable certificate"), "{done:?}");
}
