//! A lock that knows the process of its holder. A forked child has no thread that would release its parent's locks, so it
//! gets an error and does not wait.

use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

/// Attempts before a waiting thread sleeps between them.
const YIELDS: u32 = 64;
/// Sleep between attempts. Threads wait only for one another's use of one session, and for short work.
const NAP: Duration = Duration::from_micros(50);

pub(crate) struct OwnedLock<T> {
    /// Number of the holder's process; 0: free.
    holder: AtomicU32,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached only by the holder, one thread at a time, and may move between threads.
unsafe impl<T: Send> Sync for OwnedLock<T> {}

/// The holder is a thread of the process that forked this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Orphaned;

pub(crate) struct Guard<'l, T>(&'l OwnedLock<T>);

impl<T> OwnedLock<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self { holder: AtomicU32::new(0), value: UnsafeCell::new(value) }
    }

    /// Waits for the lock. `process`: the number of this process, not 0.
    pub(crate) fn lock(&self, process: u32) -> Result<Guard<'_, T>, Orphaned> {
        let mut attempts = 0;
        loop {
            match self.holder.compare_exchange(0, process, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return Ok(Guard(self)),
                Err(holder) if holder != process => return Err(Orphaned),
                Err(_) if attempts < YIELDS => thread::yield_now(),
                Err(_) => thread::sleep(NAP),
            }
            attempts += 1;
        }
    }

    /// As [`OwnedLock::lock`]. The value of a lock that the parent's thread holds is left as it is, and replaced by
    /// `fresh`.
    pub(crate) fn lock_or(&self, process: u32, fresh: impl Fn() -> T) -> Guard<'_, T> {
        loop {
            if let Ok(guard) = self.lock(process) {
                return guard;
            }
            let holder = self.holder.load(Ordering::Relaxed);
            let is_parents = holder != 0 && holder != process;
            let take = || self.holder.compare_exchange(holder, process, Ordering::Acquire, Ordering::Relaxed);
            if is_parents && take().is_ok() {
                // SAFETY: this thread is the holder now. The former value is not dropped: it may be half changed.
                unsafe { self.value.get().write(fresh()) };
                return Guard(self);
            }
        }
    }
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: this thread holds the lock.
        unsafe { &*self.0.value.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: this thread holds the lock.
        unsafe { &mut *self.0.value.get() }
    }
}

impl<T> Drop for Guard<'_, T> {
    fn drop(&mut self) {
        self.0.holder.store(0, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_thread_at_a_time_changes_the_value() {
        static LOCK: OwnedLock<u32> = OwnedLock::new(0);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..1000).for_each(|_| *LOCK.lock(7).unwrap() += 1));
            }
        });
        assert_eq!(*LOCK.lock(7).unwrap(), 4000);
    }

    #[test]
    fn a_child_learns_that_the_holder_is_not_there_and_takes_a_fresh_value() {
        let lock = OwnedLock::new(vec![1]);
        std::mem::forget(lock.lock(7).unwrap());
        assert_eq!(lock.lock(8).err(), Some(Orphaned));
        assert!(lock.lock_or(8, Vec::new).is_empty());
        lock.lock_or(8, Vec::new).push(2);
        assert_eq!(*lock.lock(9).unwrap(), [2]);
    }
}
