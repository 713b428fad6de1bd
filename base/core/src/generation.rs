//! The generation of a block of shared words, so that the block can change owners while others read it. No reader
//! mixes the words of two owners.
//!
//! The generation word is odd while the block is open, and increases by one at each opening and closing. The block is
//! closed before it is cleared, and opened after its owner's words are written. A reader that finds it open, and the
//! generation unchanged after reading, has read the words of one owner.

use crate::sync::{AtomicU64, Ordering, Reliance};

/// The word of a block's generation. One thread opens and closes the block; others may count in it while it is open.
#[derive(Clone, Copy, Debug)]
pub struct Generation<'a>(pub &'a AtomicU64);

impl Generation<'_> {
    /// Whether the block is open. If so, everything written before the opening is visible.
    pub fn is_open(self) -> bool {
        is_open(self.0.load(Reliance::BlockLook.ordering(Ordering::Acquire)))
    }

    /// The block is open from now on.
    pub fn open(self) {
        // Release: a reader that sees it open sees everything written before.
        self.0.store(self.0.load(Ordering::Relaxed) | 1, Reliance::BlockOpen.ordering(Ordering::Release));
    }

    /// Closes the block: its owner is gone.
    pub fn close(self) {
        let generation = self.0.load(Ordering::Relaxed);
        self.0.store(generation.wrapping_add(generation & 1), Ordering::Relaxed);
        // A reader that sees a word of the next owner sees this generation closed.
        Reliance::BlockClose.fence(Ordering::Release);
    }
}

/// Gives blocks to an owner, whose words `fill` writes. Readers may take several as one, by the generation of any:
/// all are closed before anything is written to one, and opened after everything.
pub fn renew<'a>(blocks: impl Iterator<Item = Generation<'a>> + Clone, fill: impl FnOnce()) {
    blocks.clone().for_each(Generation::close);
    fill();
    blocks.for_each(Generation::open);
}

/// The result of `read` on a block that was open before and after. `generation` reads the generation word, as suits
/// the block's memory: reads before a fence are older than reads after it.
///
/// # Errors
/// Those of the two closures.
pub fn whole<T, E>(
    mut generation: impl FnMut() -> Result<u64, E>,
    read: impl FnOnce() -> Result<T, E>,
) -> Result<Option<T>, E> {
    let before = generation()?;
    if !is_open(before) {
        return Ok(None);
    }
    Reliance::BlockSeen.fence(Ordering::Acquire);
    let found = read()?;
    Reliance::BlockStayed.fence(Ordering::Acquire);
    Ok((generation()? == before).then_some(found))
}

/// Whether this is the generation of an open block.
pub fn is_open(generation: u64) -> bool {
    generation & 1 == 1
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use core::convert::Infallible;

    #[test]
    fn what_changes_hands_while_it_is_read_is_not_found() {
        let word = AtomicU64::new(0);
        let block = Generation(&word);
        let read = |meanwhile: &dyn Fn()| {
            let read = || {
                meanwhile();
                Ok(7)
            };
            let Ok(found) = whole(|| Ok::<_, Infallible>(word.load(Ordering::Relaxed)), read);
            found
        };
        let renew = || renew([block].into_iter(), || assert!(!block.is_open()));
        assert_eq!(read(&|| ()), None, "it is not open");
        renew();
        assert!(block.is_open());
        assert_eq!(read(&|| ()), Some(7));
        assert_eq!(read(&renew), None, "it is another's");
        assert_eq!(read(&|| block.close()), None);
        assert_eq!(word.load(Ordering::Relaxed), 4);
    }
}
