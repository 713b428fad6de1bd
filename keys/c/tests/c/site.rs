//! A service with keys, and programs that are built against the library.

use sidecore::client::{Admin, Options};
use sidecore::config::{Config, KeysConfig};
use sidecore::keys::uri::Uri;
use sidecore::keys::{Acl, KeyCommand, Kind};
use sidecore::service::Service;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use tempfile::TempDir;

/// A program that runs longer hangs, seconds.
const TIME_LIMIT_S: &str = "120";

pub(crate) const KEYS: [(&str, Kind); 5] = [
    ("rsa2048", Kind::Rsa2048),
    ("p256", Kind::P256),
    ("p384", Kind::P384),
    ("ed25519", Kind::Ed25519),
    ("mldsa65", Kind::MlDsa65),
];

/// The name that programs look for.
pub(crate) const VERSION: &str = "libsidecore.so.0";

pub(crate) struct Site {
    pub(crate) service: Option<Service>,
    directory: TempDir,
}

impl Site {
    /// The keys of these names, for each the file `NAME.pub`, and `NAME.pem` with its name.
    pub(crate) fn with(names: &[&str]) -> Self {
        let mut site = Self { service: None, directory: tempfile::tempdir().unwrap() };
        site.start();
        for (name, kind) in KEYS.into_iter().filter(|(name, _)| names.contains(name)) {
            site.keys(KeyCommand::Generate { name: name.to_owned(), kind, acl: Acl::default() });
            let public = site.admin().key_info(name).unwrap().public;
            fs::write(site.path(&format!("{name}.der")), &public).unwrap();
            let uri = Uri::new(name).unwrap().with_public(public).unwrap();
            fs::write(site.path(&format!("{name}.pem")), uri.to_pem()).unwrap();
        }
        symlink(library(), site.path("libsidecore.so")).unwrap();
        symlink(library(), site.path(VERSION)).unwrap();
        site
    }

    pub(crate) fn start(&mut self) {
        self.service = Some(Service::start(self.config()).unwrap());
    }

    pub(crate) fn config(&self) -> Config {
        fs::write(self.path("passphrase"), "correct horse battery staple\n").unwrap();
        fs::set_permissions(self.path("passphrase"), Permissions::from_mode(0o600)).unwrap();
        let keys = KeysConfig {
            directory: Some(self.path("keys")),
            passphrase_file: Some(self.path("passphrase")),
            ..KeysConfig::default()
        };
        Config { socket: self.path("socket"), keys, ..Config::default() }
    }

    pub(crate) fn admin(&self) -> Admin {
        Admin::connect(&Options { socket: self.path("socket"), ..Options::default() }).unwrap()
    }

    pub(crate) fn keys(&self, command: KeyCommand) {
        self.admin().keys(command).unwrap();
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Builds a program of this file below the crate.
    pub(crate) fn build(&self, source: &str, more: &[&str]) -> PathBuf {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(source);
        let program = self.path(source.file_stem().unwrap().to_str().unwrap());
        let mut command = Command::new("cc");
        command.args(["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-O1", "-pthread", "-I"]).arg(include());
        command.arg(&source).arg("-L").arg(self.path("")).arg("-lsidecore").args(more).arg("-o").arg(&program);
        run(&mut command);
        program
    }

    /// This program, with the service and a time limit.
    pub(crate) fn command(&self, program: &Path, arguments: &[&str]) -> Command {
        let mut command = Command::new("timeout");
        command.args(["-k", "5", TIME_LIMIT_S]).arg(program).args(arguments).current_dir(self.path(""));
        command.env("LD_LIBRARY_PATH", self.path("")).env("SIDECORE_SOCKET", self.path("socket"));
        command.stdin(Stdio::null());
        command
    }

    /// Output of this program, which succeeds.
    pub(crate) fn says(&self, program: &Path, arguments: &[&str]) -> String {
        String::from_utf8(run(&mut self.command(program, arguments)).stdout).unwrap().trim().to_owned()
    }

    /// Whether OpenSSL verifies it.
    pub(crate) fn verifies(&self, key: &str, options: &[&str], message: &[u8], signature: &[u8]) -> bool {
        fs::write(self.path("message"), message).unwrap();
        fs::write(self.path("signature"), signature).unwrap();
        let mut command = Command::new("openssl");
        command.args(["pkeyutl", "-verify", "-pubin", "-keyform", "DER", "-inkey", &format!("{key}.der"), "-rawin"]);
        command.args(options).args(["-in", "message", "-sigfile", "signature"]).current_dir(self.path(""));
        command.output().expect("apt-get install openssl").status.success()
    }
}

pub(crate) fn include() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/include"))
}

pub(crate) fn library() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    let library = BUILT.get_or_init(|| {
        let test = std::env::current_exe().unwrap();
        let directory = test.ancestors().nth(2).unwrap();
        // `cargo xtask test` has built everything, and sets this.
        if std::env::var_os("SIDECORE_TESTS_BUILT").is_none() {
            let mut cargo = Command::new(env!("CARGO"));
            cargo
                .args(["build", "--quiet", "--lib", "--package", "sidecore-c"])
                .current_dir(env!("CARGO_MANIFEST_DIR"));
            if directory.ends_with("release") {
                cargo.arg("--release");
            }
            run(&mut cargo);
        }
        directory.join("libsidecore.so")
    });
    assert!(library.exists(), "no library at {}: cargo build -p sidecore-c", library.display());
    library.clone()
}

/// The output of a command that succeeds.
pub(crate) fn run(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("{error}; apt-get install gcc g++: {command:?}"));
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {} {told}", output.status);
    output
}
