//! For tests: residue on the stack below their frames.

use std::hint::black_box;

/// `DEPTH` bytes of this thread's stack, from the next frame on downwards; zeros are left out.
#[inline(never)]
pub(crate) fn residue<const DEPTH: usize>() -> Vec<u8> {
    let mut left = Vec::with_capacity(DEPTH);
    let here = black_box(&raw const left).cast::<u8>();
    for below in (1..=DEPTH).rev() {
        // SAFETY: the stack of a test's thread is larger than that and lies mapped below this frame; nobody else
        // writes it.
        left.push(unsafe { here.wrapping_sub(below).read_volatile() });
    }
    left
}

pub(crate) fn find(all: &[u8], bytes: &[u8]) -> Option<usize> {
    all.windows(bytes.len()).position(|window| window == bytes)
}
