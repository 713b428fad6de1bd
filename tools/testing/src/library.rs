//! Libraries that programs load, and programs of other packages, built from the current source: cargo does not build them
//! for tests of another crate.

use std::path::{Path, PathBuf};
use std::process::Command;

/// `cargo xtask test` sets this variable after it has built everything. A separate build of one package has fewer
/// features and takes minutes.
const BUILT: &str = "SIDECORE_TESTS_BUILT";

/// The package's library, in the directory of this program.
pub fn built_library(program: &str, package: &str) -> PathBuf {
    // That for C has the name which programs link with.
    let name = if package == "sidecore-c" { "sidecore" } else { package };
    built_file(program, package, &format!("lib{}.so", name.replace('-', "_")))
}

/// A file that the package's build leaves in the directory of this program. Without cargo, as on a machine of another
/// system, an earlier build has made it.
pub fn built_file(program: &str, package: &str, name: &str) -> PathBuf {
    let directory = Path::new(program).parent().expect("a program in a directory");
    if std::env::var_os(BUILT).is_none() && Path::new(env!("CARGO")).is_file() {
        build(package, directory, &[]);
        if name.starts_with("examples/") {
            build(package, directory, &["--examples"]);
        }
    }
    let file = directory.join(name);
    assert!(file.is_file(), "cargo built no {}", file.display());
    file
}

fn build(package: &str, directory: &Path, targets: &[&str]) {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--quiet", "--package", package]).args(targets).current_dir(env!("CARGO_MANIFEST_DIR"));
    if directory.ends_with("release") {
        cargo.arg("--release");
    }
    let done = cargo.output().expect("cargo");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}
