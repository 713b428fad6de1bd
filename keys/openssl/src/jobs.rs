//! Waiting in OpenSSL's asynchronous jobs, so that the program can do other work.

pub(crate) mod ffi;
mod set;
mod sys;
pub(crate) mod waiting;

use ffi::{Job, Pause};
#[cfg(test)]
pub(crate) use set::{NO_NUMBER, permit_all_numbers};
use sidecore_client::client::{Error, Received};
use sidecore_client::keyops::failure::{Failure, FailureKind};
use sidecore_client::keyops::lanes::{self, LaneGuard, Pool};
use sidecore_client::keyops::wait::{Threads, WaitStrategy};
use sidecore_core::policy::notify::Notify;
use sidecore_core::time::Nanos;
use std::io;
use std::time::{Duration, Instant};
use waiting::Waiting;

/// Limit of resumes without an event: a program beyond it ignores the descriptor, or cannot pause.
const VAIN_RESUMES: u32 = 64;

/// Waits in the calling job; outside of a job, and where a job cannot pause, blocks the thread.
pub(crate) struct Jobs;

impl WaitStrategy for Jobs {
    fn favourite(&self) -> Option<u64> {
        ffi::current()?.waited(|waiting| waiting.favourite())?
    }

    fn for_lane(&self, pool: &'static Pool, seen: u64, deadline: Instant) -> Result<bool, FailureKind> {
        let Some(job) = ffi::current() else { return Threads.for_lane(pool, seen, deadline) };
        let paused = job.pause(pool, |waiting| waiting.watch_pool(seen, deadline), Waiting::settle);
        if !lanes::is_current(pool) {
            return Err(forked());
        }
        if matches!(paused, Ok(Pause { paused: true, .. })) {
            return Ok(Instant::now() < deadline);
        }
        // The bell is for jobs that can pause.
        job.waited(Waiting::leave_pool);
        let waited = pool.wait(seen, deadline).map_err(|failure| match paused {
            Err(why) => Failure::new(failure.reason, format!("{} ({why})", failure.text)),
            Ok(_) => failure,
        })?;
        Ok(waited && Instant::now() < deadline)
    }

    fn for_a_while(&self, pool: &'static Pool, time: Duration) -> Result<(), FailureKind> {
        let Some(job) = ffi::current() else { return Threads.for_a_while(pool, time) };
        let after = Nanos::try_from(time.as_nanos()).unwrap_or(Nanos::MAX);
        match job.pause(pool, |waiting| waiting.watch_time(after), Waiting::settle) {
            Ok(Pause { paused: true, .. }) => Ok(()),
            _ => Threads.for_a_while(pool, time),
        }
    }

    fn leave(&self, pool: &'static Pool, got_one: bool) -> Result<(), FailureKind> {
        let Some(job) = ffi::current().filter(|_| lanes::is_current(pool)) else { return Ok(()) };
        job.waited(Waiting::leave_pool);
        if !got_one {
            // A lane may have been offered just before the deadline.
            pool.pass_on();
        }
        Ok(())
    }

    fn for_answer(&self, mut lane: LaneGuard, deadline: Instant) -> Result<(LaneGuard, Received), FailureKind> {
        let Some(job) = ffi::current() else { return Threads.for_answer(lane, deadline) };
        let mut vain = 0;
        while vain < VAIN_RESUMES {
            if let Some(received) = lane.client.poll() {
                return Ok((lane, received));
            }
            if Instant::now() >= deadline {
                return Err(FailureKind::Late);
            }
            let signal = match signal(&mut lane) {
                Ok(Some(signal)) => signal,
                Ok(None) => continue,
                Err(error) => return Err(lane.broken(&error)),
            };
            vain += u32::from(matches!(signal, Signal::Answer));
            let (kept, paused) = paused_with(lane, &job, &signal, deadline)?;
            lane = kept;
            if !paused {
                // Its answer is on the way and needs no other lane, so the thread can wait for it.
                break;
            }
        }
        Threads.for_answer(lane, deadline)
    }
}

/// Pauses with the lane stored in the wait context, so that it is not lost if the job is never resumed. Returns the
/// lane, and whether the job could pause.
fn paused_with(
    lane: LaneGuard,
    job: &Job,
    signal: &Signal,
    deadline: Instant,
) -> Result<(LaneGuard, bool), FailureKind> {
    let (pool, mut here) = (lane.pool(), Some(lane));
    let arm = |waiting: &mut Waiting| {
        // Another job shares the wait context and has paused in it.
        let lane = here.as_ref().filter(|_| !waiting.holds()).ok_or(io::ErrorKind::ResourceBusy)?;
        match signal {
            Signal::Time(period) => waiting.watch_time(*period),
            Signal::Resume => waiting.watch_nothing(),
            Signal::Answer => waiting.watch(lane, deadline),
        }?;
        waiting.hold(here.take());
        Ok(())
    };
    let pause = job.pause(pool, arm, Waiting::take);
    match (here, pause) {
        // Not armed.
        (Some(lane), _) => Ok((lane, false)),
        (None, Ok(Pause { paused, left: Some(Some(lane)) })) => Ok((lane, paused)),
        // The job was resumed in a forked child, where the wait context still has the parent's lane.
        (None, Ok(Pause { left: None, .. })) => Err(forked()),
        (None, _) => Err(FailureKind::Stale("the lane was lost while the job was paused".to_owned())),
    }
}

/// The parent's lanes and their locks are unusable in this process: the operation starts again with lanes of its own.
fn forked() -> FailureKind {
    FailureKind::Stale("the process was forked while the job was paused".to_owned())
}

/// What resumes a job that waits for its answer.
enum Signal {
    /// The service wakes it.
    Answer,
    /// It looks again after this time.
    Time(Nanos),
    /// It looks again as soon as the program has looked at its other descriptors.
    Resume,
}

/// Makes sure that the job will be resumed. `None`: an answer can be polled already.
fn signal(lane: &mut LaneGuard) -> Result<Option<Signal>, Error> {
    Ok(match lane.client.notify()? {
        Notify::Timer { period } => lane.client.check().map(|()| Some(Signal::Time(period)))?,
        Notify::Spin => lane.client.check().map(|()| Some(Signal::Resume))?,
        _ => lane.client.arm()?.then_some(Signal::Answer),
    })
}
