//! The counter file: what the service counts, for everybody to read.
//!
//! The service creates one file, maps it and counts in it; `top` and exporters only read. Every number is a 64-bit
//! word with a single writer, so to count is a load, an addition and a store: no lock, no system call, no allocation.
//! A reader may see one number a little older than the next; it can disturb nobody, and whatever the file holds, it
//! gets numbers or a [`ReadError`].
//!
//! What a client says of itself reaches the file through its lane's [`report`] and is marked as its word alone.

use crate::config::Waiters;
use crate::shm::Mapping;
use layout::{Filed, header};
use sidecore_core::generation::{Generation, renew};
use sidecore_core::policy::balance::Balance;
use sidecore_core::policy::notify::Notify;
use sidecore_core::policy::order::Order;
use sidecore_core::sync::{AtomicU64, Ordering};
use sidecore_core::time::Nanos;
use sidecore_core::words::{LINE_BYTES, LINE_WORDS, Line};
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

mod about;
mod block;
mod file;
mod kinds;
mod layout;
pub mod report;
mod snapshot;
#[cfg(test)]
mod tests;
mod text;

pub use about::{ClassAbout, DeviceAbout, KeyAbout, LaneAbout, SidecoreAbout};
pub use block::{Block, DeviceBlock, KeyBlock, LaneBlock, SidecoreBlock};
pub use kinds::{ClassCounter, Counter, DeviceCounter, KeyCounter, Kind, LaneCounter, Row, SidecoreCounter};
pub use layout::Shape;
pub use snapshot::{
    ClassStats, DeviceStats, Histogram, KeyStats, LaneStats, ReadError, ReadReason, SidecoreStats, Snapshot, Stats,
};

/// Bytes of a word.
const WORD: usize = 8;

/// What a service says of itself as it starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Start {
    /// Its process id.
    pub pid: u32,
    /// One request in so many carries stage times; 0: none.
    pub sample_every: u32,
    /// The monotonic clock, ns.
    pub now: Nanos,
}

/// The counter file, as its service writes it. Stays behind when the service ends, until the next one replaces it.
#[derive(Debug)]
pub struct Counters {
    mapping: Mapping,
    file: OwnedFd,
    shape: Shape,
    /// Of the whole mapping: known here, so that counting computes nothing.
    bytes: usize,
}

impl Counters {
    /// Makes the file, readable by everybody, and puts it in the place of an older one at once.
    ///
    /// # Errors
    /// The shape exceeds its limits, the file cannot be made there, or there is no space for it.
    pub fn create(path: &Path, shape: Shape, start: Start) -> io::Result<Arc<Self>> {
        if !shape.is_within_limits() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{shape:?} exceeds {:?}", Shape::LIMIT)));
        }
        let bytes = shape.words() * WORD;
        let draft = file::Draft::new(path, bytes)?;
        draft.reserve(0, shape.keys_start() * WORD)?;
        let mapping = draft.map(bytes)?;
        describe(mapping.lines(header::WORDS * WORD), shape, start);
        Ok(Arc::new(Self { mapping, file: draft.publish(path)?, shape, bytes }))
    }

    /// How many blocks it has.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// The service is alive at this time.
    pub fn heartbeat(&self, now: Nanos) {
        self.set(header::HEARTBEAT, now);
    }

    /// Policies in force: those of the four hops (service, to device, from device, client), how devices are chosen, and
    /// the order of what they have.
    pub fn set_policies(&self, notify: [Notify; 4], balance: Balance, order: Order) {
        for (i, notify) in notify.into_iter().enumerate() {
            self.set(header::NOTIFY + i, notify.to_word());
        }
        self.set(header::BALANCE, balance as u64);
        self.set(header::ORDER, order as u64);
    }

    /// Whether clients are told that they may spin.
    pub fn set_clients_may_spin(&self, may_spin: bool) {
        self.set(header::CLIENTS_MAY_SPIN, u64::from(may_spin));
    }

    /// Who waits now, as the blocks say it.
    pub fn waiters(self: &Arc<Self>) -> Waiters {
        let (sidecores, devices) = (0..self.shape.sidecores as usize, 0..self.shape.devices as usize);
        Waiters {
            sidecores: sidecores.filter_map(|index| Some(self.sidecore(index).about()?.place)).collect(),
            workers: devices.filter_map(|index| self.device(index).about()?.waits()).collect(),
            clients_may_spin: self.word(header::CLIENTS_MAY_SPIN).load(Ordering::Relaxed) != 0,
        }
    }

    /// The block of that sidecore.
    ///
    /// # Panics
    /// There is none of that number.
    pub fn sidecore(self: &Arc<Self>, index: usize) -> SidecoreBlock {
        self.block(index)
    }

    /// The block of that lane.
    ///
    /// # Panics
    /// There is none of that number.
    pub fn lane(self: &Arc<Self>, index: usize) -> LaneBlock {
        self.block(index)
    }

    /// The block of that device.
    ///
    /// # Panics
    /// There is none of that number.
    pub fn device(self: &Arc<Self>, index: usize) -> DeviceBlock {
        self.block(index)
    }

    /// The block in which that sidecore counts for the key at that place.
    ///
    /// # Panics
    /// There is no such sidecore or place.
    pub fn key(self: &Arc<Self>, sidecore: usize, place: usize) -> KeyBlock {
        Block::new(self, self.shape.key_on(sidecore, place).start)
    }

    /// A key of this name, of which 64 bytes are kept, is at that place now: all sidecores begin anew.
    ///
    /// # Errors
    /// The file system has no space left for the blocks.
    ///
    /// # Panics
    /// There is no such place.
    pub fn open_key(self: &Arc<Self>, place: usize, name: &str) -> io::Result<()> {
        let words = self.shape.block::<KeyCounter>(place);
        self.reserve(words.start, words.len())?;
        let about = KeyAbout { name: name.to_owned() };
        let fill = || (0..self.shape.sidecores as usize).for_each(|sidecore| self.key(sidecore, place).fill(&about));
        renew(self.generations(place), fill);
        Ok(())
    }

    /// The key at that place is no more.
    ///
    /// # Panics
    /// There is no such place.
    pub fn close_key(self: &Arc<Self>, place: usize) {
        self.generations(place).for_each(Generation::close);
    }

    fn block<C: Filed>(self: &Arc<Self>, index: usize) -> Block<C> {
        Block::new(self, self.shape.block::<C>(index).start)
    }

    /// Those of a key's blocks.
    fn generations(&self, place: usize) -> impl Iterator<Item = Generation<'_>> + Clone {
        let word = move |sidecore| self.shape.key_on(sidecore, place).start + layout::GENERATION;
        (0..self.shape.sidecores as usize).map(move |sidecore| Generation(self.word(word(sidecore))))
    }

    /// Sets space aside for words that are written from now on.
    fn reserve(&self, word: usize, words: usize) -> io::Result<()> {
        file::reserve(&self.file, word * WORD, words * WORD)
    }

    #[inline]
    fn word(&self, word: usize) -> &AtomicU64 {
        word_of(self.mapping.lines(self.bytes), word)
    }

    fn set(&self, word: usize, value: u64) {
        self.word(word).store(value, Ordering::Relaxed);
    }
}

#[inline]
fn word_of(lines: &[Line], word: usize) -> &AtomicU64 {
    &lines[word / LINE_WORDS].0[word % LINE_WORDS]
}

/// Writes the part of the header that stays as it is, and a first heartbeat.
fn describe(lines: &[Line], shape: Shape, start: Start) {
    let words = [
        (header::MAGIC, layout::MAGIC),
        (header::VERSION, layout::VERSION),
        (header::SIDECORES, u64::from(shape.sidecores)),
        (header::LANES, u64::from(shape.lanes)),
        (header::DEVICES, u64::from(shape.devices)),
        (header::KEYS, u64::from(shape.keys)),
        (header::PID, u64::from(start.pid)),
        (header::SAMPLE_EVERY, u64::from(start.sample_every)),
        (header::START, start.now),
        (header::HEARTBEAT, start.now),
    ];
    for (word, value) in words {
        word_of(lines, word).store(value, Ordering::Relaxed);
    }
}

const _: () = assert!(LINE_BYTES == LINE_WORDS * WORD && header::WORDS.is_multiple_of(LINE_WORDS));
