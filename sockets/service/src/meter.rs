//! Costs of system calls of one user's thread, from a sample of transfers.
//!
//! The clock is the thread's CPU clock, which excludes other threads' use of the core. Reading it is a system call
//! too, so few transfers are measured, and the time of the reading is subtracted. The same clock, read once in a row
//! of transfers, gives the thread's other costs.

use sidecore_core::stage::Sampler;
use sidecore_core::time::Nanos;
use sidecore_ipc::sys::clock;
use sidecore_streams::saving::{BreakEven, Fit};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// One transfer in this number is measured.
const SAMPLE_EVERY: u32 = 16;
/// Transfers of a row, after which the break-even is computed again.
const ROW: u64 = 64;
/// Weight of a row in the mean, 1 / `PART`.
const PART: u64 = 4;
/// Readings that are compared for the time of one.
const READINGS: usize = 16;

/// A system call's fixed cost, for other threads.
#[derive(Debug)]
pub(super) struct Price(AtomicU64);

/// Stands for an unknown price.
const UNKNOWN: u64 = u64::MAX;

impl Price {
    /// In ns of CPU time. `None`: unknown yet.
    pub(super) fn get(&self) -> Option<Nanos> {
        Some(self.0.load(Ordering::Relaxed)).filter(|price| *price != UNKNOWN)
    }
}

#[derive(Debug)]
pub(super) struct Meter {
    sampler: Sampler,
    fit: Fit,
    /// Cost of a measurement itself, ns.
    own: Nanos,
    price: Arc<Price>,
    row: Row,
    /// Costs of a transfer for program and thread, without its call, ns. `None`: unknown yet.
    extra: Option<Nanos>,
}

#[derive(Debug, Default)]
struct Row {
    /// Reading at its begin, ns.
    began: Nanos,
    transfers: u64,
    bytes: u64,
    wakes: u64,
}

impl Meter {
    pub(super) fn new() -> Self {
        let reading = |_| {
            let before = clock::thread_cpu();
            clock::thread_cpu().saturating_sub(before)
        };
        let own = (0..READINGS).map(reading).min().unwrap_or(0);
        let price = Arc::new(Price(AtomicU64::new(UNKNOWN)));
        let row = Row { began: clock::thread_cpu(), ..Row::default() };
        Self { sampler: Sampler::new(SAMPLE_EVERY), fit: Fit::default(), own, price, row, extra: None }
    }

    pub(super) fn woken(&mut self) {
        self.row.wakes += 1;
    }

    pub(super) fn moved(&mut self, bytes: u32) {
        self.row.transfers += 1;
        self.row.bytes += u64::from(bytes);
    }

    /// Learns from a row of transfers, once it is complete. `ring`: CPU time that waking the thread costs a program,
    /// ns.
    pub(super) fn learn(&mut self, ring: Nanos) -> bool {
        if self.row.transfers < ROW {
            return false;
        }
        let next = Row { began: clock::thread_cpu(), ..Row::default() };
        let took = next.began.saturating_sub(self.row.began);
        let Row { transfers, bytes, wakes, .. } = std::mem::replace(&mut self.row, next);
        if let Some(calls) = self.fit.expected(transfers, bytes) {
            let extra = (took.saturating_sub(calls) + wakes * ring) / transfers;
            let known = self.extra.unwrap_or(extra);
            self.extra = Some(known - known / PART + extra / PART);
        }
        true
    }

    /// Least numbers of messages that make a ring pay. `wake`: time from a program's ring until the thread runs, ns.
    pub(super) fn break_even(&self, wake: Nanos) -> BreakEven {
        let known = self.fit.fixed().zip(self.extra);
        known.map_or(BreakEven::ASSUMED, |(fixed, extra)| BreakEven::new(fixed, extra, wake))
    }

    pub(super) fn price(&self) -> &Arc<Price> {
        &self.price
    }

    /// Makes a transfer, which returns the number of bytes moved, and measures some of them.
    pub(super) fn measure<E>(&mut self, transfer: impl FnOnce() -> Result<usize, E>) -> Result<usize, E> {
        if !self.sampler.next() {
            return transfer().inspect(|moved| self.moved(*moved as u32));
        }
        let before = clock::thread_cpu();
        let moved = transfer()?;
        let took = clock::thread_cpu().saturating_sub(before).saturating_sub(self.own);
        self.fit.add(moved as u32, took);
        self.moved(moved as u32);
        self.price.0.store(self.fit.fixed().unwrap_or(UNKNOWN), Ordering::Relaxed);
        Ok(moved)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_of_transfers_says_from_how_many_messages_on_a_ring_pays() {
        let mut meter = Meter::new();
        let mut rows = |wakes: u32| {
            let mut complete = 0;
            for _ in 0..ROW * 20 {
                (0..wakes).for_each(|_| meter.woken());
                meter.measure(|| Ok::<_, ()>(64)).unwrap();
                complete += u32::from(meter.learn(100_000));
            }
            (complete, meter.break_even(0))
        };
        assert_eq!(rows(0).0, 20);
        assert_eq!(rows(50), (20, BreakEven::new(0, Nanos::MAX, 0)), "waking costs much more than such a call");
        assert_eq!(Meter::new().break_even(0), BreakEven::ASSUMED);
    }

    #[test]
    fn transfers_have_a_price_after_some_and_failed_ones_say_nothing() {
        let mut meter = Meter::new();
        let price = meter.price().clone();
        for _ in 0..SAMPLE_EVERY * 20 {
            assert_eq!(meter.measure(|| Err(())), Err(()));
        }
        assert_eq!(price.get(), None);
        for _ in 0..SAMPLE_EVERY * 20 {
            assert_eq!(meter.measure(|| Ok::<_, ()>(64)), Ok(64));
        }
        assert!(price.get().is_some());
    }
}
