//! Bad input and failures with real servers: a clean failure with its reason, and no hang, crash or wrong signature.

use crate::handshake::{Load, TLS_12, TLS_13, handshake, shake};
use crate::material::{Kind, Material};
use crate::programs::{BOUND, children, program, run, send, wait_for};
use crate::secrets::directory;
use crate::server::{Configured, Identity, Program, Server};
use crate::service::Service;
use rustix::process::Signal;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

struct Bench {
    directory: TempDir,
    service: Service,
    key: Material,
}

impl Bench {
    fn new() -> Self {
        let directory = directory();
        let key = Material::make(directory.path(), Kind::P256);
        let service = Service::start(directory.path());
        Self { directory, service, key }
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }

    fn nginx(&self, identity: &Identity) -> Configured {
        Program::Nginx.configure(self.path(), std::slice::from_ref(identity))
    }

    fn serving(&self) -> Server {
        let configured = self.nginx(&self.service.import(&self.key));
        configured.start(self.service.told(&mut configured.command()))
    }

    fn shake(&self, server: &Server) {
        let before = self.service.signatures(&self.key);
        for how in [TLS_12, TLS_13] {
            shake(server.ports[0], &self.key, how);
        }
        assert!(self.service.signatures(&self.key) >= before + 2, "{}", self.service.top());
    }

    fn fails(&self, server: &mut Server, words: &[&str]) {
        let done = handshake(server.ports[0], &self.key, TLS_13);
        assert!(!done.ok(), "{done:?}");
        let said = || words.iter().all(|word| server.daemon.log().contains(word));
        assert!(wait_for(BOUND, said), "{words:?} is not said\n{}", server.daemon.log());
        assert!(server.daemon.lives() && !crashed(server), "{}", server.daemon.log());
    }

    fn verify(&self, text: &Path, signature: &Path) {
        let public = self.path().join("public.pem");
        run(program("openssl")
            .args(["x509", "-noout", "-pubkey", "-in"])
            .arg(&self.key.certificate)
            .arg("-out")
            .arg(&public))
        .expect("x509");
        let mut command = program("openssl");
        command.args(["dgst", "-sha256", "-verify"]).arg(&public).arg("-signature").arg(signature);
        run(command.arg(text)).expect("dgst -verify");
    }

    fn refuses(&self, identity: &Identity, words: &[&str]) {
        let done = run(self.service.told(&mut self.nginx(identity).check()));
        assert!(!done.ok(), "{done:?}");
        for word in words {
            assert!(done.stderr.contains(word), "no {word:?} in {}", done.stderr);
        }
    }
}

/// Whether a worker died from a signal that no process sent.
fn crashed(server: &Server) -> bool {
    ["signal 11", "signal 6", "signal 7"].iter().any(|signal| server.daemon.log().contains(signal))
}

fn file_with_uri(directory: &Path, uri: &str) -> PathBuf {
    let (definition, der, pem) = (directory.join("uri.cnf"), directory.join("uri.der"), directory.join("uri.pem"));
    let text = format!("asn1=SEQUENCE:body\n[body]\nversion=UTF8:sidecore key uri v1\nuri=UTF8:{uri}\n");
    std::fs::write(&definition, text).unwrap();
    run(program("openssl").args(["asn1parse", "-noout", "-genconf"]).arg(&definition).arg("-out").arg(&der))
        .expect("asn1parse");
    let base64 = run(program("openssl").args(["base64", "-in"]).arg(&der)).expect("base64");
    let text = format!("-----BEGIN SIDECORE KEY URI-----\n{base64}-----END SIDECORE KEY URI-----\n");
    std::fs::write(&pem, text).unwrap();
    pem
}

#[test]
fn a_wrong_uri_is_refused_at_the_start() {
    let bench = Bench::new();
    for uri in ["pkcs11:object=x", "sidecore:", "sidecore:../etc/passwd", "sidecore:a b"] {
        let key = file_with_uri(bench.path(), uri);
        bench.refuses(&Identity { key, ..Identity::from(&bench.key) }, &["sidecore"]);
    }
}

#[test]
fn a_missing_key_is_refused_at_the_start() {
    let bench = Bench::new();
    bench.refuses(&bench.service.identity(&bench.key, "missing"), &["missing", "sidecore keys"]);
}

#[test]
fn a_service_that_is_down_is_named_at_the_start() {
    let mut bench = Bench::new();
    bench.service.import(&bench.key);
    let without_public_part = bench.service.identity(&bench.key, "p-256");
    bench.service.stop();
    let socket = bench.service.socket();
    bench.refuses(&without_public_part, &[socket.to_str().unwrap(), "sidecore serve"]);
}

#[test]
fn a_server_checks_its_configuration_starts_and_reloads_while_the_service_is_away() {
    let mut bench = Bench::new();
    let configured = bench.nginx(&bench.service.import(&bench.key));
    bench.service.stop();
    run(bench.service.told(&mut configured.check())).expect("nginx -t");
    let mut server = configured.start(bench.service.told(&mut configured.command()));
    let socket = bench.service.socket();
    bench.fails(&mut server, &[socket.to_str().unwrap()]);
    let before = children(server.daemon.pid());
    send(server.daemon.pid(), Signal::HUP);
    let reloaded = || children(server.daemon.pid()).iter().all(|worker| !before.contains(worker));
    assert!(wait_for(BOUND, || !children(server.daemon.pid()).is_empty() && reloaded()), "{}", server.daemon.log());
    bench.fails(&mut server, &[socket.to_str().unwrap()]);
    bench.service.run();
    bench.service.import(&bench.key);
    bench.shake(&server);
}

#[test]
fn who_may_not_use_a_key_cannot_shake_hands() {
    let bench = Bench::new();
    let configured = bench.nginx(&bench.service.import_for(&bench.key, &[]));
    let mut server = configured.start(bench.service.told(&mut configured.command()));
    bench.fails(&mut server, &["p-256", "this user may not use the key"]);
}

#[test]
fn a_restart_of_the_service_costs_no_handshake() {
    let directory = directory();
    let key = Material::make(directory.path(), Kind::P256);
    let service = Service::keeping_keys(directory.path());
    service.import(&key);
    let mut bench = Bench { directory, service, key };
    let configured = bench.nginx(&bench.service.identity(&bench.key, "p-256"));
    let server = configured.start(bench.service.told(&mut configured.command()));
    bench.shake(&server);
    let load = Load::for_seconds(server.ports[0], bench.path(), 6);
    for round in 0..3 {
        assert!(wait_for(BOUND, || children(server.daemon.pid()).iter().any(|worker| bench.service.serves(*worker))));
        if round % 2 == 0 {
            bench.service.stop();
        } else {
            bench.service.kill();
        }
        bench.service.run();
    }
    let (answered, errors) = load.ended();
    assert!(answered > 100 && errors.is_none(), "{answered} answered, {errors:?}\n{}", server.daemon.log());
}

#[test]
fn a_service_that_stays_away_holds_a_worker_up_once() {
    let mut bench = Bench::new();
    let mut server = bench.serving();
    bench.shake(&server);
    bench.service.stop();
    bench.fails(&mut server, &["no sidecore service answers at its socket"]);
    // Each worker that has waited once does not wait again: the next handshakes fail immediately.
    let load = Load::for_seconds(server.ports[0], bench.path(), 6);
    let (answered, errors) = load.ended();
    let failed: u64 =
        errors.unwrap_or_default().split(|c: char| !c.is_ascii_digit()).filter_map(|n| n.parse::<u64>().ok()).sum();
    assert!(answered == 0 && failed > 100, "{answered} answered, {failed} failed\n{}", server.daemon.log());
    bench.service.run();
    bench.service.import(&bench.key);
    bench.shake(&server);
}

#[test]
fn the_service_may_stop_and_start_while_the_server_runs() {
    let mut bench = Bench::new();
    let mut server = bench.serving();
    for round in 0..3 {
        bench.shake(&server);
        if round % 2 == 0 {
            bench.service.stop();
        } else {
            bench.service.kill();
        }
        let socket = bench.service.socket();
        bench.fails(&mut server, &[socket.to_str().unwrap()]);
        bench.service.run();
        bench.service.import(&bench.key);
        bench.shake(&server);
    }
}

#[test]
fn a_key_may_be_deleted_while_in_use() {
    let bench = Bench::new();
    let mut server = bench.serving();
    bench.shake(&server);
    bench.service.delete(&bench.key);
    bench.fails(&mut server, &["p-256", "the sidecore service has no key of this name"]);
    bench.service.import(&bench.key);
    bench.shake(&server);
}

#[test]
fn a_key_may_be_replaced_while_in_use() {
    let bench = Bench::new();
    let mut server = bench.serving();
    bench.shake(&server);
    bench.service.replace(&bench.key, &Material::make(&bench.path().join("service"), Kind::P256));
    bench.fails(&mut server, &["the key in the sidecore service was replaced: reload or restart this program"]);
    bench.service.replace(&bench.key, &bench.key);
    bench.shake(&server);
}

#[test]
fn a_worker_killed_in_mid_handshake_takes_nothing_with_it() {
    let bench = Bench::new();
    let mut server = bench.serving();
    bench.shake(&server);
    let load = Load::start(server.ports[0], bench.path());
    let first = children(server.daemon.pid());
    assert!(wait_for(BOUND, || first.iter().all(|worker| bench.service.serves(*worker))), "{}", bench.service.top());
    send(first[0], Signal::KILL);
    assert!(load.answered() > 50, "{}", server.daemon.log());
    assert!(server.daemon.lives() && !crashed(&server));
    bench.shake(&server);
    assert!(wait_for(BOUND, || !bench.service.serves(first[0])), "{}", bench.service.top());
}

#[test]
fn the_service_may_be_killed_in_mid_load() {
    let mut bench = Bench::new();
    let mut server = bench.serving();
    let load = Load::start(server.ports[0], bench.path());
    assert!(wait_for(BOUND, || children(server.daemon.pid()).iter().any(|worker| bench.service.serves(*worker))));
    bench.service.kill();
    bench.service.run();
    bench.service.import(&bench.key);
    assert!(load.answered() > 0, "{}", server.daemon.log());
    assert!(server.daemon.lives() && !crashed(&server), "{}", server.daemon.log());
    bench.shake(&server);
}

#[test]
fn a_program_that_runs_out_of_descriptors_fails_cleanly() {
    let bench = Bench::new();
    let identity = bench.service.import(&bench.key);
    let (text, signature) = (bench.path().join("text"), bench.path().join("signature"));
    std::fs::write(&text, "some text").unwrap();
    let (mut ends, mut signed) = (Vec::new(), 0);
    for limit in 5..32 {
        let mut command = program("prlimit");
        command.arg(format!("--nofile={limit}")).args(["openssl", "dgst", "-sha256", "-sign"]).arg(&identity.key);
        let done = run(bench.service.told(command.arg("-out").arg(&signature).arg(&text)));
        assert!(done.status.code().is_some_and(|code| code < 2), "{limit} descriptors: {done:?}");
        assert!(done.ok() || !done.stderr.is_empty(), "{limit} descriptors: {done:?}");
        if done.ok() {
            bench.verify(&text, &signature);
            signed += 1;
        }
        ends.push(done.ok());
    }
    assert!(ends.contains(&false) && ends.last() == Some(&true), "{ends:?}");
    assert!(bench.service.signatures(&bench.key) >= signed);
}

#[test]
fn a_worker_at_its_limit_of_descriptors_goes_on() {
    const LIMIT: usize = 48;
    let bench = Bench::new();
    let configured = bench.nginx(&bench.service.import(&bench.key));
    let text = std::fs::read_to_string(&configured.file).unwrap();
    let text = text.replace("worker_processes 2;", &format!("worker_processes 1;\nworker_rlimit_nofile {LIMIT};"));
    std::fs::write(&configured.file, text).unwrap();
    let server = configured.start(bench.service.told(&mut configured.command()));
    // The port listens before there is a worker.
    assert!(wait_for(BOUND, || !children(server.daemon.pid()).is_empty()), "{}", server.daemon.log());
    let worker = children(server.daemon.pid())[0];
    // The connection that probed the port must be closed first: from here on the number of descriptors only grows.
    assert!(wait_for(BOUND, || server.daemon.log().contains("closed connection")), "{}", server.daemon.log());
    // Idle connections, until one descriptor is left for the next connection.
    let mut idle = Vec::new();
    while descriptors(worker) < LIMIT - 1 {
        let before = descriptors(worker);
        idle.push(std::net::TcpStream::connect(("127.0.0.1", server.ports[0])).unwrap());
        assert!(wait_for(BOUND, || descriptors(worker) > before), "{}", server.daemon.log());
    }
    // Descriptors that the worker inherited decide whether the lane still fits. The handshake ends in both cases.
    handshake(server.ports[0], &bench.key, TLS_13);
    drop(idle);
    assert!(wait_for(BOUND, || descriptors(worker) < LIMIT / 2), "{}", server.daemon.log());
    bench.shake(&server);
    assert_eq!(children(server.daemon.pid()), [worker]);
}

fn descriptors(pid: u32) -> usize {
    std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count()
}

fn storm(bench: &Bench, identity: &Identity, count: u32, rounds: u32) -> String {
    let built = bench.path().join("storm");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/servers/storm.c");
    run(program("cc").args(["-O1", "-Wall", "-o"]).arg(&built).arg(source).arg("-lcrypto")).expect("cc");
    let mut command = std::process::Command::new(built);
    command.arg(&identity.key).arg(&identity.certificate).args([count, rounds].map(|number| number.to_string()));
    run(bench.service.told_with_patience(&mut command)).expect("storm")
}

#[test]
fn a_thousand_forks_sign_once_each() {
    let directory = directory();
    let key = Material::make(directory.path(), Kind::P256);
    let service = Service::with_limits(directory.path(), "clients_per_uid = 1200");
    let identity = service.import(&key);
    let bench = Bench { directory, service, key };
    assert_eq!(storm(&bench, &identity, 1000, 1), "forked 1000, crashed 0, refused 0, wrong 0\n");
    assert_eq!(bench.service.signatures(&bench.key), 1001, "of the children and of their parent");
}

/// Backends of `PostgreSQL` and workers of Apache keep a lane that they seldom use.
#[test]
fn more_workers_than_the_limit_that_live_on_all_sign_again_and_again() {
    let directory = directory();
    let key = Material::make(directory.path(), Kind::P256);
    let service = Service::with_limits(directory.path(), "clients_per_uid = 4");
    let identity = service.import(&key);
    let bench = Bench { directory, service, key };
    assert_eq!(storm(&bench, &identity, 16, 3), "forked 16, crashed 0, refused 0, wrong 0\n");
}

#[test]
fn forks_beyond_the_limit_wait_or_are_refused_and_none_signs_wrongly() {
    let directory = directory();
    let key = Material::make(directory.path(), Kind::P256);
    let service = Service::with_limits(directory.path(), "clients_per_uid = 2");
    let identity = service.import(&key);
    let bench = Bench { directory, service, key };
    let counted = storm(&bench, &identity, 200, 1);
    assert!(counted.contains("forked 200, crashed 0, ") && counted.contains("wrong 0\n"), "{counted}");
    let refused =
        counted.split("refused ").nth(1).and_then(|rest| rest.split(',').next()?.parse::<u64>().ok()).unwrap();
    assert_eq!(bench.service.signatures(&bench.key), 201 - refused, "{counted}");
}
