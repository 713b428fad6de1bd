//! `packaging/install` and `packaging/uninstall` below a directory, as a package is made.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

const PROJECT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// A directory to install below, and one with what cargo built.
struct Place(TempDir);

impl Place {
    fn new() -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        fs::create_dir(place.built()).unwrap();
        for file in ["sidecore", "libsidecore_openssl.so"] {
            // What is in them plays no part here.
            fs::write(place.built().join(file), file).unwrap();
        }
        place
    }

    fn built(&self) -> PathBuf {
        self.0.path().join("built")
    }

    fn root(&self) -> PathBuf {
        self.0.path().join("root")
    }

    fn script(&self, name: &str, arguments: &[&Path]) -> Output {
        let mut command = Command::new(Path::new(PROJECT).join("packaging").join(name));
        command.args(arguments).env("DESTDIR", self.root()).output().unwrap()
    }

    fn done(&self, name: &str, arguments: &[&Path]) {
        let done = self.script(name, arguments);
        assert!(done.status.success(), "{name}: {}", String::from_utf8_lossy(&done.stderr));
    }

    /// The files below the root, in order.
    fn files(&self) -> Vec<String> {
        let mut files = Vec::new();
        let mut left = vec![self.root()];
        while let Some(directory) = left.pop() {
            for entry in fs::read_dir(directory).unwrap() {
                let entry = entry.unwrap();
                if entry.file_type().unwrap().is_dir() {
                    left.push(entry.path());
                } else {
                    files.push(entry.path().strip_prefix(self.root()).unwrap().display().to_string());
                }
            }
        }
        files.sort();
        files
    }
}

#[test]
fn what_is_installed_below_a_directory_is_taken_away_again_but_for_what_is_the_operators() {
    let place = Place::new();
    place.done("install", &[&place.built()]);
    let files = place.files();
    let wanted = [
        "usr/bin/sidecore",
        "usr/lib/sidecore/sidecore.so",
        "usr/lib/systemd/system/sidecore.service",
        "usr/lib/sysusers.d/sidecore.conf",
        "etc/ssl/openssl-sidecore.cnf",
        "etc/sidecore/sidecore.toml",
    ];
    assert!(wanted.iter().all(|file| files.iter().any(|found| found == file)), "{files:?}");
    let module = files.iter().find(|file| file.ends_with("ossl-modules/sidecore.so")).unwrap();
    let openssl = fs::read_to_string(place.root().join("etc/ssl/openssl-sidecore.cnf")).unwrap();
    assert!(openssl.contains(&format!("\nmodule = /{module}\n")), "{openssl}");
    // An upgrade keeps what the operator changed.
    let configuration = place.root().join("etc/sidecore/sidecore.toml");
    fs::write(&configuration, "balance = 'sed'\n").unwrap();
    place.done("install", &[&place.built()]);
    assert_eq!(place.files(), files);
    assert_eq!(fs::read_to_string(&configuration).unwrap(), "balance = 'sed'\n");
    place.done("uninstall", &[]);
    assert_eq!(place.files(), ["etc/sidecore/sidecore.toml", "etc/sidecore/sockets.toml"]);
    place.done("install", &[&place.built()]);
    place.done("uninstall", &[Path::new("--purge")]);
    assert_eq!(place.files(), [""; 0]);
}

#[test]
fn what_cannot_be_installed_is_said_before_anything_is_changed() {
    let place = Place::new();
    fs::remove_file(place.built().join("libsidecore_openssl.so")).unwrap();
    let refused = place.script("install", &[&place.built()]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(refused.status.code() == Some(2) && said.contains("cargo build --release"), "{said}");
    assert!(!place.root().exists());
    let refused = place.script("uninstall", &[Path::new("--all")]);
    assert_eq!(refused.status.code(), Some(2));
}
