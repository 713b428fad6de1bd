//! The crate's dependencies, from cargo.

use std::process::Command;

#[test]
fn the_program_chooses_the_cryptography_and_holds_no_code_that_uses_a_private_key() {
    let arguments = ["tree", "--offline", "--edges", "normal", "--prefix", "none", "--format", "{p}", "--package"];
    let mut command = Command::new(env!("CARGO"));
    let tree = command.args(arguments).arg("sidecore-rustls").current_dir(env!("CARGO_MANIFEST_DIR")).output().unwrap();
    assert!(tree.status.success(), "{}", String::from_utf8_lossy(&tree.stderr));
    let tree = String::from_utf8(tree.stdout).unwrap();
    let crates: Vec<&str> = tree.lines().filter_map(|line| line.split(' ').next()).collect();
    assert!(crates.contains(&"rustls") && crates.contains(&"sidecore-client"), "{crates:?}");
    let wrong = ["sidecore", "aws-lc-rs", "aws-lc-sys", "ring", "argon2", "landlock", "seccompiler"];
    assert!(wrong.iter().all(|wrong| !crates.contains(wrong)), "{crates:?}");
}
