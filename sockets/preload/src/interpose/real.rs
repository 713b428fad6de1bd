//! The C library's own functions, or those of another preloaded library after this one.

use super::errno;
use libc::{c_int, nfds_t, pollfd};
use std::ffi::CStr;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

pub(super) struct Real {
    name: &'static CStr,
    address: AtomicUsize,
}

impl Real {
    pub(super) const fn new(name: &'static CStr) -> Self {
        Self { name, address: AtomicUsize::new(0) }
    }

    #[inline]
    pub(super) fn address(&self) -> usize {
        match self.address.load(Ordering::Relaxed) {
            0 => self.find(),
            address => address,
        }
    }

    #[cold]
    pub(super) fn find(&self) -> usize {
        self.known().unwrap_or(missing as *const () as usize)
    }

    /// The address. `None`: not found; a library that has it may be loaded later.
    pub(super) fn known(&self) -> Option<usize> {
        // SAFETY: the name is a terminated string.
        let found = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) }.addr();
        self.address.store(found, Ordering::Relaxed);
        (found != 0).then_some(found)
    }

    pub(super) fn name(&self) -> &'static CStr {
        self.name
    }
}

extern "C" fn missing() -> isize {
    errno::set(libc::ENOSYS);
    -1
}

// SAFETY: as the C library declares it.
unsafe extern "C-unwind" {
    fn poll(all: *mut pollfd, count: nfds_t, timeout_ms: c_int) -> c_int;
}

/// The C library's `poll`, a cancellation point, for room to write to one descriptor or to none.
pub(super) fn poll_for_room(socket: Option<RawFd>, limit: Duration) -> c_int {
    // The kernel passes over a negative number.
    let mut one = pollfd { fd: socket.unwrap_or(-1), events: libc::POLLOUT, revents: 0 };
    let milliseconds = limit.as_micros().div_ceil(1000).try_into().unwrap_or(c_int::MAX);
    // SAFETY: one descriptor, which lives until the call returns.
    unsafe { poll(&raw mut one, 1, milliseconds) }
}

macro_rules! real {
    (
        $($name:ident = $symbol:literal ($($argument:ident: $type:ty),*) -> $result:ty;)*
        => jumped to only:
        $($target:ident = $target_symbol:literal;)*
    ) => {
        pub(super) struct Reals {
            $(pub(super) $name: $crate::interpose::real::Real,)*
            $(pub(super) $target: $crate::interpose::real::Real,)*
        }

        impl Reals {
            pub(super) fn find(&self) {
                $(self.$name.find();)*
                $(self.$target.find();)*
            }
        }

        pub(super) static REAL: Reals = Reals {
            $($name: $crate::interpose::real::Real::new($symbol),)*
            $($target: $crate::interpose::real::Real::new($target_symbol),)*
        };

        $(
            /// # Safety
            /// As for the C library's function of this name.
            #[inline]
            pub(super) unsafe fn $name($($argument: $type),*) -> $result {
                type Function = unsafe extern "C-unwind" fn($($type),*) -> $result;
                // SAFETY: the C library's function of that name is of this type; one that is missing takes any arguments
                // and returns -1, in a register that is wide enough.
                let call: Function = unsafe { std::mem::transmute(REAL.$name.address()) };
                // SAFETY: as the caller promised.
                unsafe { call($($argument),*) }
            }
        )*
    };
}
pub(super) use real;
