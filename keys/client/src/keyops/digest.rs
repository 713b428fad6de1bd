//! Digests for signatures and paddings.

use crate::spec::Hash;
use der::Encode;
use pkcs8::ObjectIdentifier;
use std::ffi::CStr;

/// A digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Digest {
    /// MD5 and SHA-1, concatenated: for TLS 1.0 and 1.1.
    Md5Sha1,
    /// SHA-1.
    Sha1,
    /// SHA-224.
    Sha224,
    /// SHA-256.
    Sha256,
    /// SHA-384.
    Sha384,
    /// SHA-512.
    Sha512,
    /// SHA-512/224.
    Sha512_224,
    /// SHA-512/256.
    Sha512_256,
    /// SHA3-224.
    Sha3_224,
    /// SHA3-256.
    Sha3_256,
    /// SHA3-384.
    Sha3_384,
    /// SHA3-512.
    Sha3_512,
}

struct Row {
    digest: Digest,
    name: &'static CStr,
    aliases: &'static [&'static str],
    oid: &'static str,
    len: usize,
}

const fn row(
    digest: Digest,
    name: &'static CStr,
    aliases: &'static [&'static str],
    oid: &'static str,
    len: usize,
) -> Row {
    Row { digest, name, aliases, oid, len }
}

/// In the order of the enum.
const ROWS: [Row; 12] = [
    row(Digest::Md5Sha1, c"MD5-SHA1", &[], "", 36),
    row(Digest::Sha1, c"SHA1", &["SHA-1", "SSL3-SHA1"], "1.3.14.3.2.26", 20),
    row(Digest::Sha224, c"SHA2-224", &["SHA224", "SHA-224"], "2.16.840.1.101.3.4.2.4", 28),
    row(Digest::Sha256, c"SHA2-256", &["SHA256", "SHA-256"], "2.16.840.1.101.3.4.2.1", 32),
    row(Digest::Sha384, c"SHA2-384", &["SHA384", "SHA-384"], "2.16.840.1.101.3.4.2.2", 48),
    row(Digest::Sha512, c"SHA2-512", &["SHA512", "SHA-512"], "2.16.840.1.101.3.4.2.3", 64),
    row(Digest::Sha512_224, c"SHA2-512/224", &["SHA512-224", "SHA-512/224"], "2.16.840.1.101.3.4.2.5", 28),
    row(Digest::Sha512_256, c"SHA2-512/256", &["SHA512-256", "SHA-512/256"], "2.16.840.1.101.3.4.2.6", 32),
    row(Digest::Sha3_224, c"SHA3-224", &[], "2.16.840.1.101.3.4.2.7", 28),
    row(Digest::Sha3_256, c"SHA3-256", &[], "2.16.840.1.101.3.4.2.8", 32),
    row(Digest::Sha3_384, c"SHA3-384", &[], "2.16.840.1.101.3.4.2.9", 48),
    row(Digest::Sha3_512, c"SHA3-512", &[], "2.16.840.1.101.3.4.2.10", 64),
];

impl Digest {
    /// The digest with this name or object identifier.
    pub fn from_name(name: &str) -> Option<Self> {
        let known = |row: &&Row| {
            let of_row = |known: &str| !known.is_empty() && known.eq_ignore_ascii_case(name);
            row.name.to_str().is_ok_and(of_row) || of_row(row.oid) || row.aliases.iter().any(|alias| of_row(alias))
        };
        ROWS.iter().find(known).map(|row| row.digest)
    }

    /// All digests.
    pub fn all() -> impl Iterator<Item = Self> {
        ROWS.iter().map(|row| row.digest)
    }

    fn row(self) -> &'static Row {
        &ROWS[self as usize]
    }

    /// The name reported to programs.
    pub fn name(self) -> &'static CStr {
        self.row().name
    }

    /// Object identifier, if it has one.
    pub fn oid(self) -> Option<&'static str> {
        Some(self.row().oid).filter(|oid| !oid.is_empty())
    }

    /// Object identifier in DER.
    pub fn oid_der(self) -> Option<Vec<u8>> {
        ObjectIdentifier::new(self.oid()?).ok()?.to_der().ok()
    }

    /// Length, in bytes.
    pub fn size(self) -> usize {
        self.row().len
    }

    /// The service's hash, if it signs with this digest.
    pub fn hash(self) -> Option<Hash> {
        self.padding_hash().filter(|hash| *hash != Hash::Sha1)
    }

    /// The service's hash, if OAEP and mask generation accept it.
    pub fn padding_hash(self) -> Option<Hash> {
        match self {
            Self::Sha1 => Some(Hash::Sha1),
            Self::Sha224 => Some(Hash::Sha224),
            Self::Sha256 => Some(Hash::Sha256),
            Self::Sha384 => Some(Hash::Sha384),
            Self::Sha512 => Some(Hash::Sha512),
            Self::Sha512_224 => Some(Hash::Sha512_224),
            Self::Sha512_256 => Some(Hash::Sha512_256),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_stand_in_order() {
        for digest in Digest::all() {
            assert_eq!(digest.row().digest, digest);
        }
    }

    #[test]
    fn names_and_identifiers_are_known_in_any_case() {
        for digest in Digest::all() {
            assert_eq!(Digest::from_name(&digest.name().to_string_lossy().to_lowercase()), Some(digest));
            assert_eq!(digest.oid().map(Digest::from_name), digest.oid().map(|_| Some(digest)));
        }
        assert_eq!(Digest::from_name("sha256"), Some(Digest::Sha256));
        assert_eq!(Digest::from_name(""), None);
        assert_eq!(Digest::from_name("MD5"), None);
    }
}
