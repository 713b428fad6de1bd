//! The key derivation of X9.63 from an ECDH secret, as in messages for recipients with EC keys.

use sidecore_client::keyops::digest::Digest;
use sidecore_client::keyops::failure::Failure;
use sidecore_client::keyops::hasher::Hasher;
use zeroize::Zeroizing;

/// Longest key, and longest shared information, bytes.
pub(crate) const MAX_LEN: usize = 1 << 20;

#[derive(Clone, Default)]
pub(crate) struct Kdf {
    pub(crate) digest: Option<Digest>,
    /// Length of the result, bytes.
    pub(crate) len: usize,
    pub(crate) shared: Vec<u8>,
}

impl Kdf {
    /// Concatenates digests of secret, counter (from 1) and shared information (SEC 1, section 3.6.1).
    pub(crate) fn derive(&self, secret: &[u8]) -> Result<Zeroizing<Vec<u8>>, Failure> {
        let digest = self.digest.ok_or_else(|| Failure::input("no digest of the key derivation: set it first"))?;
        let mut key = Zeroizing::new(vec![0; self.len]);
        for (counter, part) in (1u32..).zip(key.chunks_mut(digest.size())) {
            let mut hasher = Hasher::new(digest);
            for piece in [secret, &counter.to_be_bytes(), &self.shared] {
                hasher.update(piece);
            }
            part.copy_from_slice(&Zeroizing::new(hasher.finish())[..part.len()]);
        }
        Ok(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// NIST's vectors for ANSI X9.63: SHA-1 without shared information, SHA-256 with it.
    #[test]
    fn keys_are_those_of_the_published_vectors() {
        let bytes = |hex: &str| -> Vec<u8> {
            (0..hex.len() / 2).map(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).unwrap()).collect()
        };
        assert!(Kdf::default().derive(&[]).is_err());
        let kdf = Kdf { digest: Some(Digest::Sha1), len: 16, shared: Vec::new() };
        let secret = bytes("1c7d7b5f0597b03d06a018466ed1a93e30ed4b04dc64ccdd");
        assert_eq!(*kdf.derive(&secret).unwrap(), bytes("bf71dffd8f4d99223936beb46fee8ccc"));
        let shared = bytes("75eef81aa3041e33b80971203d2c0c52");
        let kdf = Kdf { digest: Some(Digest::Sha256), len: 128, shared };
        let secret = bytes("22518b10e70f2a3f243810ae3254139efbee04aa57c7af7d");
        let key = concat!(
            "c498af77161cc59f2962b9a713e2b215152d139766ce34a776df11866a69bf2e52a13d9c7c6fc878c50c5ea0bc7b00e0",
            "da2447cfd874f6cf92f30d0097111485500c90c3af8b487872d04685d14c8d1dc8d7fa08beb0ce0ababc11f0bd496269",
            "142d43525a78e5bc79a17f59676a5706dc54d54d4d1f0bd7e386128ec26afc21"
        );
        assert_eq!(*kdf.derive(&secret).unwrap(), bytes(key));
    }
}
