//! The memory of 64 streams of one program, see [`sidecore_streams::layout`].
//!
//! The service creates it as a memfd and seals its size, as with lanes.

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, ftruncate, memfd_create};
use sidecore_core::doorbell::Doorbell;
use sidecore_core::sync::AtomicU64;
use sidecore_core::wire::Extent;
use sidecore_core::words::{LINE_BYTES, Line};
use sidecore_ipc::shm::Mapping;
use sidecore_ipc::shm::span::Span;
use sidecore_streams::bell::WakeFlag;
use sidecore_streams::hold::Hold;
use sidecore_streams::layout::{self, Bank, PLACE_LINES};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::ptr::NonNull;

const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::SEAL);

/// A mapped bank. Both sides use it, and neither trusts its contents.
#[derive(Debug)]
pub struct BankMemory {
    bank: Bank,
    mapping: Mapping,
}

impl BankMemory {
    /// Creates and seals the memory of a bank. Returns the descriptor for the program to map.
    ///
    /// # Errors
    /// No memory or no descriptor is left.
    pub fn create(bank: Bank) -> io::Result<(Self, OwnedFd)> {
        let file = memfd_create("sidecore-streams", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        ftruncate(&file, bank.total_bytes() as u64)?;
        fcntl_add_seals(&file, SEALS)?;
        let mapping = Mapping::new(&file, bank.total_bytes())?;
        // Rings have the size of their largest possible content; only used pages may take memory.
        mapping.not_locked();
        Ok((Self { bank, mapping }, file))
    }

    /// Maps memory received from a service.
    ///
    /// # Errors
    /// `InvalidData`: the memory is not sealed, or too short; else errors of the system.
    pub fn open(file: impl AsFd, bank: Bank) -> io::Result<Self> {
        if !fcntl_get_seals(&file)?.contains(SEALS) {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the memory of the streams is not sealed"));
        }
        let mut mapping = Mapping::new(file, bank.total_bytes())?;
        mapping.not_in_children()?;
        Ok(Self { bank, mapping })
    }

    /// Positions in the bank.
    pub fn layout(&self) -> Bank {
        self.bank
    }

    #[inline]
    fn lines(&self) -> &[Line] {
        self.mapping.lines(self.bank.lines() * LINE_BYTES)
    }

    /// Rung by the program. Only in its first bank.
    #[inline]
    pub fn doorbell(&self) -> Doorbell<'_> {
        Doorbell(&self.lines()[layout::DOORBELL].0[0])
    }

    /// One bit per bank with announced places. Only in the program's first bank.
    #[inline]
    pub fn announced_banks(&self) -> &Line {
        &self.lines()[layout::BANKS]
    }

    /// One bit for each announced place.
    #[inline]
    pub fn announced(&self) -> &AtomicU64 {
        &self.lines()[layout::ANNOUNCED].0[0]
    }

    /// The service's counts of gathered messages, see [`layout::GATHERED`]. Only in the program's first bank.
    pub fn gathered(&self) -> [&AtomicU64; 3] {
        let words = &self.lines()[layout::GATHERED].0;
        [&words[0], &words[1], &words[2]]
    }

    /// A word of a place; lines and words as in the layout.
    #[inline]
    pub fn word(&self, place: u32, line: usize, word: usize) -> &AtomicU64 {
        &self.lines()[self.bank.place(place) + line].0[word]
    }

    pub(super) fn place_lines(&self, place: u32) -> &[Line; PLACE_LINES] {
        self.lines()[self.bank.place(place)..].first_chunk().expect("a place has its lines")
    }

    /// Lets forked children read the words of a place, which they do not inherit otherwise.
    ///
    /// # Errors
    /// The kernel has no memory left.
    pub fn in_children(&self, place: u32) -> io::Result<()> {
        self.mapping.in_children(self.place_lines(place))
    }

    pub(super) fn ring(&self, place: u32) -> NonNull<u8> {
        self.mapping.byte(self.bank.ring(place))
    }

    /// The bell of a place.
    #[inline]
    pub fn bell(&self, place: u32) -> WakeFlag<'_> {
        WakeFlag(self.word(place, layout::BELL, 0))
    }

    /// The word that names the side moving the bytes of a place.
    #[inline]
    pub fn hold(&self, place: u32) -> Hold<'_> {
        Hold(self.word(place, layout::SHARED, layout::HOLD))
    }

    /// Bytes of a place's ring.
    ///
    /// # Panics
    /// The extent is not within the ring.
    #[inline]
    pub fn span(&self, place: u32, extent: Extent) -> Span<'_> {
        let (offset, len) = (extent.offset as usize, extent.len as usize);
        assert!(offset + len <= self.bank.ring_bytes() as usize, "bytes of the ring");
        // SAFETY: they lie inside the mapping, which lives as long as `self`, and are never borrowed as Rust memory.
        unsafe { Span::new(self.mapping.byte(self.bank.ring(place) + offset), len) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering;

    fn bank() -> Bank {
        Bank::new(4096).unwrap()
    }

    #[test]
    fn both_sides_see_the_same_words_and_bytes() {
        let (service, file) = BankMemory::create(bank()).unwrap();
        let program = BankMemory::open(&file, bank()).unwrap();
        program.span(63, Extent::new(4093, 3)).copy_from(b"abc");
        let mut got = [0; 3];
        service.span(63, Extent::new(4093, 3)).copy_to(&mut got);
        assert_eq!(&got, b"abc");
        program.word(63, layout::ROW, layout::WHY).store(7, Ordering::Relaxed);
        assert_eq!(service.word(63, layout::ROW, layout::WHY).load(Ordering::Relaxed), 7);
    }

    #[test]
    fn unsealed_or_short_memory_is_refused() {
        let file = memfd_create("unsealed", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
        ftruncate(&file, bank().total_bytes() as u64).unwrap();
        assert!(BankMemory::open(&file, bank()).is_err());
        let (_service, file) = BankMemory::create(bank()).unwrap();
        assert!(BankMemory::open(&file, Bank::new(8192).unwrap()).is_err());
        assert!(ftruncate(&file, 0).is_err());
    }
}
