//! Memory of the program at addresses that may be wrong.

use syscalls::{Errno, Sysno, syscall};

/// Bytes of the smallest page.
pub(super) const PAGE: usize = 4096;

/// Copies bytes of the program. False: one of its pages cannot be read.
pub(super) fn peek(address: usize, to: &mut [u8]) -> bool {
    let Some(end) = address.checked_add(to.len()) else { return false };
    if !(address / PAGE..end.div_ceil(PAGE)).all(|page| is_readable(page * PAGE)) {
        return false;
    }
    // SAFETY: every page can be read, and a program does not unmap what it just named in a call.
    unsafe { std::ptr::copy_nonoverlapping(std::ptr::with_exposed_provenance(address), to.as_mut_ptr(), to.len()) };
    true
}

/// True if eight bytes there can be read. The kernel reads a set of signals before it checks the operation. The call changes
/// nothing, and filters of system calls permit it.
pub(super) fn is_readable(address: usize) -> bool {
    const NOTHING: i32 = -1;
    // No address is no set to the kernel.
    // SAFETY: an operation that there is not changes nothing; the kernel checks the address.
    address >= PAGE && unsafe { syscall!(Sysno::rt_sigprocmask, NOTHING, address, 0, 8) != Err(Errno::EFAULT) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_be_read_is_copied_and_nothing_else() {
        let (bytes, mut copy) = (vec![7_u8; 3 * PAGE], vec![0; 3 * PAGE]);
        assert!(peek(bytes.as_ptr().expose_provenance(), &mut copy) && copy == bytes);
        for wrong in [0, 8, usize::MAX - 9, usize::MAX - 3 * PAGE] {
            assert!(!peek(wrong, &mut copy), "{wrong:x}");
        }
    }
}
