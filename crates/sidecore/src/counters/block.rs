//! Handles to the blocks that are written: one writer for each word, nobody waits for anybody.

use super::Counters;
use super::kinds::{DeviceCounter, KeyCounter, LaneCounter, SidecoreCounter};
use super::layout::{GENERATION, HISTOGRAM, NAME_WORDS, device, key, lane, sidecore};
use super::text;
use crate::config::{DeviceKind, Place};
use sidecore_core::dispatch::DeviceState;
use sidecore_core::histogram::{BUCKETS, bucket};
use sidecore_core::policy::notify::Audit;
use sidecore_core::session::Class;
use sidecore_core::stage::Stage;
use sidecore_core::sync::{AtomicU64, Ordering, fence};
use sidecore_core::time::Nanos;
use sidecore_core::words::add;
use std::io;
use std::ops::Range;
use std::sync::Arc;

/// A stretch of words of the file.
#[derive(Clone, Debug)]
struct Block {
    file: Arc<Counters>,
    start: usize,
    words: usize,
}

/// Counts for one lane.
#[derive(Clone, Debug)]
pub struct LaneBlock(Block);

/// Counts for one sidecore.
#[derive(Clone, Debug)]
pub struct SidecoreBlock(Block);

/// Counts for one device.
#[derive(Clone, Debug)]
pub struct DeviceBlock(Block);

/// Counts of one sidecore for one stored key.
#[derive(Clone, Debug)]
pub struct KeyBlock(Block);

impl LaneBlock {
    pub(super) fn new(file: &Arc<Counters>, index: usize) -> Self {
        Self(Block::new(file, file.shape().lane(index)))
    }

    /// Begins anew for a lane of this process, user and sidecore, called `name`, of which 32 bytes are kept.
    ///
    /// # Errors
    /// The file system has no space left for the block.
    pub fn open(&self, pid: u32, uid: u32, sidecore: u32, name: &str) -> io::Result<()> {
        self.0.file.reserve(self.0.start, self.0.words)?;
        self.0.begin();
        self.0.set(lane::PID, u64::from(pid));
        self.0.set(lane::UID, u64::from(uid));
        self.0.set(lane::SIDECORE, u64::from(sidecore));
        self.0.set_text::<NAME_WORDS>(lane::NAME, name);
        self.0.publish();
        Ok(())
    }

    /// The lane is no more.
    pub fn close(&self) {
        self.0.close();
    }

    /// Adds to a counter.
    #[inline]
    pub fn add(&self, counter: LaneCounter, amount: u64) {
        self.0.add(lane::COUNTERS + counter as usize, amount);
    }

    /// Sets a counter.
    #[inline]
    pub fn set(&self, counter: LaneCounter, value: u64) {
        self.0.set(lane::COUNTERS + counter as usize, value);
    }

    /// Value of a counter.
    #[inline]
    pub fn get(&self, counter: LaneCounter) -> u64 {
        self.0.word(lane::COUNTERS + counter as usize).load(Ordering::Relaxed)
    }

    /// A sampled request spent so long in this stage, ns.
    #[inline]
    pub fn record(&self, stage: Stage, time: Nanos) {
        self.0.record(lane::STAGES + stage as usize * HISTOGRAM, time);
    }

    /// Replaces the whole histogram of a stage: the counts from bucket `first` on, and the sum, ns.
    pub(super) fn store(&self, stage: Stage, first: usize, counts: &[u64], sum: u64) {
        let start = lane::STAGES + stage as usize * HISTOGRAM;
        for (i, count) in counts.iter().enumerate().take(BUCKETS - first) {
            self.0.set(start + first + i, *count);
        }
        self.0.set(start + BUCKETS, sum);
    }
}

impl SidecoreBlock {
    pub(super) fn new(file: &Arc<Counters>, index: usize) -> Self {
        Self(Block::new(file, file.shape().sidecore(index)))
    }

    /// The sidecore runs at this place. What it counted before is kept.
    pub fn open(&self, place: Place) {
        self.0.set_place(sidecore::CPU, sidecore::MAY_SPIN, place);
        self.0.publish();
    }

    /// Where the sidecore runs, while it does.
    pub(super) fn place(&self) -> Option<Place> {
        self.0.is_open().then(|| self.0.place(sidecore::CPU, sidecore::MAY_SPIN))
    }

    /// Adds to a counter.
    #[inline]
    pub fn add(&self, counter: SidecoreCounter, amount: u64) {
        self.0.add(sidecore::COUNTERS + counter as usize, amount);
    }

    /// Sets a counter.
    #[inline]
    pub fn set(&self, counter: SidecoreCounter, value: u64) {
        self.0.set(sidecore::COUNTERS + counter as usize, value);
    }

    /// Counts one request of this class with that many bytes of input.
    #[inline]
    pub fn class(&self, class: Class, requests: u64, bytes: u64) {
        let word = sidecore::CLASSES + 2 * class.index();
        self.0.add(word, requests);
        self.0.add(word + 1, bytes);
    }

    /// A sampled request of this class spent so long in this stage, ns.
    #[inline]
    pub fn record(&self, class: Class, stage: Stage, time: Nanos) {
        self.0.record(sidecore::STAGES + (class.index() * Stage::COUNT + stage as usize) * HISTOGRAM, time);
    }

    /// Stores all that the sidecore's waiter counted.
    pub fn audit(&self, audit: &Audit) {
        let start = sidecore::COUNTERS + SidecoreCounter::Waits as usize;
        audit.words().into_iter().enumerate().for_each(|(i, value)| self.0.set(start + i, value));
    }
}

impl DeviceBlock {
    pub(super) fn new(file: &Arc<Counters>, index: usize) -> Self {
        Self(Block::new(file, file.shape().device(index)))
    }

    /// Begins anew for an active device of this name and kind, of which 32 bytes each are kept, on that sidecore. Only a
    /// worker has a place of its own.
    pub fn open(&self, name: &str, sidecore: u32, kind: &str, place: Place) {
        self.0.begin();
        self.0.set(device::SIDECORE, u64::from(sidecore));
        self.0.set_text::<NAME_WORDS>(device::NAME, name);
        self.0.set_text::<NAME_WORDS>(device::KIND, kind);
        self.0.set_place(device::CPU, device::MAY_SPIN, place);
        self.0.publish();
    }

    /// Where the device runs, while it is a worker that is not gone.
    pub(super) fn worker(&self) -> Option<Place> {
        let word = |word| self.0.word(word).load(Ordering::Relaxed);
        let kind: [u64; NAME_WORDS] = std::array::from_fn(|i| word(device::KIND + i));
        let serves = self.0.is_open() && word(device::STATE) != DeviceState::Gone as u64;
        let serves = serves && kind == text::pack(DeviceKind::Worker.name());
        serves.then(|| self.0.place(device::CPU, device::MAY_SPIN))
    }

    /// How far the device may be used.
    pub fn set_state(&self, state: DeviceState) {
        self.0.set(device::STATE, state as u64);
    }

    /// Adds to a counter.
    #[inline]
    pub fn add(&self, counter: DeviceCounter, amount: u64) {
        self.0.add(device::COUNTERS + counter as usize, amount);
    }

    /// Sets a counter.
    #[inline]
    pub fn set(&self, counter: DeviceCounter, value: u64) {
        self.0.set(device::COUNTERS + counter as usize, value);
    }

    /// The device needed so long for a sampled request, ns.
    #[inline]
    pub fn record(&self, time: Nanos) {
        self.0.record(device::TIME, time);
    }
}

impl KeyBlock {
    pub(super) fn new(file: &Arc<Counters>, sidecore: usize, place: usize) -> Self {
        Self(Block::new(file, file.shape().key_on(sidecore, place)))
    }

    pub(super) fn open(&self, name: &str) {
        self.0.begin();
        self.0.set_text::<{ key::NAME_WORDS }>(key::NAME, name);
        self.0.publish();
    }

    pub(super) fn close(&self) {
        self.0.close();
    }

    /// Adds to a counter.
    #[inline]
    pub fn add(&self, counter: KeyCounter, amount: u64) {
        self.0.add(key::COUNTERS + counter as usize, amount);
    }

    /// Takes from a level, at most all of it.
    #[inline]
    pub fn sub(&self, counter: KeyCounter, amount: u64) {
        let word = self.0.word(key::COUNTERS + counter as usize);
        word.store(word.load(Ordering::Relaxed).saturating_sub(amount), Ordering::Relaxed);
    }

    /// A sampled request spent so long in this stage, ns. What follows the service is not kept.
    #[inline]
    pub fn record(&self, stage: Stage, time: Nanos) {
        if (stage as usize) < key::KEPT_STAGES {
            self.0.record(key::STAGES + stage as usize * HISTOGRAM, time);
        }
    }
}

/// The audit whose [`Audit::words`] these are.
pub(super) fn audit_of(words: [u64; 8]) -> Audit {
    let [waits, empty_polls, parks, naps, spun_ns, slept_ns, cost_ns, optimum_ns] = words;
    Audit { waits, empty_polls, naps, parks, spun_ns, slept_ns, cost_ns, optimum_ns }
}

/// The place that these words say.
pub(super) fn place_of(cpu: u64, may_spin: u64) -> Place {
    let cpu = usize::try_from(cpu).ok().and_then(|cpu| cpu.checked_sub(1));
    Place::new(cpu, may_spin != 0)
}

impl Block {
    fn new(file: &Arc<Counters>, words: Range<usize>) -> Self {
        Self { file: Arc::clone(file), start: words.start, words: words.len() }
    }

    #[inline]
    fn word(&self, word: usize) -> &AtomicU64 {
        self.file.word(self.start + word)
    }

    #[inline]
    fn add(&self, word: usize, amount: u64) {
        add(self.word(word), amount);
    }

    #[inline]
    fn set(&self, word: usize, value: u64) {
        self.word(word).store(value, Ordering::Relaxed);
    }

    #[inline]
    fn record(&self, histogram: usize, time: Nanos) {
        self.add(histogram + bucket(time), 1);
        self.add(histogram + BUCKETS, time);
    }

    fn set_text<const WORDS: usize>(&self, word: usize, text: &str) {
        let words: [u64; WORDS] = text::pack(text);
        words.into_iter().enumerate().for_each(|(i, value)| self.set(word + i, value));
    }

    fn set_place(&self, cpu: usize, may_spin: usize, place: Place) {
        self.set(cpu, place.cpu.map_or(0, |cpu| cpu as u64 + 1));
        self.set(may_spin, u64::from(place.may_spin));
    }

    fn place(&self, cpu: usize, may_spin: usize) -> Place {
        let word = |word| self.word(word).load(Ordering::Relaxed);
        place_of(word(cpu), word(may_spin))
    }

    fn is_open(&self) -> bool {
        self.word(GENERATION).load(Ordering::Acquire) & 1 == 1
    }

    /// Closes the block and clears it.
    fn begin(&self) {
        self.close();
        (GENERATION + 1..self.words).for_each(|word| self.set(word, 0));
    }

    /// Opens the closed block for readers. What was stored before is seen by who sees it open.
    fn publish(&self) {
        let generation = self.word(GENERATION).load(Ordering::Relaxed);
        self.word(GENERATION).store(generation | 1, Ordering::Release);
    }

    fn close(&self) {
        let generation = self.word(GENERATION).load(Ordering::Relaxed);
        self.set(GENERATION, generation.wrapping_add(generation & 1));
        // Who sees a word of the next opening sees this one closed.
        fence(Ordering::Release);
    }
}
