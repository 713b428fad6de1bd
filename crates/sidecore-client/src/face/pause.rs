//! How an operation waits: on its thread, or as the program's own kind of threads does.

use super::failure::Trouble;
use super::lanes::{Pool, Taken};
use crate::client::{Options, Received};
use std::thread;
use std::time::{Duration, Instant};

/// Who has something done: how its lanes are made, and how it waits.
#[derive(Clone, Copy)]
pub struct Caller<'a> {
    /// How lanes are made, and how long an operation may take.
    pub options: &'a Options,
    /// How it waits.
    pub pause: &'a dyn Pause,
}

impl<'a> Caller<'a> {
    /// A thread that does nothing else meanwhile.
    pub fn thread(options: &'a Options) -> Self {
        Self { options, pause: &Threads }
    }
}

/// What waits for lanes and for what comes over them.
pub trait Pause: Sync {
    /// The number of the lane that it can wait on with the least effort.
    fn favourite(&self) -> Option<u64> {
        None
    }

    /// Waits until a lane of the pool came back since `seen`. `Ok(false)`: not until the deadline.
    ///
    /// # Errors
    /// It cannot wait.
    fn for_lane(&self, pool: &'static Pool, seen: u64, deadline: Instant) -> Result<bool, Trouble>;

    /// Waits for so long, or not quite.
    ///
    /// # Errors
    /// What it waits by is broken.
    fn for_a_while(&self, pool: &'static Pool, time: Duration) -> Result<(), Trouble>;

    /// It waits for a lane no more, which it did at least once: it got one, or gave up.
    ///
    /// # Errors
    /// What it waited by is broken.
    fn leave(&self, pool: &'static Pool, got_one: bool) -> Result<(), Trouble> {
        let _ = (pool, got_one);
        Ok(())
    }

    /// Waits for the request in flight on a lane. What is in the way ends the lane.
    ///
    /// # Errors
    /// It is not there in time, or the lane ended.
    fn for_answer(&self, lane: Taken, deadline: Instant) -> Result<(Taken, Received), Trouble>;
}

/// A thread waits itself.
pub struct Threads;

impl Pause for Threads {
    fn for_lane(&self, pool: &'static Pool, seen: u64, deadline: Instant) -> Result<bool, Trouble> {
        Ok(pool.wait(seen, deadline))
    }

    fn for_a_while(&self, _pool: &'static Pool, time: Duration) -> Result<(), Trouble> {
        thread::sleep(time);
        Ok(())
    }

    fn for_answer(&self, mut lane: Taken, deadline: Instant) -> Result<(Taken, Received), Trouble> {
        let left = deadline.saturating_duration_since(Instant::now()).as_nanos();
        match lane.client.wait_for(u64::try_from(left).unwrap_or(u64::MAX)) {
            Ok(Some(received)) => Ok((lane, received)),
            Ok(None) => Err(Trouble::Late),
            Err(error) => Err(lane.broken(&error)),
        }
    }
}
