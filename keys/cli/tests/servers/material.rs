//! Keys in files with their certificates, and the secret numbers in them.

use crate::programs::{program, run};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Rsa,
    P256,
    Ed25519,
}

impl Kind {
    pub(crate) const ALL: [Self; 3] = [Self::Rsa, Self::P256, Self::Ed25519];

    /// Also the key's name in the service.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Rsa => "rsa",
            Self::P256 => "p-256",
            Self::Ed25519 => "ed25519",
        }
    }

    fn algorithm(self) -> &'static [&'static str] {
        match self {
            Self::Rsa => &["RSA", "-pkeyopt", "rsa_keygen_bits:2048"],
            Self::P256 => &["EC", "-pkeyopt", "ec_paramgen_curve:P-256"],
            Self::Ed25519 => &["ED25519"],
        }
    }

    fn secrets(self) -> &'static [&'static str] {
        match self {
            Self::Rsa => &["privateExponent", "prime1", "prime2", "exponent1", "exponent2", "coefficient"],
            Self::P256 | Self::Ed25519 => &["priv"],
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Material {
    pub(crate) kind: Kind,
    pub(crate) key: PathBuf,
    pub(crate) certificate: PathBuf,
    /// Names and values, big-endian.
    pub(crate) secrets: Vec<(String, Vec<u8>)>,
}

impl Material {
    pub(crate) fn make(directory: &Path, kind: Kind) -> Self {
        let file = |what: &str| directory.join(format!("{}.{what}.pem", kind.name()));
        let (key, certificate) = (file("key"), file("certificate"));
        run(program("openssl").args(["genpkey", "-algorithm"]).args(kind.algorithm()).arg("-out").arg(&key))
            .expect("genpkey");
        run(program("openssl")
            .args(["req", "-x509", "-days", "2", "-subj", "/CN=localhost", "-addext"])
            .args(["subjectAltName=IP:127.0.0.1,DNS:localhost", "-key"])
            .arg(&key)
            .arg("-out")
            .arg(&certificate))
        .expect("req");
        let secrets = secrets(kind, &key);
        Self { kind, key, certificate, secrets }
    }
}

fn secrets(kind: Kind, key: &Path) -> Vec<(String, Vec<u8>)> {
    let text = run(program("openssl").args(["pkey", "-noout", "-text", "-in"]).arg(key)).expect("pkey");
    let mut numbers = numbers(&text);
    let number = |name: &&str| ((*name).to_owned(), numbers.remove(*name).unwrap_or_else(|| panic!("{name}: {text}")));
    kind.secrets().iter().map(number).collect()
}

/// Parses the numbers in the output of `openssl pkey -text`: a name and a colon, then indented lines of hexadecimal.
fn numbers(text: &str) -> BTreeMap<String, Vec<u8>> {
    let (mut numbers, mut name) = (BTreeMap::<String, Vec<u8>>::new(), String::new());
    for line in text.lines() {
        if line.starts_with(' ') {
            let bytes = line.trim().split(':').filter(|byte| !byte.is_empty());
            numbers.entry(name.clone()).or_default().extend(bytes.map(|byte| u8::from_str_radix(byte, 16).unwrap()));
        } else {
            line.split(':').next().unwrap_or(line).clone_into(&mut name);
        }
    }
    numbers
}
