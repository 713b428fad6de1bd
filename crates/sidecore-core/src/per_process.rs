//! A place for something that each process makes for itself: a forked child does not go on with its parent's.
//!
//! Core follows no pointer: whoever has the place says whose a thing is and makes it. What was put there stays in memory,
//! in children too, for a thread that is not in the child may have been at work on it.

use crate::sync::{AtomicPtr, Ordering, Reliance};

/// Holds none, one of this process, or one of the process that forked it.
#[derive(Debug)]
pub struct PerProcess<T>(AtomicPtr<T>);

/// What asking for the thing of this process came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Got<T> {
    /// It is there.
    There(*mut T),
    /// It was made, and put in the place of the parent's; null: there was none.
    Made {
        /// That of this process.
        own: *mut T,
        /// What was there before.
        parents: *mut T,
    },
    /// It was made, but another thread had put one there meanwhile.
    Late {
        /// That of this process.
        own: *mut T,
        /// What was made in vain; nobody else knows it.
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

    /// That of this process, if it was made. `is_own` is asked of what is there.
    pub fn peek(&self, is_own: impl FnOnce(*mut T) -> bool) -> Option<*mut T> {
        Some(self.look()).filter(|there| !there.is_null() && is_own(*there))
    }

    /// That of this process, made if there is none yet.
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
        // Release: who finds it finds it made.
        let (put, found) =
            (Reliance::PlacePut.ordering(Ordering::Release), Reliance::PlaceLost.ordering(Ordering::Acquire));
        Ok(match self.0.compare_exchange(before, fresh, put, found) {
            Ok(parents) => Got::Made { own: fresh, parents },
            // The parent's was replaced once, by a thread of this process.
            Err(own) => Got::Late { own, spare: fresh },
        })
    }

    fn look(&self) -> *mut T {
        // Acquire: pairs with the release in `get`.
        self.0.load(Reliance::PlaceLook.ordering(Ordering::Acquire))
    }
}
