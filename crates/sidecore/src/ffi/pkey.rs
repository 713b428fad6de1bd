//! Keys in DER.

use std::mem::MaybeUninit;
use std::ptr::NonNull;

use aws_lc_sys as sys;

/// An asymmetric key of any kind.
pub(crate) struct PKey(NonNull<sys::EVP_PKEY>);

// SAFETY: the key is owned, and after parsing only used through calls that AWS-LC documents as safe from several
// threads at once (it locks what it caches inside).
unsafe impl Send for PKey {}
// SAFETY: as above.
unsafe impl Sync for PKey {}

impl PKey {
    /// Parses a PKCS#8 private key; `None` where it is none, or bytes follow it.
    pub(crate) fn private(pkcs8: &[u8]) -> Option<Self> {
        parse(pkcs8, sys::EVP_parse_private_key)
    }

    /// Parses a `SubjectPublicKeyInfo`; `None` where it is none, or bytes follow it.
    pub(crate) fn public(spki: &[u8]) -> Option<Self> {
        parse(spki, sys::EVP_parse_public_key)
    }

    pub(super) fn as_ptr(&self) -> *mut sys::EVP_PKEY {
        self.0.as_ptr()
    }

    /// Takes over a key that the library made; `None` for null.
    ///
    /// # Safety
    /// `key` is null or an owned reference to a live key.
    pub(super) unsafe fn from_owned(key: *mut sys::EVP_PKEY) -> Option<Self> {
        if key.is_null() {
            super::clear_errors();
        }
        NonNull::new(key).map(Self)
    }
}

impl Drop for PKey {
    fn drop(&mut self) {
        // SAFETY: this owned one reference and gives it back once.
        unsafe { sys::EVP_PKEY_free(self.0.as_ptr()) };
    }
}

type Parse = unsafe extern "C" fn(*mut sys::CBS) -> *mut sys::EVP_PKEY;

fn parse(der: &[u8], parse: Parse) -> Option<PKey> {
    let mut input = MaybeUninit::<sys::CBS>::uninit();
    // SAFETY: CBS_init makes `input` valid over `der`, which outlives both calls; the parser returns an owned key or null.
    let (key, rest) = unsafe {
        sys::CBS_init(input.as_mut_ptr(), der.as_ptr(), der.len());
        let key = PKey::from_owned(parse(input.as_mut_ptr()));
        (key, sys::CBS_len(input.as_ptr()))
    };
    key.filter(|_| rest == 0)
}
