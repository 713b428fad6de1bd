//! What a package links, from cargo.

use std::collections::BTreeSet;
use std::process::Command;

/// Crates that hold or use private keys, or sandbox a service: only the service's process may have them.
const SERVICE_ONLY: [&str; 6] = ["sidecore", "aws-lc-rs", "aws-lc-sys", "argon2", "landlock", "seccompiler"];

/// The test fails if a package of this workspace links what only the service may have, or one of the `further` crates.
pub fn holds_no_private_key(package: &str, further: &[&str]) {
    let (service, own) = (crates("sidecore"), crates(package));
    // Renamed crates would be found nowhere.
    assert!(SERVICE_ONLY.iter().all(|name| service.contains(*name)), "{service:?}");
    assert!(own.contains("sidecore-ipc"), "{own:?}");
    let wrong: Vec<&&str> = SERVICE_ONLY.iter().chain(further).filter(|name| own.contains(**name)).collect();
    assert!(wrong.is_empty(), "{package} depends on {wrong:?}: what it needs of them belongs into the service");
}

/// The test fails if a package of this workspace links anything of the key service, of its clients or of AWS-LC.
pub fn knows_no_keys(package: &str) {
    let (service, own) = (crates("sidecore"), crates(package));
    let of_keys = ["sidecore", "sidecore-client", "sidecore-counters", "aws-lc-rs", "aws-lc-sys"];
    assert!(of_keys.iter().all(|name| service.contains(*name)), "{service:?}");
    let wrong: Vec<&&str> = of_keys.iter().filter(|name| own.contains(**name)).collect();
    assert!(wrong.is_empty(), "{package} depends on {wrong:?}: what both need belongs into base");
}

fn crates(of: &str) -> BTreeSet<String> {
    let arguments = ["tree", "--offline", "--edges", "normal", "--prefix", "none", "--format", "{p}", "--package", of];
    let tree = Command::new(env!("CARGO")).args(arguments).current_dir(env!("CARGO_MANIFEST_DIR")).output().unwrap();
    assert!(tree.status.success(), "{}", String::from_utf8_lossy(&tree.stderr));
    let lines = String::from_utf8(tree.stdout).unwrap();
    lines.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect()
}
