//! AES on key schedules that any thread may read: single blocks, counter mode and cipher block chaining.

use std::ffi::c_int;
use std::mem::MaybeUninit;

use aws_lc_sys as sys;
use zeroize::Zeroize;

use super::{Sink, Source};

/// Length of a block and of an initialisation vector, in bytes.
pub(crate) const BLOCK_LEN: usize = 16;

/// The schedule of an encryption key.
pub(crate) struct EncryptKey(sys::AES_KEY);

/// The schedule of a decryption key.
pub(crate) struct DecryptKey(sys::AES_KEY);

impl EncryptKey {
    /// The schedule of a key of 16 or 32 bytes.
    pub(crate) fn new(key: &[u8]) -> Option<Self> {
        schedule(key, sys::AES_set_encrypt_key).map(Self)
    }

    /// Encrypts one block in place.
    #[inline]
    pub(crate) fn encrypt_block(&self, block: &mut [u8; BLOCK_LEN]) {
        let block = block.as_mut_ptr();
        // SAFETY: 16 bytes are readable and writable there, and in place is allowed.
        unsafe { sys::AES_encrypt(block, block, &raw const self.0) };
    }

    /// Counter mode; encryption and decryption are the same. Writes as many bytes as it reads. `output` is `input`'s
    /// own place or does not overlap it.
    #[inline]
    pub(crate) fn ctr(&self, iv: &[u8; BLOCK_LEN], input: Source<'_>, output: Sink<'_>) {
        let output = output.room_for(input.len);
        let (mut counter, mut keystream, mut used) = (*iv, [0; BLOCK_LEN], 0);
        // SAFETY: input.len bytes are readable and, as just checked, writable; the rest is private and long enough.
        unsafe {
            sys::AES_ctr128_encrypt(
                input.ptr,
                output,
                input.len,
                &raw const self.0,
                counter.as_mut_ptr(),
                keystream.as_mut_ptr(),
                &raw mut used,
            );
        }
    }

    /// Cipher block chaining of whole blocks, under the terms of [`ctr`](Self::ctr).
    #[inline]
    pub(crate) fn cbc(&self, iv: &[u8; BLOCK_LEN], input: Source<'_>, output: Sink<'_>) {
        cbc(&self.0, iv, input, output, sys::AES_ENCRYPT);
    }
}

impl DecryptKey {
    /// The schedule of a key of 16 or 32 bytes.
    pub(crate) fn new(key: &[u8]) -> Option<Self> {
        schedule(key, sys::AES_set_decrypt_key).map(Self)
    }

    /// Cipher block chaining of whole blocks. `output` is `input`'s own place or does not overlap it.
    #[inline]
    pub(crate) fn cbc(&self, iv: &[u8; BLOCK_LEN], input: Source<'_>, output: Sink<'_>) {
        cbc(&self.0, iv, input, output, sys::AES_DECRYPT);
    }
}

impl Drop for EncryptKey {
    fn drop(&mut self) {
        self.0.rd_key.zeroize();
    }
}

impl Drop for DecryptKey {
    fn drop(&mut self) {
        self.0.rd_key.zeroize();
    }
}

type SetKey = unsafe extern "C" fn(*const u8, std::ffi::c_uint, *mut sys::AES_KEY) -> c_int;

fn schedule(key: &[u8], set_key: SetKey) -> Option<sys::AES_KEY> {
    let bits = match key.len() {
        16 => 128,
        32 => 256,
        _ => return None,
    };
    let mut schedule = MaybeUninit::<sys::AES_KEY>::zeroed();
    // SAFETY: `key` has `bits` bits; all-zero bytes are a valid AES_KEY, which the call then fills.
    unsafe { (set_key(key.as_ptr(), bits, schedule.as_mut_ptr()) == 0).then(|| schedule.assume_init()) }
}

#[inline]
fn cbc(key: &sys::AES_KEY, iv: &[u8; BLOCK_LEN], input: Source<'_>, output: Sink<'_>, direction: c_int) {
    assert!(input.len.is_multiple_of(BLOCK_LEN));
    let output = output.room_for(input.len);
    let mut chain = *iv;
    // SAFETY: input.len bytes, whole blocks, are readable and, as just checked, writable; the vector is private.
    unsafe { sys::AES_cbc_encrypt(input.ptr, output, input.len, key, chain.as_mut_ptr(), direction) };
}
