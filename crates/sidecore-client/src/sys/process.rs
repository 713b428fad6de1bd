//! Something that each process makes for itself: a forked child does not go on with its parent's.

use crate::shm::fork::ForkGuard;
use sidecore_core::per_process::{self, Got};
use std::io;

/// A place for one `T` per process. What a parent made stays in memory in its children: a thread that is not there any
/// more may have been at work on it.
pub(crate) struct PerProcess<T: 'static>(per_process::PerProcess<Made<T>>);

struct Made<T> {
    guard: ForkGuard,
    value: T,
}

impl<T: Send + Sync> PerProcess<T> {
    /// Empty until it is asked.
    pub(crate) const fn new() -> Self {
        Self(per_process::PerProcess::empty())
    }

    /// This process's, if it was made.
    pub(crate) fn peek(&'static self) -> Option<&'static T> {
        // SAFETY: what was put here is never freed.
        self.0.peek(is_own).map(|own| unsafe { &(*own).value })
    }

    /// This process's; made at the first call. Then `inherit` gets the parent's, of which it may take no lock that it
    /// would have to wait for.
    pub(crate) fn get(&'static self, make: fn() -> io::Result<T>, inherit: fn(&T)) -> io::Result<&'static T> {
        let make = || io::Result::Ok(Box::into_raw(Box::new(Made { guard: ForkGuard::new()?, value: make()? })));
        let own = match self.0.get(is_own, make)? {
            Got::There(own) => own,
            Got::Made { own, parents } => {
                // SAFETY: as in `peek`.
                if let Some(parents) = unsafe { parents.as_ref() } {
                    inherit(&parents.value);
                }
                own
            }
            Got::Late { own, spare } => {
                // SAFETY: made above, and nobody else knows it.
                drop(unsafe { Box::from_raw(spare) });
                own
            }
        };
        // SAFETY: as in `peek`.
        Ok(unsafe { &(*own).value })
    }
}

/// Whether what is in a place is of this process.
fn is_own<T>(made: *mut Made<T>) -> bool {
    // SAFETY: only what was put in a place is asked, which is never freed.
    !unsafe { (*made).guard.forked() }
}
