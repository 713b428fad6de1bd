//! Symmetric ciphers: one context for a key, a new initialisation vector for each message.

use super::{Context, Failure, Handle, c_length};
use std::ffi::c_int;
use std::ptr;

/// Length of the tag of an authenticated cipher, bytes.
pub const TAG_BYTES: usize = 16;

const ENCRYPT: c_int = 1;
const KEEP_DIRECTION: c_int = -1;
const CONTROL_GET_TAG: c_int = 0x10;
/// Stream, CBC, counter, Galois/counter and XTS mode: none writes more than it reads, as key wrapping does.
const MODES: [c_int; 5] = [0, 2, 5, 6, 0x1_0001];
const MAX_BLOCK_BYTES: usize = 32;

/// A cipher that encrypts, with its key.
pub struct Cipher {
    context: Handle,
    iv_bytes: usize,
}

impl Cipher {
    /// The cipher of that name, e.g. `AES-256-GCM`, set up with `key`. Block modes take whole blocks: no padding.
    ///
    /// # Errors
    /// There is no such cipher, its mode is not supported, or the key has another length.
    pub fn new(context: &Context, name: &str, key: &[u8]) -> Result<Self, Failure> {
        let api = context.api;
        let cipher = context.fetch(api.cipher_fetch, api.cipher_free, name, "")?;
        // SAFETY: `cipher` is an EVP_CIPHER.
        let [mode, key_bytes, iv_bytes] =
            [api.cipher_mode, api.cipher_key_length, api.cipher_iv_length].map(|of| unsafe { of(cipher.raw()) });
        if !MODES.contains(&mode) {
            return Err(Failure::new("EVP_CIPHER_get_mode", format!("mode {mode:#x} is not supported")));
        }
        if c_length(key.len(), "EVP_CipherInit_ex")? != key_bytes {
            return Err(Failure::new("EVP_CipherInit_ex", format!("{} key bytes, not {key_bytes}", key.len())));
        }
        let context = api.make(api.cipher_context_new, api.cipher_context_free, "EVP_CIPHER_CTX_new")?;
        // SAFETY: context and cipher are live, the key has the length that the cipher reads; the context keeps its
        // own references and copies.
        let status = unsafe {
            (api.cipher_init)(context.raw(), cipher.raw(), ptr::null_mut(), key.as_ptr(), ptr::null(), ENCRYPT)
        };
        api.check(status, "EVP_CipherInit_ex")?;
        // SAFETY: `context` is an EVP_CIPHER_CTX.
        api.check(unsafe { (api.cipher_padding)(context.raw(), 0) }, "EVP_CIPHER_CTX_set_padding")?;
        Ok(Self { context, iv_bytes: usize::try_from(iv_bytes).unwrap_or(0) })
    }

    /// Encrypts `data` in place under `iv`.
    ///
    /// # Errors
    /// The cipher does not take a length of these.
    pub fn encrypt(&mut self, iv: &[u8], data: &mut [u8]) -> Result<(), Failure> {
        if iv.len() != self.iv_bytes {
            return Err(Failure::new("EVP_CipherInit_ex", format!("{} IV bytes, not {}", iv.len(), self.iv_bytes)));
        }
        let length = c_length(data.len(), "EVP_CipherUpdate")?;
        let (api, raw) = (self.context.api, self.context.raw());
        let (mut done, mut rest) = (0, 0);
        let mut tail = [0; MAX_BLOCK_BYTES];
        // SAFETY: null keeps the context's cipher and key; `iv` has the length that the cipher reads.
        let status = unsafe {
            (api.cipher_init)(raw, ptr::null_mut(), ptr::null_mut(), ptr::null(), iv.as_ptr(), KEEP_DIRECTION)
        };
        api.check(status, "EVP_CipherInit_ex")?;
        let place = data.as_mut_ptr();
        // SAFETY: input and output are the same `length` bytes, which the library allows; the context holds no bytes
        // of an earlier message and its mode is one of `MODES`, so it writes at most as much as it reads.
        let status = unsafe { (api.cipher_update)(raw, place, &raw mut done, place, length) };
        api.check(status, "EVP_CipherUpdate")?;
        // SAFETY: the library writes at most one block, and no cipher's block is larger than `tail`.
        api.check(unsafe { (api.cipher_final)(raw, tail.as_mut_ptr(), &raw mut rest) }, "EVP_CipherFinal_ex")?;
        if (done, rest) == (length, 0) {
            Ok(())
        } else {
            Err(Failure::new("EVP_CipherUpdate", format!("{done} and {rest} bytes out of {length}")))
        }
    }

    /// The tag over the last encrypted message.
    ///
    /// # Errors
    /// The cipher makes none.
    pub fn tag(&mut self) -> Result<[u8; TAG_BYTES], Failure> {
        let (api, mut tag) = (self.context.api, [0; TAG_BYTES]);
        let length = c_length(TAG_BYTES, "EVP_CIPHER_CTX_ctrl")?;
        // SAFETY: the library writes `length` bytes, which is the length of `tag`.
        let status =
            unsafe { (api.cipher_control)(self.context.raw(), CONTROL_GET_TAG, length, tag.as_mut_ptr().cast()) };
        api.check(status, "EVP_CIPHER_CTX_ctrl")?;
        Ok(tag)
    }
}
