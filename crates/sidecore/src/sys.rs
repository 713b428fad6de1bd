//! System calls of the service, each with the types that the rest of the runtime speaks; with those that clients make too.

pub mod cpu;
pub mod features;
pub(crate) mod message;
pub(crate) mod packet;
pub(crate) mod peer;
pub(crate) mod poller;
pub(crate) mod wake;

pub(crate) use sidecore_client::sys::poll;
pub use sidecore_client::sys::{clock, own};

/// Gives memory that was freed back to the system, as far as the C library can: where all memory of the process is locked it
/// keeps most of it for what is allocated next.
pub(crate) fn trim() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it takes a number, and the C library keeps its own memory in order.
    unsafe {
        libc::malloc_trim(0)
    };
}
