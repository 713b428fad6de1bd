//! A stretch of memory that another process may change at any time.

use super::prefetch;
use sidecore_core::words::LINE_BYTES;
use std::marker::PhantomData;
use std::ptr::NonNull;

/// Bytes to prefetch; beyond them the core's own prefetcher suffices.
const PREFETCHED: usize = 256;

/// `len` bytes that a hostile process may write during our access.
///
/// A span never yields a `&[u8]`: bytes are copied in and out, or a library routine that treats them as data receives
/// the pointer.
#[derive(Clone, Copy, Debug)]
pub struct Span<'a> {
    ptr: NonNull<u8>,
    len: usize,
    _memory: PhantomData<&'a ()>,
}

// SAFETY: a span is an address and a length; the caller of `new` promised that the memory stays mapped for 'a, on
// every thread that uses it.
unsafe impl Send for Span<'_> {}

impl Span<'_> {
    /// The `len` bytes at `ptr`.
    ///
    /// # Safety
    /// The bytes stay mapped, readable and writable for `'a`, and no Rust reference to them is used during that time.
    #[inline]
    pub unsafe fn new(ptr: NonNull<u8>, len: usize) -> Self {
        Self { ptr, len, _memory: PhantomData }
    }

    /// Length in bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it holds no byte.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Address of the first byte, to read.
    #[inline]
    pub fn as_ptr(&self) -> *const u8 {
        self.ptr.as_ptr()
    }

    /// Address of the first byte, to write.
    #[inline]
    pub fn as_mut_ptr(&self) -> *mut u8 {
        self.ptr.as_ptr()
    }

    /// `len` bytes from `offset` on. `None`: they pass the end.
    #[inline]
    pub fn slice(&self, offset: usize, len: usize) -> Option<Self> {
        let end = offset.checked_add(len)?;
        if end > self.len {
            return None;
        }
        // SAFETY: offset <= end <= self.len, so the address stays inside the span.
        let ptr = unsafe { self.ptr.add(offset) };
        Some(Self { ptr, len, _memory: PhantomData })
    }

    /// Prefetches the first lines, up to 256 bytes, for reading. Never faults, and has no effect on results.
    #[inline]
    pub fn prefetch(&self) {
        self.first_lines(prefetch::read);
    }

    /// As [`Span::prefetch`], for writing.
    #[inline]
    pub fn prefetch_write(&self) {
        self.first_lines(prefetch::write);
    }

    #[inline]
    fn first_lines(&self, fetch: impl Fn(*const u8)) {
        let end = self.len.min(PREFETCHED);
        let mut offset = 0;
        while offset < end {
            fetch(self.as_ptr().wrapping_add(offset));
            offset += LINE_BYTES;
        }
    }

    /// Copies the first `private.len()` bytes out of the span.
    ///
    /// # Panics
    /// The span is shorter than `private`.
    #[inline]
    pub fn copy_to(&self, private: &mut [u8]) {
        assert!(private.len() <= self.len);
        // SAFETY: self.len bytes are readable; `private` is exclusive, so it cannot overlap them.
        unsafe { std::ptr::copy_nonoverlapping(self.as_ptr(), private.as_mut_ptr(), private.len()) };
    }

    /// Copies the whole of another span to the front of this one.
    ///
    /// # Panics
    /// This span is shorter.
    #[inline]
    pub fn copy_span(&self, from: &Span<'_>) {
        assert!(from.len <= self.len);
        // SAFETY: both spans have at least `from.len` mapped bytes; they may overlap, which `copy` allows.
        unsafe { std::ptr::copy(from.as_ptr(), self.as_mut_ptr(), from.len) };
    }

    /// Copies `private` to the front of the span.
    ///
    /// # Panics
    /// The span is shorter than `private`.
    #[inline]
    pub fn copy_from(&self, private: &[u8]) {
        assert!(private.len() <= self.len);
        // SAFETY: self.len bytes are writable; no Rust reference to them is in use, so `private` does not overlap
        // them.
        unsafe { std::ptr::copy_nonoverlapping(private.as_ptr(), self.as_mut_ptr(), private.len()) };
    }
}

impl<'a> Span<'a> {
    /// A span over private memory.
    #[inline]
    pub fn of(memory: &'a mut [u8]) -> Self {
        // SAFETY: borrowed exclusively for 'a, so nothing else refers to it.
        unsafe { Self::new(NonNull::from(&mut *memory).cast(), memory.len()) }
    }
}
