//! Digests of messages to sign, made in the program, so that messages need not travel.

use crate::keyops::digest::Digest;
use crate::keyops::sign::Settings;
use digest::Digest as Function;
use md5::Md5;
use sha1::Sha1;
use sha2::{Sha224, Sha256, Sha384, Sha512, Sha512_224, Sha512_256};
use sha3::{Sha3_224, Sha3_256, Sha3_384, Sha3_512};
use std::borrow::Cow;

/// A digest in progress; MD5-SHA1 has two parts.
#[derive(Clone)]
pub struct Hasher {
    parts: Vec<Box<dyn Part>>,
}

/// A hash function in progress, which may move between threads: that of the `digest` crate may not.
trait Part: Send {
    fn update(&mut self, bytes: &[u8]);
    fn finish(self: Box<Self>) -> Vec<u8>;
    fn copy(&self) -> Box<dyn Part>;
}

impl<F: Function + Clone + Send + 'static> Part for F {
    fn update(&mut self, bytes: &[u8]) {
        Function::update(self, bytes);
    }

    fn finish(self: Box<Self>) -> Vec<u8> {
        self.finalize().to_vec()
    }

    fn copy(&self) -> Box<dyn Part> {
        Box::new(self.clone())
    }
}

impl Clone for Box<dyn Part> {
    fn clone(&self) -> Self {
        (**self).copy()
    }
}

impl Hasher {
    /// A digest of no bytes yet.
    pub fn new(digest: Digest) -> Self {
        fn one(part: impl Part + 'static) -> Vec<Box<dyn Part>> {
            vec![Box::new(part)]
        }
        let parts: Vec<Box<dyn Part>> = match digest {
            Digest::Md5Sha1 => vec![Box::new(Md5::default()), Box::new(Sha1::default())],
            Digest::Sha1 => one(Sha1::default()),
            Digest::Sha224 => one(Sha224::default()),
            Digest::Sha256 => one(Sha256::default()),
            Digest::Sha384 => one(Sha384::default()),
            Digest::Sha512 => one(Sha512::default()),
            Digest::Sha512_224 => one(Sha512_224::default()),
            Digest::Sha512_256 => one(Sha512_256::default()),
            Digest::Sha3_224 => one(Sha3_224::default()),
            Digest::Sha3_256 => one(Sha3_256::default()),
            Digest::Sha3_384 => one(Sha3_384::default()),
            Digest::Sha3_512 => one(Sha3_512::default()),
        };
        Self { parts }
    }

    /// Appends bytes of the message.
    pub fn update(&mut self, bytes: &[u8]) {
        self.parts.iter_mut().for_each(|part| part.update(bytes));
    }

    /// The digest, [`Digest::size`] bytes.
    pub fn finish(self) -> Vec<u8> {
        self.parts.into_iter().flat_map(Part::finish).collect()
    }
}

/// The input of a signature with these settings: the message's digest, or the message where the algorithm takes none.
pub fn input<'a>(settings: &Settings, message: &'a [u8]) -> Cow<'a, [u8]> {
    let Some(digest) = settings.digest else { return Cow::Borrowed(message) };
    let mut hasher = Hasher::new(digest);
    hasher.update(message);
    Cow::Owned(hasher.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_hashed_where_the_settings_have_a_digest() {
        let settings = |digest| Settings { digest, ..Settings::default() };
        assert_eq!(input(&settings(None), b"abc")[..], *b"abc");
        // FIPS 180-4's example.
        assert_eq!(input(&settings(Some(Digest::Sha256)), b"abc")[..4], [0xba, 0x78, 0x16, 0xbf]);
    }

    #[test]
    fn digests_have_the_length_that_is_said() {
        for digest in Digest::all() {
            assert_eq!(Hasher::new(digest).finish().len(), digest.size(), "{digest:?}");
        }
    }

    #[test]
    fn pieces_give_what_the_whole_gives() {
        for digest in Digest::all() {
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
