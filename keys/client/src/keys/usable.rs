//! The keys that a user may use, as the service lists them for that user.

use super::{Kind, Site, Usage};
use serde::{Deserialize, Serialize};

/// Most certificates that are stored with a key: its own first, each followed by that of its issuer.
pub const MAX_CERTIFICATES: usize = 4;
/// Largest certificate, DER, bytes.
pub const MAX_CERTIFICATE: usize = 8 * 1024;
/// Largest limit of a key's requests a second.
pub const MAX_RATE: u32 = 1_000_000;

/// Reason why a text is no limit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("write 1/s to {MAX_RATE}/s, the private operations that it does in a second")]
pub struct RateError;

/// Reads a number of operations with `/s` behind it.
///
/// # Errors
/// It is none, or none that may be set.
pub fn parse_rate(text: &str) -> Result<u32, RateError> {
    let number = text.strip_suffix("/s").and_then(|number| number.parse().ok());
    number.filter(|number| (1..=MAX_RATE).contains(number)).ok_or(RateError)
}

/// Longest identifier that is stored with a key, bytes.
pub const MAX_ID: usize = 128;

/// What a program that has a key stored wants of it besides its name. The default is what a key without terms has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Terms {
    /// The operations that it may do; all: those of its kind.
    pub usage: Usage,
    /// The name that programs know it by, `CKA_ID` of PKCS#11, up to [`MAX_ID`] bytes; empty: none.
    pub id: Vec<u8>,
}

/// A key that the asking user may use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsableKey {
    /// Its name.
    pub name: String,
    /// Its kind.
    pub kind: Kind,
    /// Its public part: a `SubjectPublicKeyInfo` in DER.
    pub public: Vec<u8>,
    /// The operations that it may do, of those of its kind.
    pub usage: Usage,
    /// Location of its private part.
    pub site: Site,
    /// Number of the certificates stored with it, up to [`MAX_CERTIFICATES`].
    pub certificates: u8,
    /// Most private operations a second.
    pub rate: Option<u32>,
    /// The user who had it made under `keys.creators`.
    pub owner: Option<u32>,
}

/// All keys that the asking user may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsableKeys {
    /// Another number after each change of one of them, and after a restart of the service. Unchanged by other users'
    /// keys. `None`: keys changed again and again while they were listed. Those that changed may then be missing, or be
    /// listed as they were; all others are there.
    pub revision: Option<u64>,
    /// In the order of their names.
    pub keys: Vec<UsableKey>,
}
