//! The provider as a module that OpenSSL loads.

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

/// The module, built from the source as it is: cargo makes it for no test of another crate by itself.
pub(crate) fn path() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(build).clone()
}

fn build() -> PathBuf {
    let directory = std::path::Path::new(env!("CARGO_BIN_EXE_sidecore")).parent().unwrap();
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--quiet", "--package", "sidecore-openssl"]).current_dir(env!("CARGO_MANIFEST_DIR"));
    if directory.ends_with("release") {
        cargo.arg("--release");
    }
    let done = cargo.output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let module = directory.join("libsidecore_openssl.so");
    assert!(module.is_file(), "cargo built no {}", module.display());
    module
}
