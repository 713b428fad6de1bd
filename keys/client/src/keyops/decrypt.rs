//! RSA decryption, and encryption to the public part: maps the settings of programs to the service's schemes.

use crate::keyops::call::{self, Request};
use crate::keyops::digest::Digest;
use crate::keyops::failure::{Failure, Reason};
use crate::keyops::key::{Key, Public};
use crate::keyops::wait::Caller;
use crate::spec::{DecryptionPadding, EncryptionPadding, Scheme};
use rustix::rand::{GetRandomFlags, getrandom};
use sidecore_core::session::{Op, Refusal};
use std::sync::Arc;
use subtle::{ConditionallySelectable, ConstantTimeEq};
use zeroize::Zeroizing;

/// Length of TLS's premaster secret, bytes.
pub const PREMASTER: usize = 48;

/// Padding of the plaintext.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Padding {
    /// PKCS#1 v1.5.
    Pkcs1,
    /// OAEP of PKCS#1 v2.2.
    Oaep,
    /// A premaster secret in PKCS#1 v1.5: always 48 bytes, and random ones after any error.
    Tls,
    /// No padding: only to encrypt.
    None,
}

/// Parameters of RSA decryption and encryption, except the key.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Padding of the plaintext.
    pub padding: Padding,
    /// Digest of OAEP.
    pub digest: Digest,
    /// Digest of the mask generation function; `None`: the same.
    pub mgf1: Option<Digest>,
    /// Label of OAEP.
    pub label: Vec<u8>,
    /// For premaster secrets: the highest version offered by the client.
    pub client_version: u16,
    /// A version that is accepted instead; 0: none.
    pub negotiated_version: u16,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            padding: Padding::Pkcs1,
            digest: Digest::Sha1,
            mgf1: None,
            label: Vec::new(),
            client_version: 0,
            negotiated_version: 0,
        }
    }
}

impl Settings {
    /// Length of the longest plaintext, bytes.
    pub fn longest(&self, key: &Key) -> usize {
        if self.padding == Padding::Tls { PREMASTER } else { key.public.max_len() }
    }

    /// Decrypts the ciphertext.
    ///
    /// # Errors
    /// The key or settings cannot decrypt, the ciphertext does not fit them, or the service fails or refuses.
    pub fn decrypt(
        &self,
        caller: Caller<'_>,
        key: &Arc<Key>,
        ciphertext: &[u8],
    ) -> Result<Zeroizing<Vec<u8>>, Failure> {
        let Public::Rsa { n, .. } = &key.public else {
            return Err(Failure::unsupported("only RSA keys decrypt"));
        };
        // Some programs leave out leading zeros, which OpenSSL's own code accepts.
        let missing = n.len().checked_sub(ciphertext.len()).filter(|missing| *missing < n.len()).ok_or_else(|| {
            let (found, expected) = (ciphertext.len(), n.len());
            Failure::input(format!("a ciphertext of {found} bytes: this key's have {expected}"))
        })?;
        let ciphertext = &[&vec![0; missing], ciphertext].concat();
        let scheme = Scheme::RsaDecryption { padding: self.scheme()? };
        let max_output = n.len();
        let request = Request { key, scheme, op: Op::Decrypt, head: &[], input: ciphertext, max_output };
        let plaintext = match call::call(caller, &request)? {
            Ok(plaintext) => Zeroizing::new(plaintext),
            // Only keys with explicit errors end here. For a premaster secret the error stays hidden.
            Err(Refusal::Authentication) if self.padding == Padding::Tls => Zeroizing::default(),
            Err(Refusal::Authentication) => {
                return Err(Failure::input("the ciphertext is not for this key, padding or label"));
            }
            Err(refusal) => return Err(refusal.into()),
        };
        if self.padding == Padding::Tls { self.premaster(&plaintext) } else { Ok(plaintext) }
    }

    /// Encrypts the plaintext.
    ///
    /// # Errors
    /// The key or settings cannot encrypt, the plaintext does not fit, or the service fails or refuses.
    pub fn encrypt(&self, caller: Caller<'_>, key: &Arc<Key>, plaintext: &[u8]) -> Result<Vec<u8>, Failure> {
        let Public::Rsa { n, .. } = &key.public else {
            return Err(Failure::unsupported("only RSA keys encrypt"));
        };
        let padding = match self.padding {
            Padding::None => EncryptionPadding::None,
            Padding::Tls => return Err(Failure::unsupported("encryption of premaster secrets: use pkcs1")),
            _ => EncryptionPadding::Padded(self.scheme()?),
        };
        let scheme = Scheme::RsaEncryption { padding };
        let request = Request { key, scheme, op: Op::Encrypt, head: &[], input: plaintext, max_output: n.len() };
        call::call(caller, &request)?.map_err(|refusal| match refusal {
            Refusal::InputLength => {
                let (found, longest) = (plaintext.len(), self.longest_plaintext(n.len()));
                Failure::input(format!("{found} bytes to encrypt: this key and padding take {longest}"))
            }
            Refusal::Authentication => Failure::input("what is not padded is no number below the key's modulus"),
            refusal => refusal.into(),
        })
    }

    fn longest_plaintext(&self, modulus_len: usize) -> String {
        let overhead = match self.padding {
            Padding::None => return format!("{modulus_len}"),
            Padding::Oaep => 2 * self.digest.size() + 2,
            _ => 11,
        };
        format!("at most {}", modulus_len.saturating_sub(overhead))
    }

    fn scheme(&self) -> Result<DecryptionPadding, Failure> {
        match self.padding {
            Padding::Pkcs1 | Padding::Tls => return Ok(DecryptionPadding::Pkcs1),
            Padding::Oaep => {}
            Padding::None => {
                return Err(Failure::unsupported(
                    "decryption without padding, which would show everything that the key \
                                                 can: use pkcs1 or oaep",
                ));
            }
        }
        let hash = |digest: Digest| {
            digest
                .padding_hash()
                .ok_or_else(|| Failure::unsupported("OAEP with this digest: use SHA-1 or one of SHA-2"))
        };
        let mgf1 = hash(self.mgf1.unwrap_or(self.digest))?;
        Ok(DecryptionPadding::Oaep { hash: hash(self.digest)?, mgf1, label: self.label.clone() })
    }

    /// The premaster secret, or random bytes, chosen in constant time. The plaintext of bad padding has an arbitrary
    /// length, so its length reveals nothing.
    fn premaster(&self, plaintext: &[u8]) -> Result<Zeroizing<Vec<u8>>, Failure> {
        let mut random = Zeroizing::new([0; PREMASTER]);
        let got = getrandom(&mut *random, GetRandomFlags::empty());
        if got != Ok(PREMASTER) {
            return Err(Failure::new(Reason::Internal, "the kernel gives no random bytes"));
        }
        let mut padded = Zeroizing::new([0; PREMASTER]);
        let len = plaintext.len().min(PREMASTER);
        padded[..len].copy_from_slice(&plaintext[..len]);
        let is = |version: u16| padded[..2].ct_eq(&version.to_be_bytes());
        let negotiated = self.negotiated_version;
        let alternative = is(negotiated) & !negotiated.ct_eq(&0);
        let good = plaintext.len().ct_eq(&PREMASTER) & (is(self.client_version) | alternative);
        let chosen =
            padded.iter().zip(random.iter()).map(|(good_byte, random)| u8::conditional_select(random, good_byte, good));
        Ok(Zeroizing::new(chosen.collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(client: u16, negotiated: u16) -> Settings {
        let versions = Settings { client_version: client, negotiated_version: negotiated, ..Settings::default() };
        Settings { padding: Padding::Tls, ..versions }
    }

    #[test]
    fn a_good_premaster_secret_is_kept() {
        let secret = [&[3, 3][..], &[7; 46]].concat();
        assert_eq!(*settings(0x0303, 0).premaster(&secret).unwrap(), secret);
        assert_eq!(*settings(0x0304, 0x0303).premaster(&secret).unwrap(), secret);
    }

    #[test]
    fn of_a_bad_one_nothing_is_left() {
        let secret = [&[3, 3][..], &[7; 46]].concat();
        let short = &secret[..47];
        let long = [&secret[..], &[7]].concat();
        for (settings, plaintext) in [
            (settings(0x0301, 0), &secret[..]),
            (settings(0x0301, 0x0302), &secret[..]),
            (settings(0x0303, 0), short),
            (settings(0x0303, 0), &long[..]),
            (settings(0x0303, 0), &[]),
        ] {
            let (one, other) = (settings.premaster(plaintext).unwrap(), settings.premaster(plaintext).unwrap());
            assert_eq!(one.len(), PREMASTER);
            assert_ne!(one, other, "random");
        }
        let zeros = [0; PREMASTER];
        assert_ne!(*settings(0x0303, 0).premaster(&zeros).unwrap(), zeros, "no version was negotiated");
    }
}
