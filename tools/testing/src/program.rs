//! Copies of programs, and programs of other packages.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Copies a program that the test starts afterwards. Another process writes the file: a child of this one, started by
/// another thread, would hold it open for writing, and then it cannot be executed.
///
/// # Panics
/// The file cannot be copied.
pub fn copy_program(from: impl AsRef<Path>, to: impl AsRef<Path>) {
    let (from, to) = (from.as_ref(), to.as_ref());
    let copied = Command::new("cp").args([from, to]).status();
    assert!(copied.is_ok_and(|status| status.success()), "{} to {}", from.display(), to.display());
}

/// The program of another package, which is called as the package, in the directory of `own`. Cargo does not build it for
/// a test: `cargo xtask test` has built it before, and says so by `SIDECORE_TESTS_BUILT`. Otherwise it is built now.
///
/// # Panics
/// It is not there, or cannot be built.
pub fn program_beside(own: &str, package: &str) -> PathBuf {
    let program = Path::new(own).with_file_name(package);
    if env::var_os("SIDECORE_TESTS_BUILT").is_none() {
        let profile: &[&str] = if own.contains("/release/") { &["--release"] } else { &[] };
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["build", "--quiet", "--package", package, "--bins"]).args(profile);
        let built = cargo.current_dir(env!("CARGO_MANIFEST_DIR")).status();
        assert!(built.is_ok_and(|status| status.success()), "cargo builds no {package}");
    }
    assert!(program.is_file(), "no {}", program.display());
    program
}
