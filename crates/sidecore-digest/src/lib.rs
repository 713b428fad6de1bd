//! Digests of messages to sign, made in the program, so that messages need not travel.

use digest::DynDigest;
use md5::Md5;
use sha1::Sha1;
use sha2::{Sha224, Sha256, Sha384, Sha512, Sha512_224, Sha512_256};
use sha3::{Sha3_224, Sha3_256, Sha3_384, Sha3_512};
use sidecore_client::keyops::digest::Digest;

/// A digest in progress; MD5-SHA1 has two parts.
#[derive(Clone)]
pub struct Hasher {
    parts: Vec<Box<dyn DynDigest>>,
}

impl Hasher {
    /// A digest of no bytes yet.
    pub fn new(digest: Digest) -> Self {
        let one = |part: Box<dyn DynDigest>| vec![part];
        let parts = match digest {
            Digest::Md5Sha1 => vec![Box::<Md5>::default() as Box<dyn DynDigest>, Box::<Sha1>::default()],
            Digest::Sha1 => one(Box::<Sha1>::default()),
            Digest::Sha224 => one(Box::<Sha224>::default()),
            Digest::Sha256 => one(Box::<Sha256>::default()),
            Digest::Sha384 => one(Box::<Sha384>::default()),
            Digest::Sha512 => one(Box::<Sha512>::default()),
            Digest::Sha512_224 => one(Box::<Sha512_224>::default()),
            Digest::Sha512_256 => one(Box::<Sha512_256>::default()),
            Digest::Sha3_224 => one(Box::<Sha3_224>::default()),
            Digest::Sha3_256 => one(Box::<Sha3_256>::default()),
            Digest::Sha3_384 => one(Box::<Sha3_384>::default()),
            Digest::Sha3_512 => one(Box::<Sha3_512>::default()),
        };
        Self { parts }
    }

    /// Appends bytes of the message.
    pub fn update(&mut self, bytes: &[u8]) {
        self.parts.iter_mut().for_each(|part| part.update(bytes));
    }

    /// The digest, [`Digest::size`] bytes.
    pub fn finish(self) -> Vec<u8> {
        self.parts.into_iter().flat_map(|part| part.finalize().into_vec()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
