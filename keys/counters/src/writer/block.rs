//! Handles for writing blocks: each word has one writer, and no lock exists.

use super::Counters;
use crate::about::{DeviceAbout, LaneAbout, SidecoreAbout, cut, pack, unpack};
use crate::kinds::{Counter, DeviceCounter, KeyCounter, LaneCounter, REMOVED, SidecoreCounter};
use crate::layout::{Filed, GENERATION, HISTOGRAM};
use sidecore_core::dispatch::DeviceState;
use sidecore_core::generation::{Generation, renew};
use sidecore_core::histogram::{BUCKETS, bucket};
use sidecore_core::policy::notify::{Audit, ThreadCore};
use sidecore_core::session::Class;
use sidecore_core::stage::Stage;
use sidecore_core::sync::{AtomicU64, Ordering};
use sidecore_core::time::Nanos;
use sidecore_core::words::add;
use std::io;
use std::marker::PhantomData;
use std::sync::Arc;

/// Bytes kept of the name of a client or a device.
const NAME: usize = 32;

/// A block of the file, which has these counters.
#[derive(Clone, Debug)]
pub struct Block<C> {
    file: Arc<Counters>,
    start: usize,
    counters: PhantomData<C>,
}

/// Counts for one lane.
pub type LaneBlock = Block<LaneCounter>;
/// Counts for one sidecore.
pub type SidecoreBlock = Block<SidecoreCounter>;
/// Counts for one device.
pub type DeviceBlock = Block<DeviceCounter>;
/// Counts of one sidecore for one stored key.
pub type KeyBlock = Block<KeyCounter>;

impl<C: Filed> Block<C> {
    pub(super) fn new(file: &Arc<Counters>, start: usize) -> Self {
        Self { file: Arc::clone(file), start, counters: PhantomData }
    }

    /// Adds to a counter.
    #[inline]
    pub fn add(&self, counter: C, amount: u64) {
        self.increase(C::FIRST + counter.index(), amount);
    }

    /// Takes from a level, at most all of it.
    #[inline]
    pub fn sub(&self, counter: C, amount: u64) {
        let word = self.word(C::FIRST + counter.index());
        word.store(word.load(Ordering::Relaxed).saturating_sub(amount), Ordering::Relaxed);
    }

    /// Sets a counter.
    #[inline]
    pub fn set(&self, counter: C, value: u64) {
        self.store(C::FIRST + counter.index(), value);
    }

    /// Value of a counter.
    #[inline]
    pub fn get(&self, counter: C) -> u64 {
        self.load(C::FIRST + counter.index())
    }

    pub(super) fn about(&self) -> Option<C::About> {
        let said = || (GENERATION + 1..C::FIRST).map(|word| self.load(word)).collect::<Vec<_>>();
        self.generation().is_open().then(|| unpack(&said()).unwrap_or_default())
    }

    pub(super) fn begin(&self, about: &C::About) {
        renew([self.generation()].into_iter(), || self.fill(about));
    }

    pub(super) fn fill(&self, about: &C::About) {
        (GENERATION + 1..C::WORDS).for_each(|word| self.store(word, 0));
        self.describe(about);
    }

    fn describe(&self, about: &C::About) {
        let words = pack(about, C::FIRST - GENERATION - 1);
        words.iter().zip(GENERATION + 1..).for_each(|(value, word)| self.store(word, *value));
    }

    /// Closes the block: its owner is gone.
    pub fn close(&self) {
        self.generation().close();
    }

    fn generation(&self) -> Generation<'_> {
        Generation(self.word(GENERATION))
    }

    #[inline]
    fn word(&self, word: usize) -> &AtomicU64 {
        self.file.word(self.start + word)
    }

    #[inline]
    fn load(&self, word: usize) -> u64 {
        self.word(word).load(Ordering::Relaxed)
    }

    #[inline]
    fn store(&self, word: usize, value: u64) {
        self.word(word).store(value, Ordering::Relaxed);
    }

    #[inline]
    fn increase(&self, word: usize, amount: u64) {
        add(self.word(word), amount);
    }

    /// Adds a sampled time to the histogram of this number, ns.
    #[inline]
    fn time(&self, histogram: usize, time: Nanos) {
        let first = C::TIMES_FIRST + histogram * HISTOGRAM;
        self.increase(first + bucket(time), 1);
        self.increase(first + BUCKETS, time);
    }
}

impl LaneBlock {
    /// Clears the block for a lane of this process, user and sidecore, called `name`. 32 bytes of the name are kept.
    ///
    /// # Errors
    /// The file system has no space left for the block.
    pub fn open(&self, pid: u32, uid: u32, sidecore: u32, name: &str) -> io::Result<()> {
        self.file.reserve(self.start, LaneCounter::WORDS)?;
        self.begin(&LaneAbout { pid, uid, sidecore, name: cut(name, NAME) });
        Ok(())
    }

    /// A sampled request spent this time in the stage, ns.
    #[inline]
    pub fn record(&self, stage: Stage, time: Nanos) {
        self.time(stage as usize, time);
    }

    /// Replaces the whole histogram of a stage: the counts from bucket `first` on, and the sum, ns.
    pub fn replace(&self, stage: Stage, first: usize, counts: &[u64], sum: u64) {
        let start = LaneCounter::TIMES_FIRST + stage as usize * HISTOGRAM;
        for (i, count) in counts.iter().enumerate().take(BUCKETS - first) {
            self.store(start + first + i, *count);
        }
        self.store(start + BUCKETS, sum);
    }
}

impl SidecoreBlock {
    /// The sidecore runs at this place. Earlier counts are kept.
    pub fn open(&self, place: ThreadCore) {
        self.describe(&SidecoreAbout { place });
        self.generation().open();
    }

    /// Counts requests of this class with that many bytes of input in all.
    #[inline]
    pub fn class(&self, class: Class, requests: u64, bytes: u64) {
        let word = SidecoreCounter::class_first(class);
        self.increase(word, requests);
        self.increase(word + 1, bytes);
    }

    /// A sampled request of this class spent this time in the stage, ns.
    #[inline]
    pub fn record(&self, class: Class, stage: Stage, time: Nanos) {
        self.time(class.index() * Stage::COUNT + stage as usize, time);
    }

    /// Stores the totals of the sidecore's waiter.
    pub fn audit(&self, audit: &Audit) {
        let start = SidecoreCounter::FIRST + SidecoreCounter::Waits as usize;
        audit.words().into_iter().enumerate().for_each(|(i, value)| self.store(start + i, value));
    }
}

impl DeviceBlock {
    /// Clears the block for an active device of this name and kind, of which 32 bytes each are kept, on that
    /// sidecore. `worker` is where its thread runs, if it has one of its own.
    pub fn open(&self, name: &str, sidecore: u32, kind: &str, worker: Option<ThreadCore>) {
        self.begin(&DeviceAbout { name: cut(name, NAME), kind: cut(kind, NAME), sidecore, worker });
    }

    /// How far the device may be used.
    pub fn set_state(&self, state: DeviceState) {
        self.set(DeviceCounter::State, state as u64);
    }

    /// An administrator removed the device.
    pub fn set_removed(&self) {
        self.set(DeviceCounter::State, REMOVED);
    }

    /// The device's time for a sampled request, ns.
    #[inline]
    pub fn record(&self, time: Nanos) {
        self.time(0, time);
    }
}

impl KeyBlock {
    /// A sampled request spent this time in the stage, ns. Stages after the service are not kept.
    #[inline]
    pub fn record(&self, stage: Stage, time: Nanos) {
        if (stage as usize) < KeyCounter::STAGES.len() {
            self.time(stage as usize, time);
        }
    }
}
