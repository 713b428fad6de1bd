//! One request to the service, from private memory to private memory. It is repeated once if the session or the
//! service ended, and further while no service answers.

use crate::client::{self, Buffer, Client, ConnectError, Error, Session};
use crate::keyops::credentials::Credentials;
use crate::keyops::failure::{Failure, FailureKind, Reason};
use crate::keyops::key::{Key, Private};
use crate::keyops::lanes::{self, Lane, LaneGuard, Pool, Take};
use crate::keyops::reconnect::{outlasted, time_of_operation};
use crate::keyops::wait::Caller;
use crate::spec::Scheme;
use sidecore_core::session::{Op, Refusal};
use sidecore_core::wire::{Extent, Status};
use sidecore_ipc::sys::clock;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// One operation with its bytes.
pub struct Request<'r> {
    /// The key; it also determines the location of the private part.
    pub key: &'r Arc<Key>,
    /// Scheme of the session on the key.
    pub scheme: Scheme,
    /// Operation.
    pub op: Op,
    /// The signature to verify, else empty.
    pub head: &'r [u8],
    /// Input of the operation.
    pub input: &'r [u8],
    /// Length of the longest result, bytes.
    pub max_output: usize,
}

impl Request<'_> {
    fn input_len(&self) -> usize {
        self.head.len() + self.input.len()
    }
}

/// The result, or the service's refusal of the request itself.
pub type Outcome = Result<Vec<u8>, Refusal>;

/// Runs a request. A refusal of the request itself by the service is an `Outcome`, not an error.
///
/// # Errors
/// No service within the wait, a public key where the private part is needed, a key that is missing or not allowed for
/// this user, a request that is too large, or no answer in time.
pub fn call(caller: Caller<'_>, request: &Request<'_>) -> Result<Outcome, Failure> {
    let takes_public =
        matches!(request.op, Op::Verify | Op::Encapsulate) || matches!(request.scheme, Scheme::RsaEncryption { .. });
    if !takes_public && !request.key.has_private() {
        return Err(Failure::new(Reason::Key, "this is a public key: load the private key, e.g. sidecore:NAME"));
    }
    outlasted(caller, || attempt(caller, request))
}

fn attempt(caller: Caller<'_>, request: &Request<'_>) -> Result<Outcome, Failure> {
    let mut timeout = time_of_operation(caller.options);
    let (begun, start) = (clock::now(), Instant::now());
    let deadline = start + timeout;
    let first = once(caller, request, None, deadline);
    let second = match first {
        // The service may have restarted, or have ended the sessions of a key whose access list changed; or this
        // thread has changed its user.
        Err(FailureKind::Stale(_)) if Instant::now() < deadline => {
            // If the service has ended, this operation moves to the next one, and has the time for it.
            timeout = time_of_operation(caller.options);
            once(caller, request, Some(&Credentials::present()), start + timeout)
        }
        other => other,
    };
    if let (Ok(Err(refusal @ (Refusal::KeyElsewhere | Refusal::KeyDenied))), Private::Stored(name)) =
        (&second, &request.key.private)
    {
        return Err(Failure::new(Reason::Service, format!("key {name:?}: {}", refusal.message())));
    }
    if let (Ok(Err(Refusal::KeyLimit)), Private::Stored(name)) = (&second, &request.key.private) {
        return Err(Failure::key_limit(name));
    }
    // The start of a service does not count towards the operation's own time.
    let took_a_start = || lanes::pool().is_ok_and(|pool| pool.outage.has_waited_since(begun));
    // Nor does its end, which other operations may have found.
    let lost_its_service = || lanes::pool().is_ok_and(|pool| pool.outage.has_ended_since(begun));
    second.map_err(|kind| match kind {
        FailureKind::Late if lost_its_service() => ConnectError::Starting(timeout).into(),
        FailureKind::Late | FailureKind::Stale(_) if took_a_start() => ConnectError::Starting(timeout).into(),
        FailureKind::Late => Failure::late(timeout),
        FailureKind::Stale(why) => Failure::ended(&why),
        FailureKind::Failure(failure) => failure,
    })
}

/// `under`: use a lane made under these credentials. `None`: they are compared before a session is opened. If the
/// session is open, they are compared while the service works, which costs no time; a result from a lane with other
/// credentials is discarded.
fn once(
    caller: Caller<'_>,
    request: &Request<'_>,
    under: Option<&Credentials>,
    deadline: Instant,
) -> Result<Outcome, FailureKind> {
    let pool = lanes::pool()?;
    let mut lane = take_lane(pool, caller, request, under, deadline)?;
    if let Err(failure) = check_size(request, lane.client.max_request_bytes()) {
        lane.give_back();
        return Err(failure.into());
    }
    let is_open = lane.sessions.has(request.key, &request.scheme);
    if !is_open && under.is_none() && !lane.is_of(&Credentials::present()) {
        return Err(of_another(lane));
    }
    lane.client.set_deadline(Some(deadline));
    let Lane { client, sessions, .. } = &mut *lane;
    let session = match sessions.get(client, request.key, &request.scheme) {
        Ok(session) => session,
        Err(FailureKind::Stale(why)) => return Err(lane.gone(why)),
        Err(other) => {
            lane.give_back();
            return Err(other);
        }
    };
    let submitted = submit(&mut lane.client, session, request);
    let (input, output) = match submitted {
        Ok(buffers) => buffers,
        Err(error) => return Err(lane.broken(&error)),
    };
    if under.is_none() && !lane.is_of_caller() {
        return Err(of_another(lane));
    }
    let (mut lane, received) = caller.wait.for_answer(lane, deadline)?;
    let outcome = match received.status {
        Status::Done { len } => {
            let mut result = vec![0; len as usize];
            lane.client.read(&output, 0, &mut result).map(|()| Ok(result))
        }
        Status::Refused(refusal) => Ok(Err(refusal)),
        Status::DeviceFailed { device } => Err(Error::DeviceFailed(device)),
    };
    // Input or result may be secret to the program.
    let leaves_secrets =
        matches!(request.op, Op::Encrypt | Op::Decrypt | Op::Derive | Op::Encapsulate | Op::Decapsulate);
    for buffer in [input, output] {
        if leaves_secrets {
            lane.client.wipe(&buffer);
        }
        lane.client.free(buffer);
    }
    match outcome {
        Ok(Err(Refusal::NoSession)) => {
            lane.sessions.forget(session);
            lane.give_back();
            Err(FailureKind::Stale(Refusal::NoSession.message().to_owned()))
        }
        Ok(outcome) => {
            lane.give_back();
            Ok(outcome)
        }
        Err(error) => Err(lane.broken(&error)),
    }
}

fn submit(client: &mut Client, session: Session, request: &Request<'_>) -> Result<(Buffer, Buffer), Error> {
    let input_len = request.input_len();
    let input = client.alloc(len(input_len.max(1)))?;
    let output = client.alloc(len(request.max_output.max(1)))?;
    client.write(&input, 0, request.head)?;
    client.write(&input, len(request.head.len()), request.input)?;
    let inputs = [Extent::new(input.extent().offset, len(input_len))];
    let head_len = len(request.head.len());
    let outputs = [output.extent()];
    let request =
        client::Request { session, op: request.op, head_len, inputs: &inputs, outputs: &outputs, urgent: true };
    client.submit(0, &request)?;
    client.ring();
    Ok((input, output))
}

fn len(bytes: usize) -> u32 {
    // Arenas are below 4 GiB: a longer request is refused there.
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

fn of_another(lane: LaneGuard) -> FailureKind {
    lane.gone("user or groups of this process have changed".to_owned())
}

fn check_size(request: &Request<'_>, most: u32) -> Result<(), Failure> {
    let size = request.input_len().max(request.max_output);
    if size <= most as usize {
        return Ok(());
    }
    Err(Failure::input(format!("a request of {size} bytes: the service takes up to {most} (limits.max_request_bytes)")))
}

fn take_lane(
    pool: &'static Pool,
    caller: Caller<'_>,
    request: &Request<'_>,
    under: Option<&Credentials>,
    deadline: Instant,
) -> Result<LaneGuard, FailureKind> {
    let (preferred, bytes) = (caller.wait.favourite(), request.input_len() + request.max_output);
    let take = || pool.take(caller.options, preferred, bytes, under, deadline);
    let mut seen = match take()? {
        Take::Lane(lane) => return Ok(lane),
        Take::Full(seen) => seen,
    };
    // No lane would accept the request.
    check_size(request, pool.max_request_bytes.load(Ordering::Relaxed))?;
    let mut wait = || {
        while caller.wait.for_lane(pool, seen, deadline)? {
            match take()? {
                Take::Lane(lane) => return Ok(lane),
                Take::Full(now) => seen = now,
            }
        }
        let text = "all lanes of this process are in use, or the service gives no more: see its log for its limits";
        Err(Failure::new(Reason::Limit, text).into())
    };
    let taken = wait();
    caller.wait.leave(pool, taken.is_ok())?;
    taken
}
