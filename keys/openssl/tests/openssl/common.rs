//! A service with keys, and the `openssl` command with and without the provider.

use pkcs8::der::pem::{LineEnding, encode_string};
use sidecore::client::{Admin, Options};
use sidecore::config::{Config, KeysConfig};
use sidecore::keys::uri::Uri;
use sidecore::keys::{Acl, KeyCommand, Kind};
use sidecore::service::Service;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

/// A command that runs longer hangs, seconds.
const TIME_LIMIT_S: &str = "120";

pub(crate) const KEYS: [(&str, Kind); 10] = [
    ("rsa2048", Kind::Rsa2048),
    ("rsa3072", Kind::Rsa3072),
    ("rsa4096", Kind::Rsa4096),
    ("p256", Kind::P256),
    ("rsa8192", Kind::Rsa8192),
    ("p384", Kind::P384),
    ("p521", Kind::P521),
    ("ed25519", Kind::Ed25519),
    ("x25519", Kind::X25519),
    ("mldsa65", Kind::MlDsa65),
];

const RSA_8192: &[u8] = include_bytes!("../../../service/src/engine/crypto/keys/test-rsa-8192.pkcs8.der");

pub(crate) struct Site {
    pub(crate) service: Option<Service>,
    explicit: Vec<String>,
    directory: TempDir,
}

pub(crate) struct Said {
    pub(crate) out: String,
    pub(crate) err: String,
    pub(crate) ok: bool,
}

impl Site {
    pub(crate) fn with(names: &[&str]) -> Self {
        let site = Self { service: None, explicit: Vec::new(), directory: tempfile::tempdir().unwrap() }.started();
        let mut admin = site.admin();
        for (name, kind) in KEYS.into_iter().filter(|(name, _)| names.contains(name)) {
            let (name, acl) = (name.to_owned(), Acl::default());
            admin
                .keys(match kind {
                    // Generating one takes a minute.
                    Kind::Rsa8192 => KeyCommand::Import { name: name.clone(), pkcs8: RSA_8192.into(), acl },
                    _ => KeyCommand::Generate { name: name.clone(), kind, acl },
                })
                .unwrap();
            let uri = Uri::new(&name).unwrap();
            // Files as `keys pem` wrote them before they had a public part, and as it writes them now.
            fs::write(site.path(&format!("{name}.old.pem")), uri.to_pem()).unwrap();
            let public = admin.key_info(&name).unwrap().public;
            let pem = encode_string("PUBLIC KEY", LineEnding::LF, &public).unwrap();
            fs::write(site.path(&format!("{name}.pub")), pem).unwrap();
            fs::write(site.path(&format!("{name}.pem")), uri.with_public(public).unwrap().to_pem()).unwrap();
        }
        fs::write(site.path("message"), "a message to sign").unwrap();
        site
    }

    fn started(mut self) -> Self {
        self.service = Some(Service::start(self.config()).unwrap());
        let cnf = include_str!("../../openssl-sidecore.cnf")
            .replace("#timeout_ms = 2000", "timeout_ms = 40000")
            .replace("module = sidecore.so", &format!("module = {}", module().display()))
            .replace("socket = /run/sidecore/sidecore.sock", &format!("socket = {}", self.path("socket").display()));
        fs::write(self.path("openssl.cnf"), &cnf).unwrap();
        let preferred = cnf.replace("providers = provider_sect", "providers = provider_sect\nalg_section = preferred");
        let preferred = format!("{preferred}\n[preferred]\ndefault_properties = ?provider=sidecore\n");
        fs::write(self.path("preferred.cnf"), preferred).unwrap();
        self
    }

    pub(crate) fn admin(&self) -> Admin {
        Admin::connect(&Options { socket: self.path("socket"), ..Options::default() }).unwrap()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn command(&self, cnf: &str, args: &[&str]) -> Command {
        let mut command = Command::new("timeout");
        command.args(["-k", "5", TIME_LIMIT_S, "openssl"]).args(args);
        command.current_dir(self.directory.path()).env("OPENSSL_CONF", cnf).stdin(Stdio::null());
        command
    }

    fn run(&self, cnf: &str, args: &[&str]) -> Said {
        let Output { status, stdout, stderr } = self.command(cnf, args).output().expect("install coreutils: timeout");
        let err = String::from_utf8_lossy(&stderr).into_owned();
        let code = status.code();
        assert_ne!(code, Some(127), "no `openssl` here: apt-get install openssl");
        assert_ne!(code, Some(124), "openssl {args:?} took more than {TIME_LIMIT_S} s");
        assert!(matches!(code, Some(0..=123)), "openssl {args:?} died: {status} {err}");
        Said { out: String::from_utf8_lossy(&stdout).into_owned(), err, ok: status.success() }
    }

    pub(crate) fn any(&self, args: &[&str]) -> Said {
        self.run("openssl.cnf", args)
    }

    pub(crate) fn ok(&self, args: &[&str]) -> Said {
        succeeded(self.run("openssl.cnf", args), args)
    }

    pub(crate) fn preferred(&self, args: &[&str]) -> Said {
        succeeded(self.run("preferred.cnf", args), args)
    }

    pub(crate) fn plain(&self, args: &[&str]) -> Said {
        succeeded(self.run("/dev/null", args), args)
    }

    pub(crate) fn plain_fails(&self, args: &[&str]) {
        assert!(!self.run("/dev/null", args).ok, "openssl {args:?} succeeded");
    }

    pub(crate) fn fails(&self, args: &[&str]) -> String {
        let said = self.run("openssl.cnf", args);
        assert!(!said.ok, "openssl {args:?} succeeded: {}", said.err);
        said.err
    }

    pub(crate) fn preferred_fails(&self, args: &[&str]) -> Said {
        let said = self.run("preferred.cnf", args);
        assert!(!said.ok, "openssl {args:?} succeeded: {}", said.err);
        said
    }

    pub(crate) fn restart(&mut self) {
        self.service = None;
        self.service = Some(Service::start(self.config()).unwrap());
    }

    /// Operations wait this long for a service that is away: on a loaded machine the next one's start takes seconds.
    pub(crate) fn waits_ms(&self, wait_ms: u32) {
        let cnf = fs::read_to_string(self.path("openssl.cnf")).unwrap();
        let (default, wanted) = ("#restart_wait_ms = 2000", format!("restart_wait_ms = {wait_ms}"));
        assert!(cnf.contains(default));
        fs::write(self.path("openssl.cnf"), cnf.replace(default, &wanted)).unwrap();
    }

    /// As if a program had all its other lanes in use.
    pub(crate) fn with_one_lane(mut self) -> Self {
        self.service = None;
        let mut config = self.config();
        config.limits.lanes_per_client = 1;
        self.service = Some(Service::start(config).unwrap());
        self
    }

    pub(crate) fn with_explicit_errors(mut self, key: &str) -> Self {
        self.explicit.push(key.to_owned());
        self.restart();
        self
    }

    pub(crate) fn config(&self) -> Config {
        fs::write(self.path("passphrase"), "correct horse battery staple\n").unwrap();
        fs::set_permissions(self.path("passphrase"), Permissions::from_mode(0o600)).unwrap();
        let keys = KeysConfig {
            directory: Some(self.path("keys")),
            passphrase_file: Some(self.path("passphrase")),
            explicit_decryption_errors: self.explicit.clone(),
            ..KeysConfig::default()
        };
        Config { socket: self.path("socket"), keys, ..Config::default() }
    }
}

fn succeeded(said: Said, args: &[&str]) -> Said {
    assert!(said.ok, "openssl {args:?}: {}", said.err);
    said
}

pub(crate) fn module() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let module = test.parent().map(|directory| directory.join("libsidecore_openssl.so")).unwrap_or_default();
    assert!(Path::new(&module).exists(), "no module at {}: cargo build -p sidecore-openssl", module.display());
    module
}
