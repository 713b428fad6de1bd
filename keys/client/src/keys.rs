//! Keys that stay in the service: their names, kinds, and who may use them.
//!
//! A session on a stored key is opened with [`crate::spec::KeyMaterial::Stored`]. No message and no request
//! returns a private key.

mod certificate;
pub mod pem;
pub mod transfer;
pub mod uri;
mod usable;
mod usage;

use crate::spec::{KeyToken, Scheme, Secret};
pub use certificate::{Certificate, DateError, Moment};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use transfer::{AclNames, Address, Receipt, Replace};
pub use usable::{
    MAX_CERTIFICATE, MAX_CERTIFICATES, MAX_ID, MAX_RATE, RateError, Terms, UsableKey, UsableKeys, parse_rate,
};
pub use usage::{Usage, UsageError};

/// Longest name of a key, bytes.
pub const MAX_NAME: usize = 64;
/// Limit of users, and of groups, that may use one key.
pub const MAX_ACL: usize = 64;

/// Algorithm and size of a key.
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

    /// Whether it is an RSA kind.
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

/// Location of a key's private part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Site {
    /// In this service.
    #[default]
    Here,
    /// In services on other machines, reached through a gateway: see [`crate::gateway`].
    Elsewhere,
    /// In both.
    Both,
}

impl Site {
    /// Name in tables and in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Here => "here",
            Self::Elsewhere => "remote",
            Self::Both => "here and remote",
        }
    }
}

/// Users and groups that may use a key, in addition to root and the service's own user.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Acl {
    /// Numbers of users.
    pub uids: Vec<u32>,
    /// Numbers of groups.
    pub gids: Vec<u32>,
}

impl Acl {
    /// Whether a process with this user and these groups may use the key.
    pub fn permits(&self, uid: u32, gids: &[u32]) -> bool {
        self.uids.contains(&uid) || gids.iter().any(|gid| self.gids.contains(gid))
    }

    /// The union with `add`, without `remove`; each number once, in order.
    #[must_use]
    pub fn changed(&self, add: &Self, remove: &Self) -> Self {
        Self { uids: changed(&self.uids, &add.uids, &remove.uids), gids: changed(&self.gids, &add.gids, &remove.gids) }
    }
}

/// Information on a key for its users.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyInfo {
    /// Its name.
    pub name: String,
    /// Its kind.
    pub kind: Kind,
    /// Its public part: a `SubjectPublicKeyInfo` in DER.
    pub public: Vec<u8>,
}

/// One entry of the list of keys.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyEntry {
    /// Its name.
    pub name: String,
    /// Its kind.
    pub kind: Kind,
    /// Users and groups that may use it.
    pub acl: Acl,
    /// It is also stored in the service's directory. `false`: it is lost when the service ends.
    pub at_rest: bool,
    /// Location of its private part.
    pub site: Site,
    /// Seconds without a request for it: since the last request, the service's start, or the key's creation.
    pub idle_seconds: u64,
}

/// Commands of `sidecore keys`. Only for the service's own user and root; some also for the users of `keys.creators`.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub enum KeyCommand {
    /// Store this key. The answer is its entry.
    Import {
        /// Its name, which must be free.
        name: String,
        /// Private key: PKCS#8 in DER.
        pkcs8: Secret,
        /// Users and groups that may use it.
        acl: Acl,
    },
    /// Make a key and store it. The answer is its entry.
    Generate {
        /// Its name, which must be free.
        name: String,
        /// Its kind.
        kind: Kind,
        /// Users and groups that may use it.
        acl: Acl,
    },
    /// List keys in the order of names, up to the size of a message.
    List {
        /// List only names after this one; empty: from the first.
        after: String,
    },
    /// Replace this key by another in one step; its access list stays. Requests that have begun finish with the old
    /// key; its sessions are closed.
    Replace {
        /// Name of the old key.
        name: String,
        /// Private key: PKCS#8 in DER.
        pkcs8: Secret,
    },
    /// Delete the key. Its sessions are closed.
    Delete {
        /// Its name.
        name: String,
    },
    /// Set the access list. Sessions of users who lose access are closed.
    SetAcl {
        /// Its name.
        name: String,
        /// Users and groups that may use it.
        acl: Acl,
    },
    /// Change the access list by these entries. Sessions of users who lose access are closed.
    ChangeAcl {
        /// Its name.
        name: String,
        /// Users and groups to add.
        add: Acl,
        /// Users and groups to remove, also if named in `add`.
        remove: Acl,
    },
    /// Seal the keys at rest under this passphrase. The answer names the file that the service reads at its next
    /// start.
    ChangePassphrase {
        /// The new passphrase.
        passphrase: Secret,
    },
    /// Store the public part of a key that only services on other machines hold. The answer is its entry.
    ImportPublic {
        /// Its name: free here, and the same on the other machines.
        name: String,
        /// Its public part: a `SubjectPublicKeyInfo` in DER.
        public: Vec<u8>,
        /// Users and groups that may use it.
        acl: Acl,
    },
    /// State whether services on other machines also hold the key, under the same name, and may be asked.
    Share {
        /// Its name.
        name: String,
        /// They hold it.
        also: bool,
    },
    /// Set the operations that the key may do. Its sessions for others are closed.
    SetUsage {
        /// Its name.
        name: String,
        /// The operations.
        usage: Usage,
    },
    /// A certificate of the key, after those that this connection has sent for it with `more`. The last one puts
    /// all of them in the place of the former ones, in one step. The key's own must be valid now and not older than the
    /// former one.
    AddCertificate {
        /// The key's name.
        name: String,
        /// DER, up to [`MAX_CERTIFICATE`] bytes.
        certificate: Vec<u8>,
        /// Another certificate follows.
        more: bool,
    },
    /// Remove the key's certificates.
    RemoveCertificates {
        /// The key's name.
        name: String,
    },
    /// Set the most private operations a second, over all clients. `None`: any number.
    SetRate {
        /// The key's name.
        name: String,
        /// 1 to [`MAX_RATE`].
        rate: Option<u32>,
    },
    /// Store a key that the service made for a program of this user. The answer is its entry. Its token serves no more, and
    /// sessions that were opened by it are the stored key's, with its users and terms.
    KeepMade {
        /// The key's token.
        token: KeyToken,
        /// Its name, which must be free.
        name: String,
    },
    /// Ask for the service's own transfer address.
    Address,
    /// Seal the key to a service of `keys.send_to`. The answer is the first part.
    Seal {
        /// Its name.
        name: String,
        /// Address of that service.
        to: Address,
        /// Not if the running service has a receipt for the key as it is now.
        if_changed: bool,
        /// Names of its users and groups on this machine.
        names: AclNames,
    },
    /// The next part of the key that was sealed last on this connection.
    NextPart,
    /// A part of a sealed key. The last one makes the service open, try and store the key, or ask for the numbers of its
    /// users and groups.
    Receive {
        /// Up to [`PART`](transfer::PART) bytes.
        part: Vec<u8>,
        /// Another part follows.
        more: bool,
        /// What it may replace.
        replace: Replace,
    },
    /// Check the receipt for a key that was sealed on this connection.
    Confirm {
        /// Its name.
        name: String,
        /// The receipt.
        receipt: Receipt,
        /// Then delete the key here, unless it was changed since, or a receipt was given for it.
        delete: bool,
    },
    /// Give the key another name; its users, terms, certificates and open sessions stay.
    Rename {
        /// Its name so far.
        name: String,
        /// Its name from then on, which must be free.
        new: String,
    },
    /// The numbers here of the users and groups that [`Reply::Users`](crate::control::Reply::Users) named, in its order.
    /// The service goes on with the sealed key.
    Users(Acl),
    /// As [`Self::AddCertificate`], and the certificates may have expired, begin later, or be older than the present ones.
    AddCertificateOfAnyDate {
        /// The key's name.
        name: String,
        /// DER, up to [`MAX_CERTIFICATE`] bytes.
        certificate: Vec<u8>,
        /// Another certificate follows. The command with the last one decides on the dates.
        more: bool,
    },
    /// As [`KeyCommand::Generate`], with terms that hold from the key's first moment on.
    GenerateWith {
        /// Its name, which must be free.
        name: String,
        /// Its kind.
        kind: Kind,
        /// Users and groups that may use it.
        acl: Acl,
        /// Its usage and identifier.
        terms: Terms,
    },
    /// As [`KeyCommand::KeepMade`], with terms that hold from the stored key's first moment on.
    KeepMadeWith {
        /// The key's token.
        token: KeyToken,
        /// Its name, which must be free.
        name: String,
        /// Its usage and identifier.
        terms: Terms,
    },
}

impl KeyCommand {
    /// Number of commands: those of later versions have larger numbers on the wire.
    pub(crate) const COUNT: u8 = 25;
}

fn changed(ids: &[u32], add: &[u32], remove: &[u32]) -> Vec<u32> {
    let all: BTreeSet<u32> = ids.iter().chain(add).copied().filter(|id| !remove.contains(id)).collect();
    all.into_iter().collect()
}

/// Reason why a text names no key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NameError(String);

/// Checks a key's name: it is also a file's name and part of a URI.
///
/// # Errors
/// A text that states the rules for names.
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

/// Digits of the seconds in the name that a renewal gives a key, enough from 2001 to 2286.
pub const RENEWAL_DIGITS: usize = 10;

/// Seconds in the name of a key that `sidecore keys renew` stored for `name`, as `NAME.SECONDS`; 0 for the bare name.
/// `None`: the key has another name. Programs with a fixed name find the key of a renewed certificate by this.
pub fn renewal_of(name: &str, key: &str) -> Option<u64> {
    match key.strip_prefix(name)?.strip_prefix('.') {
        None => (key == name).then_some(0),
        Some(digits) if digits.len() == RENEWAL_DIGITS && digits.bytes().all(|byte| byte.is_ascii_digit()) => {
            digits.parse().ok()
        }
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_a_name_have_the_time_behind_it() {
        for (name, stamped) in [
            ("www", Some(0)),
            ("www.1795621440", Some(1_795_621_440)),
            ("www.example", None),
            ("www.179562144", None),
            ("www.17956214400", None),
            ("www.+795621440", None),
            ("wwwx.1795621440", None),
            ("api.1795621440", None),
        ] {
            assert_eq!(renewal_of("www", name), stamped, "{name}");
        }
    }

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
