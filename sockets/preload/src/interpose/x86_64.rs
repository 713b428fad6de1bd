//! Code and facts of x86-64, whose counterparts for arm64 are in `aarch64`.

use super::memory;
use libc::c_long;

/// Strings of a list that a call passes in registers after the first one; the others are on the stack.
pub(super) const LISTED_IN_REGISTERS: usize = 5;

/// System calls that newer processors lack.
pub(super) const DUP2: Option<c_long> = Some(libc::SYS_dup2);
pub(super) const FORK: Option<c_long> = Some(libc::SYS_fork);

/// Calls a function with the first five arguments and the return address as the sixth, then jumps to the address that
/// it returns, with all arguments in place.
macro_rules! after {
    ($before:path) => {
        std::arch::naked_asm!(
            ".cfi_startproc",
            "push rbp",
            ".cfi_adjust_cfa_offset 8",
            "sub rsp, 192",
            ".cfi_adjust_cfa_offset 192",
            "mov [rsp], rdi",
            "mov [rsp + 8], rsi",
            "mov [rsp + 16], rdx",
            "mov [rsp + 24], rcx",
            "mov [rsp + 32], r8",
            "mov [rsp + 40], r9",
            // Number of floating-point registers for the callee to read.
            "mov [rsp + 48], rax",
            "movaps [rsp + 64], xmm0",
            "movaps [rsp + 80], xmm1",
            "movaps [rsp + 96], xmm2",
            "movaps [rsp + 112], xmm3",
            "movaps [rsp + 128], xmm4",
            "movaps [rsp + 144], xmm5",
            "movaps [rsp + 160], xmm6",
            "movaps [rsp + 176], xmm7",
            "mov r9, [rsp + 200]",
            "call {before}",
            "mov r11, rax",
            "movaps xmm7, [rsp + 176]",
            "movaps xmm6, [rsp + 160]",
            "movaps xmm5, [rsp + 144]",
            "movaps xmm4, [rsp + 128]",
            "movaps xmm3, [rsp + 112]",
            "movaps xmm2, [rsp + 96]",
            "movaps xmm1, [rsp + 80]",
            "movaps xmm0, [rsp + 64]",
            "mov rax, [rsp + 48]",
            "mov r9, [rsp + 40]",
            "mov r8, [rsp + 32]",
            "mov rcx, [rsp + 24]",
            "mov rdx, [rsp + 16]",
            "mov rsi, [rsp + 8]",
            "mov rdi, [rsp]",
            "add rsp, 192",
            ".cfi_adjust_cfa_offset -192",
            "pop rbp",
            ".cfi_adjust_cfa_offset -8",
            "jmp r11",
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
            "push r9",
            ".cfi_adjust_cfa_offset 8",
            "push r8",
            ".cfi_adjust_cfa_offset 8",
            "push rcx",
            ".cfi_adjust_cfa_offset 8",
            "push rdx",
            ".cfi_adjust_cfa_offset 8",
            "push rsi",
            ".cfi_adjust_cfa_offset 8",
            "mov rsi, rsp",
            // Above these five and the return address.
            "lea rdx, [rsp + 48]",
            "call {function}",
            "add rsp, 40",
            ".cfi_adjust_cfa_offset -40",
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
            "push rbp",
            ".cfi_adjust_cfa_offset 8",
            "call {before}",
            "pop rbp",
            ".cfi_adjust_cfa_offset -8",
            "pop rdi",
            ".cfi_adjust_cfa_offset -8",
            ".cfi_register rip, rdi",
            "mov eax, {number}",
            "syscall",
            "push rdi",
            ".cfi_adjust_cfa_offset 8",
            ".cfi_rel_offset rip, 0",
            "test eax, eax",
            "jz 2f",
            "push rbp",
            ".cfi_adjust_cfa_offset 8",
            "mov edi, eax",
            "call {after}",
            "pop rbp",
            ".cfi_adjust_cfa_offset -8",
            "2:",
            "ret",
            ".cfi_endproc",
            before = sym $before,
            after = sym $after,
            number = const libc::SYS_vfork,
        )
    };
}

/// The instruction that jumps to `function`.
macro_rules! jump_to {
    () => {
        "jmp {function}"
    };
}

/// Jumps to a function.
macro_rules! instead {
    ($function:path) => {
        std::arch::naked_asm!($crate::interpose::processor::jump_to!(), function = sym $function)
    };
}

pub(super) use {after, instead, jump_to, listed, vforked};

/// Whether a signal handler's frame begins at a word of the stack.
///
/// It begins with its return address, the restorer that the C library passes to the kernel for each handler. After it
/// the kernel stores the interrupted context (`struct rt_sigframe` of Linux's `arch/x86/include/asm/sigframe.h`).
pub(super) fn is_frame(at: usize, word: usize, restorers: &[usize]) -> bool {
    restorers.contains(&word) && is_context(at)
}

/// In other places such a word is part of a `struct sigaction`. Not inline: its copies must be below the part of the
/// stack that is searched.
#[inline(never)]
fn is_context(at: usize) -> bool {
    /// After the restorer: flags of the context below 8, no link to another one, and at the end the selectors of
    /// 64-bit code.
    const CONTEXT: usize = 8;
    const SELECTORS: usize = CONTEXT + 40 + 18 * 8;
    const CODE: u16 = 0x33;
    let mut frame = [0; SELECTORS + 8];
    let word =
        |frame: &[u8], at: usize| frame[at..at + 8].iter().rev().fold(0_u64, |word, byte| word << 8 | u64::from(*byte));
    memory::peek(at, &mut frame)
        && word(&frame, CONTEXT) < 8
        && word(&frame, CONTEXT + 8) == 0
        && word(&frame, SELECTORS) as u16 == CODE
}
