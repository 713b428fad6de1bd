//! Keys never enter the application: no process of a server has a private key's numbers in its memory.

use crate::handshake::{Load, TLS_12, TLS_12_RSA_DECRYPTS, TLS_13, shake};
use crate::material::{Kind, Material};
use crate::memory::{Needles, Seen};
use crate::programs::{BOUND, Daemon, is_root, program, run, wait_for};
use crate::relay::Relay;
use crate::server::{Identity, Program, Server, search};
use crate::service::Service;
use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

pub(crate) fn directory() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    if is_root() {
        std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    directory
}

pub(crate) fn all_numbers(keys: &[Material]) -> BTreeSet<String> {
    keys.iter().flat_map(|key| key.secrets.iter().map(|(name, _)| format!("{}: {name}", key.kind.name()))).collect()
}

/// Handshakes of every version, then a search under load, then a search at rest. Also returns the least number of
/// signatures of each key.
fn search_in_use(server: &Server, keys: &[Material], directory: &Path) -> (Seen, Vec<u64>) {
    let needles = Needles::of(keys);
    let mut signatures = Vec::new();
    for (key, port) in keys.iter().zip(&server.ports) {
        for how in [TLS_12, TLS_13] {
            shake(*port, key, how);
        }
        if key.kind == Kind::Rsa {
            shake(*port, key, TLS_12_RSA_DECRYPTS);
        }
    }
    let mut seen = Seen::default();
    for port in &server.ports {
        let load = Load::start(*port, directory);
        seen.add(server.search(&needles));
        let answered = load.answered();
        assert!(answered > 50, "{answered} requests\n{}", server.daemon.log());
        signatures.push(answered + 2);
    }
    seen.add(server.search(&needles));
    (seen, signatures)
}

fn with_keys_in_files(program: Program) {
    let directory = directory();
    let keys = Kind::ALL.map(|kind| Material::make(directory.path(), kind));
    let configured = program.configure(directory.path(), &keys.each_ref().map(Identity::from));
    let server = configured.start(&mut configured.command());
    let (seen, _) = search_in_use(&server, &keys, directory.path());
    assert_eq!(seen.numbers, all_numbers(&keys));
}

#[test]
fn keys_in_files_are_found_in_nginx() {
    with_keys_in_files(Program::Nginx);
}

#[test]
fn keys_in_files_are_found_in_haproxy() {
    with_keys_in_files(Program::HaProxy);
}

fn with_stored_keys(program: Program) {
    let directory = directory();
    let keys = Kind::ALL.map(|kind| Material::make(directory.path(), kind));
    let service = Service::start(directory.path());
    let identities = keys.each_ref().map(|key| service.import(key));
    let configured = program.configure(directory.path(), &identities);
    let server = configured.start(service.told(&mut configured.command()));
    let (seen, least) = search_in_use(&server, &keys, directory.path());
    for (key, least) in keys.iter().zip(least) {
        let made = service.signatures(key);
        assert!(made >= least, "{:?}: the service made {made} signatures of {least}", key.kind);
    }
    assert_eq!(seen.numbers, BTreeSet::new());
    assert!(seen.mappings.iter().any(|label| label.contains("sidecore_openssl")), "{seen:?}");
    assert!(seen.mappings.iter().any(|label| label.starts_with("/memfd:")), "no lane was searched: {seen:?}");
}

#[test]
fn stored_keys_never_enter_nginx() {
    with_stored_keys(Program::Nginx);
}

#[test]
fn stored_keys_never_enter_haproxy() {
    with_stored_keys(Program::HaProxy);
}

fn search_curl(directory: &Path, client: &Identity, key: &Material, service: Option<&Service>) -> Seen {
    let server = Material::make(&make_directory(directory, "server"), Kind::P256);
    let wanted = Identity { client: Some(client.certificate.clone()), ..Identity::from(&server) };
    let configured = Program::Nginx.configure(directory, &[wanted]);
    let nginx = configured.start(&mut configured.command());
    let (url, answer) = (format!("https://127.0.0.1:{}/slow", nginx.ports[0]), directory.join("answer"));
    let mut command = program("curl");
    command.args(["--silent", "--show-error", "--fail", "--no-buffer", "--cacert"]).arg(&server.certificate);
    command.arg("--cert").arg(&client.certificate).arg("--key").arg(&client.key).arg(url).arg("--output").arg(&answer);
    if let Some(service) = service {
        service.told(&mut command);
    }
    let mut curl = Daemon::start("curl", &mut command, &directory.join("curl.log"));
    let has_begun = || std::fs::metadata(&answer).is_ok_and(|file| file.len() > 0);
    assert!(wait_for(BOUND, || has_begun() || !curl.lives()) && curl.lives(), "curl ended: {}", curl.log());
    search(&[curl.pid()], &Needles::of([key]))
}

fn make_directory(parent: &Path, name: &str) -> std::path::PathBuf {
    let directory = parent.join(name);
    std::fs::create_dir(&directory).unwrap();
    directory
}

#[test]
fn keys_in_files_are_found_in_curl() {
    for kind in Kind::ALL {
        let directory = directory();
        let key = Material::make(directory.path(), kind);
        let seen = search_curl(directory.path(), &Identity::from(&key), &key, None);
        assert_eq!(seen.numbers, all_numbers(&[key]));
    }
}

#[test]
fn stored_keys_never_enter_curl() {
    for kind in Kind::ALL {
        let directory = directory();
        let key = Material::make(directory.path(), kind);
        let service = Service::start(directory.path());
        let client = service.import(&key);
        let seen = search_curl(directory.path(), &client, &key, Some(&service));
        assert_eq!(seen.numbers, BTreeSet::new());
        assert!(seen.mappings.iter().any(|label| label.starts_with("/memfd:")), "no lane was searched: {seen:?}");
        assert!(service.signatures(&key) >= 1, "{kind:?}");
    }
}

#[test]
fn keys_are_in_no_message_to_a_client_and_in_no_lane() {
    let directory = directory();
    let service = Service::start(directory.path());
    let path = directory.path();
    let relay = Relay::start(&path.join("relay"), &service.socket());
    std::fs::write(path.join("text"), "some text").unwrap();
    for kind in Kind::ALL {
        let key = Material::make(path, kind);
        let identity = service.import(&key);
        let mut command = program("openssl");
        command.args(["pkeyutl", "-sign", "-rawin", "-inkey"]).arg(&identity.key).arg("-in").arg(path.join("text"));
        command.arg("-out").arg(path.join("signature"));
        run(service.told_of(&path.join("relay"), &mut command)).expect("pkeyutl -sign");
        assert_eq!(service.signatures(&key), 1, "{kind:?}");
        let mut command = program("openssl");
        command.args(["pkeyutl", "-verify", "-rawin", "-certin", "-inkey"]).arg(&key.certificate);
        command.arg("-in").arg(path.join("text")).arg("-sigfile").arg(path.join("signature"));
        run(&mut command).expect("pkeyutl -verify");
        let needles = Needles::of([&key]);
        assert_eq!(relay.search(&needles), BTreeSet::new());
        // The control: a key on its way into the service is found.
        service.delete(&key);
        service.import_through(&path.join("relay"), &key, &[]);
        assert!(!relay.search(&needles).is_empty());
    }
    let (packets, memory) = relay.size();
    assert!(packets > 8 && memory > 0, "{packets} packets, {memory} bytes of lanes");
}
