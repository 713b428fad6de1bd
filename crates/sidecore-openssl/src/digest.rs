//! Digests of messages to sign: made here, in the client, so that messages do not travel.

use digest::DynDigest;
use md5::Md5;
use pkcs8::ObjectIdentifier;
use pkcs8::der::Encode;
use sha1::Sha1;
use sha2::{Sha224, Sha256, Sha384, Sha512};
use sha3::{Sha3_224, Sha3_256, Sha3_384, Sha3_512};
use sidecore::engine::crypto::Hash;
use std::ffi::CStr;

/// A digest that signatures are made over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Digest {
    /// MD5 and SHA-1, one after the other: TLS 1.0 and 1.1.
    Md5Sha1,
    Sha1,
    Sha224,
    Sha256,
    Sha384,
    Sha512,
    Sha3_224,
    Sha3_256,
    Sha3_384,
    Sha3_512,
}

/// What is known of a digest.
struct Row {
    digest: Digest,
    /// OpenSSL's name, which answers give.
    name: &'static CStr,
    /// Other names.
    aliases: &'static [&'static str],
    /// Object identifier. MD5-SHA1 has none.
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
const ROWS: [Row; 10] = [
    row(Digest::Md5Sha1, c"MD5-SHA1", &[], "", 36),
    row(Digest::Sha1, c"SHA1", &["SHA-1", "SSL3-SHA1"], "1.3.14.3.2.26", 20),
    row(Digest::Sha224, c"SHA2-224", &["SHA224", "SHA-224"], "2.16.840.1.101.3.4.2.4", 28),
    row(Digest::Sha256, c"SHA2-256", &["SHA256", "SHA-256"], "2.16.840.1.101.3.4.2.1", 32),
    row(Digest::Sha384, c"SHA2-384", &["SHA384", "SHA-384"], "2.16.840.1.101.3.4.2.2", 48),
    row(Digest::Sha512, c"SHA2-512", &["SHA512", "SHA-512"], "2.16.840.1.101.3.4.2.3", 64),
    row(Digest::Sha3_224, c"SHA3-224", &[], "2.16.840.1.101.3.4.2.7", 28),
    row(Digest::Sha3_256, c"SHA3-256", &[], "2.16.840.1.101.3.4.2.8", 32),
    row(Digest::Sha3_384, c"SHA3-384", &[], "2.16.840.1.101.3.4.2.9", 48),
    row(Digest::Sha3_512, c"SHA3-512", &[], "2.16.840.1.101.3.4.2.10", 64),
];

impl Digest {
    /// The digest of that name or object identifier.
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        let known = |row: &&Row| {
            let of_row = |known: &str| !known.is_empty() && known.eq_ignore_ascii_case(name);
            row.name.to_str().is_ok_and(of_row) || of_row(row.oid) || row.aliases.iter().any(|alias| of_row(alias))
        };
        ROWS.iter().find(known).map(|row| row.digest)
    }

    fn row(self) -> &'static Row {
        &ROWS[self as usize]
    }

    /// OpenSSL's name.
    pub(crate) fn name(self) -> &'static CStr {
        self.row().name
    }

    /// Object identifier, if it has one.
    pub(crate) fn oid(self) -> Option<&'static str> {
        Some(self.row().oid).filter(|oid| !oid.is_empty())
    }

    /// Object identifier in DER.
    pub(crate) fn oid_der(self) -> Option<Vec<u8>> {
        ObjectIdentifier::new(self.oid()?).ok()?.to_der().ok()
    }

    /// Length, in bytes.
    pub(crate) fn len(self) -> usize {
        self.row().len
    }

    /// As the service knows it, if it signs over it.
    pub(crate) fn hash(self) -> Option<Hash> {
        match self {
            Self::Sha256 => Some(Hash::Sha256),
            Self::Sha384 => Some(Hash::Sha384),
            Self::Sha512 => Some(Hash::Sha512),
            _ => None,
        }
    }

    fn parts(self) -> Vec<Box<dyn DynDigest>> {
        match self {
            Self::Md5Sha1 => vec![Box::<Md5>::default(), Box::<Sha1>::default()],
            Self::Sha1 => vec![Box::<Sha1>::default()],
            Self::Sha224 => vec![Box::<Sha224>::default()],
            Self::Sha256 => vec![Box::<Sha256>::default()],
            Self::Sha384 => vec![Box::<Sha384>::default()],
            Self::Sha512 => vec![Box::<Sha512>::default()],
            Self::Sha3_224 => vec![Box::<Sha3_224>::default()],
            Self::Sha3_256 => vec![Box::<Sha3_256>::default()],
            Self::Sha3_384 => vec![Box::<Sha3_384>::default()],
            Self::Sha3_512 => vec![Box::<Sha3_512>::default()],
        }
    }
}

/// A digest being made.
#[derive(Clone)]
pub(crate) struct Hasher {
    parts: Vec<Box<dyn DynDigest>>,
}

impl Hasher {
    /// Of nothing yet.
    pub(crate) fn new(digest: Digest) -> Self {
        Self { parts: digest.parts() }
    }

    /// Goes on with these bytes.
    pub(crate) fn update(&mut self, bytes: &[u8]) {
        self.parts.iter_mut().for_each(|part| part.update(bytes));
    }

    /// The digest of all bytes.
    pub(crate) fn finish(self) -> Vec<u8> {
        self.parts.into_iter().flat_map(|part| part.finalize().into_vec()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Digest; ROWS.len()] = {
        let mut all = [Digest::Md5Sha1; ROWS.len()];
        let mut index = 0;
        while index < ROWS.len() {
            all[index] = ROWS[index].digest;
            index += 1;
        }
        all
    };

    #[test]
    fn rows_stand_in_order_and_say_the_length() {
        for digest in ALL {
            assert_eq!(digest.row().digest, digest);
            assert_eq!(Hasher::new(digest).finish().len(), digest.len(), "{digest:?}");
        }
    }

    #[test]
    fn names_and_identifiers_are_known_in_any_case() {
        for digest in ALL {
            assert_eq!(Digest::from_name(&digest.name().to_string_lossy().to_lowercase()), Some(digest));
            assert_eq!(digest.oid().map(Digest::from_name), digest.oid().map(|_| Some(digest)));
        }
        assert_eq!(Digest::from_name("sha256"), Some(Digest::Sha256));
        assert_eq!(Digest::from_name(""), None);
        assert_eq!(Digest::from_name("MD5"), None);
    }

    #[test]
    fn pieces_give_what_the_whole_gives() {
        for digest in ALL {
            let mut whole = Hasher::new(digest);
            whole.update(b"abcdef");
            let mut pieces = Hasher::new(digest);
            pieces.update(b"abc");
            let mut copy = pieces.clone();
            pieces.update(b"xyz");
            copy.update(b"def");
            assert_eq!(copy.finish(), whole.finish());
        }
    }
}
