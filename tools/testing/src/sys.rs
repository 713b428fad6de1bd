//! Requests of a program to the valgrind that runs it.

#[cfg(target_arch = "x86_64")]
use std::arch::asm;

/// Callgrind's requests, from the tool's interface: the letters `CT`, then a number.
const START: u64 = 0x4354_0004;
const STOP: u64 = 0x4354_0005;

/// Starts callgrind's count, in all threads. Without valgrind it has no effect.
pub fn start_instrumentation() {
    request(START);
}

/// Stops it.
pub fn stop_instrumentation() {
    request(STOP);
}

/// Other architectures have other sequences; `cargo xtask count` refuses them.
#[cfg(not(target_arch = "x86_64"))]
fn request(_code: u64) {}

/// Four rotations that cancel, and an exchange without effect: valgrind recognises the sequence as a request.
#[cfg(target_arch = "x86_64")]
fn request(code: u64) {
    let arguments = [code, 0, 0, 0, 0, 0];
    // SAFETY: the sequence has no effect on a processor. Valgrind reads the arguments, which live until its end, and
    // writes its answer to rdx alone.
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
