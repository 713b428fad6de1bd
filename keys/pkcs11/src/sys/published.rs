//! A value that is replaced rarely and read without a lock. A replaced value is never freed, as a thread may read it.

use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

pub(crate) struct Published<T: 'static>(AtomicPtr<T>);

impl<T: Send + Sync> Published<T> {
    pub(crate) const fn empty() -> Self {
        Self(AtomicPtr::new(ptr::null_mut()))
    }

    pub(crate) fn get(&self) -> Option<&'static T> {
        // SAFETY: null, or from `set`, and never freed.
        unsafe { self.0.load(Ordering::Acquire).as_ref() }
    }

    pub(crate) fn set(&self, value: T) {
        self.0.store(Box::into_raw(Box::new(value)), Ordering::Release);
    }
}
