//! How an operation waits: on its thread, or as the program's coroutines do.

use super::failure::FailureKind;
use super::lanes::{LaneGuard, Pool};
use crate::client::{Options, Received};
use std::thread;
use std::time::{Duration, Instant};

/// Options for an operation's lanes, and its way of waiting.
#[derive(Clone, Copy)]
pub struct Caller<'a> {
    /// Options for lanes, with the time limit of an operation.
    pub options: &'a Options,
    /// Way of waiting.
    pub wait: &'a dyn WaitStrategy,
}

impl<'a> Caller<'a> {
    /// A caller that blocks its thread.
    pub fn thread(options: &'a Options) -> Self {
        Self { options, wait: &Threads }
    }
}

/// A way of waiting for lanes and for answers on them.
pub trait WaitStrategy: Sync {
    /// Number of the lane that takes the least effort to wait on.
    fn favourite(&self) -> Option<u64> {
        None
    }

    /// Waits until a lane of the pool was returned after `seen`. `Ok(false)`: not before the deadline.
    ///
    /// # Errors
    /// It cannot wait.
    fn for_lane(&self, pool: &'static Pool, seen: u64, deadline: Instant) -> Result<bool, FailureKind>;

    /// Waits for this time, or slightly less.
    ///
    /// # Errors
    /// Its means of waiting fails.
    fn for_a_while(&self, pool: &'static Pool, time: Duration) -> Result<(), FailureKind>;

    /// Stops waiting for a lane, after at least one wait: with a lane if `got_one`.
    ///
    /// # Errors
    /// Its means of waiting fails.
    fn leave(&self, pool: &'static Pool, got_one: bool) -> Result<(), FailureKind> {
        let _ = (pool, got_one);
        Ok(())
    }

    /// Waits for the request in flight on a lane. An error ends the lane.
    ///
    /// # Errors
    /// No answer before the deadline, or the lane ended.
    fn for_answer(&self, lane: LaneGuard, deadline: Instant) -> Result<(LaneGuard, Received), FailureKind>;
}

/// Blocks the calling thread.
pub struct Threads;

impl WaitStrategy for Threads {
    fn for_lane(&self, pool: &'static Pool, seen: u64, deadline: Instant) -> Result<bool, FailureKind> {
        Ok(pool.wait(seen, deadline)?)
    }

    fn for_a_while(&self, _pool: &'static Pool, time: Duration) -> Result<(), FailureKind> {
        thread::sleep(time);
        Ok(())
    }

    fn for_answer(&self, mut lane: LaneGuard, deadline: Instant) -> Result<(LaneGuard, Received), FailureKind> {
        let left = deadline.saturating_duration_since(Instant::now()).as_nanos();
        match lane.client.wait_for(u64::try_from(left).unwrap_or(u64::MAX)) {
            Ok(Some(received)) => Ok((lane, received)),
            Ok(None) => Err(FailureKind::Late),
            Err(error) => Err(lane.broken(&error)),
        }
    }
}
