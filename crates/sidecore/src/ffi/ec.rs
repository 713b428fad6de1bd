//! ECDSA on digests.

use std::ffi::c_uint;

use aws_lc_sys as sys;

use super::{pkey::PKey, succeeded};

/// A curve that the project supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Curve {
    /// NIST P-256.
    P256,
    /// NIST P-384.
    P384,
}

/// An ECDSA key, private or public.
pub(crate) struct EcKey {
    // Points into `_pkey`, which keeps it alive.
    key: *const sys::EC_KEY,
    _pkey: PKey,
}

// SAFETY: as PKey; signing and verifying take the key as const.
unsafe impl Send for EcKey {}
// SAFETY: as above.
unsafe impl Sync for EcKey {}

impl EcKey {
    /// The EC key inside `pkey`; `None` where it is of another kind.
    pub(crate) fn new(pkey: PKey) -> Option<Self> {
        // SAFETY: the key is live; null is returned for other kinds.
        let key = unsafe { sys::EVP_PKEY_get0_EC_KEY(pkey.as_ptr()) };
        if key.is_null() {
            super::clear_errors();
        }
        (!key.is_null()).then_some(Self { key, _pkey: pkey })
    }

    /// The curve, if the project supports it.
    pub(crate) fn curve(&self) -> Option<Curve> {
        // SAFETY: the key is live and a parsed key has a group.
        match unsafe { sys::EC_GROUP_get_curve_name(sys::EC_KEY_get0_group(self.key)) } {
            sys::NID_X9_62_prime256v1 => Some(Curve::P256),
            sys::NID_secp384r1 => Some(Curve::P384),
            _ => None,
        }
    }

    /// Length of the longest signature in DER, in bytes.
    pub(crate) fn signature_len(&self) -> usize {
        // SAFETY: the key is live.
        unsafe { sys::ECDSA_size(self.key) }
    }

    /// Signs a digest; the number of bytes written. `signature` holds at least
    /// [`signature_len`](Self::signature_len) bytes.
    pub(crate) fn sign(&self, digest: &[u8], signature: &mut [u8]) -> Option<usize> {
        assert!(signature.len() >= self.signature_len());
        let mut written: c_uint = 0;
        // SAFETY: the digest is readable for its length and, as just checked, the longest signature is writable.
        let code = unsafe {
            sys::ECDSA_sign(0, digest.as_ptr(), digest.len(), signature.as_mut_ptr(), &raw mut written, self.key)
        };
        succeeded(code).then_some(written as usize)
    }

    /// Whether `signature` is one of `digest`.
    pub(crate) fn verify(&self, digest: &[u8], signature: &[u8]) -> bool {
        // SAFETY: both are readable for their lengths.
        succeeded(unsafe {
            sys::ECDSA_verify(0, digest.as_ptr(), digest.len(), signature.as_ptr(), signature.len(), self.key)
        })
    }
}
