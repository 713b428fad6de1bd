//! Descriptors of the library in static memory, readable by signal handlers. Each is identified by device and inode.

use rustix::fd::BorrowedFd;
use sidecore_ipc::sys::verified_fd::{Left, VerifiedFd};
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::{AtomicU64, Ordering, fence};

const FREE: u64 = 0;
/// Another thread is storing or removing a descriptor.
const BUSY: u64 = 1;
/// Added to the tag.
const KEPT: u64 = 2;

pub(super) struct Kept {
    state: AtomicU64,
    words: [AtomicU64; 3],
}

impl Kept {
    pub(super) const fn none() -> Self {
        Self { state: AtomicU64::new(FREE), words: [const { AtomicU64::new(0) }; 3] }
    }

    pub(super) fn put(&self, tag: u32, own: VerifiedFd) -> Result<(), VerifiedFd> {
        if self.state.compare_exchange(FREE, BUSY, Ordering::Acquire, Ordering::Relaxed).is_err() {
            return Err(own);
        }
        for (word, value) in self.words.iter().zip(own.leave().words()) {
            word.store(value, Ordering::Relaxed);
        }
        self.state.store(u64::from(tag) + KEPT, Ordering::Release);
        Ok(())
    }

    pub(super) fn tag(&self) -> Option<u32> {
        self.left().map(|(tag, _)| tag)
    }

    /// The number. `None`: the slot is empty, or the program has closed the descriptor or replaced the file.
    fn number(&self) -> Option<RawFd> {
        self.with(|fd| fd.as_raw_fd())
    }

    /// The number, which may refer to another file now.
    pub(super) fn left_number(&self) -> Option<RawFd> {
        self.left().map(|(_, left)| left.number())
    }

    pub(super) fn is(&self, fd: RawFd) -> bool {
        // The number first: most closes are of other numbers, and then need no system call.
        self.left().is_some_and(|(_, left)| left.number() == fd) && self.number() == Some(fd)
    }

    /// Calls `act`. `None`: the slot is empty, or the program has closed the descriptor or replaced the file.
    pub(super) fn with<T>(&self, act: impl FnOnce(BorrowedFd<'_>) -> T) -> Option<T> {
        let own = VerifiedFd::recall(self.left()?.1)?;
        let done = own.get().map(act);
        own.leave();
        done
    }

    /// Empties the slot with that tag, and closes the descriptor unless the file was replaced. True for the first caller.
    pub(super) fn close(&self, tag: u32) -> bool {
        let kept = u64::from(tag) + KEPT;
        let is_first = self.state.compare_exchange(kept, BUSY, Ordering::Acquire, Ordering::Relaxed).is_ok();
        if is_first {
            drop(VerifiedFd::recall(self.words()));
            self.state.store(FREE, Ordering::Release);
        }
        is_first
    }

    fn left(&self) -> Option<(u32, Left)> {
        let state = self.state.load(Ordering::Acquire);
        let tag = state.checked_sub(KEPT)?;
        let left = self.words();
        // Pairs with the acquire of the next `put`: a change of the words is seen as a change of the state.
        fence(Ordering::Acquire);
        (self.state.load(Ordering::Relaxed) == state).then_some((tag as u32, left))
    }

    fn words(&self) -> Left {
        Left::from_words([0, 1, 2].map(|word: usize| self.words[word].load(Ordering::Relaxed)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::io::{fcntl_getfd, write};
    use rustix::pipe::pipe;

    #[test]
    fn what_took_its_number_is_neither_used_nor_closed() {
        let kept = Kept::none();
        let (_reader, writer) = pipe().unwrap();
        assert!(kept.put(7, VerifiedFd::new(writer).unwrap()).is_ok());
        assert_eq!(kept.with(|fd| write(fd, b"x")), Some(Ok(1)));
        assert!(kept.number().is_some_and(|number| kept.is(number)));
        // Simulates another file with its number.
        let (other, _writer) = pipe().unwrap();
        kept.words[2].store(other.as_raw_fd().cast_unsigned().into(), Ordering::Relaxed);
        assert_eq!((kept.with(|_| ()), kept.number(), kept.tag()), (None, None, Some(7)));
        assert!(!kept.is(other.as_raw_fd()));
        assert!(!kept.close(8) && kept.close(7) && !kept.close(7));
        assert!(fcntl_getfd(&other).is_ok());
        assert_eq!((kept.tag(), kept.number()), (None, None));
    }
}
