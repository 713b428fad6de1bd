//! Cursors of a ring: bytes written and bytes moved, and the values derived from them.
//!
//! Both cursors count bytes since the stream began and only grow. The writer's word has its cursor doubled, and in
//! the lowest bit whether more follows immediately (`MSG_MORE`).

use sidecore_core::wire::Extent;

/// A stream's shared words are inconsistent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault;

/// Both cursors, read once each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursors {
    head: u64,
    waiting: u32,
    size: u32,
    more: bool,
}

/// The writer's word for a cursor.
#[inline]
pub fn word(tail: u64, more: bool) -> u64 {
    tail << 1 | u64::from(more)
}

impl Cursors {
    /// The cursors of a ring of `size` bytes, a power of two, from the moved count and the writer's word.
    ///
    /// # Errors
    /// More would be in the ring than fits, or less than nothing.
    #[inline]
    pub fn read(head: u64, word: u64, size: u32) -> Result<Self, Fault> {
        // The word has lost the cursor's highest bit.
        let waiting = (word >> 1).wrapping_sub(head) & (u64::MAX >> 1);
        match u32::try_from(waiting) {
            Ok(waiting) if waiting <= size => Ok(Self { head, waiting, size, more: word & 1 == 1 }),
            _ => Err(Fault),
        }
    }

    /// How far the ring was moved.
    #[inline]
    pub fn head(&self) -> u64 {
        self.head
    }

    /// Bytes of the ring.
    #[inline]
    pub fn size(&self) -> u32 {
        self.size
    }

    /// Bytes that wait to be moved.
    #[inline]
    pub fn waiting(&self) -> u32 {
        self.waiting
    }

    /// Bytes that the ring has room for.
    #[inline]
    pub fn room(&self) -> u32 {
        self.size - self.waiting
    }

    /// Whether the writer said that more follows immediately.
    pub fn more(&self) -> bool {
        self.more
    }

    /// Where the first `most` waiting bytes are in the ring: two pieces, the second empty unless they wrap.
    #[inline]
    pub fn filled(&self, most: u32) -> [Extent; 2] {
        pieces(self.head, self.waiting.min(most), self.size)
    }

    /// The new head, after `bytes` of the waiting ones were moved to the kernel.
    #[inline]
    pub fn moved(&self, bytes: u32) -> u64 {
        self.head.wrapping_add(u64::from(bytes.min(self.waiting)))
    }
}

/// Where `len` bytes from a cursor on are in a ring of `size` bytes, a power of two and not below `len`.
#[inline]
pub fn pieces(cursor: u64, len: u32, size: u32) -> [Extent; 2] {
    let start = (cursor & u64::from(size - 1)) as u32;
    let first = len.min(size - start);
    [Extent::new(start, first), Extent::new(0, len - first)]
}

/// Position of a holder that ended between moving bytes and recording it. `base` is the kernel's count on this
/// connection when the ring's cursor was 0, and `count` is its count now.
///
/// # Errors
/// The count is not between the recorded position and the written one: the words or the connection have changed.
pub fn recovered(cursors: &Cursors, base: u64, count: u64) -> Result<u64, Fault> {
    let head = count.wrapping_sub(base);
    let moved = head.wrapping_sub(cursors.head);
    if moved <= u64::from(cursors.waiting) { Ok(head) } else { Err(Fault) }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use alloc::vec;
    use proptest::prelude::*;

    const SIZE: u32 = 1 << 15;

    proptest! {
        #[test]
        fn whatever_the_words_are_nothing_outside_the_ring_is_named(head: u64, other: u64, most: u32) {
            if let Ok(cursors) = Cursors::read(head, other, SIZE) {
                let [first, second] = cursors.filled(most);
                prop_assert!(first.offset + first.len <= SIZE && second.offset + second.len <= SIZE);
                prop_assert_eq!(first.len + second.len, cursors.waiting().min(most));
            }
        }

        #[test]
        fn bytes_come_out_in_the_order_in_which_they_went_in(writes in prop::collection::vec((1_u32..5_000, 0_u32..6_000), 1..200), start: u64) {
            let (mut ring, mut head, mut tail) = (vec![0_u8; SIZE as usize], start >> 1, start >> 1);
            let (mut sent, mut got) = (0_u64, 0_u64);
            for (len, most) in writes {
                let cursors = Cursors::read(head, word(tail, false), SIZE).unwrap();
                let len = len.min(cursors.room());
                for piece in pieces(tail, len, SIZE) {
                    for at in piece.offset..piece.offset + piece.len {
                        ring[at as usize] = sent as u8;
                        sent += 1;
                    }
                }
                tail += u64::from(len);
                let cursors = Cursors::read(head, word(tail, true), SIZE).unwrap();
                prop_assert!(cursors.more());
                for piece in cursors.filled(most) {
                    for at in piece.offset..piece.offset + piece.len {
                        prop_assert_eq!(ring[at as usize], got as u8);
                        got += 1;
                    }
                }
                head = cursors.moved(most);
            }
            prop_assert_eq!(tail - head, sent - got);
        }
    }

    #[test]
    fn what_cannot_be_is_a_fault() {
        assert_eq!(Cursors::read(10, word(9, false), SIZE), Err(Fault), "it went back");
        assert_eq!(Cursors::read(0, word(u64::from(SIZE) + 1, false), SIZE), Err(Fault), "past the ring");
        assert_eq!(Cursors::read(0, word(u64::from(SIZE), false), SIZE).map(|full| full.room()), Ok(0));
    }

    #[test]
    fn the_kernels_count_says_how_far_a_dead_holder_came() {
        let cursors = Cursors::read(100, word(150, false), SIZE).unwrap();
        assert_eq!(recovered(&cursors, 7, 107), Ok(100));
        assert_eq!(recovered(&cursors, 7, 157), Ok(150));
        assert_eq!(recovered(&cursors, 7, 106), Err(Fault));
        assert_eq!(recovered(&cursors, 7, 158), Err(Fault));
    }
}
