//! The Debian packages on a bare Debian: installed, used by nginx with the README's lines, upgraded under load, removed
//! and purged.

use crate::guides::project;
use crate::library;
use crate::module;
use crate::programs::{Daemon, is_root, program, run, wait_for};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Limit for fetching and installing packages. No result depends on the duration.
const LONG: Duration = Duration::from_secs(1800);

fn block(page: &str, words: &str) -> Vec<String> {
    let text = std::fs::read_to_string(project().join(page)).unwrap();
    let (_, behind) = text.split_once(words).unwrap_or_else(|| panic!("{page} does not say {words:?}"));
    let block = behind.split("```text\n").nth(1).and_then(|block| block.split("```").next()).unwrap();
    block.lines().map(|line| line.split("   ").next().unwrap().trim_end().to_owned()).collect()
}

fn pasted(words: &str) -> &'static str {
    let (_, behind) = include_str!("../../../../README.md").split_once(words).unwrap();
    behind.split("```sh\n").nth(1).and_then(|block| block.split("```").next()).unwrap()
}

/// The files of packages: their names and bytes.
type Files = Vec<(OsString, Vec<u8>)>;

/// Builds the packages of that version once, and puts them into this directory. Their programs are the tests' builds, not
/// release builds.
fn packages(version: &'static str, to: &Path) {
    // The packages are assembled in one directory of the project.
    static MADE: Mutex<BTreeMap<&str, Files>> = Mutex::new(BTreeMap::new());
    std::fs::create_dir(to).unwrap();
    let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(packages) = made.get(version) {
        return packages.iter().for_each(|(name, package)| std::fs::write(to.join(name), package).unwrap());
    }
    for name in ["sidecore-lab", "sidecore-try", "sidecore-watch", "sidecore-remote", "sidecore-farm", "sidecore-agent"]
    {
        if !module::path().with_file_name(name).is_file() {
            library::file(name, name);
        }
    }
    if !module::path().with_file_name("sidecore-sockets").is_file() {
        library::file("sidecore-sockets-command", "sidecore-sockets");
    }
    library::built("sidecore-preload");
    library::built("sidecore-c");
    let built = module::path();
    let mut command = program("sh");
    command.arg(project().join("packaging/deb")).arg(built.parent().unwrap()).args(["--fast", "--quiet"]);
    finished("packaging/deb", command.args(["--deb-version", version, "--output"]).arg(to), &to.with_extension("log"));
    let files = std::fs::read_dir(to).unwrap().map(|file| file.unwrap());
    made.insert(version, files.map(|file| (file.file_name(), std::fs::read(file.path()).unwrap())).collect());
}

fn finished(name: &str, command: &mut Command, log: &Path) -> String {
    let mut daemon = Daemon::start(name, command, log);
    assert!(wait_for(LONG, || !daemon.lives()), "{name} hangs\n{}", daemon.log());
    assert!(daemon.status().is_some_and(|status| status.success()), "{name}\n{}", daemon.log());
    daemon.log()
}

pub(crate) struct Debian {
    scratch: tempfile::TempDir,
}

impl Debian {
    pub(crate) fn new() -> Self {
        assert!(is_root(), "the package is for root: run these tests as root, where namespaces can be made");
        for name in ["unshare", "ip", "debootstrap"] {
            program(name);
        }
        let debian = Self { scratch: tempfile::tempdir().unwrap() };
        std::fs::create_dir(debian.shared("")).unwrap();
        debian.write("words", include_str!("debian-words.sh"));
        // The commands of this block replace `systemctl`.
        debian.write("restart", &block("docs/install.md", "needs no drop-in of the guides").join("\n"));
        debian
    }

    fn shared(&self, name: &str) -> PathBuf {
        self.scratch.path().join("shared").join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        std::fs::write(self.shared(name), text).unwrap();
    }

    pub(crate) fn packages(&self, name: &str, version: &'static str) {
        packages(version, &self.shared(name));
    }

    /// Creates the system and runs the steps in it. `packages`: Debian packages that the steps may install. Returns the
    /// transcript.
    pub(crate) fn follow(&self, steps: &str, packages: &[&str], told: &[(&str, &str)]) -> String {
        self.write("steps", steps);
        let mut command = program("unshare");
        command.args(["--mount", "--propagation", "private"]).envs(told.iter().copied());
        command.arg(project().join("keys/cli/tests/servers/debian.sh")).arg(self.scratch.path());
        let mut daemon = Daemon::start("debian.sh", command.args(packages), &self.scratch.path().join("log"));
        assert!(wait_for(LONG, || !daemon.lives()), "debian.sh hangs\n{}", daemon.log());
        // systemd writes the service's output to a file.
        let said = std::fs::read_to_string(self.shared("transcript")).unwrap_or_else(|_| daemon.log());
        assert!(said.ends_with("--- all is done\n"), "{said}\n{}", daemon.log());
        said
    }
}

#[test]
fn a_bare_debian_installs_upgrades_and_removes_the_package_and_nginx_loses_no_handshake() {
    let debian = Debian::new();
    debian.packages("first", "0.1.0-2");
    debian.packages("second", "0.1.0-3");
    debian
        .write("move", &pasted("**Keys out of nginx in seven lines**").lines().take(3).collect::<Vec<_>>().join("\n"));
    debian.follow(include_str!("debian-steps.sh"), &["nginx-light", "openssl"], &[]);
}

#[test]
fn pasted_into_a_bare_debian_the_lines_of_the_readme_move_the_key_and_bring_it_back() {
    let debian = Debian::new();
    debian.packages("first", "0.1.0-2");
    debian.write("move", pasted("**Keys out of nginx in seven lines**"));
    debian.write("back", pasted("**And back**"));
    let said = debian.follow(include_str!("debian-readme-steps.sh"), &["nginx-light", "openssl"], &[("BOOT", "yes")]);
    let server = "ok     server: localhost:443 shook hands by the key \"www\", which signed for it: 1, in all: 2";
    assert!(said.contains(server), "{said}");
}

#[test]
fn one_package_of_all_parts_becomes_one_for_each_and_nothing_is_lost() {
    let debian = Debian::new();
    debian.packages("first", "0.1.0-2");
    debian.follow(include_str!("debian-parts-steps.sh"), &[], &[("BOOT", "yes")]);
}

#[test]
fn the_package_says_what_it_lacks_to_be_made() {
    let mut command = program("sh");
    command.arg(project().join("packaging/deb")).env("PATH", "/usr/bin:/bin").env("CARGO_HOME", "/nonexistent");
    let done = run(&mut command);
    assert!(!done.ok() && done.stderr.contains("cargo install cargo-deb --locked"), "{done:?}");
}
