//! OpenSSL's asynchronous jobs, looked up at run time: without these functions every operation is synchronous.

use super::waiting::Waiting;
use sidecore_client::keyops::failure::{Failure, Reason};
use sidecore_client::keyops::lanes::Pool;
use sidecore_client::keyops::large_stack::{guard, on_large_stack};
use sidecore_client::keyops::notice;
use std::ffi::{CStr, c_int, c_void};
use std::io;
use std::mem::transmute_copy;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

type Cleanup = unsafe extern "C" fn(*mut c_void, *const c_void, c_int, *mut c_void);
type Resume = unsafe extern "C" fn(*mut c_void) -> c_int;

struct Functions {
    current_job: unsafe extern "C" fn() -> *mut c_void,
    wait_context: unsafe extern "C" fn(*mut c_void) -> *mut c_void,
    pause: unsafe extern "C" fn() -> c_int,
    set_fd: unsafe extern "C" fn(*mut c_void, *const c_void, c_int, *mut c_void, Cleanup) -> c_int,
    get_fd: unsafe extern "C" fn(*mut c_void, *const c_void, *mut c_int, *mut *mut c_void) -> c_int,
    clear_fd: unsafe extern "C" fn(*mut c_void, *const c_void) -> c_int,
    changed_fds: unsafe extern "C" fn(*mut c_void, *mut c_int, *mut usize, *mut c_int, *mut usize) -> c_int,
    /// Since OpenSSL 3.0.
    get_callback: Option<unsafe extern "C" fn(*mut c_void, *mut Option<Resume>, *mut *mut c_void) -> c_int>,
}

/// Limit of jobs of a process that were paused when their wait contexts were freed. OpenSSL never frees such a job, which
/// has 32 KiB of stack: `HAProxy` leaves one behind for each client that leaves at the wrong moment.
const MAX_ABANDONED: usize = 1024;

static ABANDONED: AtomicUsize = AtomicUsize::new(0);
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
                changed_fds: transmute_copy(&address(c"ASYNC_WAIT_CTX_get_changed_fds")?),
                get_callback: address(c"ASYNC_WAIT_CTX_get_callback").map(|address| transmute_copy(&address)),
            })
        }
    });
}

/// What became of a pause.
pub(crate) struct Pause<T> {
    /// `false`: the job cannot pause.
    pub(crate) paused: bool,
    /// What was left with the descriptor. `None`: it is that of the process that forked this one.
    pub(crate) left: Option<T>,
}

pub(crate) struct Job {
    functions: &'static Functions,
    context: *mut c_void,
}

pub(crate) fn current() -> Option<Job> {
    let functions = FUNCTIONS.get()?.as_ref()?;
    // SAFETY: ASYNC_get_current_job(3) may be called on any thread, and the job that runs on it has a wait context.
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
    /// Pauses until the program resumes the job. Before, `arm` prepares its descriptor; afterwards, paused or not, `resumed` takes what
    /// `arm` left there.
    ///
    /// A program learns of descriptors in a pause only. `HAProxy` ends itself when it finds another one as it closes a
    /// connection. So this is the only place where one enters the wait context, and it does not stay there unless the
    /// program has seen it.
    ///
    /// # Errors
    /// No descriptor is left, or one of `arm`. The job has not paused.
    pub(crate) fn pause<T>(
        &self,
        pool: &'static Pool,
        arm: impl FnOnce(&mut Waiting) -> io::Result<()>,
        resumed: impl FnOnce(&mut Waiting) -> T,
    ) -> io::Result<Pause<T>> {
        let armed = self.armed(pool, arm);
        self.with_ours(|waiting| waiting.paused += 1);
        let paused = armed.is_ok() && self.suspend() && self.is_seen();
        self.with_ours(|waiting| waiting.paused -= 1);
        let left = armed.map(|()| Pause { paused, left: self.waited(resumed) });
        self.withdraw();
        left
    }

    /// Runs `work` on what the job waited on before, if that is of this process.
    pub(crate) fn waited<T>(&self, work: impl FnOnce(&mut Waiting) -> T) -> Option<T> {
        self.with_ours(|waiting| waiting.is_current().then(|| work(waiting))).flatten()
    }

    fn armed(&self, pool: &'static Pool, arm: impl FnOnce(&mut Waiting) -> io::Result<()>) -> io::Result<()> {
        if ABANDONED.load(Ordering::Relaxed) >= MAX_ABANDONED {
            return Err(io::Error::new(io::ErrorKind::QuotaExceeded, "too many paused jobs were abandoned"));
        }
        if self.ours().1.is_null() {
            self.put(Box::into_raw(Box::new(Waiting::new(pool)?)))?;
        }
        let (fd, ours) = self.ours();
        let Some((armed, now)) =
            self.with_ours(|waiting| (waiting.renew(pool).and_then(|()| arm(waiting)), waiting.fd()))
        else {
            return Err(io::ErrorKind::OutOfMemory.into());
        };
        if now != fd {
            // The program closed the previous descriptor, or it was the parent's.
            // SAFETY: as in `withdraw`; `put` stores the box again.
            unsafe { (self.functions.clear_fd)(self.context, key()) };
            self.put(ours.cast())?;
        }
        armed
    }

    /// Whether the program knows the descriptor, after a pause. Programs may forbid pauses: then libcrypto returns from
    /// one at once and says that all went well, but still counts the descriptor as new.
    fn is_seen(&self) -> bool {
        let (mut added, mut removed) = (0, 0);
        let nowhere = std::ptr::null_mut();
        // SAFETY: as in `ours`; without places for descriptors it only counts.
        unsafe {
            (self.functions.changed_fds)(self.context, nowhere, &raw mut added, nowhere, &raw mut removed);
        }
        let seen = |waiting: &mut Waiting| {
            waiting.seen |= added == 0;
            waiting.seen
        };
        self.with_ours(seen).unwrap_or(false)
    }

    /// Takes a descriptor out that the program has not seen.
    fn withdraw(&self) {
        let (_, ours) = self.ours();
        if self.with_ours(|waiting| waiting.seen) == Some(false) {
            // SAFETY: the job's own context. It forgets the descriptor and the box, and calls nothing.
            unsafe { (self.functions.clear_fd)(self.context, key()) };
            // SAFETY: made by `armed`, and nothing knows it any more.
            drop(unsafe { Box::from_raw(ours.cast::<Waiting>()) });
        }
    }

    fn with_ours<T>(&self, work: impl FnOnce(&mut Waiting) -> T) -> Option<T> {
        let (_, ours) = self.ours();
        // SAFETY: put there by `put`, freed with the context; only the job that runs uses it, on one thread.
        unsafe { ours.cast::<Waiting>().as_mut() }.map(work)
    }

    /// The descriptor and the box stored by `put`; null: nothing yet.
    fn ours(&self) -> (c_int, *mut c_void) {
        let (mut fd, mut ours) = (-1, std::ptr::null_mut());
        // SAFETY: the job's own context, which lives while the job runs.
        let known = unsafe { (self.functions.get_fd)(self.context, key(), &raw mut fd, &raw mut ours) };
        if known == 0 { (-1, std::ptr::null_mut()) } else { (fd, ours) }
    }

    fn put(&self, ours: *mut Waiting) -> io::Result<()> {
        // SAFETY: a box that only the caller knows.
        let fd = unsafe {
            (*ours).seen = false;
            (*ours).fd()
        };
        // SAFETY: as in `ours`; from here on the context owns the box.
        if unsafe { (self.functions.set_fd)(self.context, key(), fd, ours.cast(), cleanup) } == 0 {
            // SAFETY: the context did not take it.
            drop(unsafe { Box::from_raw(ours) });
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        Ok(())
    }

    /// `false`: libcrypto cannot pause the job.
    fn suspend(&self) -> bool {
        if let Some(get) = self.functions.get_callback {
            let (mut callback, mut argument) = (None, std::ptr::null_mut());
            // SAFETY: as in `ours`.
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
        let waiting = unsafe { Box::from_raw(ours.cast::<Waiting>()) };
        if waiting.paused > 0 && ABANDONED.fetch_add(1, Ordering::Relaxed) + 1 == MAX_ABANDONED {
            let text = format!(
                "{MAX_ABANDONED} clients left while jobs of this process were paused, and OpenSSL keeps the memory of each \
                 such job: from now on jobs block their thread; restart the program at a quiet time"
            );
            on_large_stack(|| notice::tell(&Failure::new(Reason::Limit, text), None));
        }
    });
}
