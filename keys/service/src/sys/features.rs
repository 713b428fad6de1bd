//! Features of the kernel, found by asking it.

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use rustix::process::{PidfdFlags, getpid, pidfd_open};

/// Asks for the version instead of making rules.
const VERSION: libc::c_uint = 1;

/// Version of landlock's interface; `None`: the kernel has none, or it is switched off.
pub fn landlock() -> Option<u32> {
    let none = std::ptr::null::<libc::c_void>();
    // SAFETY: with this flag the kernel reads no memory; it takes a null pointer and size 0.
    let version = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, none, 0usize, VERSION) };
    u32::try_from(version).ok().filter(|version| *version > 0)
}

/// Whether the size of shared memory can be sealed.
pub fn sealing() -> bool {
    let sealed = |file| fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL);
    memfd_create("sidecore-check", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).and_then(sealed).is_ok()
}

/// Whether the end of a process can be waited for through a descriptor.
pub fn process_descriptors() -> bool {
    pidfd_open(getpid(), PidfdFlags::empty()).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_every_test_of_lanes_takes_is_here() {
        assert!(sealing() && process_descriptors());
        assert!(landlock().is_none_or(|version| version < 1000));
    }
}
