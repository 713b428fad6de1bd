//! Wiping of the stack after work: it holds spilled registers and copies of keys.

use std::hint::black_box;

/// Most stack that one call's work takes in optimised code, bytes.
const DEPTH: usize = 8 << 10;

/// Runs work with secrets on its stack, and wipes them afterwards.
#[inline]
pub(crate) fn wiped<T>(work: impl FnOnce() -> T) -> T {
    let result = below(work);
    overwrite();
    result
}

#[inline(never)]
fn below<T>(work: impl FnOnce() -> T) -> T {
    work()
}

/// Its frame covers those of the work.
#[inline(never)]
fn overwrite() {
    black_box(&mut [0u8; DEPTH]);
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests;
