//! The state of each descriptor number of the process.
//!
//! A number is unknown until the library sees this process make a socket there, and again after that socket is closed.
//! So sockets of unknown origin stay on the kernel's path, as do all other files.

use crate::interpose::slot::Slot;
use sidecore_sockets::stream::Remains;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Numbers from here on stay with the kernel: keys have 20 bits for a number. Unused pages of the table take no
/// memory.
const NUMBERS: usize = 1 << 20;
/// Standard input, output and errors stay with the kernel.
const FIRST: RawFd = 3;

static TABLE: [Slot; NUMBERS] = [const { Slot::new() }; NUMBERS];
/// No number from here on was ever a socket.
static END: AtomicUsize = AtomicUsize::new(0);

#[inline]
pub(crate) fn slot(fd: RawFd) -> Option<&'static Slot> {
    TABLE.get(usize::try_from(fd).ok()?)
}

/// Notes a new socket with this number; `born`: the epoch before it was made; `sent`: see [`Slot::make`].
pub(crate) fn made(fd: RawFd, born: u32, sent: u8) {
    if let Some(slot) = slot(fd).filter(|_| fd >= FIRST) {
        END.fetch_max(fd as usize + 1, Ordering::Relaxed);
        slot.make(born, sent);
    }
}

pub(crate) fn all() -> impl Iterator<Item = (RawFd, &'static Slot)> {
    let end = END.load(Ordering::Relaxed);
    (0..).zip(&TABLE[..end])
}

pub(crate) fn forget_all() {
    TABLE[..END.swap(0, Ordering::Relaxed)].iter().for_each(|slot| slot.word.clear());
}

/// In a forked child: notes that this socket's messages come after the rest of its parent's ring.
pub(crate) fn begin_behind(fd: RawFd, remains: Remains) {
    if let Some(slot) = slot(fd) {
        END.fetch_max(fd as usize + 1, Ordering::Relaxed);
        slot.begin_behind(remains);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_watched(fd: RawFd) -> bool {
        slot(fd).is_some_and(|slot| slot.word.look().is_watched())
    }

    #[test]
    fn numbers_that_nothing_is_known_of_are_the_kernels() {
        assert!(![-1, RawFd::MIN, 0, 2, 900_000, 1 << 20, RawFd::MAX].into_iter().any(is_watched));
    }

    #[test]
    fn a_number_is_watched_from_its_making_until_it_is_closed() {
        made(800_000, 1, 0);
        assert!(is_watched(800_000) && slot(800_000).unwrap().born() == 1);
        assert!(all().any(|(fd, _)| fd == 800_000));
        slot(800_000).unwrap().word.forget();
        assert!(!is_watched(800_000));
        made(1, 1, 0);
        assert!(!is_watched(1), "standard output");
    }
}
