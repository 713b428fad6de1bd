//! Processors that releases are for, and the compilers for them.

use std::env;
use std::process::{Command, Stdio};

use crate::Result;

pub(super) struct Target {
    pub(super) triple: &'static str,
    /// In the names of archives, and as `std::env::consts` has it.
    pub(super) processor: &'static str,
    /// Debian's word for its directories of libraries, with which the names of its cross compiler's programs begin.
    pub(super) multiarch: &'static str,
    /// With the cross compiler.
    pub(super) package: &'static str,
    /// Debian's word for the processor.
    pub(super) debian: &'static str,
}

pub(super) const TARGETS: [Target; 2] = [
    Target {
        triple: "x86_64-unknown-linux-gnu",
        processor: "x86_64",
        multiarch: "x86_64-linux-gnu",
        package: "gcc-x86-64-linux-gnu",
        debian: "amd64",
    },
    Target {
        triple: "aarch64-unknown-linux-gnu",
        processor: "aarch64",
        multiarch: "aarch64-linux-gnu",
        package: "gcc-aarch64-linux-gnu",
        debian: "arm64",
    },
];

impl Target {
    /// The one of this machine.
    pub(super) fn here() -> Result<&'static Self> {
        let is_here = |target: &&Self| target.processor == env::consts::ARCH;
        TARGETS.iter().find(is_here).ok_or_else(|| {
            let known = TARGETS.map(|target| target.processor).join(" or ");
            format!("releases are made on {known}, and this machine is {}", env::consts::ARCH).into()
        })
    }

    pub(super) fn c_compiler(&self) -> String {
        if self.processor == env::consts::ARCH { "cc".to_owned() } else { format!("{}-gcc", self.multiarch) }
    }

    /// Cargo's variable for the program that links.
    pub(super) fn linker_variable(&self) -> String {
        format!("CARGO_TARGET_{}_LINKER", self.triple.to_uppercase().replace('-', "_"))
    }

    /// Has compiler and C library, and adds Rust's standard library.
    pub(super) fn ensure(&self) -> Result<()> {
        let compiler = self.c_compiler();
        if quietly(Command::new(&compiler).arg("--version")).is_err() {
            let package = if compiler == "cc" { "gcc" } else { self.package };
            return Err(format!("{compiler} is missing; run: apt-get install {package}").into());
        }
        let library = format!("libc6:{}", self.debian);
        // Otherwise the package would depend on the cross compiler's C library.
        if quietly(Command::new("dpkg-query").args(["--status", &library])).is_err() {
            let remedy = "apt-get update; apt-get install";
            return Err(format!(
                "{library} is missing; run: dpkg --add-architecture {}; {remedy} {library}",
                self.debian
            )
            .into());
        }
        // Does nothing and needs no network where the target is there.
        quietly(Command::new("rustup").args(["target", "add", self.triple]))
    }
}

fn quietly(command: &mut Command) -> Result<()> {
    let done = command.stdin(Stdio::null()).output().map_err(|error| format!("{command:?}: {error}"))?;
    if done.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&done.stderr).trim_end().into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_compiler_is_named_with_its_remedy() {
        let none = Target { processor: "none", multiarch: "none-none-gnu", package: "gcc-none", ..TARGETS[1] };
        let said = none.ensure().unwrap_err().to_string();
        assert_eq!(said, "none-none-gnu-gcc is missing; run: apt-get install gcc-none");
    }

    #[test]
    fn a_missing_c_library_is_named_with_its_remedy() {
        let none = Target { processor: env::consts::ARCH, debian: "none", ..TARGETS[1] };
        let said = none.ensure().unwrap_err().to_string();
        assert!(said.starts_with("libc6:none is missing; run: dpkg --add-architecture none; "), "{said}");
    }

    #[test]
    fn the_linker_is_named_as_cargo_reads_it() {
        let named = TARGETS.map(|target| target.linker_variable());
        assert_eq!(named[1], "CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER");
    }
}
