//! The agent's dependencies, from cargo.

use std::collections::BTreeSet;
use std::process::Command;

/// Crates that hold or use private keys.
const SERVICE_ONLY: [&str; 6] = ["sidecore", "aws-lc-rs", "aws-lc-sys", "argon2", "ssh-key", "ssh-agent-lib"];

#[test]
fn the_agent_holds_no_code_that_uses_a_private_key() {
    let arguments = ["tree", "--offline", "--edges", "normal", "--prefix", "none", "--format", "{p}"];
    let mut tree = Command::new(env!("CARGO"));
    let tree = tree.args(arguments).current_dir(env!("CARGO_MANIFEST_DIR")).output().unwrap();
    assert!(tree.status.success(), "{}", String::from_utf8_lossy(&tree.stderr));
    let lines = String::from_utf8(tree.stdout).unwrap();
    let crates: BTreeSet<&str> = lines.lines().filter_map(|line| line.split(' ').next()).collect();
    assert!(crates.contains("sidecore-client"), "{crates:?}");
    let wrong: Vec<&str> = SERVICE_ONLY.into_iter().filter(|name| crates.contains(name)).collect();
    assert!(wrong.is_empty(), "the agent depends on {wrong:?}");
}
