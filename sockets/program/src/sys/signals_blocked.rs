//! Sections of a thread without signal handlers.
//!
//! A program's handler may call this library at any moment. It must never wait for the thread that it interrupted.

use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

/// Blocks signals on its thread while it exists; they arrive when it is dropped. A nested one has no effect; they are
/// dropped in reverse order.
pub struct SignalsBlocked {
    before: libc::sigset_t,
    /// Binds it to its thread.
    _thread: PhantomData<*const ()>,
}

impl SignalsBlocked {
    /// Blocks signals from now on.
    #[expect(clippy::new_without_default, reason = "it does something")]
    pub fn new() -> Self {
        let (mut all, mut before) = (MaybeUninit::uninit(), MaybeUninit::zeroed());
        // SAFETY: `sigfillset` makes `all` a set, which the next call reads; `before` is written by it, and is a set where it is all
        // zero as well.
        let before = unsafe {
            libc::sigfillset(all.as_mut_ptr());
            libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
            before.assume_init()
        };
        Self { before, _thread: PhantomData }
    }

    /// Takes a lock that signal handlers take as well. No code of the program runs while it is held.
    #[expect(clippy::unused_self, reason = "what is locked is given back before the signals come again")]
    pub(crate) fn lock<'a, T>(&'a self, mutex: &'a Mutex<T>) -> MutexGuard<'a, T> {
        mutex.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `None`: another owner has it, possibly this thread.
    #[expect(clippy::unused_self, reason = "as above")]
    pub(crate) fn try_lock<'a, T>(&'a self, mutex: &'a Mutex<T>) -> Option<MutexGuard<'a, T>> {
        match mutex.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(guard)) => Some(guard.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

impl Drop for SignalsBlocked {
    fn drop(&mut self) {
        // SAFETY: `before` is the set that was the thread's.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.before, std::ptr::null_mut()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn handles(signal: i32) -> bool {
        let mut now = MaybeUninit::zeroed();
        // SAFETY: without a set it only queries, and writes `now`, which `sigismember` reads.
        unsafe {
            libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), now.as_mut_ptr());
            libc::sigismember(now.as_ptr(), signal) == 0
        }
    }

    #[test]
    fn signals_come_again_when_the_outermost_ends() {
        assert!(handles(libc::SIGALRM));
        let outer = SignalsBlocked::new();
        drop(SignalsBlocked::new());
        assert!(!handles(libc::SIGALRM) && !handles(libc::SIGUSR1));
        drop(outer);
        assert!(handles(libc::SIGALRM));
    }
}
