//! Keys that stay in the service: their names, kinds, and who may use them.
//!
//! A session on a stored key is opened with [`crate::spec::KeyMaterial::Stored`]. No message and no request
//! returns a private key.

pub mod pem;
pub mod uri;

use crate::spec::{Scheme, Secret};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Longest name of a key, bytes.
pub const MAX_NAME: usize = 64;
/// Most users, and most groups, that may use one key.
pub const MAX_ACL: usize = 64;

/// What a key is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Kind {
    /// RSA with a modulus of 2048 bits.
    Rsa2048,
    /// RSA with a modulus of 3072 bits.
    Rsa3072,
    /// RSA with a modulus of 4096 bits.
    Rsa4096,
    /// ECDSA and ECDH on P-256.
    P256,
    /// ECDSA and ECDH on P-384.
    P384,
    /// Ed25519.
    Ed25519,
    /// X25519.
    X25519,
    /// ML-KEM-768.
    MlKem768,
    /// ML-DSA-65.
    MlDsa65,
    /// RSA with a modulus of 6144 bits.
    Rsa6144,
    /// RSA with a modulus of 8192 bits.
    Rsa8192,
    /// ECDSA and ECDH on P-521.
    P521,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 12] = [
        Self::Rsa2048,
        Self::Rsa3072,
        Self::Rsa4096,
        Self::Rsa6144,
        Self::Rsa8192,
        Self::P256,
        Self::P384,
        Self::P521,
        Self::Ed25519,
        Self::X25519,
        Self::MlKem768,
        Self::MlDsa65,
    ];

    /// Name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Rsa2048 => "rsa-2048",
            Self::Rsa3072 => "rsa-3072",
            Self::Rsa4096 => "rsa-4096",
            Self::Rsa6144 => "rsa-6144",
            Self::Rsa8192 => "rsa-8192",
            Self::P256 => "p-256",
            Self::P384 => "p-384",
            Self::P521 => "p-521",
            Self::Ed25519 => "ed25519",
            Self::X25519 => "x25519",
            Self::MlKem768 => "ml-kem-768",
            Self::MlDsa65 => "ml-dsa-65",
        }
    }

    /// Whether it is one of RSA.
    pub fn is_rsa(self) -> bool {
        matches!(self, Self::Rsa2048 | Self::Rsa3072 | Self::Rsa4096 | Self::Rsa6144 | Self::Rsa8192)
    }

    /// Whether a key of this kind can serve a session of this scheme.
    pub fn does(self, scheme: &Scheme) -> bool {
        match scheme {
            Scheme::RsaSignature { .. } | Scheme::RsaDecryption { .. } | Scheme::RsaEncryption { .. } => self.is_rsa(),
            Scheme::Ecdsa { .. } | Scheme::EcdsaRaw | Scheme::Ecdh => {
                matches!(self, Self::P256 | Self::P384 | Self::P521)
            }
            Scheme::Ed25519 => self == Self::Ed25519,
            Scheme::X25519 => self == Self::X25519,
            Scheme::MlKem768 => self == Self::MlKem768,
            Scheme::MlDsa65 => self == Self::MlDsa65,
            Scheme::Noop | Scheme::Cipher(_) | Scheme::Digest(_) | Scheme::Hmac(_) => false,
        }
    }
}

/// Where the private part of a key is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Site {
    /// In this service.
    #[default]
    Here,
    /// In services on other machines, which a gateway asks: see [`crate::gateway`].
    Elsewhere,
    /// In both.
    Both,
}

impl Site {
    /// In tables and in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Here => "here",
            Self::Elsewhere => "remote",
            Self::Both => "here and remote",
        }
    }
}

/// Who may use a key, beside root and the service's own user: whoever is of one of these users or groups.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Acl {
    /// Users.
    pub uids: Vec<u32>,
    /// Groups.
    pub gids: Vec<u32>,
}

impl Acl {
    /// Whether a process of this user and these groups may use the key.
    pub fn permits(&self, uid: u32, gids: &[u32]) -> bool {
        self.uids.contains(&uid) || gids.iter().any(|gid| self.gids.contains(gid))
    }

    /// These and those of `add`, without those of `remove`; each once, in order.
    #[must_use]
    pub fn changed(&self, add: &Self, remove: &Self) -> Self {
        Self { uids: changed(&self.uids, &add.uids, &remove.uids), gids: changed(&self.gids, &add.gids, &remove.gids) }
    }
}

/// What everybody who may use a key may know of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyInfo {
    /// Its name.
    pub name: String,
    /// What it is.
    pub kind: Kind,
    /// Its public part: a `SubjectPublicKeyInfo` in DER.
    pub public: Vec<u8>,
}

/// A line of the list of keys.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyEntry {
    /// Its name.
    pub name: String,
    /// What it is.
    pub kind: Kind,
    /// Who may use it.
    pub acl: Acl,
    /// It is in the service's directory, too. `false`: it is gone when the service ends.
    pub at_rest: bool,
    /// Where its private part is.
    pub site: Site,
    /// For how long no request for it was seen: since the last one, since the service started, or since the key is there.
    pub idle_seconds: u64,
}

/// What `sidecore keys` asks. Only for the service's own user and root.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub enum KeyCommand {
    /// Store this key. The answer is its entry.
    Import {
        /// Under this name, which is free.
        name: String,
        /// Private key: PKCS#8 in DER.
        pkcs8: Secret,
        /// Who may use it.
        acl: Acl,
    },
    /// Make a key and store it. The answer is its entry.
    Generate {
        /// Under this name, which is free.
        name: String,
        /// Of this kind.
        kind: Kind,
        /// Who may use it.
        acl: Acl,
    },
    /// The keys with names after this one, as many as a message holds.
    List {
        /// Empty: from the first on.
        after: String,
    },
    /// Put this key in the place of another, in one step; who may use it stays. Requests that were begun are finished with the old
    /// one, its sessions are closed.
    Replace {
        /// Under this name, which the old one has.
        name: String,
        /// Private key: PKCS#8 in DER.
        pkcs8: Secret,
    },
    /// Delete the key. Its sessions are closed.
    Delete {
        /// Its name.
        name: String,
    },
    /// These may use the key from now on, and nobody else. Sessions of those who no longer may are closed.
    SetAcl {
        /// Its name.
        name: String,
        /// Who may use it.
        acl: Acl,
    },
    /// Some may use the key as well from now on, or no longer; all others as before. Sessions of those who no longer may
    /// are closed.
    ChangeAcl {
        /// Its name.
        name: String,
        /// Who may use it as well.
        add: Acl,
        /// Who may no longer use it, also if named in `add`.
        remove: Acl,
    },
    /// Seal the keys at rest anew, under this passphrase. The answer says where the service reads it at its next start.
    ChangePassphrase {
        /// The new one.
        passphrase: Secret,
    },
    /// Store the public part of a key that only services on other machines have. The answer is its entry.
    ImportPublic {
        /// Under this name, which is free here, and which it has there.
        name: String,
        /// Its public part: a `SubjectPublicKeyInfo` in DER.
        public: Vec<u8>,
        /// Who may use it.
        acl: Acl,
    },
    /// Services on other machines have the key as well, under its name, and may be asked; or no longer.
    Share {
        /// Its name.
        name: String,
        /// They have it as well.
        also: bool,
    },
}

fn changed(ids: &[u32], add: &[u32], remove: &[u32]) -> Vec<u32> {
    let all: BTreeSet<u32> = ids.iter().chain(add).copied().filter(|id| !remove.contains(id)).collect();
    all.into_iter().collect()
}

/// What names no key: says why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NameError(String);

/// Checks a key's name: it is also a file's name and part of a URI.
///
/// # Errors
/// Says what a name may be.
pub fn check_name(name: &str) -> Result<(), NameError> {
    let first = name.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric());
    let rest = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
    if first && rest && name.len() <= MAX_NAME {
        return Ok(());
    }
    let name: String = name.chars().take(80).collect();
    let says = "letters, digits, '-', '_' and '.', the first a letter or digit";
    Err(NameError(format!("key name {name:?}: use 1 to {MAX_NAME} {says}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_file_names_and_nothing_else() {
        for good in ["a", "www.example.org", "Key-2_b", &"x".repeat(MAX_NAME)] {
            assert_eq!(check_name(good), Ok(()), "{good}");
        }
        for bad in ["", ".", "..", "-a", "a/b", "a b", "a\0", "ä", "a%2e", &"x".repeat(MAX_NAME + 1)] {
            assert!(check_name(bad).is_err(), "{bad}");
        }
        assert!(check_name("../etc").unwrap_err().to_string().contains("letters, digits"));
    }

    #[test]
    fn kinds_have_names_of_their_own() {
        let names: std::collections::HashSet<_> = Kind::ALL.iter().map(|kind| kind.name()).collect();
        assert_eq!(names.len(), Kind::ALL.len());
    }
}
