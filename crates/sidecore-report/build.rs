//! The commit that a program is made of.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Sources of the programs, from the workspace's root.
const SOURCES: [&str; 14] = [
    "Cargo.lock",
    "crates/sidecore-cli/src",
    "crates/sidecore-client/src",
    "crates/sidecore-core/src",
    "crates/sidecore-farm/src",
    "crates/sidecore-lab/src",
    "crates/sidecore-libcrypto/src",
    "crates/sidecore-openssl/src",
    "crates/sidecore-preload/src",
    "crates/sidecore-report/src",
    "crates/sidecore-sim/src",
    "crates/sidecore-sockets/src",
    "crates/sidecore-terminal/src",
    "crates/sidecore/src",
];

/// Of git's own files those that change with a commit, beside the branch's, and where another one is checked out.
const GIT: [&str; 3] = ["HEAD", "logs/HEAD", "packed-refs"];

fn main() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let branch = git(&root, &["symbolic-ref", "--quiet", "HEAD"]);
    let names = GIT.iter().copied().chain(branch.as_deref());
    let watched = names.filter_map(|name| Some(root.join(git(&root, &["rev-parse", "--git-path", name])?)));
    // Cargo would build again each time for one that does not exist.
    for path in watched.chain(SOURCES.map(|name| root.join(name))).filter(|path| path.exists()) {
        println!("cargo:rerun-if-changed={}", path.display());
    }
    println!("cargo:rustc-env=SIDECORE_COMMIT={}", commit(&root).unwrap_or_else(|| "unknown".to_owned()));
}

/// The commit, with `-dirty` where the sources are not those of it. `None`: this is no checkout, or there is no git.
fn commit(root: &Path) -> Option<String> {
    // A source package may lie within somebody else's repository.
    let top = PathBuf::from(git(root, &["rev-parse", "--show-toplevel"])?);
    let is_own = top.canonicalize().ok()? == root.canonicalize().ok()?;
    let hash = git(root, &["rev-parse", "--short", "HEAD"]).filter(|hash| is_own && !hash.is_empty())?;
    let changed = git(root, &[&["status", "--porcelain", "--"], &SOURCES[..]].concat())?;
    Some(if changed.is_empty() { hash } else { format!("{hash}-dirty") })
}

/// What git says, if it can say anything.
fn git(root: &Path, arguments: &[&str]) -> Option<String> {
    let said = Command::new("git").arg("-C").arg(root).args(arguments).output().ok()?;
    said.status.success().then(|| String::from_utf8_lossy(&said.stdout).trim().to_owned())
}
