//! Waiting in OpenSSL's asynchronous jobs: the program does other things meanwhile.

pub(crate) mod ffi;
mod set;
pub(crate) mod waiting;

use ffi::Job;
pub(crate) use set::no_number;
use sidecore_client::client::{Error, Received};
use sidecore_client::face::failure::Trouble;
use sidecore_client::face::lanes::{Pool, Taken};
use sidecore_client::face::pause::{Pause, Threads};
use sidecore_core::policy::notify::Notify;
use std::io;
use std::time::Instant;
use waiting::Waiting;

/// A program that resumes a job so often for nothing pays no attention to its descriptor, or cannot pause.
const VAIN_RESUMES: u32 = 64;

/// The job that calls, if a job calls; else the thread.
pub(crate) struct Jobs;

impl Pause for Jobs {
    fn favourite(&self) -> Option<u64> {
        ffi::current()?.waited(Waiting::favourite)?
    }

    fn for_lane(&self, pool: &'static Pool, seen: u64, deadline: Instant) -> Result<bool, Trouble> {
        let Some(job) = ffi::current() else { return Threads.for_lane(pool, seen, deadline) };
        let paused = match in_context(pool, &job, |waiting| waiting.watch_pool(seen, deadline)) {
            Err(error) if is_no_number(&error) => false,
            other => {
                other?;
                let paused = job.pause();
                settle(pool, &job)?;
                if !paused {
                    // A program that cannot pause waits as one without jobs: the bell is for those that can.
                    leave(pool, &job)?;
                }
                paused
            }
        };
        Ok((paused || pool.wait(seen, deadline)) && Instant::now() < deadline)
    }

    fn leave(&self, pool: &'static Pool, got_one: bool) -> Result<(), Trouble> {
        let Some(job) = ffi::current() else { return Ok(()) };
        leave(pool, &job)?;
        if !got_one {
            // A lane may have been offered just before the deadline.
            pool.pass_on();
        }
        Ok(())
    }

    fn for_answer(&self, mut lane: Taken, deadline: Instant) -> Result<(Taken, Received), Trouble> {
        let Some(job) = ffi::current() else { return Threads.for_answer(lane, deadline) };
        let pool = lane.pool();
        let mut vain = 0;
        while vain < VAIN_RESUMES {
            if let Some(received) = lane.client.poll() {
                return Ok((lane, received));
            }
            if Instant::now() >= deadline {
                return Err(Trouble::Late);
            }
            match prepare(&mut lane, &job, deadline) {
                Ok(Prepared::ToBeWoken) => vain += 1,
                Ok(Prepared::ToLook) => {}
                Ok(Prepared::Ready) => continue,
                Err(Obstacle::Lane(error)) => return Err(lane.broken(&error)),
                Err(Obstacle::Context(error)) if is_no_number(&error) => break,
                Err(Obstacle::Context(error)) => return Err(error.into()),
            }
            let paused = match paused_with(lane, &job)? {
                Ok((kept, paused)) => {
                    lane = kept;
                    paused
                }
                // Another job shares the wait context and is paused in it.
                Err(kept) => return Threads.for_answer(kept, deadline),
            };
            settle(pool, &job)?;
            if !paused {
                break;
            }
        }
        Threads.for_answer(lane, deadline)
    }
}

/// Pauses with the lane in the wait context, so that it is not lost if the job is never resumed. The lane, and whether the
/// program could pause; or the lane alone where the context has one already.
fn paused_with(lane: Taken, job: &Job) -> Result<Result<(Taken, bool), Taken>, Trouble> {
    let pool = lane.pool();
    let mut kept = Some(lane);
    in_context(pool, job, |waiting| {
        if let Some(lane) = kept.take() {
            kept = waiting.hold(lane).err();
        }
        Ok(())
    })
    .map_err(trouble)?;
    if let Some(lane) = kept {
        return Ok(Err(lane));
    }
    let paused = job.pause();
    // The job may be resumed in a forked child: the wait context still has the parent's lane then.
    let lane = job.waiting(|| Waiting::new(pool), Waiting::take).map_err(trouble)?;
    match lane {
        None => Err(Trouble::Stale("the lane was lost while the job was paused".to_owned())),
        Some(lane) if lane.is_parents() => {
            Err(Trouble::Stale("the process was forked while the job was paused".to_owned()))
        }
        Some(lane) => Ok(Ok((lane, paused))),
    }
}

/// The job waits for a lane no more.
fn leave(pool: &'static Pool, job: &Job) -> Result<(), Trouble> {
    let leave = |waiting: &mut Waiting| {
        waiting.leave_pool();
        Ok(())
    };
    match in_context(pool, job, leave) {
        // It never waited for one.
        Err(error) if is_no_number(&error) => Ok(()),
        other => Ok(other?),
    }
}

/// The job goes on.
fn settle(pool: &'static Pool, job: &Job) -> Result<(), Trouble> {
    let settle = |waiting: &mut Waiting| {
        waiting.settle();
        Ok(())
    };
    in_context(pool, job, settle).map_err(trouble)
}

/// Works with the wait context of a job, which is this process's own then.
fn in_context<T>(pool: &'static Pool, job: &Job, work: impl FnOnce(&mut Waiting) -> io::Result<T>) -> io::Result<T> {
    let work = |waiting: &mut Waiting| {
        waiting.renew(pool)?;
        work(waiting)
    };
    job.waiting(|| Waiting::new(pool), work)?
}

/// The job cannot pause: no descriptor for it is free.
fn is_no_number(error: &io::Error) -> bool {
    error.kind() == no_number().kind()
}

fn trouble(error: io::Error) -> Trouble {
    if is_no_number(&error) { Trouble::Late } else { error.into() }
}

/// How a job goes on.
enum Prepared {
    /// There is something to poll already.
    Ready,
    /// The service will wake it.
    ToBeWoken,
    /// It will look again by itself.
    ToLook,
}

/// Why a job is not paused.
enum Obstacle {
    Lane(Error),
    Context(io::Error),
}

impl From<Error> for Obstacle {
    fn from(error: Error) -> Self {
        Self::Lane(error)
    }
}

impl From<io::Error> for Obstacle {
    fn from(error: io::Error) -> Self {
        Self::Context(error)
    }
}

/// Sees to it that the job is resumed.
fn prepare(lane: &mut Taken, job: &Job, deadline: Instant) -> Result<Prepared, Obstacle> {
    let pool = lane.pool();
    match lane.client.notify()? {
        Notify::Timer { period } => {
            lane.client.check()?;
            in_context(pool, job, |waiting| waiting.watch_time(period))?;
        }
        Notify::Spin => {
            lane.client.check()?;
            in_context(pool, job, Waiting::watch_nothing)?;
        }
        _ => {
            if !lane.client.arm()? {
                return Ok(Prepared::Ready);
            }
            in_context(pool, job, |waiting| waiting.watch(lane, deadline))?;
            return Ok(Prepared::ToBeWoken);
        }
    }
    Ok(Prepared::ToLook)
}
