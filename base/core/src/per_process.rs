//! A place for an object that each process makes for itself: a forked child does not continue with its parent's.
//!
//! Core follows no pointer: the owner of the place creates the object and tells which process made it. An object
//! stays in memory permanently, in children too, since a thread that is not in the child may have been using it.

use crate::sync::{AtomicPtr, Ordering, Reliance};

/// Holds none, one of this process, or one of the process that forked it.
#[derive(Debug)]
pub struct PerProcess<T>(AtomicPtr<T>);

/// Result of a request for this process's object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Got<T> {
    /// It exists.
    There(*mut T),
    /// It was made and replaced the parent's; null: there was no parent's.
    Made {
        /// That of this process.
        own: *mut T,
        /// The object that was replaced.
        parents: *mut T,
    },
    /// It was made, but another thread had put one in place meanwhile.
    Late {
        /// That of this process.
        own: *mut T,
        /// The superfluous object, unknown to all other threads.
        spare: *mut T,
    },
}

impl<T> PerProcess<T> {
    /// An empty place.
    #[cfg(not(loom))]
    pub const fn empty() -> Self {
        Self(AtomicPtr::new(core::ptr::null_mut()))
    }

    /// One that holds this.
    #[cfg(loom)]
    pub fn holding(there: *mut T) -> Self {
        Self(AtomicPtr::new(there))
    }

    /// The object of this process, if it was made. `is_own` tests the current object.
    pub fn peek(&self, is_own: impl FnOnce(*mut T) -> bool) -> Option<*mut T> {
        Some(self.look()).filter(|there| !there.is_null() && is_own(*there))
    }

    /// The object of this process, made if there is none yet.
    ///
    /// # Errors
    /// It could not be made.
    pub fn get<E>(
        &self,
        is_own: impl FnOnce(*mut T) -> bool,
        make: impl FnOnce() -> Result<*mut T, E>,
    ) -> Result<Got<T>, E> {
        let before = self.look();
        if !before.is_null() && is_own(before) {
            return Ok(Got::There(before));
        }
        let fresh = make()?;
        // Release: a thread that finds the object finds it complete.
        let (put, found) =
            (Reliance::PlacePut.ordering(Ordering::Release), Reliance::PlaceLost.ordering(Ordering::Acquire));
        Ok(match self.0.compare_exchange(before, fresh, put, found) {
            Ok(parents) => Got::Made { own: fresh, parents },
            // A thread of this process replaced the parent's object before.
            Err(own) => Got::Late { own, spare: fresh },
        })
    }

    fn look(&self) -> *mut T {
        // Acquire: pairs with the release in `get`.
        self.0.load(Reliance::PlaceLook.ordering(Ordering::Acquire))
    }
}
