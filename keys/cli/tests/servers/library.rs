//! Libraries that programs load, and programs of other packages.

use std::path::{Path, PathBuf};
use std::process::Command;

/// `cargo xtask test` sets this variable after it has built everything. A separate build of one package has fewer
/// features and takes minutes.
const BUILT: &str = "SIDECORE_TESTS_BUILT";

/// The package's library, built from the current source: cargo does not build it for tests of another crate.
pub(crate) fn built(package: &str) -> PathBuf {
    // That for C has the name which programs link with.
    let name = if package == "sidecore-c" { "sidecore" } else { package };
    file(package, &format!("lib{}.so", name.replace('-', "_")))
}

/// A file that the package's build leaves in the directory of `sidecore`. Without cargo, as in the Debian of
/// `debian13.rs`, an earlier build has made it.
pub(crate) fn file(package: &str, name: &str) -> PathBuf {
    let directory = Path::new(env!("CARGO_BIN_EXE_sidecore")).parent().unwrap();
    if std::env::var_os(BUILT).is_none() && Path::new(env!("CARGO")).is_file() {
        build(package, directory);
    }
    let file = directory.join(name);
    assert!(file.is_file(), "cargo built no {}", file.display());
    file
}

fn build(package: &str, directory: &Path) {
    let mut cargo = Command::new(env!("CARGO"));
    let crates = Path::new(env!("CARGO_MANIFEST_DIR"));
    cargo.args(["build", "--quiet", "--bins", "--examples", "--package", package]).current_dir(crates);
    // Cargo refuses `--lib` where there is none.
    if crates.with_file_name(package).join("src/lib.rs").is_file() {
        cargo.arg("--lib");
    }
    if directory.ends_with("release") {
        cargo.arg("--release");
    }
    let done = cargo.output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}
