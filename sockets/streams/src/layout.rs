//! Places of the words of streams in shared memory.
//!
//! A program has one or several *banks* of 64 places, each for one stream. The first bank's beginning also serves the
//! whole program.
//!
//! ```text
//! line 0    armed word of the program's doorbell: the sidecore arms, the program clears   (first bank only)
//! line 1    one bit for each bank with announced places                                   (first bank only)
//! line 2    one bit for each announced place of this bank
//! line 3    the service's word on gathered messages                                       (first bank only)
//! line 8..  four lines for each place
//! page      the rings, one after the other
//! ```
//!
//! The lines of a place:
//!
//! | Line | Words | Written by |
//! |---|---|---|
//! | [`WRITER`] | [`TAIL`], [`WISH`], [`MESSAGES`], [`KERNEL_MESSAGES`], [`DRAINS`] | the program |
//! | [`SHARED`] | [`HOLD`], [`HEAD`], [`BASE`], [`STATE`], [`ERROR`], [`TRANSFERS`], [`LINGER`] | the holder; the state: the service |
//! | [`BELL`] | word 0 | the sidecore arms, the program clears |
//! | [`ROW`] | [`SOCKET`], [`WHY`] | the program |

use crate::rule::PathReason;
use sidecore_core::words::LINE_BYTES;

/// Number of this layout and of the messages around it. Program and service must agree.
pub const ABI: u32 = 4;
/// Places of a bank: one for each bit of a word.
pub const PLACES: u32 = 64;
/// Most banks of one program.
pub const MAX_BANKS: u32 = 512;
/// Smallest ring, bytes.
pub const MIN_RING: u32 = 4096;
/// Largest ring, bytes.
pub const MAX_RING: u32 = 1 << 20;

/// Line of the doorbell's armed word, in the first bank.
pub const DOORBELL: usize = 0;
/// Line with a bit for each bank that has announced places, in the first bank.
pub const BANKS: usize = 1;
/// Line whose first word has a bit for each announced place of the bank.
pub const ANNOUNCED: usize = 2;

/// Line of words that the service writes, in the first bank: a [`super::saving::BreakEven`], then the count of this
/// program's messages that it moved, and of its calls for them.
pub const GATHERED: usize = 3;

/// Of a place: words that its program writes with each message.
pub const WRITER: usize = 0;
/// Of a place: the position moved to, and its holder.
pub const SHARED: usize = 1;
/// Of a place: its bell.
pub const BELL: usize = 2;
/// Of a place: the program's data about the socket, for display.
pub const ROW: usize = 3;

/// Of [`WRITER`]: position written to, see [`super::cursor::word`].
pub const TAIL: usize = 0;
/// Of [`WRITER`]: the stream's fate once its ring is empty, see [`super::place::LeaveRequest`].
pub const WISH: usize = 1;
/// Of [`WRITER`]: messages written to the ring.
pub const MESSAGES: usize = 2;
/// Of [`WRITER`]: messages that the program gave to the kernel itself.
pub const KERNEL_MESSAGES: usize = 3;
/// Of [`WRITER`]: system calls of the program that moved bytes of the ring.
pub const DRAINS: usize = 4;

/// Of [`SHARED`]: the holder, see [`super::hold`].
pub const HOLD: usize = 0;
/// Of [`SHARED`]: position moved to.
pub const HEAD: usize = 1;
/// Of [`SHARED`]: the kernel's count when the ring's cursor was 0. The program writes it.
pub const BASE: usize = 2;
/// Of [`SHARED`]: the service's state of the place, see [`super::place::PlaceState`].
pub const STATE: usize = 3;
/// Of [`SHARED`]: the error that the kernel reported for the stream, as a number of the system; 0: none.
pub const ERROR: usize = 4;
/// Of [`SHARED`]: system calls of the service that moved bytes of the ring.
pub const TRANSFERS: usize = 5;
/// Of [`SHARED`]: not 0 while the socket has a linger of zero, because the stream was left with bytes in its ring.
/// The program's own linger: 1 is off, else seconds plus 2. The side that moves the last byte restores it.
pub const LINGER: usize = 6;

/// Of [`ROW`]: number of the program's descriptor.
pub const SOCKET: usize = 0;
/// Of [`ROW`]: its path and the reason, see [`reason_word`].
pub const WHY: usize = 1;

/// The word of [`WHY`]: the number of the stream, and the reason.
#[inline]
pub fn reason_word(stream: u32, why: PathReason) -> u64 {
    u64::from(stream) << 32 | why as u64
}

/// Number of the stream in a word of [`WHY`].
#[inline]
pub fn reason_stream(word: u64) -> u32 {
    (word >> 32) as u32
}

/// Lines of a place.
pub const PLACE_LINES: usize = 4;

const FIRST_PLACE: usize = 8;
const PAGE: usize = 4096;

/// Offsets in a bank with rings of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bank {
    ring: u32,
}

impl Bank {
    /// A bank with rings of `ring` bytes: a power of two within the limits, else `None`.
    pub fn new(ring: u32) -> Option<Self> {
        (ring.is_power_of_two() && (MIN_RING..=MAX_RING).contains(&ring)).then_some(Self { ring })
    }

    /// Bytes of each ring.
    #[inline]
    pub fn ring_bytes(&self) -> u32 {
        self.ring
    }

    /// Lines before the rings.
    #[inline]
    pub fn lines(&self) -> usize {
        FIRST_PLACE + PLACES as usize * PLACE_LINES
    }

    /// The first of a place's four lines. Places are counted from 0.
    #[inline]
    pub fn place(&self, place: u32) -> usize {
        assert!(place < PLACES, "a place of the bank");
        FIRST_PLACE + place as usize * PLACE_LINES
    }

    /// Offset of a place's ring, bytes.
    #[inline]
    pub fn ring(&self, place: u32) -> usize {
        assert!(place < PLACES, "a place of the bank");
        self.rings() + place as usize * self.ring as usize
    }

    /// Bytes of the whole.
    pub fn total_bytes(&self) -> usize {
        self.rings() + PLACES as usize * self.ring as usize
    }

    fn rings(self) -> usize {
        (self.lines() * LINE_BYTES).next_multiple_of(PAGE)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn places_and_rings_do_not_overlap() {
        let bank = Bank::new(1 << 15).unwrap();
        assert!(bank.place(0) > GATHERED);
        assert_eq!(bank.place(63) + PLACE_LINES, bank.lines());
        assert!(bank.lines() * LINE_BYTES <= bank.ring(0) && bank.ring(0).is_multiple_of(PAGE));
        assert_eq!(bank.ring(63) + (1 << 15), bank.total_bytes());
        assert!([0, 5000, 1 << 11, 1 << 21].into_iter().all(|bytes| Bank::new(bytes).is_none()));
    }
}
