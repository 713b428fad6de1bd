//! Three-key triple DES in cipher block chaining mode.

use std::ffi::c_int;

use aws_lc_sys as sys;
use zeroize::Zeroize;

use super::{Direction, Sink, Source};

/// Length of a block and of an initialisation vector, in bytes.
pub(crate) const BLOCK_LEN: usize = 8;
/// Length of the three keys together, in bytes.
pub(crate) const KEY_LEN: usize = 24;

/// The schedules of the three keys; they serve both directions.
pub(crate) struct TripleDesKey([sys::DES_key_schedule; 3]);

impl TripleDesKey {
    /// The schedules of three 8-byte keys. Parity bits are ignored.
    pub(crate) fn new(key: &[u8; KEY_LEN]) -> Self {
        let mut schedules = [sys::DES_key_schedule::default(); 3];
        for (schedule, part) in schedules.iter_mut().zip(key.as_chunks::<BLOCK_LEN>().0) {
            let mut block = sys::DES_cblock { bytes: *part };
            // SAFETY: one key block is read, one schedule is written.
            unsafe { sys::DES_set_key_unchecked(&raw const block, schedule) };
            block.bytes.zeroize();
        }
        Self(schedules)
    }

    /// Whole blocks in this direction; the number of bytes written. `output` is `input`'s own place or does not overlap it.
    pub(crate) fn cbc(&self, direction: Direction, iv: &[u8; BLOCK_LEN], input: Source<'_>, output: Sink<'_>) -> usize {
        assert!(input.len.is_multiple_of(BLOCK_LEN));
        let output = output.room_for(input.len);
        let mut chain = sys::DES_cblock { bytes: *iv };
        let ([first, second, third], direction) = (&self.0, direction as c_int);
        // SAFETY: input.len bytes, whole blocks, are readable and, as just checked, writable; the rest is private.
        unsafe {
            sys::DES_ede3_cbc_encrypt(input.ptr, output, input.len, first, second, third, &raw mut chain, direction);
        }
        input.len
    }
}

impl Drop for TripleDesKey {
    fn drop(&mut self) {
        for schedule in &mut self.0 {
            schedule.subkeys.as_flattened_mut().zeroize();
        }
    }
}
