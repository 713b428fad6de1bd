//! Keys never enter the application: no process of a server has any of a private key's numbers in its memory.

use crate::handshake::{Load, TLS_12, TLS_12_RSA_DECRYPTS, TLS_13, shake};
use crate::material::{Kind, Material};
use crate::memory::{Needles, Seen};
use crate::programs::is_root;
use crate::server::{Identity, Program, Server};
use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// A directory that workers of another user reach.
fn directory() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    if is_root() {
        std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    directory
}

/// All keys' numbers: what a search finds where they are in files.
fn all_numbers(keys: &[Material]) -> BTreeSet<String> {
    keys.iter().flat_map(|key| key.secrets.iter().map(|(name, _)| format!("{}: {name}", key.kind.name()))).collect()
}

/// Handshakes of every version, then a load under which the memory is searched, then a search at rest.
fn search_in_use(server: &Server, keys: &[Material], directory: &Path) -> Seen {
    let needles = Needles::of(keys);
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
    }
    seen.add(server.search(&needles));
    seen
}

fn with_keys_in_files(program: Program) {
    let directory = directory();
    let keys = Kind::ALL.map(|kind| Material::make(directory.path(), kind));
    let configured = program.configure(directory.path(), &keys.each_ref().map(Identity::from));
    let server = configured.start(&mut configured.command());
    let seen = search_in_use(&server, &keys, directory.path());
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
