//! A descriptor that the library keeps where handlers of signals find it, known by what it is and not by its number.

use rustix::fd::BorrowedFd;
use sidecore_client::sys::own::{Left, Own};
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicU64, Ordering};

/// Nothing is kept.
const FREE: u64 = 0;
/// Somebody is putting something in, or taking it out.
const BUSY: u64 = 1;
/// What is kept has its tag above these.
const KEPT: u64 = 2;

/// A place for one, with a tag that says what it is for.
pub(super) struct Kept {
    state: AtomicU64,
    words: [AtomicU64; 3],
}

impl Kept {
    pub(super) const fn none() -> Self {
        Self { state: AtomicU64::new(FREE), words: [const { AtomicU64::new(0) }; 3] }
    }

    /// Keeps it. Gives it back where something is kept already.
    pub(super) fn put(&self, tag: u32, own: Own) -> Result<(), Own> {
        if self.state.compare_exchange(FREE, BUSY, Ordering::Acquire, Ordering::Relaxed).is_err() {
            return Err(own);
        }
        for (word, value) in self.words.iter().zip(own.leave().words()) {
            word.store(value, Ordering::Relaxed);
        }
        self.state.store(u64::from(tag) + KEPT, Ordering::Release);
        Ok(())
    }

    /// The tag of what is kept.
    pub(super) fn tag(&self) -> Option<u32> {
        self.left().map(|(tag, _)| tag)
    }

    /// Its number, whatever that means by now.
    pub(super) fn number(&self) -> Option<RawFd> {
        self.left().map(|(_, left)| left.number())
    }

    /// What `act` does with it. `None`: nothing is kept, or the program has closed it or taken its number.
    pub(super) fn with<T>(&self, act: impl FnOnce(BorrowedFd<'_>) -> T) -> Option<T> {
        let own = Own::recall(self.left()?.1)?;
        let done = own.get().map(act);
        own.leave();
        done
    }

    /// Closes it, if it is what it was. Whether it was kept with that tag, and this is the one who took it.
    pub(super) fn close(&self, tag: u32) -> bool {
        let kept = u64::from(tag) + KEPT;
        let is_first = self.state.compare_exchange(kept, BUSY, Ordering::Acquire, Ordering::Relaxed).is_ok();
        if is_first {
            drop(Own::recall(self.words()));
            self.state.store(FREE, Ordering::Release);
        }
        is_first
    }

    fn left(&self) -> Option<(u32, Left)> {
        let state = self.state.load(Ordering::Acquire);
        let tag = state.checked_sub(KEPT)?;
        let left = self.words();
        // Words of another that was put here meanwhile name another file: that is looked at before each use.
        (self.state.load(Ordering::Acquire) == state).then_some((tag as u32, left))
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
    use std::os::fd::AsRawFd;

    #[test]
    fn what_took_its_number_is_neither_used_nor_closed() {
        let kept = Kept::none();
        let (_reader, writer) = pipe().unwrap();
        assert!(kept.put(7, Own::new(writer).unwrap()).is_ok());
        assert_eq!(kept.with(|fd| write(fd, b"x")), Some(Ok(1)));
        // As if another file had its number.
        let (other, _writer) = pipe().unwrap();
        kept.words[2].store(other.as_raw_fd().cast_unsigned().into(), Ordering::Relaxed);
        assert_eq!((kept.with(|_| ()), kept.tag()), (None, Some(7)));
        assert!(!kept.close(8) && kept.close(7) && !kept.close(7));
        assert!(fcntl_getfd(&other).is_ok());
        assert_eq!((kept.tag(), kept.number()), (None, None));
    }
}
