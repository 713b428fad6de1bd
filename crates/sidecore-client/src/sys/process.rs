//! Something that each process makes for itself: a forked child does not go on with its parent's.

use crate::shm::fork::ForkGuard;
use std::io;
use std::sync::atomic::{AtomicPtr, Ordering};

/// A place for one `T` per process. What a parent made stays in memory in its children: a thread that is not there any
/// more may have been at work on it.
pub(crate) struct PerProcess<T: 'static> {
    current: AtomicPtr<Made<T>>,
}

struct Made<T> {
    guard: ForkGuard,
    value: T,
}

impl<T: Send + Sync> PerProcess<T> {
    /// Empty until it is asked.
    pub(crate) const fn new() -> Self {
        Self { current: AtomicPtr::new(std::ptr::null_mut()) }
    }

    /// This process's, if it was made.
    pub(crate) fn peek(&'static self) -> Option<&'static T> {
        // SAFETY: what was put here is never freed.
        let made = unsafe { self.current.load(Ordering::Acquire).as_ref()? };
        (!made.guard.forked()).then_some(&made.value)
    }

    /// This process's; made at the first call. Then `inherit` gets the parent's, of which it may take no lock that it
    /// would have to wait for.
    pub(crate) fn get(&'static self, make: fn() -> io::Result<T>, inherit: fn(&T)) -> io::Result<&'static T> {
        if let Some(value) = self.peek() {
            return Ok(value);
        }
        let before = self.current.load(Ordering::Acquire);
        // SAFETY: as in `peek`.
        if let Some(made) = unsafe { before.as_ref() }.filter(|made| !made.guard.forked()) {
            return Ok(&made.value);
        }
        let fresh = Box::into_raw(Box::new(Made { guard: ForkGuard::new()?, value: make()? }));
        match self.current.compare_exchange(before, fresh, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => {
                // SAFETY: as in `peek`.
                if let Some(parents) = unsafe { before.as_ref() } {
                    inherit(&parents.value);
                }
                // SAFETY: as in `peek`.
                Ok(unsafe { &(*fresh).value })
            }
            Err(others) => {
                // SAFETY: made above, and nobody else knows it.
                drop(unsafe { Box::from_raw(fresh) });
                // SAFETY: as in `peek`; another thread of this process made it.
                Ok(unsafe { &(*others).value })
            }
        }
    }
}
