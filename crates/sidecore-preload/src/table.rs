//! What is known of each descriptor number of the process.
//!
//! Nothing is known of a number until this process is seen to make a connection there, and again when it is closed. So a
//! socket that came by a way that is not understood is the kernel's, and such is everything that is not a socket.

use crate::interpose::slot::Slot;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Numbers from there on are the kernel's. The pages of numbers that are not used take no memory.
const NUMBERS: usize = 1 << 20;
/// Standard input, output and errors are the kernel's.
const FIRST: RawFd = 3;

static TABLE: [Slot; NUMBERS] = [const { Slot::new() }; NUMBERS];
/// No number from there on was ever a connection.
static END: AtomicUsize = AtomicUsize::new(0);

/// What is known of that number.
#[inline]
pub(crate) fn slot(fd: RawFd) -> Option<&'static Slot> {
    TABLE.get(usize::try_from(fd).ok()?)
}

/// What is known of that number, if it is more than that it is the kernel's.
#[inline]
pub(crate) fn watched(fd: RawFd) -> Option<&'static Slot> {
    slot(fd).filter(|slot| slot.is_watched())
}

/// The process made a connection at that number; `born`: the epoch before it did.
pub(crate) fn made(fd: RawFd, born: u32) {
    if let Some(slot) = slot(fd).filter(|_| fd >= FIRST) {
        END.fetch_max(fd as usize + 1, Ordering::Relaxed);
        slot.make(born);
    }
}

/// All numbers that may be connections, or that the service may have open.
pub(crate) fn all() -> impl Iterator<Item = (RawFd, &'static Slot)> {
    let end = END.load(Ordering::Relaxed);
    (0..).zip(&TABLE[..end]).filter(|(_, slot)| slot.is_watched() || slot.was_in_ring())
}

/// Whether the process never had a connection.
pub(crate) fn is_empty() -> bool {
    END.load(Ordering::Relaxed) == 0
}

/// In a forked child: nothing is known of any.
pub(crate) fn forget_all() {
    TABLE[..END.swap(0, Ordering::Relaxed)].iter().for_each(Slot::clear);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_nothing_is_known_of_are_the_kernels() {
        for fd in [-1, RawFd::MIN, 0, 2, 900_000, 1 << 20, RawFd::MAX] {
            assert!(watched(fd).is_none());
        }
    }

    #[test]
    fn a_number_is_watched_from_its_making_until_it_is_closed() {
        made(800_000, 1);
        assert!(watched(800_000).is_some_and(|slot| slot.born() == 1));
        assert!(all().any(|(fd, _)| fd == 800_000));
        slot(800_000).unwrap().forget();
        assert!(watched(800_000).is_none());
        made(1, 1);
        assert!(watched(1).is_none(), "standard output");
    }
}
