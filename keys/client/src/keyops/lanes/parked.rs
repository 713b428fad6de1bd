//! A lane whose operation is paused: the thread does other work, and only that thread's program can go on with it.
//!
//! A thread that then blocks until a lane is returned may wait for itself. So the pool knows which thread paused each
//! operation, and [`Pool::wait`](super::Pool::wait) refuses to block a thread that has paused some.

use super::{LaneGuard, Pool};

thread_local! {
    /// Its address tells threads apart. It needs no destructor, so a library with it can be unloaded.
    static PLACE: u8 = const { 0 };
}

/// Tells the threads of this process apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Thread(usize);

impl Thread {
    pub(super) fn this() -> Self {
        Self(PLACE.with(|place| std::ptr::from_ref(place).addr()))
    }
}

/// A lane of a paused operation. If it is dropped the operation was abandoned, and its lane ends.
pub struct Parked {
    /// `None` only during drop.
    lane: Option<LaneGuard>,
    by: Thread,
}

impl LaneGuard {
    /// The lane while its operation is paused by this thread.
    #[must_use]
    pub fn park(self) -> Parked {
        let by = Thread::this();
        self.pool.park(by);
        Parked { lane: Some(self), by }
    }
}

impl Parked {
    /// The lane of an operation that continues.
    #[must_use]
    pub fn resume(mut self) -> LaneGuard {
        self.take().expect("a lane that was parked")
    }

    fn take(&mut self) -> Option<LaneGuard> {
        let lane = self.lane.take()?;
        // In a forked child, a thread that does not exist may hold the lock.
        if !lane.is_parents() {
            lane.pool.unpark(self.by);
        }
        Some(lane)
    }
}

impl Drop for Parked {
    fn drop(&mut self) {
        if let Some(lane) = self.take() {
            lane.abandon();
        }
    }
}

impl Pool {
    fn park(&self, by: Thread) {
        self.state().parked.push(by);
    }

    fn unpark(&self, by: Thread) {
        let mut state = self.state();
        if let Some(place) = state.parked.iter().position(|other| *other == by) {
            state.parked.swap_remove(place);
        }
    }
}
