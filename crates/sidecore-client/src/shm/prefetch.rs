//! Starting the transfer of a cache line from another core before it is needed.
//!
//! A line that is only asked for when it is written makes the store wait, and behind it every later store: a core keeps
//! few of them waiting. Asked for ahead, the transfers of many lines overlap.

/// The line will be read.
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

/// The line will be written.
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
