//! Datagrams in a ring: whole ones, each after its length.
//!
//! ```text
//! length (4 bytes, at a boundary of 4) | bytes, which may wrap | up to 3 bytes to the next boundary
//! ```
//!
//! Both cursors always stand at the beginning of such a *record*. A writer puts a datagram in whole or not at all. A
//! mover takes a [`Run`] at a time: datagrams of one length, sent as one message that the kernel cuts into packets. A
//! length is read once and checked.

use crate::cursor::{Cursors, Fault, pieces};
use sidecore_core::wire::Extent;

/// Bytes of a record before those of its datagram.
pub const HEADER: u32 = 4;
/// Most datagrams of a run: the kernel cuts one message into no more.
pub const MAX_RUN_DATAGRAMS: u32 = 64;
/// Most bytes of a run, and of a datagram: the kernel's messages have 65,535 with all headers.
pub const MAX_RUN_BYTES: u32 = 65_000;

/// Bytes of the ring for a datagram of `len` bytes.
#[inline]
pub fn record(len: u32) -> u32 {
    HEADER + len.next_multiple_of(HEADER)
}

/// The place of the length of the record at that cursor, in a ring of `size` bytes.
#[inline]
pub fn header(cursor: u64, size: u32) -> Extent {
    Extent::new((cursor & u64::from(size - 1)) as u32, HEADER)
}

/// Datagrams that follow each other, all of one length but the last, which may be shorter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    start: u64,
    size: u32,
    count: u32,
    len: u32,
    last: u32,
}

impl Run {
    /// The first run in a ring, `most` datagrams at most; `None`: the ring is empty. `length` reads the word at that
    /// place.
    ///
    /// # Errors
    /// The first length exceeds the written bytes or the limit of a datagram, or a cursor is not at a boundary.
    #[inline]
    pub fn first(cursors: &Cursors, most: u32, mut length: impl FnMut(Extent) -> u32) -> Result<Option<Self>, Fault> {
        let (start, size, mut left) = (cursors.head(), cursors.size(), cursors.waiting());
        if !start.is_multiple_of(HEADER.into()) || !left.is_multiple_of(HEADER) {
            return Err(Fault);
        }
        let mut run = Self { start, size, count: 0, len: 0, last: 0 };
        while left > 0 && run.count < most.min(MAX_RUN_DATAGRAMS) {
            let len = length(header(start.wrapping_add(run.ring_bytes().into()), size));
            if len > MAX_RUN_BYTES || record(len) > left {
                // The datagrams before a wrong length are valid.
                return if run.count == 0 { Err(Fault) } else { Ok(Some(run)) };
            }
            if run.count == 0 {
                run.len = len;
            } else if len == 0 || len > run.len || run.payload() + len > MAX_RUN_BYTES {
                break;
            }
            (run.last, run.count, left) = (len, run.count + 1, left - record(len));
            // A shorter one is the last of its message, and an empty one is sent alone.
            if len < run.len || len == 0 {
                break;
            }
        }
        Ok((run.count > 0).then_some(run))
    }

    /// Datagrams.
    #[inline]
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Bytes of each of them but the last.
    #[inline]
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Whether its datagram has no bytes. Such a run has one datagram.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes of all of them.
    #[inline]
    pub fn payload(&self) -> u32 {
        self.len * self.count.saturating_sub(1) + self.last
    }

    /// Bytes of the ring that they take.
    #[inline]
    pub fn ring_bytes(&self) -> u32 {
        if self.count == 0 { 0 } else { record(self.len) * (self.count - 1) + record(self.last) }
    }

    /// Places of their bytes, in order: for each one or two pieces, the second empty unless it wraps.
    #[inline]
    pub fn payloads(&self) -> impl Iterator<Item = Extent> {
        let run = *self;
        (0..run.count).flat_map(move |at| {
            let cursor = run.start.wrapping_add(u64::from(record(run.len) * at + HEADER));
            pieces(cursor, if at + 1 == run.count { run.last } else { run.len }, run.size)
        })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::cursor::word;
    use alloc::vec;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    const SIZE: u32 = 1 << 12;

    struct Ring {
        bytes: Vec<u8>,
        head: u64,
        tail: u64,
    }

    impl Ring {
        fn new(start: u64) -> Self {
            let start = (start >> 1).next_multiple_of(4);
            Self { bytes: vec![0; SIZE as usize], head: start, tail: start }
        }

        fn cursors(&self) -> Cursors {
            Cursors::read(self.head, word(self.tail, false), SIZE).unwrap()
        }

        fn put(&mut self, extents: impl IntoIterator<Item = Extent>, bytes: &[u8]) {
            let mut bytes = bytes.iter();
            for extent in extents {
                for at in extent.offset..extent.offset + extent.len {
                    self.bytes[at as usize] = *bytes.next().unwrap();
                }
            }
        }

        fn write(&mut self, datagram: &[u8]) -> bool {
            let len = datagram.len() as u32;
            let fits = record(len) <= self.cursors().room();
            if fits {
                self.put([header(self.tail, SIZE)], &len.to_le_bytes());
                self.put(pieces(self.tail + u64::from(HEADER), len, SIZE), datagram);
                self.tail += u64::from(record(len));
            }
            fits
        }

        fn length(&self, at: Extent) -> u32 {
            u32::from_le_bytes(self.bytes[at.offset as usize..][..4].try_into().unwrap())
        }

        fn first(&self, most: u32) -> Result<Option<Run>, Fault> {
            Run::first(&self.cursors(), most, |at| self.length(at))
        }

        fn take(&mut self, most: u32) -> Vec<Vec<u8>> {
            let Some(run) = self.first(most).unwrap() else { return Vec::new() };
            let message: Vec<u8> = run
                .payloads()
                .flat_map(|extent| self.bytes[extent.offset as usize..(extent.offset + extent.len) as usize].to_vec())
                .collect();
            assert_eq!(message.len() as u32, run.payload());
            self.head = self.cursors().moved(run.ring_bytes());
            if run.is_empty() {
                assert_eq!(run.count(), 1);
                return vec![message];
            }
            let cut: Vec<Vec<u8>> = message.chunks(run.len() as usize).map(<[u8]>::to_vec).collect();
            assert_eq!(cut.len() as u32, run.count());
            cut
        }
    }

    proptest! {
        #[test]
        fn datagrams_come_out_whole_and_in_order(
            lens in prop::collection::vec(prop_oneof![0_u32..8, Just(64), 0_u32..1_500], 1..300),
            takes in prop::collection::vec(prop::option::of(1_u32..100), 1..50),
            start: u64,
        ) {
            let (mut ring, mut wrote, mut took) = (Ring::new(start), Vec::new(), Vec::new());
            let mut takes = takes.iter().cycle();
            for (number, len) in lens.into_iter().enumerate() {
                let datagram = vec![number as u8; len as usize];
                while !ring.write(&datagram) {
                    took.extend(ring.take(MAX_RUN_DATAGRAMS));
                }
                wrote.push(datagram);
                if let Some(Some(most)) = takes.next() {
                    let run = ring.take(*most);
                    prop_assert!(run.len() as u32 <= *most.min(&MAX_RUN_DATAGRAMS));
                    took.extend(run);
                }
            }
            while ring.head != ring.tail {
                took.extend(ring.take(MAX_RUN_DATAGRAMS));
            }
            prop_assert!(ring.first(MAX_RUN_DATAGRAMS).unwrap().is_none());
            prop_assert_eq!(wrote, took);
        }

        #[test]
        fn whatever_the_lengths_are_nothing_outside_of_what_was_written_is_named(
            start: u64, waiting in 0..=SIZE, most: u32, lengths in prop::collection::vec(
                prop_oneof![any::<u32>(), 0..SIZE, Just(8), Just(u32::MAX)], 1..100),
        ) {
            let Ok(cursors) = Cursors::read(start >> 1, word((start >> 1) + u64::from(waiting), false), SIZE) else {
                return Ok(());
            };
            let mut lengths = lengths.iter().cycle();
            let Ok(Some(run)) = Run::first(&cursors, most, |_| *lengths.next().unwrap()) else { return Ok(()) };
            prop_assert!(run.count() <= MAX_RUN_DATAGRAMS && run.payload() <= MAX_RUN_BYTES && run.ring_bytes() <= waiting);
            let named: u32 = run.payloads().map(|extent| extent.len).sum();
            prop_assert_eq!(named, run.payload());
            prop_assert!(run.payloads().all(|extent| extent.offset + extent.len <= SIZE));
        }
    }

    #[test]
    fn a_run_is_of_one_length_but_for_its_last() {
        let mut ring = Ring::new(0);
        for len in [64, 64, 64, 10, 64, 100, 0, 0, 5] {
            assert!(ring.write(&vec![1; len]));
        }
        let lens: Vec<Vec<usize>> =
            (0..6).map(|_| ring.take(MAX_RUN_DATAGRAMS).iter().map(Vec::len).collect()).collect();
        assert_eq!(lens, [vec![64, 64, 64, 10], vec![64], vec![100], vec![0], vec![0], vec![5]]);
    }

    #[test]
    fn a_length_that_cannot_be_is_a_fault_and_what_comes_before_it_is_not() {
        for wrong in [9, 1 << 20, u32::MAX, u32::MAX - 3] {
            let mut ring = Ring::new(0);
            assert!(ring.write(&[1; 8]) && ring.write(&[2; 8]));
            ring.put([header(u64::from(record(8)), SIZE)], &u32::to_le_bytes(wrong));
            assert_eq!(ring.take(MAX_RUN_DATAGRAMS), [[1; 8]]);
            assert_eq!(ring.first(MAX_RUN_DATAGRAMS), Err(Fault));
        }
        let astray = Cursors::read(2, word(10, false), SIZE).unwrap();
        assert_eq!(Run::first(&astray, MAX_RUN_DATAGRAMS, |_| 0), Err(Fault), "no boundary");
        let torn = Cursors::read(0, word(10, false), SIZE).unwrap();
        assert_eq!(Run::first(&torn, MAX_RUN_DATAGRAMS, |_| 0), Err(Fault), "a part of a record");
    }

    #[test]
    fn a_run_has_no_more_than_one_message_takes() {
        let mut ring = Ring::new(0);
        while ring.write(&[1; 4]) {}
        assert_eq!(ring.take(u32::MAX).len() as u32, MAX_RUN_DATAGRAMS);
        let large = Cursors::read(0, word(1 << 20, false), 1 << 20).unwrap();
        let run = Run::first(&large, MAX_RUN_DATAGRAMS, |_| 1_400).unwrap().unwrap();
        assert_eq!((run.count(), run.payload()), (46, 64_400));
    }
}
