//! System calls of the service of keys alone. Those that any service makes are in `sidecore_daemon::sys`.

pub mod features;
pub(crate) mod measuring;

pub(crate) use sidecore_ipc::sys::poll;
pub use sidecore_ipc::sys::verified_fd;

/// Returns freed memory to the system, as far as the C library can: if all memory of the process is locked it keeps
/// most of it for later allocations.
pub(crate) fn trim() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it takes a number, and the C library keeps its own memory in order.
    unsafe {
        libc::malloc_trim(0)
    };
}
