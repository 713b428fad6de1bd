//! One request to the service, from the operation's memory to the operation's memory.

use crate::credentials::Credentials;
use crate::failure::{Failure, Reason};
use crate::ffi::fibre::{self, Job};
use crate::key::Key;
use crate::lanes::OpenError;
use crate::lanes::{self, Pool, Take, Taken, is_gone};
use crate::waiting::{Waiting, no_number};
use sidecore::client::{Buffer, Client, Error, Job as Submission, Options, Received, Session};
use sidecore::core::policy::notify::Notify;
use sidecore::core::session::{Op, Refusal};
use sidecore::core::wire::{Extent, Status};
use sidecore::engine::crypto::Scheme;
use sidecore::sys::own::closed;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// A program that resumes a job so often for nothing pays no attention to its descriptor, or cannot pause.
const VAIN_RESUMES: u32 = 64;

/// What to do with which bytes.
pub(crate) struct Request<'r> {
    pub(crate) key: &'r Arc<Key>,
    pub(crate) scheme: Scheme,
    pub(crate) op: Op,
    /// A signature to verify.
    pub(crate) head: &'r [u8],
    pub(crate) input: &'r [u8],
    pub(crate) max_output: usize,
}

impl Request<'_> {
    fn input_len(&self) -> usize {
        self.head.len() + self.input.len()
    }
}

/// Why a request was not done.
enum Trouble {
    /// The session or the lane ended: with another it may be done.
    Stale(String),
    /// It was not done in time.
    Late,
    /// The job that asks cannot pause: no descriptor for it is free.
    Unpausable,
    Failure(Failure),
}

impl From<Failure> for Trouble {
    fn from(failure: Failure) -> Self {
        Self::Failure(failure)
    }
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            kind if kind == no_number().kind() => Self::Unpausable,
            kind if kind == closed().kind() => Self::Stale(error.to_string()),
            _ => {
                Self::Failure(Failure::new(Reason::Internal, format!("{error}; raise the limits on files and memory")))
            }
        }
    }
}

type Outcome = Result<Vec<u8>, Refusal>;

/// Has a request done. The service's refusal of the request itself is an outcome.
pub(crate) fn call(options: &Options, request: &Request<'_>) -> Result<Outcome, Failure> {
    let deadline = Instant::now() + options.patience;
    let first = once(options, request, None, deadline);
    let second = match first {
        // The service may have started again since, or have ended the sessions of a key whose users changed; or this
        // thread is another user by now.
        Err(Trouble::Stale(_)) if Instant::now() < deadline => {
            once(options, request, Some(&Credentials::present()), deadline)
        }
        other => other,
    };
    second.map_err(|trouble| match trouble {
        Trouble::Late | Trouble::Unpausable => Failure::late(options.patience),
        Trouble::Stale(_) if Instant::now() >= deadline => Failure::late(options.patience),
        Trouble::Stale(why) => Failure::new(Reason::Service, why),
        Trouble::Failure(failure) => failure,
    })
}

/// `under`: on a lane made under these credentials. Without them they are compared before a session is opened; where it is
/// open, while the service is at work, so that it takes no time: what a lane of others brings is thrown away.
fn once(
    options: &Options,
    request: &Request<'_>,
    under: Option<&Credentials>,
    deadline: Instant,
) -> Result<Outcome, Trouble> {
    let pool = lanes::pool()?;
    let job = fibre::current();
    let take = |preferred| pool.take(options, preferred, request.input_len() + request.max_output, under, deadline);
    let mut lane = take_lane(pool, take, request, job.as_ref(), deadline)?;
    if let Err(failure) = check_size(request, lane.client.max_request_bytes()) {
        lane.give_back();
        return Err(failure.into());
    }
    if !lane.has_open(request.key, &request.scheme) && !is_of_caller(&lane, under) {
        return Err(of_another(pool, lane));
    }
    lane.client.set_deadline(Some(deadline));
    let session = match lane.open(request.key, &request.scheme) {
        Ok(session) => session,
        Err(OpenError::Failure(failure)) => {
            lane.give_back();
            return Err(failure.into());
        }
        Err(OpenError::Gone(why)) => return Err(gone(pool, lane, why)),
    };
    let submitted = submit(&mut lane.client, session, request);
    let (input, output) = match submitted {
        Ok(buffers) => buffers,
        Err(error) => return Err(broken(pool, lane, &error)),
    };
    if under.is_none() && !lane.is_of_caller() {
        return Err(of_another(pool, lane));
    }
    let (mut lane, received) = wait(pool, lane, job.as_ref(), deadline)?;
    let outcome = match received.status {
        Status::Done { len } => {
            let mut result = vec![0; len as usize];
            lane.client.read(&output, 0, &mut result).map(|()| Ok(result))
        }
        Status::Refused(refusal) => Ok(Err(refusal)),
        Status::DeviceFailed { device } => Err(Error::DeviceFailed(device)),
    };
    for buffer in [input, output] {
        if leaves_secrets(request.op) {
            wipe(&mut lane.client, &buffer);
        }
        lane.client.free(buffer);
    }
    match outcome {
        Ok(Err(Refusal::NoSession)) => {
            lane.sessions.forget(request.key, &request.scheme);
            lane.give_back();
            Err(Trouble::Stale(Refusal::NoSession.message().to_owned()))
        }
        Ok(outcome) => {
            lane.give_back();
            Ok(outcome)
        }
        Err(error) => Err(broken(pool, lane, &error)),
    }
}

/// Puts the request into the lane and rings. The buffers of its input and of its output.
fn submit(client: &mut Client, session: Session, request: &Request<'_>) -> Result<(Buffer, Buffer), Error> {
    let input_len = request.input_len();
    let input = client.alloc(len(input_len.max(1)))?;
    let output = client.alloc(len(request.max_output.max(1)))?;
    client.write(&input, 0, request.head)?;
    client.write(&input, len(request.head.len()), request.input)?;
    let inputs = [Extent::new(input.extent().offset, len(input_len))];
    let head_len = len(request.head.len());
    let outputs = [output.extent()];
    let job = Submission { session, op: request.op, head_len, inputs: &inputs, outputs: &outputs, urgent: true };
    client.submit(0, &job)?;
    client.ring();
    Ok((input, output))
}

/// Whether the program may take the input or the result for a secret.
fn leaves_secrets(op: Op) -> bool {
    matches!(op, Op::Decrypt | Op::Derive | Op::Encapsulate | Op::Decapsulate)
}

/// Overwrites a buffer with zeros: the service sees the lane for as long as it lasts.
fn wipe(client: &mut Client, buffer: &Buffer) {
    let zeros = [0; 1024];
    let whole = buffer.extent().len as usize;
    for offset in (0..whole).step_by(zeros.len()) {
        let left = zeros.len().min(whole - offset);
        // It fits; in a forked child the memory is the parent's.
        let _ = client.write(buffer, len(offset), &zeros[..left]);
    }
}

fn len(bytes: usize) -> u32 {
    // Lanes have smaller arenas: what does not fit in 32 bits is refused there.
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

/// The lane ended; those that are idle are no better.
fn gone(pool: &Pool, lane: Taken, why: String) -> Trouble {
    drop(lane);
    pool.drop_idle();
    Trouble::Stale(why)
}

/// Whether the lane has the rights of the thread that calls.
fn is_of_caller(lane: &Taken, under: Option<&Credentials>) -> bool {
    under.is_some() || lane.is_of(&Credentials::present())
}

fn of_another(pool: &Pool, lane: Taken) -> Trouble {
    gone(pool, lane, "user or groups of this process have changed".to_owned())
}

fn broken(pool: &Pool, lane: Taken, error: &Error) -> Trouble {
    if is_gone(error) {
        return gone(pool, lane, error.to_string());
    }
    drop(lane);
    Trouble::Failure(Failure::new(Reason::Service, error.to_string()))
}

/// Whether the service takes requests of this size at all.
fn check_size(request: &Request<'_>, most: u32) -> Result<(), Failure> {
    let size = request.input_len().max(request.max_output);
    if size <= most as usize {
        return Ok(());
    }
    Err(Failure::input(format!("a request of {size} bytes: the service takes up to {most} (limits.max_request_bytes)")))
}

fn take_lane(
    pool: &'static Pool,
    take: impl Fn(Option<u64>) -> Result<Take, Failure>,
    request: &Request<'_>,
    job: Option<&Job>,
    deadline: Instant,
) -> Result<Taken, Trouble> {
    let preferred = job.and_then(|job| job.waited(Waiting::favourite)).flatten();
    let take = || take(preferred);
    let seen = match take()? {
        Take::Lane(lane) => return Ok(lane),
        Take::Full(seen) => seen,
    };
    // No lane would be of use.
    check_size(request, pool.max_request_bytes.load(Ordering::Relaxed))?;
    let Some(job) = job else {
        return wait_for_lane(take, seen, |seen| Ok(pool.wait(seen, deadline)));
    };
    let taken = wait_for_lane(take, seen, |seen| {
        match in_context(pool, job, |waiting| waiting.watch_pool(seen, deadline)) {
            Err(Trouble::Unpausable) => return Ok(pool.wait(seen, deadline) && Instant::now() < deadline),
            other => other?,
        }
        let paused = job.pause();
        settle(pool, job)?;
        if paused {
            return Ok(Instant::now() < deadline);
        }
        // A program that cannot pause waits as one without jobs: the bell is for those that can.
        leave(pool, job)?;
        Ok(pool.wait(seen, deadline) && Instant::now() < deadline)
    });
    leave(pool, job)?;
    if taken.is_err() {
        // A lane may have been offered just before the deadline.
        pool.pass_on();
    }
    taken
}

/// The job waits for a lane no more.
fn leave(pool: &'static Pool, job: &Job) -> Result<(), Trouble> {
    let leave = |waiting: &mut Waiting| {
        waiting.leave_pool();
        Ok(())
    };
    match in_context(pool, job, leave) {
        // It never waited for one.
        Err(Trouble::Unpausable) => Ok(()),
        other => other,
    }
}

/// The job goes on.
fn settle(pool: &'static Pool, job: &Job) -> Result<(), Trouble> {
    in_context(pool, job, |waiting| {
        waiting.settle();
        Ok(())
    })
}

/// Takes a lane as soon as there is one. `wait` waits for news of lanes; `false`: not in time.
fn wait_for_lane(
    take: impl Fn() -> Result<Take, Failure>,
    mut seen: u64,
    wait: impl Fn(u64) -> Result<bool, Trouble>,
) -> Result<Taken, Trouble> {
    while wait(seen)? {
        match take()? {
            Take::Lane(lane) => return Ok(lane),
            Take::Full(now) => seen = now,
        }
    }
    Err(lanes::none_free().into())
}

/// Works with the wait context of a job, which is this process's own then.
fn in_context<T>(
    pool: &'static Pool,
    job: &Job,
    work: impl FnOnce(&mut Waiting) -> io::Result<T>,
) -> Result<T, Trouble> {
    let result = job.waiting(
        || Waiting::new(pool),
        |waiting| {
            waiting.renew(pool)?;
            work(waiting)
        },
    );
    Ok(result??)
}

/// Waits for the request in flight on a lane. What is in the way ends the lane.
fn wait(pool: &'static Pool, lane: Taken, job: Option<&Job>, deadline: Instant) -> Result<(Taken, Received), Trouble> {
    match job {
        Some(job) => wait_in_job(pool, lane, job, deadline),
        None => wait_here(pool, lane, deadline),
    }
}

fn wait_here(pool: &'static Pool, mut lane: Taken, deadline: Instant) -> Result<(Taken, Received), Trouble> {
    let left = deadline.saturating_duration_since(Instant::now());
    match lane.client.wait_for(u64::try_from(left.as_nanos()).unwrap_or(u64::MAX)) {
        Ok(Some(received)) => Ok((lane, received)),
        Ok(None) => Err(Trouble::Late),
        Err(error) => Err(broken(pool, lane, &error)),
    }
}

fn wait_in_job(
    pool: &'static Pool,
    mut lane: Taken,
    job: &Job,
    deadline: Instant,
) -> Result<(Taken, Received), Trouble> {
    let mut vain = 0;
    while vain < VAIN_RESUMES {
        if let Some(received) = lane.client.poll() {
            return Ok((lane, received));
        }
        if Instant::now() >= deadline {
            return Err(Trouble::Late);
        }
        match prepare(pool, &mut lane, job, deadline) {
            Ok(Prepared::ToBeWoken) => vain += 1,
            Ok(Prepared::ToLook) => {}
            Ok(Prepared::Ready) => continue,
            Err(Ok(error)) => return Err(broken(pool, lane, &error)),
            Err(Err(Trouble::Unpausable)) => break,
            Err(Err(trouble)) => return Err(trouble),
        }
        let mut kept = Some(lane);
        in_context(pool, job, |waiting| {
            if let Some(lane) = kept.take() {
                kept = waiting.hold(lane).err();
            }
            Ok(())
        })?;
        if let Some(lane) = kept {
            // Another job shares the wait context and is paused in it.
            return wait_here(pool, lane, deadline);
        }
        let paused = job.pause();
        // The job may be resumed in a forked child: the wait context still has the parent's lane then.
        lane = match job.waiting(|| Waiting::new(pool), Waiting::take)? {
            Some(lane) => lane,
            None => return Err(Trouble::Stale("the lane was lost while the job was paused".to_owned())),
        };
        if lane.is_parents() {
            return Err(Trouble::Stale("the process was forked while the job was paused".to_owned()));
        }
        settle(pool, job)?;
        if !paused {
            break;
        }
    }
    wait_here(pool, lane, deadline)
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

/// Sees to it that the job is resumed.
fn prepare(
    pool: &'static Pool,
    lane: &mut Taken,
    job: &Job,
    deadline: Instant,
) -> Result<Prepared, Result<Error, Trouble>> {
    let policy = lane.client.notify().map_err(Ok)?;
    match policy {
        Notify::Timer { period } => {
            lane.client.check().map_err(Ok)?;
            in_context(pool, job, |waiting| waiting.watch_time(period)).map_err(Err)?;
        }
        Notify::Spin => {
            lane.client.check().map_err(Ok)?;
            in_context(pool, job, Waiting::watch_nothing).map_err(Err)?;
        }
        _ => {
            if !lane.client.arm().map_err(Ok)? {
                return Ok(Prepared::Ready);
            }
            in_context(pool, job, |waiting| waiting.watch(lane, deadline)).map_err(Err)?;
            return Ok(Prepared::ToBeWoken);
        }
    }
    Ok(Prepared::ToLook)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sidecore::config::Config;
    use sidecore::service::Service;

    #[test]
    fn a_buffer_is_wiped_to_its_end() {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("socket");
        let _service = Service::start(Config { socket: socket.clone(), ..Config::default() }).unwrap();
        let mut client = Client::connect(&Options { socket, ..Options::default() }).unwrap();
        let buffer = client.alloc(3000).unwrap();
        client.write(&buffer, 0, &[7; 3000]).unwrap();
        wipe(&mut client, &buffer);
        let mut left = [1; 3000];
        client.read(&buffer, 0, &mut left).unwrap();
        assert!(left.iter().all(|byte| *byte == 0));
    }
}
