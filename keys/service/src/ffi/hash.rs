//! Digests and HMAC.

use std::mem::MaybeUninit;

use aws_lc_sys as sys;

use super::{Source, succeeded};
use crate::spec::Hash;

pub(crate) const MAX_LEN: usize = 64;

/// Writes the digest of `data` to the front of `output`, which holds at least [`Hash::len`] bytes. `data` is read once
/// and may change meanwhile.
#[inline]
pub(crate) fn digest(hash: Hash, data: Source<'_>, output: &mut [u8]) {
    assert!(output.len() >= hash.len());
    let one_shot = match hash {
        Hash::Sha1 => sys::SHA1,
        Hash::Sha256 => sys::SHA256,
        Hash::Sha384 => sys::SHA384,
        Hash::Sha512 => sys::SHA512,
        Hash::Sha224 => sys::SHA224,
        Hash::Sha512_224 => sys::SHA512_224,
        Hash::Sha512_256 => sys::SHA512_256,
    };
    // SAFETY: data.len bytes are readable and, as just checked, the digest's length is writable.
    unsafe { one_shot(data.ptr, data.len, output.as_mut_ptr()) };
}

pub(super) fn table(hash: Hash) -> *const sys::EVP_MD {
    // SAFETY: these take nothing and return static tables.
    unsafe {
        match hash {
            Hash::Sha1 => sys::EVP_sha1(),
            Hash::Sha256 => sys::EVP_sha256(),
            Hash::Sha384 => sys::EVP_sha384(),
            Hash::Sha512 => sys::EVP_sha512(),
            Hash::Sha224 => sys::EVP_sha224(),
            Hash::Sha512_224 => sys::EVP_sha512_224(),
            Hash::Sha512_256 => sys::EVP_sha512_256(),
        }
    }
}

/// An HMAC key whose inner and outer blocks are already hashed: each tag starts from a copy.
pub(crate) struct HmacKey {
    context: sys::HMAC_CTX,
    pub(crate) hash: Hash,
}

// SAFETY: the context holds no pointers but to static tables, and is only read once made.
unsafe impl Send for HmacKey {}
// SAFETY: as above.
unsafe impl Sync for HmacKey {}

impl HmacKey {
    pub(crate) fn new(hash: Hash, key: &[u8]) -> Option<Self> {
        let mut context = MaybeUninit::<sys::HMAC_CTX>::zeroed();
        // SAFETY: HMAC_CTX_init makes the context valid; `key` is readable for its length and not null.
        let code = unsafe {
            sys::HMAC_CTX_init(context.as_mut_ptr());
            let key_ptr = key.as_ptr().cast();
            sys::HMAC_Init_ex(context.as_mut_ptr(), key_ptr, key.len(), table(hash), std::ptr::null_mut())
        };
        // SAFETY: initialised above.
        succeeded(code).then(|| Self { context: unsafe { context.assume_init() }, hash })
    }

    /// The tag over `data`, at the front of `tag`; returns the number of bytes written. `data` is read once and may
    /// change meanwhile.
    #[inline]
    pub(crate) fn sign(&self, data: Source<'_>, tag: &mut [u8; MAX_LEN]) -> usize {
        let mut context = MaybeUninit::<sys::HMAC_CTX>::uninit();
        let context = context.as_mut_ptr();
        let mut written = 0;
        // SAFETY: the copy makes the private context valid; `data` is readable for its length; `tag` holds the
        // longest tag there is. None of these calls allocates, and none can fail on a keyed context.
        unsafe {
            sys::HMAC_CTX_copy_ex(context, &raw const self.context);
            sys::HMAC_Update(context, data.ptr, data.len);
            sys::HMAC_Final(context, tag.as_mut_ptr(), &raw mut written);
            sys::HMAC_CTX_cleanup(context);
        }
        written as usize
    }
}

impl Drop for HmacKey {
    fn drop(&mut self) {
        // SAFETY: the context is valid and wiped once.
        unsafe { sys::HMAC_CTX_cleanup(&raw mut self.context) };
    }
}
