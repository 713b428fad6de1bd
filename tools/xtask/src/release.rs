//! `cargo xtask release`: the files of a release, the same bytes from the same commit and compilers.
//!
//! Compilers write replacements of the machine's paths, and times are those of the commit.

mod statements;
mod targets;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use self::targets::{TARGETS, Target};
use crate::Result;
use crate::built::cargo;
use crate::tools;

/// Below the workspace.
const BUILD: &str = "target/release-build";
const FILES: &str = "target/release-files";
/// Directories below `target/package`, where `packaging/deb` leaves the files of each package.
const PACKAGES: [&str; 4] = ["sidecore", "sidecore-sockets", "sidecore-farm", "sidecore-lab"];
const SUMS: &str = "SHA256SUMS";
/// Written into each signature, so that it holds for nothing else.
const NAMESPACE: &str = "sidecore-release";

struct Release {
    root: PathBuf,
    commit: String,
    /// Of the commit, seconds since 1970.
    time: String,
    version: String,
    /// Of Rust, and of C for AWS-LC, one for each target.
    compilers: Vec<String>,
}

/// Makes the files of a release, in `target/release-files`. A key of OpenSSH signs their sums: its file, or the public
/// one of a key in an agent.
pub(crate) fn run(root: &Path, arguments: &[&str]) -> Result<bool> {
    let key = match arguments {
        [] => None,
        ["--sign", key] => Some(key_file(key)?),
        _ => return Err("usage: cargo xtask release [--sign KEY]".into()),
    };
    let here = Target::here()?;
    TARGETS.iter().try_for_each(Target::ensure)?;
    tools::DEB.ensure(root, &tools::path(root)?)?;
    let release = Release::of(root)?;
    let files = root.join(FILES);
    // From an earlier release; it may not exist.
    let _ = fs::remove_dir_all(&files);
    fs::create_dir_all(&files)?;
    TARGETS.iter().try_for_each(|target| release.build(target))?;
    // Pages of the manual are written by a program that runs here.
    let manuals = release.built(here).join("sidecore");
    TARGETS.iter().try_for_each(|target| release.pack(target, &manuals, &files))?;
    fs::copy(root.join("CHANGELOG.md"), files.join("CHANGELOG.md"))?;
    fs::write(files.join("sbom.json"), statements::dependencies(&release)?)?;
    let sums = sums(&files)?;
    fs::write(files.join("provenance.json"), statements::provenance(&release, &sums)?)?;
    fs::write(files.join(SUMS), self::sums(&files)?)?;
    if let Some(key) = key {
        sign(&key, &files)?;
    }
    println!("\n{FILES}:\n{}", fs::read_to_string(files.join(SUMS))?);
    Ok(true)
}

/// Found before a build of many minutes.
fn key_file(key: &str) -> Result<PathBuf> {
    fs::canonicalize(key).map_err(|error| format!("{key}: {error}: name a file of ssh-keygen after --sign").into())
}

/// Writes `SHA256SUMS.sig`, for `ssh-keygen -Y verify`.
fn sign(key: &Path, files: &Path) -> Result<()> {
    let mut sign = Command::new("ssh-keygen");
    succeed(sign.args(["-Y", "sign", "-n", NAMESPACE, "-f"]).arg(key).arg(files.join(SUMS)))
}

impl Release {
    fn of(root: &Path) -> Result<Self> {
        let git = |arguments: &[&str]| said(Command::new("git").args(arguments).current_dir(root));
        if !git(&["status", "--porcelain"])?.is_empty() {
            return Err(
                "a release is made of a commit, and files differ from it: commit or remove what `git status` names"
                    .into(),
            );
        }
        let version = |compiler: &str| said(Command::new(compiler).arg("--version").current_dir(root));
        let first_line = |text: String| text.lines().next().unwrap_or_default().to_owned();
        let names = TARGETS.map(|target| target.c_compiler());
        let compilers = ["rustc"].into_iter().chain(names.iter().map(String::as_str));
        Ok(Self {
            root: root.to_owned(),
            commit: git(&["rev-parse", "HEAD"])?,
            time: git(&["log", "-1", "--format=%ct"])?,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            compilers: compilers.map(|compiler| version(compiler).map(first_line)).collect::<Result<_>>()?,
        })
    }

    fn built(&self, target: &Target) -> PathBuf {
        self.root.join(BUILD).join(target.triple).join("release")
    }

    fn build(&self, target: &Target) -> Result<()> {
        let home = env::var("CARGO_HOME").or_else(|_| env::var("HOME").map(|home| format!("{home}/.cargo")))?;
        let replaced = [(self.root.display().to_string(), "/sidecore"), (home, "/cargo")];
        let flags = |option: &str| replaced.clone().map(|(path, name)| format!("{option}={path}={name}")).join(" ");
        let mut build = cargo(&self.root);
        build.args(["build", "--release", "--locked", "--target", target.triple]);
        build.env(target.linker_variable(), target.c_compiler());
        build.env("CARGO_TARGET_DIR", self.root.join(BUILD)).env("CARGO_INCREMENTAL", "0");
        build.env("RUSTFLAGS", flags("--remap-path-prefix")).env("CFLAGS", flags("-ffile-prefix-map"));
        succeed(build.env("SOURCE_DATE_EPOCH", &self.time))
    }

    /// The Debian packages, and all their files as one archive.
    fn pack(&self, target: &Target, manuals: &Path, files: &Path) -> Result<()> {
        let mut deb = Command::new(self.root.join("packaging/deb"));
        deb.arg(self.built(target)).args(["--target", target.triple, "--output"]).arg(files);
        deb.env("DEB_HOST_MULTIARCH", target.multiarch).env("MANUALS", manuals);
        deb.env("PATH", tools::path(&self.root)?).env("SOURCE_DATE_EPOCH", &self.time);
        succeed(&mut deb)?;
        let name = format!("sidecore-{}-{}-linux-gnu.tar.gz", self.version, target.processor);
        let mut tar = Command::new("tar");
        tar.args(["--create", "--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--mode=go-w"]);
        tar.arg(format!("--mtime=@{}", self.time)).arg("--use-compress-program=gzip --no-name --best");
        tar.arg(format!("--transform=s,^\\.,sidecore-{},", self.version)).arg("--file").arg(files.join(name));
        // No file is in two packages; their directories meet in the archive.
        for package in PACKAGES {
            tar.arg("--directory").arg(self.root.join("target/package").join(package)).arg(".");
        }
        succeed(&mut tar)
    }
}

/// Lines of a digest and a name, in the order of names, without the file of sums.
fn sums(files: &Path) -> Result<String> {
    let mut names = Vec::new();
    for file in fs::read_dir(files)? {
        names.push(file?.file_name());
    }
    names.sort();
    Ok(said(Command::new("sha256sum").args(names).current_dir(files))? + "\n")
}

/// The output of a command, without the end of its last line.
fn said(command: &mut Command) -> Result<String> {
    let words = format!("{command:?}");
    let done = command.stdin(Stdio::null()).output().map_err(|error| format!("{words}: {error}"))?;
    if !done.status.success() {
        return Err(format!("{words}: {}", String::from_utf8_lossy(&done.stderr).trim_end()).into());
    }
    Ok(String::from_utf8(done.stdout)?.trim_end().to_owned())
}

fn succeed(command: &mut Command) -> Result<()> {
    println!("$ {command:?}");
    let status = command.stdin(Stdio::null()).status().map_err(|error| format!("{command:?}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{command:?}: {status}").into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_is_not_there_and_other_words_are_refused_before_the_build() {
        let refused = |arguments: &[&str]| run(Path::new("/"), arguments).unwrap_err().to_string();
        assert!(
            refused(&["--sign", "/no/key"]).starts_with("/no/key: No such file"),
            "{}",
            refused(&["--sign", "/no/key"])
        );
        assert_eq!(refused(&["--sign"]), "usage: cargo xtask release [--sign KEY]");
    }

    #[test]
    fn sums_are_of_each_file_and_changed_ones_are_found_by_the_page_s_commands() -> Result<()> {
        let directory = env::temp_dir().join(format!("sidecore-release-{}", std::process::id()));
        let files = directory.join("files");
        fs::create_dir_all(&files)?;
        fs::write(files.join("b"), "b")?;
        fs::write(files.join("a"), "a")?;
        fs::write(files.join(SUMS), sums(&files)?)?;
        let key = directory.join("key");
        succeed(Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(&key))?;
        sign(&key, &files)?;
        let public = fs::read_to_string(key.with_extension("pub"))?;
        fs::write(files.join("sidecore-signers"), format!("releases {public}"))?;
        let page = fs::read_to_string(crate::root()?.join("SECURITY.md"))?;
        let (_, after) = page.split_once("## Check a release").ok_or("no such section")?;
        let script = after.split("```").nth(1).and_then(|block| block.strip_prefix("sh\n")).ok_or("no commands")?;
        let checks = || Command::new("sh").args(["-e", "-c", script]).current_dir(&files).stdin(Stdio::null()).output();
        let done = checks()?;
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        fs::write(files.join("b"), "c")?;
        assert!(!checks()?.status.success());
        // With sums that fit: the signature does not.
        let others = said(Command::new("sha256sum").args(["a", "b"]).current_dir(&files))? + "\n";
        fs::write(files.join(SUMS), others)?;
        assert!(!checks()?.status.success());
        fs::remove_dir_all(&directory)?;
        Ok(())
    }
}
