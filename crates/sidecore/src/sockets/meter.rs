//! What system calls of one user's thread cost: some transfers are measured.
//!
//! By the thread's CPU clock: what others do with the core meanwhile is nobody's cost. Reading it is a system call too, so
//! few are measured, and what the reading takes is left out.

use crate::sys::clock;
use sidecore_core::stage::Sampler;
use sidecore_core::streams::saving::Fit;
use sidecore_core::time::Nanos;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// One transfer in so many is measured.
const SAMPLE_EVERY: u32 = 16;
/// Readings that are compared to know what one takes.
const READINGS: usize = 16;

/// What a system call costs beside its bytes, as others may see it.
#[derive(Debug)]
pub(super) struct Price(AtomicU64);

/// Stands for a price that is not known.
const UNKNOWN: u64 = u64::MAX;

impl Price {
    /// ns of CPU time. `None`: not known yet.
    pub(super) fn get(&self) -> Option<Nanos> {
        Some(self.0.load(Ordering::Relaxed)).filter(|price| *price != UNKNOWN)
    }
}

/// See the module.
#[derive(Debug)]
pub(super) struct Meter {
    sampler: Sampler,
    fit: Fit,
    /// What measuring adds, ns.
    own: Nanos,
    price: Arc<Price>,
}

impl Meter {
    /// Without knowledge.
    pub(super) fn new() -> Self {
        let reading = |_| {
            let before = clock::thread_cpu();
            clock::thread_cpu().saturating_sub(before)
        };
        let own = (0..READINGS).map(reading).min().unwrap_or(0);
        let price = Arc::new(Price(AtomicU64::new(UNKNOWN)));
        Self { sampler: Sampler::new(SAMPLE_EVERY), fit: Fit::default(), own, price }
    }

    /// What is known at any time.
    pub(super) fn price(&self) -> &Arc<Price> {
        &self.price
    }

    /// Makes a transfer, which returns how many bytes it moved, and perhaps measures it.
    pub(super) fn measure<E>(&mut self, transfer: impl FnOnce() -> Result<usize, E>) -> Result<usize, E> {
        if !self.sampler.next() {
            return transfer();
        }
        let before = clock::thread_cpu();
        let moved = transfer()?;
        let took = clock::thread_cpu().saturating_sub(before).saturating_sub(self.own);
        self.fit.add(moved as u32, took);
        self.price.0.store(self.fit.fixed().unwrap_or(UNKNOWN), Ordering::Relaxed);
        Ok(moved)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
