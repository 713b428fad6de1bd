//! A value that each process makes for itself: a forked child does not use its parent's.

use crate::shm::fork::ForkGuard;
use sidecore_core::per_process::{self, Got};
use std::io;

/// A place for one `T` per process. A parent's value stays in memory in its children, because a thread that does not
/// exist there may have been changing it.
pub struct PerProcess<T: 'static>(per_process::PerProcess<Made<T>>);

struct Made<T> {
    guard: ForkGuard,
    value: T,
}

impl<T: Send + Sync> PerProcess<T> {
    /// An empty place.
    pub const fn empty() -> Self {
        Self(per_process::PerProcess::empty())
    }

    /// This process's value, if it was made.
    pub fn peek(&'static self) -> Option<&'static T> {
        // SAFETY: what was put here is never freed.
        self.0.peek(is_own).map(|own| unsafe { &(*own).value })
    }

    /// This process's value, made at the first call. Then `inherit` receives the parent's value; it must not wait for
    /// any lock in there.
    ///
    /// # Errors
    /// Those of `make`.
    pub fn get(&'static self, make: fn() -> io::Result<T>, inherit: fn(&T)) -> io::Result<&'static T> {
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
                // SAFETY: made above, and no other reference to it exists.
                drop(unsafe { Box::from_raw(spare) });
                own
            }
        };
        // SAFETY: as in `peek`.
        Ok(unsafe { &(*own).value })
    }
}

fn is_own<T>(made: *mut Made<T>) -> bool {
    // SAFETY: only values that were put in a place are passed, and those are never freed.
    !unsafe { (*made).guard.forked() }
}
