//! A service with keys and their certificates, and both ends of a handshake in memory.

use rustls::client::WebPkiServerVerifier;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::server::{ResolvesServerCert, WebPkiClientVerifier};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::version::TLS13;
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection, SupportedProtocolVersion};
use sidecore::client::Admin;
use sidecore::config::{Config, KeysConfig};
use sidecore::keys::{Acl, KeyCommand};
use sidecore::service::Service;
use sidecore::spec::Secret;
use sidecore_rustls::Options;
use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

/// Names, and the options of `openssl genpkey` that make such a key.
pub(crate) const KINDS: [(&str, &[&str]); 6] = [
    ("rsa2048", &["-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"]),
    ("rsa3072", &["-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:3072"]),
    ("p256", &["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"]),
    ("p384", &["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-384"]),
    ("p521", &["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-521"]),
    ("ed25519", &["-algorithm", "ED25519"]),
];

pub(crate) struct Site {
    pub(crate) service: Option<Service>,
    directory: TempDir,
}

impl Site {
    /// The keys of these names, with their certificates.
    pub(crate) fn with(names: &[&str]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        // Another user reaches the socket.
        fs::set_permissions(directory.path(), Permissions::from_mode(0o755)).unwrap();
        let mut site = Self { service: None, directory };
        site.start();
        for name in names {
            let pkcs8 = site.make(name, name);
            let command = KeyCommand::Import { name: (*name).to_owned(), pkcs8, acl: Acl::default() };
            site.admin().keys(command).unwrap();
            site.certify(name, &site.certificate(name));
        }
        site
    }

    pub(crate) fn start(&mut self) {
        fs::write(self.path("passphrase"), "correct horse battery staple\n").unwrap();
        fs::set_permissions(self.path("passphrase"), Permissions::from_mode(0o600)).unwrap();
        let keys = KeysConfig {
            directory: Some(self.path("keys")),
            passphrase_file: Some(self.path("passphrase")),
            ..KeysConfig::default()
        };
        let config = Config { socket: self.path("socket"), socket_mode: 0o666, keys, ..Config::default() };
        self.service = Some(Service::start(config).unwrap());
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn options(&self) -> Options {
        let restart_wait = Duration::from_millis(200);
        Options { socket: self.path("socket"), restart_wait, ..Options::default() }
    }

    pub(crate) fn admin(&self) -> Admin {
        Admin::connect(&self.options()).unwrap()
    }

    pub(crate) fn keys(&self, command: KeyCommand) {
        self.admin().keys(command).unwrap();
    }

    /// Makes a key of that kind in PKCS#8, and its certificate `FILE.crt` for localhost.
    pub(crate) fn make(&self, kind: &str, file: &str) -> Secret {
        let (_, options) = KINDS.into_iter().find(|(known, _)| *known == kind).unwrap();
        let [der, key, certificate] = ["der", "key", "crt"].map(|kind| format!("{file}.{kind}"));
        // The system's configuration makes authorities, which rustls takes from no server.
        fs::write(self.path("openssl.cnf"), "[req]\ndistinguished_name = name\n[name]\n").unwrap();
        self.openssl(&[&["genpkey", "-out", &key][..], options].concat());
        self.openssl(&["pkcs8", "-topk8", "-nocrypt", "-in", &key, "-outform", "DER", "-out", &der]);
        let request = ["req", "-x509", "-new", "-config", "openssl.cnf", "-key", &key, "-subj", "/CN=localhost"];
        let rest = ["-addext", "subjectAltName=DNS:localhost", "-outform", "DER", "-out", &certificate];
        self.openssl(&[&request[..], &rest].concat());
        Secret::new(fs::read(self.path(&der)).unwrap())
    }

    pub(crate) fn certificate(&self, file: &str) -> CertificateDer<'static> {
        CertificateDer::from(fs::read(self.path(&format!("{file}.crt"))).unwrap())
    }

    pub(crate) fn certify(&self, name: &str, certificate: &CertificateDer<'_>) {
        let (name, certificate) = (name.to_owned(), certificate.to_vec());
        self.keys(KeyCommand::AddCertificate { name, certificate, more: false });
    }

    pub(crate) fn openssl(&self, arguments: &[&str]) {
        let output = Command::new("openssl").args(arguments).current_dir(self.directory.path()).output();
        let output = output.expect("apt-get install openssl");
        assert!(output.status.success(), "openssl {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

pub(crate) fn provider() -> Arc<CryptoProvider> {
    Arc::new(aws_lc_rs::default_provider())
}

fn roots<'a>(certificates: impl IntoIterator<Item = &'a CertificateDer<'static>>) -> Arc<RootCertStore> {
    let mut roots = RootCertStore::empty();
    certificates.into_iter().for_each(|certificate| roots.add(certificate.clone()).unwrap());
    Arc::new(roots)
}

/// Both ends, with one version of TLS.
pub(crate) struct Ends {
    client: ClientConnection,
    server: ServerConnection,
}

impl Ends {
    /// The server has this key, and the client trusts this certificate.
    pub(crate) fn new(
        certified: &CertifiedKey,
        trusted: &CertificateDer<'static>,
        version: &'static SupportedProtocolVersion,
    ) -> Self {
        let server = ServerConfig::builder_with_provider(provider()).with_protocol_versions(&[version]).unwrap();
        let key = Arc::new(SingleCertAndKey::from(certified.clone()));
        let server = server.with_no_client_auth().with_cert_resolver(key);
        let client = ClientConfig::builder_with_provider(provider()).with_protocol_versions(&[version]).unwrap();
        let client = client.with_root_certificates(roots([trusted])).with_no_client_auth();
        Self::of(client, server)
    }

    /// The server's key comes from there, and the client trusts these certificates.
    pub(crate) fn resolved(key: Arc<dyn ResolvesServerCert>, trusted: &[CertificateDer<'static>]) -> Self {
        let server = ServerConfig::builder_with_provider(provider()).with_protocol_versions(&[&TLS13]).unwrap();
        let server = server.with_no_client_auth().with_cert_resolver(key);
        let client = ClientConfig::builder_with_provider(provider()).with_protocol_versions(&[&TLS13]).unwrap();
        Self::of(client.with_root_certificates(roots(trusted)).with_no_client_auth(), server)
    }

    /// Both have this key, each trusts its certificate.
    pub(crate) fn mutual(certified: &CertifiedKey, version: &'static SupportedProtocolVersion) -> Self {
        let key = || Arc::new(SingleCertAndKey::from(certified.clone()));
        let trusted = &certified.cert[0];
        let clients = WebPkiClientVerifier::builder_with_provider(roots([trusted]), provider()).build().unwrap();
        let server = ServerConfig::builder_with_provider(provider()).with_protocol_versions(&[version]).unwrap();
        let server = server.with_client_cert_verifier(clients).with_cert_resolver(key());
        let servers = WebPkiServerVerifier::builder_with_provider(roots([trusted]), provider()).build().unwrap();
        let client = ClientConfig::builder_with_provider(provider()).with_protocol_versions(&[version]).unwrap();
        let client = client.with_webpki_verifier(servers).with_client_cert_resolver(key());
        Self::of(client, server)
    }

    fn of(client: ClientConfig, server: ServerConfig) -> Self {
        let name = ServerName::try_from("localhost").unwrap();
        let client = ClientConnection::new(Arc::new(client), name).unwrap();
        Self { client, server: ServerConnection::new(Arc::new(server)).unwrap() }
    }

    /// The handshake, and a message each way.
    pub(crate) fn talk(mut self) -> Result<(), rustls::Error> {
        while self.client.is_handshaking() || self.server.is_handshaking() {
            self.turn()?;
        }
        self.client.writer().write_all(b"question").unwrap();
        self.server.writer().write_all(b"answer").unwrap();
        self.turn()?;
        let mut read = [0; 8];
        self.server.reader().read_exact(&mut read).unwrap();
        assert_eq!(&read, b"question");
        self.client.reader().read_exact(&mut read[..6]).unwrap();
        assert_eq!(&read[..6], b"answer");
        Ok(())
    }

    fn turn(&mut self) -> Result<(), rustls::Error> {
        let mut bytes = Vec::new();
        while self.client.wants_write() {
            self.client.write_tls(&mut bytes).unwrap();
        }
        feed(&bytes, |rest| self.server.read_tls(rest));
        self.server.process_new_packets()?;
        bytes.clear();
        while self.server.wants_write() {
            self.server.write_tls(&mut bytes).unwrap();
        }
        feed(&bytes, |rest| self.client.read_tls(rest));
        self.client.process_new_packets().map(drop)
    }
}

fn feed(mut bytes: &[u8], mut read: impl FnMut(&mut dyn Read) -> std::io::Result<usize>) {
    while !bytes.is_empty() {
        assert_ne!(read(&mut bytes).unwrap(), 0);
    }
}
