//! Authenticated encryption, out of place.

use std::ptr::NonNull;

use aws_lc_sys as sys;

use super::{Source, owned, succeeded};
use crate::shm::span::Span;
use crate::spec::Cipher;

pub(crate) const NONCE_LEN: usize = 12;
pub(crate) const TAG_LEN: usize = 16;

pub(crate) struct AeadKey(NonNull<sys::EVP_AEAD_CTX>);

// SAFETY: the context is owned, and after its making it is only read: AWS-LC documents seal and open on one context as
// safe from several threads at once.
unsafe impl Send for AeadKey {}
// SAFETY: as above.
unsafe impl Sync for AeadKey {}

impl AeadKey {
    /// The schedule of `key`; `None` where its length does not fit, or the cipher is no AEAD.
    pub(crate) fn new(cipher: Cipher, key: &[u8]) -> Option<Self> {
        // SAFETY: the algorithm tables are static; `key` is readable for its length and copied.
        let context = unsafe {
            let aead = match cipher {
                Cipher::Aes128Gcm => sys::EVP_aead_aes_128_gcm(),
                Cipher::Aes256Gcm => sys::EVP_aead_aes_256_gcm(),
                Cipher::ChaCha20Poly1305 => sys::EVP_aead_chacha20_poly1305(),
                _ => return None,
            };
            sys::EVP_AEAD_CTX_new(aead, key.as_ptr(), key.len(), TAG_LEN)
        };
        owned(context).map(Self)
    }

    /// Writes ciphertext and tag, 16 bytes more than the plaintext, and returns their length. `output` is the
    /// plaintext's own place or does not overlap it; otherwise, and where it is too short, `None`.
    ///
    /// Plaintext and ciphertext may change meanwhile. GHASH and Poly1305 may read the ciphertext back from `output`,
    /// so a client that overwrites it gets the tag of its own bytes. It could get that tag anyway by choosing its own
    /// messages under its own nonces.
    #[inline]
    pub(crate) fn seal(
        &self,
        nonce: &[u8; NONCE_LEN],
        aad: &[u8],
        plaintext: Source<'_>,
        output: Span<'_>,
    ) -> Option<usize> {
        let (target, max_len, mut written) = (output.as_mut_ptr(), output.len(), 0);
        // SAFETY: all pointers are valid for the lengths beside them; the library checks max_out_len and aliasing.
        let code = unsafe {
            sys::EVP_AEAD_CTX_seal(
                self.0.as_ptr(),
                target,
                &raw mut written,
                max_len,
                nonce.as_ptr(),
                NONCE_LEN,
                plaintext.ptr,
                plaintext.len,
                aad.as_ptr(),
                aad.len(),
            )
        };
        succeeded(code).then_some(written)
    }

    /// Writes the plaintext of `sealed` (ciphertext and tag) and returns its length. Where the tag does not verify
    /// `None`, and `plaintext` is zeroed. Private memory only: bytes reach `plaintext` before the tag is verified.
    #[inline]
    pub(crate) fn open(
        &self,
        nonce: &[u8; NONCE_LEN],
        aad: &[u8],
        sealed: &[u8],
        plaintext: &mut [u8],
    ) -> Option<usize> {
        let mut written = 0;
        // SAFETY: all pointers are valid for the lengths beside them; `plaintext` is exclusive, so nothing aliases.
        let code = unsafe {
            sys::EVP_AEAD_CTX_open(
                self.0.as_ptr(),
                plaintext.as_mut_ptr(),
                &raw mut written,
                plaintext.len(),
                nonce.as_ptr(),
                NONCE_LEN,
                sealed.as_ptr(),
                sealed.len(),
                aad.as_ptr(),
                aad.len(),
            )
        };
        if !succeeded(code) {
            plaintext.fill(0);
            return None;
        }
        Some(written)
    }
}

impl Drop for AeadKey {
    fn drop(&mut self) {
        // SAFETY: it came from EVP_AEAD_CTX_new and is freed once.
        unsafe { sys::EVP_AEAD_CTX_free(self.0.as_ptr()) };
    }
}
