//! OpenSSL's asynchronous jobs, looked up at run time: without these functions every operation is synchronous.

use super::waiting::Waiting;
use sidecore_client::keyops::lanes::Pool;
use sidecore_client::keyops::large_stack::guard;
use std::ffi::{CStr, c_int, c_void};
use std::io;
use std::mem::transmute_copy;
use std::sync::OnceLock;

type Cleanup = unsafe extern "C" fn(*mut c_void, *const c_void, c_int, *mut c_void);
type Resume = unsafe extern "C" fn(*mut c_void) -> c_int;

struct Functions {
    current_job: unsafe extern "C" fn() -> *mut c_void,
    wait_context: unsafe extern "C" fn(*mut c_void) -> *mut c_void,
    pause: unsafe extern "C" fn() -> c_int,
    set_fd: unsafe extern "C" fn(*mut c_void, *const c_void, c_int, *mut c_void, Cleanup) -> c_int,
    get_fd: unsafe extern "C" fn(*mut c_void, *const c_void, *mut c_int, *mut *mut c_void) -> c_int,
    clear_fd: unsafe extern "C" fn(*mut c_void, *const c_void) -> c_int,
    /// Since OpenSSL 3.0.
    get_callback: Option<unsafe extern "C" fn(*mut c_void, *mut Option<Resume>, *mut *mut c_void) -> c_int>,
}

/// Its address is the key of our descriptors in wait contexts.
static KEY: u8 = 0;
static FUNCTIONS: OnceLock<Option<Functions>> = OnceLock::new();

/// Looks up the functions, once: in a forked child the loader's lock may be held forever.
///
/// # Safety
/// `address` returns the address of libcrypto's function with this name.
pub(crate) unsafe fn find(address: impl Fn(&CStr) -> Option<*mut c_void>) {
    FUNCTIONS.get_or_init(|| {
        // SAFETY: OpenSSL's functions have these types, see openssl/async.h.
        unsafe {
            Some(Functions {
                current_job: transmute_copy(&address(c"ASYNC_get_current_job")?),
                wait_context: transmute_copy(&address(c"ASYNC_get_wait_ctx")?),
                pause: transmute_copy(&address(c"ASYNC_pause_job")?),
                set_fd: transmute_copy(&address(c"ASYNC_WAIT_CTX_set_wait_fd")?),
                get_fd: transmute_copy(&address(c"ASYNC_WAIT_CTX_get_fd")?),
                clear_fd: transmute_copy(&address(c"ASYNC_WAIT_CTX_clear_fd")?),
                get_callback: address(c"ASYNC_WAIT_CTX_get_callback").map(|address| transmute_copy(&address)),
            })
        }
    });
}

pub(crate) struct Job {
    functions: &'static Functions,
    context: *mut c_void,
}

pub(crate) fn current() -> Option<Job> {
    let functions = FUNCTIONS.get()?.as_ref()?;
    // SAFETY: OpenSSL's functions, called by a thread that it called.
    let context = unsafe {
        let job = (functions.current_job)();
        if job.is_null() {
            return None;
        }
        (functions.wait_context)(job)
    };
    (!context.is_null()).then_some(Job { functions, context })
}

impl Job {
    /// Runs `work` on the state of the job's wait context. It is made at first use, and belongs to this process.
    pub(crate) fn waiting<T>(&self, pool: &'static Pool, work: impl FnOnce(&mut Waiting) -> T) -> io::Result<T> {
        let (mut fd, mut ours) = self.ours();
        if ours.is_null() {
            let waiting = Waiting::new(pool)?;
            fd = waiting.fd();
            ours = Box::into_raw(Box::new(waiting)).cast();
            self.put(fd, ours)?;
        }
        // SAFETY: put there above or earlier, freed with the context; only the job that runs uses it, on one thread.
        let waiting = unsafe { &mut *ours.cast::<Waiting>() };
        let result = waiting.renew(pool).map(|()| work(waiting));
        let now = waiting.fd();
        if now != fd && now >= 0 {
            // The program closed the previous descriptor.
            // SAFETY: the job's own context. It forgets the descriptor and calls nothing.
            unsafe { (self.functions.clear_fd)(self.context, key()) };
            self.put(now, ours)?;
        }
        result
    }

    /// As `waiting`, if the job has waited before. A descriptor is added only for a pause: `HAProxy` 2.6 terminates if
    /// it finds one of a job that never paused.
    pub(crate) fn waited<T>(&self, work: impl FnOnce(&Waiting) -> T) -> Option<T> {
        let (_, ours) = self.ours();
        // SAFETY: as in `waiting`.
        (!ours.is_null()).then(|| work(unsafe { &*ours.cast::<Waiting>() }))
    }

    /// The box stored by `put`, and its descriptor; null: nothing yet.
    fn ours(&self) -> (c_int, *mut c_void) {
        let (mut fd, mut ours) = (-1, std::ptr::null_mut());
        // SAFETY: the job's own context, which lives while the job runs.
        let known = unsafe { (self.functions.get_fd)(self.context, key(), &raw mut fd, &raw mut ours) };
        if known == 0 { (-1, std::ptr::null_mut()) } else { (fd, ours) }
    }

    fn put(&self, fd: c_int, ours: *mut c_void) -> io::Result<()> {
        // SAFETY: as in `waiting`; from here on the context owns the box.
        if unsafe { (self.functions.set_fd)(self.context, key(), fd, ours, cleanup) } == 0 {
            // SAFETY: the context did not take it.
            drop(unsafe { Box::from_raw(ours.cast::<Waiting>()) });
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        Ok(())
    }

    /// Pauses the job until the program resumes it. `false`: it cannot pause.
    pub(crate) fn pause(&self) -> bool {
        if let Some(get) = self.functions.get_callback {
            let (mut callback, mut argument) = (None, std::ptr::null_mut());
            // SAFETY: as in `waiting`.
            let known = unsafe { get(self.context, &raw mut callback, &raw mut argument) };
            if let (1.., Some(callback)) = (known, callback) {
                // SAFETY: the program's own callback with its own argument.
                unsafe { callback(argument) };
            }
        }
        // SAFETY: called by a job.
        unsafe { (self.functions.pause)() == 1 }
    }
}

fn key() -> *const c_void {
    (&raw const KEY).cast()
}

/// # Safety
/// Only OpenSSL may call it, with arguments by `openssl/core_dispatch.h`.
unsafe extern "C" fn cleanup(_context: *mut c_void, _key: *const c_void, _fd: c_int, ours: *mut c_void) {
    guard((), || {
        // SAFETY: made by `put`, and the context is at its end.
        drop(unsafe { Box::from_raw(ours.cast::<Waiting>()) });
    });
}
