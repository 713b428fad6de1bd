//! What valgrind is told by the program that it runs.

#[cfg(target_arch = "x86_64")]
use std::arch::asm;

/// Callgrind's requests, from the tool's interface: the letters `CT`, then a number.
const START: u64 = 0x4354_0004;
const STOP: u64 = 0x4354_0005;

/// From here on callgrind counts, in all threads. Without valgrind nothing happens.
pub(crate) fn start_instrumentation() {
    request(START);
}

/// The end of what callgrind counts.
pub(crate) fn stop_instrumentation() {
    request(STOP);
}

/// Elsewhere the sequence is another, and `cargo xtask count` does not begin.
#[cfg(not(target_arch = "x86_64"))]
fn request(_code: u64) {}

/// Four rotations that undo each other, and an exchange that does nothing: valgrind knows the sequence for a request.
#[cfg(target_arch = "x86_64")]
fn request(code: u64) {
    let arguments = [code, 0, 0, 0, 0, 0];
    // SAFETY: the sequence has no effect on a processor. Valgrind reads the arguments, which live until its end, and writes
    // its answer to rdx alone.
    unsafe {
        asm!(
            "rol rdi, 3",
            "rol rdi, 13",
            "rol rdi, 61",
            "rol rdi, 51",
            "xchg rbx, rbx",
            inout("rdx") 0u64 => _,
            in("rax") arguments.as_ptr(),
            inout("rdi") 0u64 => _,
        );
    }
}
