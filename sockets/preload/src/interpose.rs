//! Functions that replace those of the C library, and all handling of their raw pointers.
//!
//! Each passes on to the C library's function with its name, unless the descriptor is a connection in a ring or about
//! to enter one. A thread may be cancelled inside the C library's function, or leave it by `longjmp`: so no value that
//! needs a drop is held across such a call.

#[cfg(target_arch = "aarch64")]
mod aarch64;
mod arguments;
mod catalogue;
mod copies;
mod descriptors;
mod environment;
mod errno;
mod leaving;
mod load;
mod memory;
pub(crate) mod message;
mod namespaces;
mod options;
mod pages;
mod processes;
mod programs;
mod raw;
mod real;
mod receiving;
mod sending;
pub(crate) mod signals;
pub(crate) mod slot;
pub(crate) mod socket;
mod trampoline;
mod unwinding;
mod uring;
mod users;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "aarch64")]
use aarch64 as processor;
pub(crate) use processes::is_borrower;
pub(crate) use uring::has_rings_of_its_own;
#[cfg(target_arch = "x86_64")]
use x86_64 as processor;

macro_rules! intercept {
    ($($(#[$attribute:meta])* fn $name:ident($($argument:ident: $type:ty),* $(,)?) -> $result:ty $body:block)*) => {
        $(
            $(#[$attribute])*
            /// # Safety
            /// As for the C library's function of this name.
            #[unsafe(no_mangle)]
            pub(super) unsafe extern "C-unwind" fn $name($($argument: $type),*) -> $result $body
        )*
    };
}

macro_rules! pass {
    ($name:ident($($argument:expr),* $(,)?)) => {{
        // SAFETY: the intercepting function was called in its place, with its arguments.
        unsafe { $crate::interpose::catalogue::$name($($argument),*) }
    }};
}

use {intercept, pass};
