//! AES on key schedules that any thread may read: single blocks, counter mode and cipher block chaining.

use std::ffi::c_int;
use std::mem::MaybeUninit;

use aws_lc_sys as sys;
use zeroize::Zeroize;

use super::{Direction, Source, room_for};
use crate::shm::span::Span;

pub(crate) const BLOCK_LEN: usize = 16;

pub(crate) struct AesKey {
    schedule: sys::AES_KEY,
    direction: Direction,
}

impl AesKey {
    pub(crate) fn new(key: &[u8], direction: Direction) -> Option<Self> {
        let bits = match key.len() {
            16 => 128,
            32 => 256,
            _ => return None,
        };
        let mut schedule = MaybeUninit::<sys::AES_KEY>::zeroed();
        // SAFETY: `key` has `bits` bits; all-zero bytes are a valid AES_KEY, which the call then fills.
        unsafe {
            let code = match direction {
                Direction::Encrypt => sys::AES_set_encrypt_key(key.as_ptr(), bits, schedule.as_mut_ptr()),
                Direction::Decrypt => sys::AES_set_decrypt_key(key.as_ptr(), bits, schedule.as_mut_ptr()),
            };
            (code == 0).then(|| Self { schedule: schedule.assume_init(), direction })
        }
    }

    /// The schedule is one for encryption.
    #[inline]
    pub(crate) fn encrypt_block(&self, block: &mut [u8; BLOCK_LEN]) {
        let block = block.as_mut_ptr();
        // SAFETY: 16 bytes are readable and writable there, and in place is allowed.
        unsafe { sys::AES_encrypt(block, block, &raw const self.schedule) };
    }

    /// Counter mode, with the schedule to encrypt; encryption and decryption are the same. `output` is `input`'s own
    /// place or does not overlap it. Returns the number of bytes written; `None`: the vector is no block.
    #[inline]
    pub(crate) fn ctr(&self, iv: &[u8], input: Source<'_>, output: Span<'_>) -> Option<usize> {
        let output = room_for(output, input.len);
        let mut counter: [u8; BLOCK_LEN] = iv.try_into().ok()?;
        let (mut keystream, mut used) = ([0; BLOCK_LEN], 0);
        // SAFETY: input.len bytes are readable and, as just checked, writable; the rest is private and long enough.
        unsafe {
            sys::AES_ctr128_encrypt(
                input.ptr,
                output,
                input.len,
                &raw const self.schedule,
                counter.as_mut_ptr(),
                keystream.as_mut_ptr(),
                &raw mut used,
            );
        }
        Some(input.len)
    }

    /// Cipher block chaining of whole blocks, under the terms of [`ctr`](Self::ctr), in the schedule's direction.
    #[inline]
    pub(crate) fn cbc(&self, iv: &[u8], input: Source<'_>, output: Span<'_>) -> Option<usize> {
        assert!(input.len.is_multiple_of(BLOCK_LEN));
        let output = room_for(output, input.len);
        let mut chain: [u8; BLOCK_LEN] = iv.try_into().ok()?;
        let (key, direction) = (&raw const self.schedule, self.direction as c_int);
        // SAFETY: input.len bytes, whole blocks, are readable and, as just checked, writable; the vector is private.
        unsafe { sys::AES_cbc_encrypt(input.ptr, output, input.len, key, chain.as_mut_ptr(), direction) };
        Some(input.len)
    }
}

impl Drop for AesKey {
    fn drop(&mut self) {
        self.schedule.rd_key.zeroize();
    }
}
