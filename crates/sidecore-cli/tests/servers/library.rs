//! Libraries that programs load.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The library of that package, built from the source as it is: cargo makes it for no test of another crate by itself.
pub(crate) fn built(package: &str) -> PathBuf {
    let directory = Path::new(env!("CARGO_BIN_EXE_sidecore")).parent().unwrap();
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--quiet", "--package", package]).current_dir(env!("CARGO_MANIFEST_DIR"));
    if directory.ends_with("release") {
        cargo.arg("--release");
    }
    let done = cargo.output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let library = directory.join(format!("lib{}.so", package.replace('-', "_")));
    assert!(library.is_file(), "cargo built no {}", library.display());
    library
}
