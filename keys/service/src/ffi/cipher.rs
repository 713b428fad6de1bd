//! Ciphers on contexts of the library: AES-256 in XTS mode, AES-128 on many blocks in one call, triple DES.
//!
//! A context holds the state of its operation, so it serves one request at a time. Each direction of a key has a few
//! of them; a request takes a free one. A request without a free context makes one.

use std::ffi::c_int;
use std::ptr::{NonNull, null, null_mut};
use std::sync::atomic::{AtomicBool, Ordering};

use aws_lc_sys as sys;

use super::{Direction, Source, owned, room_for, succeeded};
use crate::shm::span::Span;

/// Simultaneous requests per direction that run without an allocation.
const CONTEXTS: usize = 4;

pub(crate) struct CipherKey {
    encrypt: Pool,
    decrypt: Pool,
}

impl CipherKey {
    /// AES-256-XTS: two 32-byte keys, one after the other; `None` where they are equal, which would void the mode.
    pub(crate) fn aes_256_xts(key: &[u8]) -> Option<Self> {
        Self::new(sys::EVP_aes_256_xts, key)
    }

    /// AES-128 on independent blocks: not a mode to use, but what modes are made of.
    pub(crate) fn aes_128_blocks(key: &[u8]) -> Option<Self> {
        Self::new(sys::EVP_aes_128_ecb, key)
    }

    /// Triple DES in cipher block chaining mode: three 8-byte keys. Parity bits are ignored.
    pub(crate) fn triple_des_cbc(key: &[u8]) -> Option<Self> {
        Self::new(sys::EVP_des_ede3_cbc, key)
    }

    fn new(cipher: Table, key: &[u8]) -> Option<Self> {
        let direction = |direction| Pool::new(cipher, key, direction);
        Some(Self { encrypt: direction(Direction::Encrypt)?, decrypt: direction(Direction::Decrypt)? })
    }

    /// Whole blocks, or an XTS data unit of 16 bytes to 16 MiB, with IEEE 1619's ciphertext stealing by the library.
    /// `iv` is empty where the cipher takes none. `output` is `input`'s own place or does not overlap it. Returns the
    /// number of bytes written; `None`: the library refused.
    pub(crate) fn cipher(&self, direction: Direction, iv: &[u8], input: Source<'_>, output: Span<'_>) -> Option<usize> {
        self.pool(direction).with(|context| context.cipher(iv, input, output))
    }

    fn pool(&self, direction: Direction) -> &Pool {
        match direction {
            Direction::Encrypt => &self.encrypt,
            Direction::Decrypt => &self.decrypt,
        }
    }
}

type Table = unsafe extern "C" fn() -> *const sys::EVP_CIPHER;

struct Context(NonNull<sys::EVP_CIPHER_CTX>);

// SAFETY: the context is owned and has no tie to a thread.
unsafe impl Send for Context {}

impl Context {
    /// `None` where the key's length is not the cipher's, or the library refuses the key.
    fn keyed(cipher: Table, key: &[u8], direction: Direction) -> Option<Self> {
        let context = Self::empty()?;
        // SAFETY: the table is static, and the cipher reads as much of the key as is compared; no vector is given yet.
        let code = unsafe {
            let (cipher, key_ptr) = (cipher(), key.as_ptr());
            if sys::EVP_CIPHER_key_length(cipher) as usize != key.len() {
                return None;
            }
            sys::EVP_CipherInit_ex(context.0.as_ptr(), cipher, null_mut(), key_ptr, null(), direction as c_int)
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
        owned(unsafe { sys::EVP_CIPHER_CTX_new() }).map(Self)
    }

    /// The caller has this context to itself.
    fn cipher(&self, iv: &[u8], input: Source<'_>, output: Span<'_>) -> Option<usize> {
        let (context, output) = (self.0.as_ptr(), room_for(output, input.len));
        // SAFETY: the context is live.
        let (iv_len, block_len) =
            unsafe { (sys::EVP_CIPHER_CTX_iv_length(context), sys::EVP_CIPHER_CTX_block_size(context)) };
        assert!(iv.len() == iv_len as usize && input.len.is_multiple_of(block_len as usize));
        // SAFETY: the caller has the context to itself; vector and input are readable for the lengths just checked, and
        // input.len bytes are writable, in place, too.
        let done = unsafe {
            (iv.is_empty() || sys::EVP_CipherInit_ex(context, null(), null_mut(), null(), iv.as_ptr(), -1) == 1)
                && sys::EVP_Cipher(context, output, input.ptr, input.len) == 1
        };
        succeeded(done.into()).then_some(input.len)
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: it came from EVP_CIPHER_CTX_new and is freed once.
        unsafe { sys::EVP_CIPHER_CTX_free(self.0.as_ptr()) };
    }
}

/// The contexts of one direction, each with a flag that it is taken. `pristine` never ciphers: further contexts are
/// copied from it.
struct Pool {
    pristine: Context,
    contexts: Vec<(AtomicBool, Context)>,
}

// SAFETY: a context is used only between winning its flag and giving it back, so by one thread at a time; `pristine` is
// only read.
unsafe impl Sync for Pool {}

impl Pool {
    fn new(cipher: Table, key: &[u8], direction: Direction) -> Option<Self> {
        let pristine = Context::keyed(cipher, key, direction)?;
        let contexts =
            (0..CONTEXTS).map(|_| Some((AtomicBool::new(false), pristine.copy()?))).collect::<Option<_>>()?;
        Some(Self { pristine, contexts })
    }

    fn with<T>(&self, work: impl FnOnce(&Context) -> Option<T>) -> Option<T> {
        let take =
            |taken: &AtomicBool| taken.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok();
        let Some((taken, context)) = self.contexts.iter().find(|(taken, _)| take(taken)) else {
            return work(&self.pristine.copy()?);
        };
        let result = work(context);
        taken.store(false, Ordering::Release);
        result
    }
}
