//! RSA keys as numbers, and encoded digests as numbers, for private operations outside the library.

use std::ptr::null_mut;

use aws_lc_sys as sys;
use sidecore_batch::rsa::{EXPONENT, Key, Parts};
use zeroize::Zeroizing;

use super::padding::{Padding, salt_len};
use super::pkey::{PKey, RSA};
use super::{hash::table, succeeded};
use crate::spec::{Hash, SaltLength, SignaturePadding};

/// Bytes of PKCS#1 v1.5 without the digest and the variable ff: 00 01, at least eight ff, 00.
const FRAME: usize = 11;

impl PKey {
    /// The private key, ready for [`sidecore_batch::rsa::private`]. `None` for other algorithms, for public keys, and
    /// for unsupported lengths and exponents.
    pub(crate) fn batched(&self) -> Option<Key> {
        if self.id() != RSA {
            return None;
        }
        let len = self.len();
        let number = |get: Getter, len: usize| self.number(get, len);
        let mut exponent = [0; 8];
        exponent.copy_from_slice(&number(sys::RSA_get0_e, 8)?);
        let half = |get: Getter| number(get, len / 2);
        let (modulus, p, q) = (number(sys::RSA_get0_n, len)?, half(sys::RSA_get0_p)?, half(sys::RSA_get0_q)?);
        let (dp, dq) = (half(sys::RSA_get0_dmp1)?, half(sys::RSA_get0_dmq1)?);
        let coefficient = half(sys::RSA_get0_iqmp)?;
        let parts = Parts { modulus: &modulus, primes: [&p, &q], exponents: [&dp, &dq], coefficient: &coefficient };
        (u64::from_be_bytes(exponent) == EXPONENT).then(|| Key::new(&parts)).flatten()
    }

    fn number(&self, get: Getter, len: usize) -> Option<Zeroizing<Vec<u8>>> {
        let mut bytes = Zeroizing::new(vec![0; len]);
        self.write_number(get, &mut bytes)?;
        Some(bytes)
    }

    /// Writes one number of an RSA key, big-endian, padded to `output`. `None` where the key has none, or there is no
    /// room.
    pub(super) fn write_number(&self, get: Getter, output: &mut [u8]) -> Option<()> {
        // SAFETY: the number belongs to the live key, which nobody changes; `output` is writable for its length.
        let code = unsafe {
            let number = get(sys::EVP_PKEY_get0_RSA(self.as_ptr()).as_ref()?).as_ref()?;
            sys::BN_bn2bin_padded(output.as_mut_ptr(), output.len(), number)
        };
        succeeded(code).then_some(())
    }

    /// The number that is raised to the private exponent to sign this digest, big-endian, with the modulus's length.
    /// `None` where there is no room for the padding, or it is no signature padding.
    pub(crate) fn encode(&self, padding: &Padding, digest: &[u8], number: &mut [u8]) -> Option<()> {
        match padding {
            Padding::Signature(SignaturePadding::Pkcs1, hash) => {
                with_prefix(*hash, digest, |info| framed(info, number))
            }
            Padding::Signature(SignaturePadding::Pkcs1Raw, _) => framed(digest, number),
            Padding::Signature(
                SignaturePadding::Pss { mgf1, salt } | SignaturePadding::PssRaw { mgf1, salt },
                hash,
            ) => self.salted(*hash, *mgf1, *salt, digest, number),
            _ => None,
        }
    }

    fn salted(&self, hash: Hash, mgf1: Hash, salt: SaltLength, digest: &[u8], number: &mut [u8]) -> Option<()> {
        if digest.len() != hash.len() || number.len() != self.len() {
            return None;
        }
        // SAFETY: the key is live; `number` has room for the modulus's length, `digest` is as long as the hash's.
        let code = unsafe {
            let key = sys::EVP_PKEY_get0_RSA(self.as_ptr());
            let (number, digest) = (number.as_mut_ptr(), digest.as_ptr());
            sys::RSA_padding_add_PKCS1_PSS_mgf1(key, number, digest, table(hash), table(mgf1), salt_len(salt))
        };
        succeeded(code).then_some(())
    }
}

pub(super) type Getter = unsafe extern "C" fn(*const sys::RSA) -> *const sys::BIGNUM;

/// Passes on a digest after the name of its hash, in the form of PKCS#1 v1.5.
fn with_prefix(hash: Hash, digest: &[u8], take: impl FnOnce(&[u8]) -> Option<()>) -> Option<()> {
    let (mut info, mut len, mut is_alloced) = (null_mut(), 0, 0);
    // SAFETY: the digest is readable for its length; the rest is written. The bytes that come back are the library's,
    // which for these hashes allocates them, and are given back once.
    unsafe {
        let nid = sys::EVP_MD_type(table(hash));
        let made = sys::RSA_add_pkcs1_prefix(
            &raw mut info,
            &raw mut len,
            &raw mut is_alloced,
            nid,
            digest.as_ptr(),
            digest.len(),
        );
        if !succeeded(made) {
            return None;
        }
        let taken = take(std::slice::from_raw_parts(info, len));
        if is_alloced != 0 {
            sys::OPENSSL_free(info.cast());
        }
        taken
    }
}

fn framed(info: &[u8], number: &mut [u8]) -> Option<()> {
    let filled = number.len().checked_sub(info.len()).filter(|filled| *filled >= FRAME)?;
    let (frame, rest) = number.split_at_mut(filled);
    frame.fill(0xff);
    (frame[0], frame[1], frame[filled - 1]) = (0, 1, 0);
    rest.copy_from_slice(info);
    Some(())
}
