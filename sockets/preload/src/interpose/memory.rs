//! Access to the program's memory at addresses that may be invalid.

use syscalls::{Errno, Sysno, syscall};

pub(super) const PAGE: usize = 4096;

/// Copies bytes of the program. False: one of its pages is not readable.
pub(super) fn peek(address: usize, to: &mut [u8]) -> bool {
    let Some(end) = address.checked_add(to.len()) else { return false };
    if !(address / PAGE..end.div_ceil(PAGE)).all(|page| is_readable(page * PAGE)) {
        return false;
    }
    // SAFETY: every page is readable, and a program does not unmap memory that it just passed to a call.
    unsafe { std::ptr::copy_nonoverlapping(std::ptr::with_exposed_provenance(address), to.as_mut_ptr(), to.len()) };
    true
}

/// True if eight bytes at this address are readable. The kernel reads a set of signals before it checks the operation.
/// The call changes nothing, and filters of system calls permit it.
pub(super) fn is_readable(address: usize) -> bool {
    const NOTHING: i32 = -1;
    // For the kernel, address zero means no set.
    // SAFETY: an unknown operation changes nothing; the kernel checks the address.
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
