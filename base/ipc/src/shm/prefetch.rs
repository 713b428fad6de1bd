//! Starts the transfer of a cache line from another core before it is needed.
//!
//! A store to a line that is not present waits for its transfer, and later stores wait behind it: a core has room for
//! few of them. With prefetches, the transfers of many lines overlap.

/// Prefetches a line for reading.
#[inline]
pub fn read<T>(place: *const T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch of any address has no effect that a program can see.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(place.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}

/// Prefetches a line for writing.
#[inline]
pub fn write<T>(place: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch of any address has no effect that a program can see. The compiler's intrinsic does not emit
    // this instruction for the baseline of the architecture, where it is a no-op at worst.
    unsafe {
        std::arch::asm!("prefetchw [{}]", in(reg) place, options(nostack, preserves_flags, readonly));
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}
