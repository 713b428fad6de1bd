//! A lock that stores its owner's thread: a signal handler can detect that the interrupted thread has it. Taking it is
//! one locked instruction, returning it none.

use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicUsize, Ordering};

const FREE: usize = 0;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Busy {
    Here,
    Elsewhere,
}

#[derive(Debug, Default)]
pub(crate) struct ThreadLock<T> {
    owner: AtomicUsize,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached through a guard only, and there is one guard at a time.
unsafe impl<T: Send> Sync for ThreadLock<T> {}

#[derive(Debug)]
pub(crate) struct Guard<'a, T> {
    lock: &'a ThreadLock<T>,
    /// Binds the guard to its thread.
    _thread: PhantomData<*const ()>,
}

impl<T> ThreadLock<T> {
    /// Takes the lock.
    ///
    /// # Errors
    /// Another owner has it.
    #[inline]
    pub(crate) fn try_lock(&self) -> Result<Guard<'_, T>, Busy> {
        let this = this_thread();
        // Acquire: makes the previous owner's changes of the value visible.
        match self.owner.compare_exchange(FREE, this, Ordering::Acquire, Ordering::Relaxed) {
            Ok(_) => Ok(Guard { lock: self, _thread: PhantomData }),
            Err(owner) if owner == this => Err(Busy::Here),
            Err(_) => Err(Busy::Elsewhere),
        }
    }

    pub(crate) fn is_here(&self) -> bool {
        self.owner.load(Ordering::Relaxed) == this_thread()
    }
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the holder of a guard has the value exclusively, and lends it only as long as the guard is borrowed.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T> Drop for Guard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.lock.owner.store(FREE, Ordering::Release);
    }
}

/// A number that no other live thread of the process has, and that is not [`FREE`].
#[inline]
fn this_thread() -> usize {
    // SAFETY: it has no requirement, and reads only the thread's own data.
    unsafe { libc::pthread_self() as usize }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;
    use std::thread;

    #[test]
    fn whoever_has_it_is_found_here_and_by_others_elsewhere() {
        let lock = ThreadLock::<u32>::default();
        assert!(!lock.is_here());
        let guard = lock.try_lock().unwrap();
        assert_eq!((lock.try_lock().err(), lock.is_here()), (Some(Busy::Here), true));
        thread::scope(|scope| {
            scope.spawn(|| assert_eq!((lock.try_lock().err(), lock.is_here()), (Some(Busy::Elsewhere), false)));
        });
        drop(guard);
        assert!(!lock.is_here() && lock.try_lock().is_ok());
    }

    #[test]
    fn two_threads_never_have_it_at_once() {
        const TIMES: u32 = 20_000;
        let (lock, begin) = (ThreadLock::<[u32; 2]>::default(), Barrier::new(2));
        let count = || {
            begin.wait();
            for _ in 0..TIMES {
                let mut pair = loop {
                    match lock.try_lock() {
                        Ok(guard) => break guard,
                        Err(_) => thread::yield_now(),
                    }
                };
                assert_eq!(pair[0], pair[1]);
                *pair = pair.map(|count| count + 1);
            }
        };
        thread::scope(|scope| [scope.spawn(count), scope.spawn(count)].map(|_| ()));
        assert_eq!(*lock.try_lock().unwrap(), [2 * TIMES; 2]);
    }
}
