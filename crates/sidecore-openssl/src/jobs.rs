//! Waiting in OpenSSL's asynchronous jobs, so that the program can do other work.

pub(crate) mod ffi;
mod set;
pub(crate) mod waiting;

use ffi::Job;
pub(crate) use set::NO_NUMBER;
use sidecore_client::client::{Error, Received};
use sidecore_client::keyops::failure::FailureKind;
use sidecore_client::keyops::lanes::{self, LaneGuard, Pool};
use sidecore_client::keyops::wait::{Threads, WaitStrategy};
use sidecore_core::policy::notify::Notify;
use sidecore_core::time::Nanos;
use std::convert::identity;
use std::io;
use std::time::{Duration, Instant};
use waiting::Waiting;

/// Limit of resumes without an event: a program beyond it ignores the descriptor, or cannot pause.
const VAIN_RESUMES: u32 = 64;

/// Waits in the calling job; outside of a job, blocks the thread.
pub(crate) struct Jobs;

impl WaitStrategy for Jobs {
    fn favourite(&self) -> Option<u64> {
        ffi::current()?.waited(Waiting::favourite)?
    }

    fn for_lane(&self, pool: &'static Pool, seen: u64, deadline: Instant) -> Result<bool, FailureKind> {
        let Some(job) = ffi::current() else { return Threads.for_lane(pool, seen, deadline) };
        let paused = match job.waiting(pool, |waiting| waiting.watch_pool(seen, deadline)).and_then(identity) {
            Err(error) if error.kind() == NO_NUMBER => false,
            other => {
                other?;
                let paused = job.pause();
                job.waiting(lanes::pool()?, Waiting::settle).map_err(failure_kind)?;
                if !lanes::is_current(pool) {
                    return Err(forked());
                }
                if !paused {
                    // A program that cannot pause waits as without jobs; the bell is for programs that can.
                    leave(pool, &job)?;
                }
                paused
            }
        };
        Ok((paused || pool.wait(seen, deadline)) && Instant::now() < deadline)
    }

    fn for_a_while(&self, pool: &'static Pool, time: Duration) -> Result<(), FailureKind> {
        let Some(job) = ffi::current() else { return Threads.for_a_while(pool, time) };
        let after = Nanos::try_from(time.as_nanos()).unwrap_or(Nanos::MAX);
        match job.waiting(pool, |waiting| waiting.watch_time(after)).and_then(identity) {
            Err(error) if error.kind() == NO_NUMBER => return Threads.for_a_while(pool, time),
            other => other?,
        }
        let paused = job.pause();
        job.waiting(lanes::pool()?, Waiting::settle).map_err(failure_kind)?;
        if paused { Ok(()) } else { Threads.for_a_while(pool, time) }
    }

    fn leave(&self, pool: &'static Pool, got_one: bool) -> Result<(), FailureKind> {
        let Some(job) = ffi::current().filter(|_| lanes::is_current(pool)) else { return Ok(()) };
        leave(pool, &job)?;
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
            match prepare(&mut lane, &job, deadline) {
                Ok(Ok(Prepared::ToBeWoken)) => vain += 1,
                Ok(Ok(Prepared::ToLook)) => {}
                Ok(Ok(Prepared::Ready)) => continue,
                Ok(Err(error)) if error.kind() == NO_NUMBER => break,
                Ok(Err(error)) => return Err(error.into()),
                Err(error) => return Err(lane.broken(&error)),
            }
            let paused = match paused_with(lane, &job)? {
                Ok((kept, paused)) => {
                    lane = kept;
                    paused
                }
                // Another job shares the wait context and has paused in it.
                Err(kept) => return Threads.for_answer(kept, deadline),
            };
            if !paused {
                break;
            }
        }
        Threads.for_answer(lane, deadline)
    }
}

/// Pauses with the lane stored in the wait context, so that it is not lost if the job is never resumed. Returns the
/// lane, and whether the program could pause; or the lane alone if the context already holds one.
fn paused_with(lane: LaneGuard, job: &Job) -> Result<Result<(LaneGuard, bool), LaneGuard>, FailureKind> {
    if let Err(lane) = job.waiting(lane.pool(), |waiting| waiting.hold(lane)).map_err(failure_kind)? {
        return Ok(Err(lane));
    }
    let paused = job.pause();
    // The job may be resumed in a forked child: then the wait context still has the parent's lane, and becomes the
    // child's.
    match job.waiting(lanes::pool()?, Waiting::take).map_err(failure_kind)? {
        None => Err(FailureKind::Stale("the lane was lost while the job was paused".to_owned())),
        Some(lane) if lane.is_parents() => Err(forked()),
        Some(lane) => Ok(Ok((lane, paused))),
    }
}

/// The parent's lanes and their locks are unusable in this process: the operation starts again with lanes of its own.
fn forked() -> FailureKind {
    FailureKind::Stale("the process was forked while the job was paused".to_owned())
}

fn leave(pool: &'static Pool, job: &Job) -> Result<(), FailureKind> {
    match job.waiting(pool, Waiting::leave_pool) {
        // It never waited for one.
        Err(error) if error.kind() == NO_NUMBER => Ok(()),
        other => Ok(other?),
    }
}

fn failure_kind(error: io::Error) -> FailureKind {
    if error.kind() == NO_NUMBER { FailureKind::Late } else { error.into() }
}

enum Prepared {
    /// An answer can be polled already.
    Ready,
    /// The service will wake it.
    ToBeWoken,
    /// The job has to be resumed to check again.
    ToLook,
}

/// Makes sure that the job will be resumed. The outer error is the lane's, the inner one the wait context's.
fn prepare(lane: &mut LaneGuard, job: &Job, deadline: Instant) -> Result<io::Result<Prepared>, Error> {
    let pool = lane.pool();
    let policy = lane.client.notify()?;
    if matches!(policy, Notify::Timer { .. } | Notify::Spin) {
        lane.client.check()?;
    } else if !lane.client.arm()? {
        return Ok(Ok(Prepared::Ready));
    }
    let watch = |waiting: &mut Waiting| match policy {
        Notify::Timer { period } => waiting.watch_time(period).map(|()| Prepared::ToLook),
        Notify::Spin => waiting.watch_nothing().map(|()| Prepared::ToLook),
        _ => waiting.watch(lane, deadline).map(|()| Prepared::ToBeWoken),
    };
    Ok(job.waiting(pool, watch).and_then(identity))
}
