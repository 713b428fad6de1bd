//! Ciphers that the library offers through a context only: AES-256 in XTS mode, AES-128 on many blocks at once.
//!
//! A context holds the state of what it does, so it serves one request at a time. Each direction of a key has a few of
//! them; a request takes a free one. More requests at once than contexts get one made for them.

use std::ffi::c_int;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering};

use aws_lc_sys as sys;

use super::{Sink, Source, succeeded};

/// Length of the tweak, in bytes.
pub(crate) const TWEAK_LEN: usize = 16;
/// Length of the two XTS keys together, in bytes.
pub(crate) const XTS_KEY_LEN: usize = 64;
/// Length of the AES-128 key, in bytes.
pub(crate) const ECB_KEY_LEN: usize = 16;

const BLOCK_LEN: usize = 16;

/// How many requests per direction run without an allocation.
const CONTEXTS: usize = 4;

/// Both directions of an AES-256-XTS key.
pub(crate) struct XtsKey {
    encrypt: Pool,
    decrypt: Pool,
}

impl XtsKey {
    /// The schedules of the two 32-byte keys; `None` where they are equal, which would void the mode.
    pub(crate) fn new(key: &[u8; XTS_KEY_LEN]) -> Option<Self> {
        // SAFETY: the call takes nothing and returns a static table; its key length is that of `key`.
        let direction = |encrypt| unsafe { Pool::new(sys::EVP_aes_256_xts(), key, encrypt) };
        Some(Self { encrypt: direction(1)?, decrypt: direction(0)? })
    }

    /// Encrypts one data unit of 16 bytes to 16 MiB; the library steals ciphertext as IEEE 1619 says. `output` is
    /// `input`'s own place or does not overlap it. `None`: the library refused.
    pub(crate) fn encrypt(&self, tweak: &[u8; TWEAK_LEN], input: Source<'_>, output: Sink<'_>) -> Option<usize> {
        self.encrypt.with(|context| context.data_unit(tweak, input, output))
    }

    /// Decrypts one data unit, under the same terms.
    pub(crate) fn decrypt(&self, tweak: &[u8; TWEAK_LEN], input: Source<'_>, output: Sink<'_>) -> Option<usize> {
        self.decrypt.with(|context| context.data_unit(tweak, input, output))
    }
}

/// Both directions of an AES-128 key on independent blocks: not a mode to use, but what modes are made of.
pub(crate) struct EcbKey {
    encrypt: Pool,
    decrypt: Pool,
}

impl EcbKey {
    /// The schedules of the key; `None` only where the library fails.
    pub(crate) fn new(key: &[u8; ECB_KEY_LEN]) -> Option<Self> {
        // SAFETY: the call takes nothing and returns a static table; its key length is that of `key`.
        let direction = |encrypt| unsafe { Pool::new(sys::EVP_aes_128_ecb(), key, encrypt) };
        Some(Self { encrypt: direction(1)?, decrypt: direction(0)? })
    }

    /// Encrypts whole blocks in place. `None`: the library failed.
    pub(crate) fn encrypt(&self, blocks: &mut [u8]) -> Option<()> {
        self.encrypt.with(|context| context.blocks(blocks))
    }

    /// Decrypts whole blocks in place. `None`: the library failed.
    pub(crate) fn decrypt(&self, blocks: &mut [u8]) -> Option<()> {
        self.decrypt.with(|context| context.blocks(blocks))
    }
}

struct Context(NonNull<sys::EVP_CIPHER_CTX>);

// SAFETY: the context is owned and has no tie to a thread.
unsafe impl Send for Context {}

impl Context {
    /// # Safety
    /// `cipher` is a live table whose key length is that of `key`.
    unsafe fn keyed(cipher: *const sys::EVP_CIPHER, key: &[u8], encrypt: c_int) -> Option<Self> {
        let context = Self::empty()?;
        // SAFETY: the caller promises that the cipher reads no more than `key`; no vector is given yet.
        let code = unsafe {
            let (engine, iv) = (std::ptr::null_mut(), std::ptr::null());
            sys::EVP_CipherInit_ex(context.0.as_ptr(), cipher, engine, key.as_ptr(), iv, encrypt)
        };
        succeeded(code).then_some(context)
    }

    fn copy(&self) -> Option<Self> {
        let copy = Self::empty()?;
        // SAFETY: both are live contexts; the source is only read.
        succeeded(unsafe { sys::EVP_CIPHER_CTX_copy(copy.0.as_ptr(), self.0.as_ptr()) }).then_some(copy)
    }

    fn empty() -> Option<Self> {
        // SAFETY: it takes nothing and returns an owned context or null.
        NonNull::new(unsafe { sys::EVP_CIPHER_CTX_new() }).map(Self)
    }

    /// In place, whole blocks. The caller has this context to itself.
    fn blocks(&self, blocks: &mut [u8]) -> Option<()> {
        assert!(blocks.len().is_multiple_of(BLOCK_LEN));
        let bytes = blocks.as_mut_ptr();
        // SAFETY: the caller has the context to itself; the bytes are exclusive, and in place is allowed.
        succeeded(unsafe { sys::EVP_Cipher(self.0.as_ptr(), bytes, bytes, blocks.len()) }).then_some(())
    }

    /// One XTS data unit. The caller has this context to itself.
    fn data_unit(&self, tweak: &[u8; TWEAK_LEN], input: Source<'_>, output: Sink<'_>) -> Option<usize> {
        let output = output.room_for(input.len);
        let len = c_int::try_from(input.len).ok()?;
        let mut written = 0;
        // SAFETY: the caller has the context to itself; input.len bytes are readable and, as just checked, writable.
        let code = unsafe {
            let (cipher, engine, key) = (std::ptr::null(), std::ptr::null_mut(), std::ptr::null());
            let keyed = sys::EVP_CipherInit_ex(self.0.as_ptr(), cipher, engine, key, tweak.as_ptr(), -1);
            if keyed == 1 {
                sys::EVP_CipherUpdate(self.0.as_ptr(), output, &raw mut written, input.ptr, len)
            } else {
                keyed
            }
        };
        succeeded(code).then_some(written as usize)
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: it came from EVP_CIPHER_CTX_new and is freed once.
        unsafe { sys::EVP_CIPHER_CTX_free(self.0.as_ptr()) };
    }
}

struct Slot {
    taken: AtomicBool,
    context: Context,
}

/// The contexts of one direction. `pristine` never ciphers: it is what further contexts are copied from.
struct Pool {
    pristine: Context,
    slots: [Slot; CONTEXTS],
}

// SAFETY: a slot's context is used only between winning `taken` and giving it back, so by one thread at a time;
// `pristine` is only read.
unsafe impl Sync for Pool {}

impl Pool {
    /// # Safety
    /// As [`Context::keyed`].
    unsafe fn new(cipher: *const sys::EVP_CIPHER, key: &[u8], encrypt: c_int) -> Option<Self> {
        // SAFETY: the caller promises the same.
        let pristine = unsafe { Context::keyed(cipher, key, encrypt) }?;
        let copies: Option<Vec<_>> = (0..CONTEXTS).map(|_| pristine.copy()).collect();
        let slots = copies?.into_iter().map(|context| Slot { taken: AtomicBool::new(false), context });
        let slots = slots.collect::<Vec<_>>().try_into().ok()?;
        Some(Self { pristine, slots })
    }

    fn with<T>(&self, work: impl FnOnce(&Context) -> Option<T>) -> Option<T> {
        let Some(slot) = self.slots.iter().find(|slot| slot.try_take()) else {
            return work(&self.pristine.copy()?);
        };
        let result = work(&slot.context);
        slot.taken.store(false, Ordering::Release);
        result
    }
}

impl Slot {
    fn try_take(&self) -> bool {
        self.taken.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }
}
