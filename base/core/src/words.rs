//! Shared control words: the only way that control memory is touched.
//!
//! A [`Line`] is one cache line of eight 64-bit atomics. Shared memory is a slice of lines, so an access stays
//! defined for any concurrent write of the other side. Other modules decide the *meaning* of the words, from private
//! copies.

use crate::sync::AtomicU64;
#[cfg(not(loom))]
use crate::sync::Ordering;

/// Words in a cache line.
pub const LINE_WORDS: usize = 8;
/// Bytes in a cache line.
pub const LINE_BYTES: usize = 64;

/// One cache line of shared control memory. All-zero bytes are a valid, empty line.
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub struct Line(pub [AtomicU64; LINE_WORDS]);

const _: () = assert!(cfg!(loom) || size_of::<Line>() == LINE_BYTES);

/// Adds to a counter that has one writer: no locked instruction is needed, readers may lag.
#[cfg(not(loom))]
#[inline]
pub fn add(word: &AtomicU64, amount: u64) {
    word.store(word.load(Ordering::Relaxed).wrapping_add(amount), Ordering::Relaxed);
}
