//! Asynchronous jobs.

use super::{API, Error, Owned};
use std::ffi::{c_int, c_void};
use std::os::fd::RawFd;
use std::ptr;

pub(super) type Function = unsafe extern "C" fn(*mut c_void) -> c_int;
type Work<'w> = &'w mut dyn FnMut() -> bool;

/// Longer than a signature takes, and short enough to find a hang, milliseconds.
const PATIENCE: c_int = 60_000;
const PAUSED: c_int = 2;
const FINISHED: c_int = 3;

/// An `ASYNC_WAIT_CTX`.
pub(crate) struct WaitContext(Owned);

impl WaitContext {
    pub(crate) fn new() -> Self {
        // SAFETY: asks nothing of its caller.
        let new = unsafe { (API.wait_new)() };
        Self(Owned::new(new, API.wait_free).unwrap())
    }

    /// Does the work in a job; at each pause `paused` gets the descriptors that the job waits on.
    pub(crate) fn run(&self, mut work: Work<'_>, mut paused: impl FnMut(&[RawFd])) -> Result<bool, Error> {
        let (mut job, mut result) = (ptr::null_mut(), 0);
        let argument: *mut Work<'_> = &raw mut work;
        loop {
            // SAFETY: the argument, of which OpenSSL makes a copy, points to what lives until the job is finished.
            let state = unsafe {
                let argument = (&raw const argument).cast();
                (API.job_start)(&raw mut job, self.0.object, &raw mut result, call, argument, size_of::<*mut c_void>())
            };
            match state {
                FINISHED => return Ok(result == 1),
                PAUSED => paused(&self.descriptors()),
                _ => return Err(Error::take()),
            }
        }
    }

    fn descriptors(&self) -> Vec<RawFd> {
        let mut count = 0;
        // SAFETY: asks for their number first, then has room for so many.
        unsafe {
            (API.wait_fds)(self.0.object, ptr::null_mut(), &raw mut count);
            let mut all = vec![-1; count];
            (API.wait_fds)(self.0.object, all.as_mut_ptr(), &raw mut count);
            all
        }
    }
}

/// # Safety
/// For OpenSSL only, with the argument that `run` gave.
unsafe extern "C" fn call(argument: *mut c_void) -> c_int {
    // SAFETY: a copy of the pointer that `run` gave.
    let work = unsafe { &mut **argument.cast::<*mut Work<'_>>() };
    c_int::from(work())
}

/// Closes all descriptors but standard input, output and errors, as daemons do.
pub(crate) fn close_all() {
    for number in 3..4096 {
        // SAFETY: what any program may do, and the matter of the test.
        unsafe { libc::close(number) };
    }
}

/// Waits for a job's descriptor.
pub(crate) fn becomes_readable(descriptor: RawFd) -> bool {
    let mut one = libc::pollfd { fd: descriptor, events: libc::POLLIN, revents: 0 };
    // SAFETY: one entry.
    unsafe { libc::poll(&raw mut one, 1, PATIENCE) == 1 && one.revents == libc::POLLIN }
}
