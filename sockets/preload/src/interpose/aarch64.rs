//! Code and facts of arm64, whose counterparts for x86-64 are in `x86_64`.

use super::memory;
use libc::c_long;

/// Strings of a list that a call passes in registers after the first one; the others are on the stack.
pub(super) const LISTED_IN_REGISTERS: usize = 7;

/// System calls that this processor lacks.
pub(super) const DUP2: Option<c_long> = None;
pub(super) const FORK: Option<c_long> = None;

/// Calls a function with the first five arguments and the return address as the sixth, then jumps to the address that
/// it returns, with all arguments in place.
macro_rules! after {
    ($before:path) => {
        std::arch::naked_asm!(
            ".cfi_startproc",
            "stp x29, x30, [sp, -224]!",
            ".cfi_def_cfa_offset 224",
            ".cfi_offset x29, -224",
            ".cfi_offset x30, -216",
            "mov x29, sp",
            "stp x0, x1, [sp, 16]",
            "stp x2, x3, [sp, 32]",
            "stp x4, x5, [sp, 48]",
            "stp x6, x7, [sp, 64]",
            // Address of a large result.
            "str x8, [sp, 80]",
            "stp q0, q1, [sp, 96]",
            "stp q2, q3, [sp, 128]",
            "stp q4, q5, [sp, 160]",
            "stp q6, q7, [sp, 192]",
            "mov x5, x30",
            "bl {before}",
            // Processors that check the targets of jumps permit those by this register.
            "mov x16, x0",
            "ldp q6, q7, [sp, 192]",
            "ldp q4, q5, [sp, 160]",
            "ldp q2, q3, [sp, 128]",
            "ldp q0, q1, [sp, 96]",
            "ldr x8, [sp, 80]",
            "ldp x6, x7, [sp, 64]",
            "ldp x4, x5, [sp, 48]",
            "ldp x2, x3, [sp, 32]",
            "ldp x0, x1, [sp, 16]",
            "ldp x29, x30, [sp], 224",
            ".cfi_restore x30",
            ".cfi_restore x29",
            ".cfi_def_cfa_offset 0",
            "br x16",
            ".cfi_endproc",
            before = sym $before,
        )
    };
}

/// Calls a function for lists with the first string, the address of those in registers, and that of the others.
macro_rules! listed {
    ($function:path) => {
        std::arch::naked_asm!(
            ".cfi_startproc",
            "stp x29, x30, [sp, -80]!",
            ".cfi_def_cfa_offset 80",
            ".cfi_offset x29, -80",
            ".cfi_offset x30, -72",
            "mov x29, sp",
            "stp x1, x2, [sp, 16]",
            "stp x3, x4, [sp, 32]",
            "stp x5, x6, [sp, 48]",
            "str x7, [sp, 64]",
            "add x1, sp, 16",
            "add x2, sp, 80",
            "bl {function}",
            "ldp x29, x30, [sp], 80",
            ".cfi_restore x30",
            ".cfi_restore x29",
            ".cfi_def_cfa_offset 0",
            "ret",
            ".cfi_endproc",
            function = sym $function,
        )
    };
}

/// The system call, between two functions. The second one runs in the parent with the system's answer.
macro_rules! vforked {
    ($before:path, $after:path) => {
        std::arch::naked_asm!(
            ".cfi_startproc",
            "stp x29, x30, [sp, -16]!",
            ".cfi_def_cfa_offset 16",
            ".cfi_offset x29, -16",
            ".cfi_offset x30, -8",
            "bl {before}",
            "ldp x29, x30, [sp], 16",
            ".cfi_restore x30",
            ".cfi_restore x29",
            ".cfi_def_cfa_offset 0",
            "mov x0, {flags}",
            // The child goes on on this stack.
            "mov x1, sp",
            "mov x2, xzr",
            "mov x3, xzr",
            "mov x4, xzr",
            "mov x8, {number}",
            "svc 0",
            "cbz w0, 2f",
            "stp x29, x30, [sp, -16]!",
            ".cfi_def_cfa_offset 16",
            ".cfi_offset x29, -16",
            ".cfi_offset x30, -8",
            "bl {after}",
            "ldp x29, x30, [sp], 16",
            ".cfi_restore x30",
            ".cfi_restore x29",
            ".cfi_def_cfa_offset 0",
            "2:",
            "ret",
            ".cfi_endproc",
            before = sym $before,
            after = sym $after,
            flags = const libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD,
            number = const libc::SYS_clone,
        )
    };
}

/// The instruction that jumps to `function`.
macro_rules! jump_to {
    () => {
        "b {function}"
    };
}

/// Jumps to a function.
macro_rules! instead {
    ($function:path) => {
        std::arch::naked_asm!($crate::interpose::processor::jump_to!(), function = sym $function)
    };
}

pub(super) use {after, instead, jump_to, listed, vforked};

/// Whether a word of the stack begins the registers for floating-point numbers in a signal handler's frame. They are the
/// first record after the interrupted context (`struct rt_sigframe` of Linux's `arch/arm64/kernel/signal.c`). Handlers
/// return to code of the kernel: there are no restorers.
pub(super) fn is_frame(at: usize, word: usize, _: &[usize]) -> bool {
    /// `FPSIMD_MAGIC`, and the size of its record.
    const RECORD: usize = 528 << 32 | 0x4650_8001;
    word == RECORD && is_context(at)
}

fn is_context(record: usize) -> bool {
    /// Before the record: `struct ucontext` begins with no flags and no link.
    const CONTEXT: usize = 464;
    const STATE: usize = 16;
    /// Of the processor: the level of programs, in 64-bit code.
    const LEVEL: u64 = 0b1_1111;
    let before = |bytes: usize| {
        let mut word = [0; 8];
        record.checked_sub(bytes).is_some_and(|at| memory::peek(at, &mut word)).then_some(u64::from_le_bytes(word))
    };
    before(CONTEXT) == Some(0)
        && before(CONTEXT - 8) == Some(0)
        && before(STATE).is_some_and(|state| state & LEVEL == 0)
}
