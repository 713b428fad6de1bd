//! One place of a bank, as its program uses it for each message.

use super::bank::BankMemory;
use sidecore_core::sync::AtomicU64;
use sidecore_core::wire::Extent;
use sidecore_core::words::Line;
use sidecore_ipc::shm::span::Span;
use sidecore_streams::bell::WakeFlag;
use sidecore_streams::cursor::pieces;
use sidecore_streams::hold::Hold;
use sidecore_streams::layout::{self, PLACE_LINES};
use std::ptr::NonNull;
use std::sync::Arc;

/// A place with precomputed addresses. It keeps its bank mapped.
#[derive(Debug)]
pub struct SlotMemory {
    lines: NonNull<[Line; PLACE_LINES]>,
    ring: NonNull<u8>,
    size: u32,
    place: u32,
    bank: Arc<BankMemory>,
}

// SAFETY: the addresses are of the bank's mapping, which belongs to no thread; all access is through atomics or raw copies.
unsafe impl Send for SlotMemory {}
// SAFETY: as above.
unsafe impl Sync for SlotMemory {}

impl SlotMemory {
    /// The place with this number.
    ///
    /// # Panics
    /// The bank has no such place.
    pub fn new(bank: Arc<BankMemory>, place: u32) -> Self {
        let (lines, ring, size) = (bank.place_lines(place), bank.ring(place), bank.layout().ring_bytes());
        Self { lines: NonNull::from(lines), ring, size, place, bank }
    }

    /// Size of its ring, bytes.
    #[inline]
    pub fn size(&self) -> u32 {
        self.size
    }

    /// A word of the place; lines and words as in the layout.
    #[inline]
    pub fn word(&self, line: usize, word: usize) -> &AtomicU64 {
        // SAFETY: lines of the mapping, which lives as long as `self`.
        let lines = unsafe { self.lines.as_ref() };
        &lines[line].0[word]
    }

    /// The place's bell.
    #[inline]
    pub fn bell(&self) -> WakeFlag<'_> {
        WakeFlag(self.word(layout::BELL, 0))
    }

    /// The word that names the side moving its bytes.
    #[inline]
    pub fn hold(&self) -> Hold<'_> {
        Hold(self.word(layout::SHARED, layout::HOLD))
    }

    /// Bytes of its ring.
    ///
    /// # Panics
    /// The extent is not within the ring.
    #[inline]
    pub fn span(&self, extent: Extent) -> Span<'_> {
        self.bank.span(self.place, extent)
    }

    /// Copies the span into the ring, from this cursor on.
    ///
    /// # Panics
    /// The span is longer than the ring.
    #[inline]
    pub fn write(&self, cursor: u64, from: &Span<'_>) {
        let start = (cursor & u64::from(self.size - 1)) as usize;
        if from.len() > self.size as usize - start {
            self.write_around(cursor, from);
            return;
        }
        // SAFETY: the piece ends within the ring, which lies inside the mapping, which lives as long as `self`.
        unsafe { Span::new(self.ring.add(start), from.len()) }.copy_span(from);
    }

    /// As `write`, across the end of the ring.
    #[cold]
    fn write_around(&self, cursor: u64, from: &Span<'_>) {
        assert!(from.len() <= self.size as usize, "no more than the ring holds");
        let mut skip = 0;
        for extent in pieces(cursor, from.len() as u32, self.size) {
            let to = self.span(extent);
            if let Some(part) = from.slice(skip, to.len()) {
                to.copy_span(&part);
            }
            skip += to.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use sidecore_streams::layout::{Bank, MIN_RING};

    proptest! {
        #[test]
        fn what_is_written_from_a_cursor_on_is_there_in_order(cursor: u64, len in 0..=MIN_RING as usize) {
            let (bank, _file) = BankMemory::create(Bank::new(MIN_RING).unwrap()).unwrap();
            let bank = Arc::new(bank);
            let slot = SlotMemory::new(bank.clone(), 63);
            let mut message: Vec<u8> = (0..len).map(|at| at as u8 | 1).collect();
            slot.write(cursor, &Span::of(&mut message));
            let mut ring = vec![0; MIN_RING as usize];
            bank.span(63, Extent::new(0, MIN_RING)).copy_to(&mut ring);
            ring.rotate_left((cursor % u64::from(MIN_RING)) as usize);
            prop_assert_eq!(&ring[..len], &message[..]);
            prop_assert!(ring[len..].iter().all(|byte| *byte == 0));
        }
    }

    #[test]
    fn its_words_are_the_banks() {
        use std::sync::atomic::Ordering;
        let (bank, _file) = BankMemory::create(Bank::new(MIN_RING).unwrap()).unwrap();
        let slot = SlotMemory::new(Arc::new(bank), 7);
        slot.bank.word(7, layout::ROW, layout::WHY).store(5, Ordering::Relaxed);
        assert_eq!(slot.word(layout::ROW, layout::WHY).load(Ordering::Relaxed), 5);
    }
}
