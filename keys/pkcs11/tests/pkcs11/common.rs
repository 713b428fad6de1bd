//! A service with keys, and programs that load the module.

use pkcs8::der::pem::{LineEnding, encode_string};
use sidecore::client::{Admin, Options};
use sidecore::config::{Config, CreatorsConfig, KeysConfig};
use sidecore::keys::{Acl, KeyCommand, Kind};
use sidecore::service::Service;
use sidecore_testing::copy_program;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

/// A command that runs longer hangs, seconds.
const TIME_LIMIT_S: &str = "300";

pub(crate) const KEYS: [(&str, Kind); 5] = [
    ("rsa2048", Kind::Rsa2048),
    ("p256", Kind::P256),
    ("p384", Kind::P384),
    ("ed25519", Kind::Ed25519),
    ("mldsa65", Kind::MlDsa65),
];

/// A user without rights, and its group.
pub(crate) const NOBODY: u32 = 65_534;

pub(crate) struct Site {
    pub(crate) service: Option<Service>,
    keys: KeysConfig,
    directory: TempDir,
}

pub(crate) struct Said {
    /// Of standard output and standard error.
    pub(crate) text: String,
    pub(crate) ok: bool,
}

impl Site {
    pub(crate) fn with(names: &[&str]) -> Self {
        Self::of(names, KeysConfig::default())
    }

    /// Members of the group may have keys of their own.
    pub(crate) fn with_creators(group: u32) -> Self {
        let keys = KeysConfig { creators: CreatorsConfig { gids: vec![group], per_user: 4 }, ..KeysConfig::default() };
        Self::of(&[], keys)
    }

    fn of(names: &[&str], keys: KeysConfig) -> Self {
        let mut site = Self { service: None, keys, directory: tempfile::tempdir().unwrap() };
        site.start();
        for (name, kind) in KEYS.into_iter().filter(|(name, _)| names.contains(name)) {
            site.generate(name, kind);
        }
        fs::write(site.path("message"), "a message to sign").unwrap();
        copy_program(module(), site.module());
        site
    }

    pub(crate) fn start(&mut self) {
        self.service = None;
        let config = Config { socket: self.path("socket"), keys: self.keys.clone(), ..Config::default() };
        self.service = Some(Service::start(config).unwrap());
    }

    pub(crate) fn generate(&self, name: &str, kind: Kind) {
        let command = KeyCommand::Generate { name: name.to_owned(), kind, acl: Acl::default() };
        self.admin().keys(command).unwrap();
        self.write_public(name);
    }

    pub(crate) fn write_public(&self, name: &str) {
        let public = self.admin().key_info(name).unwrap().public;
        let pem = encode_string("PUBLIC KEY", LineEnding::LF, &public).unwrap();
        fs::write(self.path(&format!("{name}.pub")), pem).unwrap();
    }

    /// Lets other users reach service and files.
    pub(crate) fn open_to_all(&self) {
        for open in ["", "message", "libsidecore_pkcs11.so", "socket"] {
            fs::set_permissions(self.path(open), Permissions::from_mode(0o777)).unwrap();
        }
    }

    /// A command of the user [`NOBODY`].
    pub(crate) fn nobody(&self, program: &str, args: &[&str]) -> Said {
        self.any("setpriv", &[&["--reuid=65534", "--regid=65534", "--clear-groups", program], args].concat())
    }

    /// Writes two certificates to files: that of a key, and that of its authority.
    pub(crate) fn certificates(&self, name: &str) {
        let (public, own) = (format!("{name}.pub"), format!("{name}.crt"));
        if !self.path("ca.crt").exists() {
            let ca = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=authority", "-days", "30"];
            self.ok("openssl", &[&ca[..], &["-keyout", "ca.key", "-out", "ca.crt"]].concat());
            fs::write(self.path("extensions"), "subjectAltName=DNS:localhost\n").unwrap();
        }
        let subject = format!("/CN={name}");
        let make = ["x509", "-new", "-force_pubkey", &public, "-subj", &subject, "-days", "30", "-CA", "ca.crt"];
        self.ok("openssl", &[&make[..], &["-CAkey", "ca.key", "-extfile", "extensions", "-out", &own]].concat());
        for file in [own.as_str(), "ca.crt"] {
            self.ok("openssl", &["x509", "-in", file, "-outform", "DER", "-out", &format!("{file}.der")]);
        }
    }

    /// As [`Site::certificates`]; they are stored with the key.
    pub(crate) fn certify(&self, name: &str) {
        self.certificates(name);
        let mut admin = self.admin();
        for (file, more) in [(format!("{name}.crt.der"), true), ("ca.crt.der".to_owned(), false)] {
            let certificate = fs::read(self.path(&file)).unwrap();
            admin.keys(KeyCommand::AddCertificate { name: name.to_owned(), certificate, more }).unwrap();
        }
    }

    pub(crate) fn admin(&self) -> Admin {
        Admin::connect(&Options { socket: self.path("socket"), ..Options::default() }).unwrap()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// A copy of the module for this site: a library with variables of its own.
    pub(crate) fn module(&self) -> PathBuf {
        self.path("libsidecore_pkcs11.so")
    }

    pub(crate) fn command(&self, program: &str, args: &[&str]) -> Command {
        let mut command = Command::new("timeout");
        command.args(["-k", "5", TIME_LIMIT_S, program]).args(args).current_dir(self.directory.path());
        command.env("SIDECORE_SOCKET", self.path("socket")).env("HOME", self.path("")).stdin(Stdio::null());
        command
    }

    pub(crate) fn any(&self, program: &str, args: &[&str]) -> Said {
        let Output { status, stdout, stderr } = self.command(program, args).output().unwrap();
        let text = String::from_utf8_lossy(&[stdout, stderr].concat()).into_owned();
        let code = status.code();
        assert_ne!(code, Some(127), "no {program} here: xtask/packages.txt names its package");
        assert!(matches!(code, Some(0..=123)), "{program} {args:?} died or hung: {status} {text}");
        Said { text, ok: status.success() }
    }

    pub(crate) fn ok(&self, program: &str, args: &[&str]) -> String {
        let said = self.any(program, args);
        assert!(said.ok, "{program} {args:?}: {}", said.text);
        said.text
    }

    /// Hexadecimal identifier of the objects with this label.
    pub(crate) fn id(&self, label: &str) -> String {
        let said = self.tool(&["-O"]);
        let after = said.split(&format!("label:      {label}\n")).nth(1).unwrap();
        after.split("ID:").nth(1).and_then(|rest| rest.split_whitespace().next()).unwrap().to_owned()
    }

    /// `pkcs11-tool` with the module.
    pub(crate) fn tool(&self, args: &[&str]) -> String {
        let module = self.module();
        self.ok("pkcs11-tool", &[&["--module", module.to_str().unwrap()], args].concat())
    }
}

fn module() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let module = test.parent().map(|directory| directory.join("libsidecore_pkcs11.so")).unwrap_or_default();
    assert!(Path::new(&module).exists(), "no module at {}: cargo build -p sidecore-pkcs11", module.display());
    module
}

pub(crate) fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0)
}
