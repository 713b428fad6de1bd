//! Asynchronous jobs: work that leaves its fibre while it waits, so that one thread has many in flight.

use super::{Failure, Handle, JobFunction, Object, api};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{BorrowedFd, RawFd};
use rustix::io::Errno;
use std::ffi::{c_int, c_void};
use std::ptr;

// Return values of `ASYNC_start_job` in `openssl/async.h`.
const NO_JOBS: c_int = 1;
const PAUSED: c_int = 2;
const FINISHED: c_int = 3;

/// Progress of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// It waits, and continues with the next [`Job::step`] after its descriptor became readable.
    Paused,
    /// The work is done.
    Finished,
}

/// Repeatable work, and the fibre that it runs on.
pub struct Job<T> {
    wait: Handle,
    work: Box<Work<T>>,
    /// The paused job, or null.
    running: Object,
    descriptor: Option<RawFd>,
}

struct Work<T> {
    subject: T,
    run: fn(&mut T) -> Result<(), Failure>,
    result: Result<(), Failure>,
}

impl<T> Job<T> {
    /// A job that does `run` with its subject. `run` has the small stack of a job, and must not panic.
    ///
    /// # Errors
    /// There is no libcrypto, or it has no memory.
    pub fn new(subject: T, run: fn(&mut T) -> Result<(), Failure>) -> Result<Self, Failure> {
        let api = api()?;
        let wait = api.make(api.async_wait_new, api.async_wait_free, "ASYNC_WAIT_CTX_new")?;
        let work = Box::new(Work { subject, run, result: Ok(()) });
        Ok(Self { wait, work, running: ptr::null_mut(), descriptor: None })
    }

    /// Starts the work, or continues it where it paused.
    ///
    /// # Errors
    /// Those of the work, or libcrypto has no job to spare.
    pub fn step(&mut self) -> Result<Step, Failure> {
        let (api, call) = (self.wait.api, "ASYNC_start_job");
        let (mut status, mut work, function): (_, _, JobFunction) = (0, &raw mut *self.work, run::<T>);
        self.descriptor = None;
        // SAFETY: the fibre gets a copy of the pointer to the work, which is boxed, used by nobody else until the job
        // has finished, and kept by `Drop` until then.
        let step = unsafe {
            let (argument, size) = ((&raw mut work).cast::<c_void>(), size_of::<*mut Work<T>>());
            (api.async_start)(&raw mut self.running, self.wait.raw(), &raw mut status, function, argument, size)
        };
        match step {
            PAUSED => {
                self.descriptor = self.awaited();
                Ok(Step::Paused)
            }
            FINISHED => {
                self.running = ptr::null_mut();
                std::mem::replace(&mut self.work.result, Ok(())).map(|()| Step::Finished)
            }
            NO_JOBS => Err(Failure::new(call, "no job is free, or this OpenSSL has none")),
            _ => Err(api.failure(call)),
        }
    }

    /// Whether it has begun and not finished.
    pub fn is_paused(&self) -> bool {
        !self.running.is_null()
    }

    /// The subject; `None` while the job is paused.
    pub fn subject(&self) -> Option<&T> {
        (!self.is_paused()).then_some(&self.work.subject)
    }

    /// The descriptor of a paused job, if it waits for exactly one.
    pub fn descriptor(&self) -> Option<RawFd> {
        self.descriptor
    }

    fn awaited(&self) -> Option<RawFd> {
        let (api, raw, mut fd, mut count) = (self.wait.api, self.wait.raw(), -1, 0);
        // SAFETY: with null the library only counts; it fills in as many as it counted, which is one.
        unsafe {
            let counted = (api.async_wait_fds)(raw, ptr::null_mut(), &raw mut count) == 1;
            let filled = counted && count == 1 && (api.async_wait_fds)(raw, &raw mut fd, &raw mut count) == 1;
            (filled && fd >= 0).then_some(fd)
        }
    }
}

impl<T> Drop for Job<T> {
    fn drop(&mut self) {
        // An abandoned fibre would still write to its work. A fibre that failed is gone as well.
        let mut ready = Ready::default();
        while self.is_paused() {
            let _ = ready.wait_for_any(std::slice::from_ref(self), -1);
            let _ = self.step();
        }
    }
}

/// Body of the fibre.
///
/// # Safety
/// `argument` points to a pointer to work that no other code uses until this returns.
unsafe extern "C" fn run<T>(argument: *mut c_void) -> c_int {
    // SAFETY: `argument` is the library's copy of the pointer that `step` gave. The work lives until the job has
    // finished, and only the fibre uses it until then.
    let work = unsafe { &mut **argument.cast::<*mut Work<T>>() };
    work.result = (work.run)(&mut work.subject);
    1
}

/// The jobs that can continue, and memory reused from wait to wait.
#[derive(Default)]
pub struct Ready {
    /// Their indices.
    pub indices: Vec<usize>,
    /// Empty but during a wait.
    fds: Vec<PollFd<'static>>,
}

impl Ready {
    /// Waits until a paused job can continue, at most `timeout_ms` (-1: without a limit), and lists those that can.
    ///
    /// # Errors
    /// The system refuses.
    pub fn wait_for_any<T>(&mut self, jobs: &[Job<T>], timeout_ms: i32) -> Result<(), Failure> {
        let Self { indices, fds } = self;
        let jobs = || jobs.iter().enumerate();
        indices.clear();
        // Without a descriptor it can always continue.
        indices.extend(jobs().filter(|(_, job)| job.is_paused() && job.descriptor.is_none()).map(|(index, _)| index));
        let timeout = if indices.is_empty() { timeout_ms } else { 0 };
        let timeout = (timeout >= 0)
            .then(|| Timespec { tv_sec: i64::from(timeout / 1000), tv_nsec: i64::from(timeout % 1000) * 1_000_000 });
        let awaited = || jobs().filter_map(|(index, job)| Some((index, job.descriptor?)));
        // SAFETY: the job's wait context keeps its descriptor open while the job is paused, and nobody steps it on
        // before the list is emptied below.
        fds.extend(
            awaited().map(|(_, fd)| PollFd::from_borrowed_fd(unsafe { BorrowedFd::borrow_raw(fd) }, PollFlags::IN)),
        );
        let polled = poll(fds, timeout.as_ref());
        // Any event, also an error, is for the job to handle. Where the system refuses, there is none.
        let woken = awaited().zip(fds.drain(..)).filter(|(_, fd)| !fd.revents().is_empty());
        indices.extend(woken.map(|((index, _), _)| index));
        match polled {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(Failure::new("poll", error.to_string())),
        }
    }
}
