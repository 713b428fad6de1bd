//! Artifacts of cargo. All builds have the features of the tests, so that nothing is built twice.

use std::fs;
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use cargo_metadata::{Artifact, Message};

use crate::Result;

pub(crate) fn cargo(root: &Path) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root).stdin(Stdio::null());
    command
}

pub(crate) fn everything(root: &Path) -> Result<Vec<Artifact>> {
    all_of(root, &["--workspace"])
}

/// Programs, libraries and tests of the chosen packages, which are `--workspace`, or `-p` and a name for each.
pub(crate) fn all_of(root: &Path, packages: &[&str]) -> Result<Vec<Artifact>> {
    let mut built = artifacts(cargo(root).args(["test", "--no-run"]).args(packages))?;
    // A library without a form for Rust is no part of any test: cargo builds it with the features of the tests, which are
    // built already.
    let again = artifacts(cargo(root).args(["build", "--lib", "--tests"]).args(packages))?;
    built.extend(again.into_iter().filter(|artifact| artifact.target.is_cdylib() && !artifact.profile.test));
    built.iter().filter(|artifact| artifact.manifest_path.starts_with(root)).try_for_each(put_beside_programs)?;
    Ok(built)
}

/// Copies a library that programs load to the directory of programs, as `cargo build` does. `cargo test` leaves it in
/// `deps`.
fn put_beside_programs(artifact: &Artifact) -> io::Result<()> {
    let is_library = artifact.target.is_cdylib() && !artifact.profile.test;
    for file in artifact.filenames.iter().filter(|file| is_library && file.extension() == Some("so")) {
        let (Some(deps), Some(name)) = (file.parent(), file.file_name()) else { continue };
        if let Some(programs) = deps.parent().filter(|_| deps.file_name() == Some("deps")) {
            // At once, since a test may load it. The file there may be a hard link to one of cargo's own.
            let new = programs.join(name).with_extension("new");
            fs::copy(file, &new)?;
            fs::rename(new, programs.join(name))?;
        }
    }
    Ok(())
}

pub(crate) fn tests(cargo: &mut Command, choice: &[&str]) -> Result<Vec<Artifact>> {
    artifacts(cargo.args(["test", "--workspace", "--no-run"]).args(choice))
}

fn artifacts(cargo: &mut Command) -> Result<Vec<Artifact>> {
    cargo.args(["--message-format", "json-render-diagnostics"]);
    let mut child = cargo.stdout(Stdio::piped()).spawn()?;
    let output = child.stdout.take().ok_or("cargo has no output")?;
    let mut artifacts = Vec::new();
    for message in Message::parse_stream(BufReader::new(output)) {
        if let Message::CompilerArtifact(artifact) = message? {
            artifacts.push(artifact);
        }
    }
    if child.wait()?.success() { Ok(artifacts) } else { Err("it does not build".into()) }
}

/// The program of that name among the artifacts; test binaries, which have the same name, are excluded.
pub(crate) fn program(artifacts: &[Artifact], name: &str) -> Result<PathBuf> {
    let is_it =
        |artifact: &&Artifact| artifact.target.name == name && artifact.profile.test == artifact.target.is_bench();
    let found = artifacts.iter().filter(is_it).find_map(|artifact| artifact.executable.clone());
    Ok(found.ok_or_else(|| format!("the program {name} was not built"))?.into_std_path_buf())
}
