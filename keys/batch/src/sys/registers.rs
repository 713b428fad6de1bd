//! Transfers between registers and memory, and their order.

use std::arch::asm;
use std::arch::x86_64::{__m128i, __m512i, _mm_loadu_si128, _mm_storeu_si128};

type Block = [u8; size_of::<__m128i>()];

#[inline]
pub(crate) fn load(block: &Block) -> __m128i {
    // SAFETY: the block is readable for its length, and need not be aligned.
    unsafe { _mm_loadu_si128(block.as_ptr().cast()) }
}

#[inline]
pub(crate) fn store(state: __m128i, block: &mut Block) {
    // SAFETY: the block is writable for its length, and need not be aligned.
    unsafe { _mm_storeu_si128(block.as_mut_ptr().cast(), state) }
}

/// Returns all values unchanged, and fixes an order of instructions. Those behind the last two values come after
/// those behind the first. The compiler's own order minimises registers.
#[target_feature(enable = "avx512f")]
#[inline]
pub(crate) fn in_order(mut first: __m512i, [mut one, mut two]: [__m512i; 2]) -> (__m512i, [__m512i; 2]) {
    // SAFETY: it has no instruction, so it changes nothing.
    unsafe {
        asm!(
            "/* {0} {1} {2} */",
            inout(zmm_reg) first,
            inout(zmm_reg) one,
            inout(zmm_reg) two,
            options(nomem, nostack, preserves_flags)
        );
    }
    (first, [one, two])
}
