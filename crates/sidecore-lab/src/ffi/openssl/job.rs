//! Asynchronous jobs: a signature that leaves its fibre while it waits, so that one thread has many in flight.

use std::ffi::{c_int, c_void};
use std::ptr;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::BorrowedFd;
use rustix::io::Errno;

use super::{Api, Failure, Handle, Object, Signer};

// Of `openssl/async.h`: what `ASYNC_start_job` returns.
const NO_JOBS: c_int = 1;
const PAUSED: c_int = 2;
const FINISHED: c_int = 3;

/// Where a job stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// It waits, and goes on with the next [`Job::step`] after its descriptor became readable.
    Paused,
    /// The signature is made.
    Finished,
}

/// A signer and the fibre that it runs on.
pub(crate) struct Job<'a> {
    signer: Box<Signer<'a>>,
    wait: Handle<'a>,
    /// The paused job, or null.
    running: Object,
    /// The wait context's descriptor, once it has one.
    fd: Option<c_int>,
}

/// Whether this libcrypto has fibres on this machine.
pub(crate) fn jobs_are_possible(api: &Api) -> bool {
    // SAFETY: takes nothing.
    unsafe { (api.async_capable)() == 1 }
}

impl<'a> Job<'a> {
    /// A job that signs as `signer` does.
    pub(crate) fn new(signer: Signer<'a>) -> Result<Self, Failure> {
        let api = signer.api();
        // SAFETY: takes nothing.
        let raw = unsafe { (api.async_wait_new)() };
        let wait = api.own(raw, api.async_wait_free, "ASYNC_WAIT_CTX_new")?;
        Ok(Self { signer: Box::new(signer), wait, running: ptr::null_mut(), fd: None })
    }

    /// Starts the next signature, or goes on with the paused one.
    pub(crate) fn step(&mut self) -> Result<Step, Failure> {
        let (api, call) = (self.signer.api(), "ASYNC_start_job");
        let (mut status, mut signer) = (0, &raw mut *self.signer);
        // SAFETY: the fibre gets a copy of the pointer to the signer, which is boxed, used by nobody else until the job
        // has finished, and kept by `Drop` until then.
        let step = unsafe {
            let (argument, size) = ((&raw mut signer).cast::<c_void>(), size_of::<*mut Signer<'a>>());
            (api.async_start)(&raw mut self.running, self.wait.raw(), &raw mut status, sign, argument, size)
        };
        match step {
            PAUSED => {
                self.fd = self.descriptor();
                Ok(Step::Paused)
            }
            FINISHED => {
                self.running = ptr::null_mut();
                self.signer.check(status).map(|()| Step::Finished)
            }
            NO_JOBS => Err(Failure::new(call, "no job is free")),
            _ => Err(api.failure(call)),
        }
    }

    /// The signer, with the last signature. Only between signatures.
    pub(crate) fn signer(&self) -> Option<&Signer<'a>> {
        self.running.is_null().then_some(&self.signer)
    }

    fn descriptor(&self) -> Option<c_int> {
        let (api, mut fds, mut count) = (self.signer.api(), [-1; 1], 0);
        // SAFETY: with null the library only counts; it fills in as many as it counted, which is one.
        unsafe {
            let raw = self.wait.raw();
            let counted = (api.async_wait_fds)(raw, ptr::null_mut(), &raw mut count) == 1;
            let filled = counted && count == 1 && (api.async_wait_fds)(raw, fds.as_mut_ptr(), &raw mut count) == 1;
            (filled && fds[0] >= 0).then_some(fds[0])
        }
    }
}

impl Drop for Job<'_> {
    fn drop(&mut self) {
        // A fibre that is left behind would still write to the signer. One that fails is gone as well.
        while !self.running.is_null() {
            let mut waiting = Waiting::default();
            waiting.add(0, self);
            let _ = waiting.wait(-1, &mut Vec::new());
            let _ = self.step();
        }
    }
}

/// What runs on the fibre.
///
/// # Safety
/// `argument` points to a pointer to a signer that nobody else uses until this returns.
unsafe extern "C" fn sign(argument: *mut c_void) -> c_int {
    // SAFETY: `argument` is the library's copy of the pointer that `step` gave.
    let signer = unsafe { *argument.cast::<*mut Signer<'_>>() };
    // SAFETY: see `step`: it lives until the job has finished, and only the fibre uses it until then.
    unsafe { (*signer).run() }
}

/// Jobs that wait, with what they wait for. Its memory is used again.
#[derive(Default)]
struct Waiting {
    indices: Vec<usize>,
    fds: Vec<PollFd<'static>>,
    /// A job without a descriptor, which can always go on.
    unbound: Option<usize>,
}

impl Waiting {
    fn add(&mut self, index: usize, job: &Job<'_>) {
        let Some(fd) = job.fd else {
            self.unbound = Some(index);
            return;
        };
        // SAFETY: the job's wait context keeps its descriptor open while the job is paused, and `wait` is called before
        // any job is stepped on.
        let fd = unsafe { BorrowedFd::borrow_raw(fd) };
        self.indices.push(index);
        self.fds.push(PollFd::from_borrowed_fd(fd, PollFlags::IN));
    }

    /// Waits until some can go on, at most `timeout_ms` (-1: for ever), and puts their indices into `ready`.
    fn wait(&mut self, timeout_ms: i32, ready: &mut Vec<usize>) -> Result<(), Failure> {
        ready.extend(self.unbound);
        let timeout = if ready.is_empty() { timeout_ms } else { 0 };
        let timeout = (timeout >= 0)
            .then(|| Timespec { tv_sec: i64::from(timeout / 1000), tv_nsec: i64::from(timeout % 1000) * 1_000_000 });
        match poll(&mut self.fds, timeout.as_ref()) {
            Ok(_) => {}
            Err(Errno::INTR) => return Ok(()),
            Err(error) => return Err(Failure::new("poll", error.to_string())),
        }
        let woken = self.indices.iter().zip(&self.fds).filter(|(_, fd)| !fd.revents().is_empty());
        ready.extend(woken.map(|(index, _)| *index));
        Ok(())
    }
}

/// Jobs of one thread.
pub(crate) struct Jobs<'a> {
    jobs: Vec<Job<'a>>,
    waiting: Waiting,
}

impl<'a> Jobs<'a> {
    /// Those jobs.
    pub(crate) fn new(jobs: Vec<Job<'a>>) -> Self {
        Self { jobs, waiting: Waiting::default() }
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.jobs.len()
    }

    /// See [`Job::step`].
    pub(crate) fn step(&mut self, index: usize) -> Result<Step, Failure> {
        self.jobs[index].step()
    }

    /// How many are paused.
    pub(crate) fn paused(&self) -> usize {
        self.jobs.iter().filter(|job| !job.running.is_null()).count()
    }

    /// The signer of a job that is not paused.
    pub(crate) fn signer(&self, index: usize) -> Option<&Signer<'a>> {
        self.jobs[index].signer()
    }

    /// Waits until a paused job can go on, at most `timeout_ms` (-1: for ever); the indices of those that can.
    pub(crate) fn wait(&mut self, timeout_ms: i32, ready: &mut Vec<usize>) -> Result<(), Failure> {
        let Self { jobs, waiting } = self;
        waiting.unbound = None;
        waiting.indices.clear();
        waiting.fds.clear();
        for (index, job) in jobs.iter().enumerate().filter(|(_, job)| !job.running.is_null()) {
            waiting.add(index, job);
        }
        ready.clear();
        waiting.wait(timeout_ms, ready)
    }
}
