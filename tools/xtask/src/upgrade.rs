//! `cargo xtask upgrade [--plant] [COMMIT]`: upgrade and rollback between COMMIT and this tree, under load.
//!
//! Without COMMIT it is the newest tag `v*`; without a tag, the last commit before a change to what programs and
//! services share. `--plant` gives the other version a lane layout that this one refuses, by default on the last
//! commit.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use cargo_metadata::MetadataCommand;

use crate::Result;
use crate::built::cargo;

const DIRECTORY: &str = "target/upgrade";
/// Messages, memory and keys at rest.
const SHARED: [&str; 8] = [
    "base/core/src/layout.rs",
    "base/core/src/wire.rs",
    "base/ipc/src/message.rs",
    "keys/client/src/control.rs",
    "keys/client/src/control",
    "keys/client/src/keys.rs",
    "keys/client/src/spec.rs",
    "keys/service/src/keys/vault",
];
/// Packages, and what they are built to.
const PACKAGES: [(&str, &str); 6] = [
    ("sidecore-cli", "sidecore"),
    ("sidecore-watch", "sidecore-watch"),
    ("sidecore-openssl", "libsidecore_openssl.so"),
    ("sidecore-pkcs11", "libsidecore_pkcs11.so"),
    ("sidecore-agent", "sidecore-agent"),
    ("sidecore-c", "libsidecore.so"),
];
/// The package with the lane layout, and its file below that package.
const CORE: &str = "sidecore-core";
const LAYOUT: &str = "src/layout.rs";
/// The beginning of the line with the number of the lane layout.
const NUMBER: &str = "pub const ABI: u32 = ";
/// Above the number of every version.
const PLANTED: u32 = 1000;

pub(crate) fn run(root: &Path, arguments: &[&str]) -> Result<bool> {
    let (plant, named) = match arguments {
        [] => (false, None),
        ["--plant"] => (true, None),
        ["--plant", commit] => (true, Some(*commit)),
        [commit] if !commit.starts_with('-') => (false, Some(*commit)),
        _ => return Err("usage: cargo xtask upgrade [--plant] [COMMIT]".into()),
    };
    let commit = match (named, plant) {
        (Some(commit), _) => resolved(root, commit)?,
        (None, true) => resolved(root, "HEAD")?,
        (None, false) => default(root)?,
    };
    println!("old version: {}", git(root, &["log", "-1", "--format=%h of %cs, %s", &commit])?);
    let (directory, tree) = (root.join(DIRECTORY), root.join(DIRECTORY).join("tree"));
    check_out(root, &tree, &commit)?;
    if plant {
        let file = directory_of(&tree, CORE).ok_or("that commit has no sidecore-core")?.join(LAYOUT);
        fs::write(&file, planted(&fs::read_to_string(&file)?)?)?;
    }
    let old = directory.join("old");
    build(&tree, &directory.join("build"), &old)?;
    test(root, &old, plant)
}

fn git(root: &Path, arguments: &[&str]) -> Result<String> {
    let done = Command::new("git").args(arguments).current_dir(root).stderr(Stdio::inherit()).output()?;
    if !done.status.success() {
        return Err(format!("git {}: {}", arguments.join(" "), done.status).into());
    }
    Ok(String::from_utf8(done.stdout)?.trim().to_owned())
}

fn resolved(root: &Path, commit: &str) -> Result<String> {
    git(root, &["rev-parse", "--verify", "--quiet", "--end-of-options", &format!("{commit}^{{commit}}")])
        .map_err(|_| format!("{commit} is no commit of this repository: name one of `git log`, e.g. HEAD~20").into())
}

/// Its tag.
pub(crate) fn newest_release(root: &Path) -> Result<Option<String>> {
    let tags = git(root, &["tag", "--list", "v*", "--merged", "HEAD", "--sort=-version:refname"])?;
    Ok(tags.lines().next().map(str::to_owned))
}

fn default(root: &Path) -> Result<String> {
    if let Some(tag) = newest_release(root)? {
        return resolved(root, &tag);
    }
    let changed = git(root, &[&["log", "-1", "--format=%H", "--"], &SHARED[..]].concat())?;
    resolved(root, &format!("{changed}^"))
}

fn check_out(root: &Path, tree: &Path, commit: &str) -> Result<()> {
    let path = tree.to_str().ok_or("the path of this tree is no text")?;
    if tree.join(".git").exists() {
        git(tree, &["checkout", "--quiet", "--force", "--detach", commit])?;
    } else {
        git(root, &["worktree", "prune"])?;
        git(root, &["worktree", "add", "--quiet", "--force", "--detach", path, commit])?;
    }
    Ok(())
}

/// The source with another number of the lane layout.
fn planted(source: &str) -> Result<String> {
    let line = source.lines().find(|line| line.starts_with(NUMBER));
    let line = line.ok_or_else(|| format!("{LAYOUT} of that commit has no line {NUMBER:?}: name a later COMMIT"))?;
    Ok(source.replace(line, &format!("{NUMBER}{PLANTED};")))
}

/// Builds programs and libraries of that tree, and copies them. All commits share one directory of builds.
fn build(tree: &Path, target: &Path, to: &Path) -> Result<()> {
    println!("\n==> build of the old version");
    if !packages(tree).env("CARGO_TARGET_DIR", target).status()?.success() {
        return Err("the old version does not build: name a later COMMIT".into());
    }
    if to.exists() {
        fs::remove_dir_all(to)?;
    }
    fs::create_dir_all(to)?;
    for (package, file) in PACKAGES {
        // A package that is there may have been built under another name.
        let built = target.join("debug").join(file);
        if has(tree, package) && built.exists() {
            fs::copy(built, to.join(file)).map_err(|error| format!("{file}: {error}"))?;
        } else {
            println!("the old version has no {file} of {package}: its programs are left out");
        }
    }
    Ok(())
}

fn has(tree: &Path, package: &str) -> bool {
    directory_of(tree, package).is_some()
}

/// Where the package stands in that tree: another commit may have it in another place.
fn directory_of(tree: &Path, package: &str) -> Option<PathBuf> {
    let packages = MetadataCommand::new().current_dir(tree).no_deps().exec().ok()?.packages;
    let found = packages.into_iter().find(|found| found.name.as_str() == package)?;
    Some(found.manifest_path.parent()?.as_std_path().to_owned())
}

fn packages(tree: &Path) -> Command {
    let mut command = cargo(tree);
    command.args(["build", "--quiet", "--locked"]);
    for (package, _) in PACKAGES.iter().filter(|(package, _)| has(tree, package)) {
        command.args(["--package", package]);
    }
    command
}

fn test(root: &Path, old: &Path, plant: bool) -> Result<bool> {
    println!("\n==> build of this version");
    if !packages(root).status()?.success() {
        return Ok(false);
    }
    println!("\n==> services and programs of both versions");
    let mut command = cargo(root);
    command.args(["test", "--quiet", "--package", "sidecore-cli", "--test", "servers", "--", "--nocapture"]);
    command.args(["--test-threads", "1", "upgrade::"]).env("SIDECORE_UPGRADE_OLD", old);
    command.env("SIDECORE_TESTS_BUILT", "1");
    if plant {
        command.env("SIDECORE_UPGRADE_PLANTED", PLANTED.to_string());
    }
    Ok(command.status()?.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_planted_number_replaces_the_present_one() -> Result<()> {
        let source = fs::read_to_string(crate::root()?.join("base/core").join(LAYOUT))?;
        let other = planted(&source)?;
        assert!(!source.contains(&format!("{NUMBER}{PLANTED};")) && other.contains(&format!("{NUMBER}{PLANTED};\n")));
        assert_eq!(source.lines().count(), other.lines().count());
        assert!(planted("pub const OTHER: u32 = 1;\n").is_err());
        Ok(())
    }

    #[test]
    fn what_both_versions_share_are_files_of_ours() -> Result<()> {
        let root = crate::root()?;
        assert_eq!(SHARED.iter().filter(|path| !root.join(path).exists()).count(), 0);
        Ok(())
    }
}
