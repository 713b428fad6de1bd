//! Programs and libraries of this project, and OpenSSL's configuration with the provider.

use crate::programs::ProgramError;
use sidecore_terminal::programs;
use std::path::{Path, PathBuf};

/// File names as cargo builds it, and as it is installed.
const MODULE: [&str; 2] = ["libsidecore_openssl.so", "sidecore.so"];
/// Folders to search. The first is cargo's folder for dependencies of this program: it has the newest build.
const PLACES: [&str; 2] = ["deps", "."];
/// The provider that OpenSSL loads.
///
/// # Errors
/// As for [`built`].
pub fn module() -> Result<PathBuf, ProgramError> {
    built(&MODULE, "sidecore-openssl")
}

/// A program or library of this project under one of these names.
///
/// # Errors
/// It is not in the directory of this program. The message has the command that builds its package.
pub fn built(names: &[&str], package: &str) -> Result<PathBuf, ProgramError> {
    programs::find(names, &PLACES).ok_or_else(|| {
        let profile = if cfg!(debug_assertions) { "" } else { " --release" };
        let remedy = format!("build it with cargo build{profile} -p {package}");
        ProgramError::Missing { what: format!("no {} beside this program", names[0]), remedy }
    })
}

/// A configuration of OpenSSL with the provider and the service at this socket.
pub fn openssl_configuration(module: &Path, socket: &Path) -> String {
    format!(
        "openssl_conf = openssl_init\n\n[openssl_init]\nproviders = providers\n\n[providers]\ndefault = default_provider\n\
         sidecore = sidecore_provider\n\n[default_provider]\nactivate = 1\n\n[sidecore_provider]\nmodule = {}\n\
         socket = {}\nactivate = 1\n",
        module.display(),
        socket.display()
    )
}
