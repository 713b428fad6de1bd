//! Requests of a program to valgrind: a sequence of instructions without effect on a processor.

use std::arch::asm;

/// Memcheck's request that bytes count as undefined: `VG_USERREQ__MAKE_MEM_UNDEFINED` of its header.
const MAKE_UNDEFINED: u64 = ((b'M' as u64) << 24 | (b'C' as u64) << 16) + 1;

pub(crate) fn make_undefined(bytes: &mut [u8]) {
    let request = [MAKE_UNDEFINED, bytes.as_mut_ptr() as u64, bytes.len() as u64, 0, 0, 0];
    // SAFETY: the rotations come to a whole turn, and the exchange is of a register with itself. Valgrind reads the
    // request and answers in rdx.
    unsafe {
        asm!(
            "rol rdi, 3",
            "rol rdi, 13",
            "rol rdi, 61",
            "rol rdi, 51",
            "xchg rbx, rbx",
            in("rax") request.as_ptr(),
            inout("rdx") 0u64 => _,
            options(nostack),
        );
    }
}
