//! Programs of cargo that checks need, installed below `target`.

use std::env;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use crate::Result;
use crate::built::cargo;

const DIRECTORY: &str = "target/tools";
const SBIN: [&str; 2] = ["/usr/sbin", "/sbin"];

/// Makes Debian packages. To build it takes less time than to install its package.
pub(crate) const DEB: Tool = Tool { name: "cargo-deb", has_defaults: false };

pub(crate) struct Tool {
    pub(crate) name: &'static str,
    pub(crate) has_defaults: bool,
}

/// Where programs are found: also the tools, and what only root has in its own.
pub(crate) fn path(root: &Path) -> Result<OsString> {
    let own = env::var_os("PATH").unwrap_or_default();
    let more = [root.join(DIRECTORY).join("bin")].into_iter().chain(SBIN.map(PathBuf::from));
    Ok(env::join_paths(env::split_paths(&own).chain(more))?)
}

impl Tool {
    pub(crate) fn ensure(&self, root: &Path, path: &OsStr) -> Result<()> {
        let name = self.name;
        if env::split_paths(path).any(|directory| directory.join(name).is_file()) {
            return Ok(());
        }
        println!("\n==> cargo install {name}");
        let mut install = cargo(root);
        install.args(["install", "--quiet", "--locked", "--profile", "dev", name, "--root"]).arg(root.join(DIRECTORY));
        if !self.has_defaults {
            install.arg("--no-default-features");
        }
        let done = install.status()?;
        if done.success() {
            Ok(())
        } else {
            Err(format!("{name} is missing; run: cargo install {name} --locked").into())
        }
    }
}
