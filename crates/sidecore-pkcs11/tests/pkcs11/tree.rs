//! The module's dependencies, from cargo.

use std::collections::BTreeSet;
use std::process::Command;

/// Crates that hold or use private keys, or sandbox a service: only the service's process may have them.
const SERVICE_ONLY: [&str; 6] = ["sidecore", "aws-lc-rs", "aws-lc-sys", "argon2", "landlock", "seccompiler"];

fn crates(of: &str) -> BTreeSet<String> {
    let arguments = ["tree", "--offline", "--edges", "normal", "--prefix", "none", "--format", "{p}", "--package", of];
    let tree = Command::new(env!("CARGO")).args(arguments).current_dir(env!("CARGO_MANIFEST_DIR")).output().unwrap();
    assert!(tree.status.success(), "{}", String::from_utf8_lossy(&tree.stderr));
    let lines = String::from_utf8(tree.stdout).unwrap();
    lines.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect()
}

#[test]
fn the_process_of_an_application_holds_no_code_that_uses_a_private_key() {
    let (service, module) = (crates("sidecore"), crates("sidecore-pkcs11"));
    assert!(SERVICE_ONLY.iter().all(|name| service.contains(*name)), "{service:?}");
    assert!(module.contains("sidecore-client"), "{module:?}");
    let wrong: Vec<&str> = SERVICE_ONLY.into_iter().filter(|name| module.contains(*name)).collect();
    assert!(wrong.is_empty(), "the module depends on {wrong:?}: what it needs of them belongs into the service");
}
