//! Determines the commit of the build.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Files of git that change with a commit or a checkout; the branch's file is added.
const GIT: [&str; 3] = ["HEAD", "logs/HEAD", "packed-refs"];

/// Folders of crates. A package of one part may lack the others.
const PARTS: [&str; 6] = ["base", "keys", "sockets", "farm", "lab", "tools"];

fn main() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let branch = git(&root, &["symbolic-ref", "--quiet", "HEAD"]);
    let names = GIT.iter().copied().chain(branch.as_deref());
    let watched = names.filter_map(|name| Some(root.join(git(&root, &["rev-parse", "--git-path", name])?)));
    // Cargo would rebuild every time because of a missing file.
    for path in watched.chain(sources(&root)).filter(|path| path.exists()) {
        println!("cargo:rerun-if-changed={}", path.display());
    }
    println!("cargo:rustc-env=SIDECORE_COMMIT={}", commit(&root).unwrap_or_else(|| "unknown".to_owned()));
}

/// Sources of all programs and libraries.
fn sources(root: &Path) -> impl Iterator<Item = PathBuf> {
    let parts = PARTS.iter().filter_map(|part| fs::read_dir(root.join(part)).ok()).flatten().flatten();
    parts.map(|of| of.path().join("src")).chain([root.join("Cargo.lock")])
}

/// The commit, with `-dirty` if the sources differ from it. `None`: not a checkout, or git is missing.
fn commit(root: &Path) -> Option<String> {
    // A source package may lie within another repository.
    let top = PathBuf::from(git(root, &["rev-parse", "--show-toplevel"])?);
    let is_own = top.canonicalize().ok()? == root.canonicalize().ok()?;
    let hash = git(root, &["rev-parse", "--short", "HEAD"]).filter(|hash| is_own && !hash.is_empty())?;
    let changed = git(root, &["status", "--porcelain", "--", "Cargo.lock", ":(glob)*/*/src/**"])?;
    Some(if changed.is_empty() { hash } else { format!("{hash}-dirty") })
}

/// Output of git. `None`: it failed.
fn git(root: &Path, arguments: &[&str]) -> Option<String> {
    let said = Command::new("git").arg("-C").arg(root).args(arguments).output().ok()?;
    said.status.success().then(|| String::from_utf8_lossy(&said.stdout).trim().to_owned())
}
