//! Threads that send requests to the service: one request each at a time, on a separate lane. Gateways take turns, by
//! the time that their requests take.

use crate::error::RemoteError;
use sidecore_client::channel::{MAX_ANSWER, Relayed};
use sidecore_client::client::{Admin, Error, Options};
use sidecore_client::control::RefusalCode;
use sidecore_client::gateway::{Operation, Outcome, Request, Task};
use sidecore_client::keyops::call::{Outcome as CallOutcome, Request as Call, call};
use sidecore_client::keyops::failure::{Failure, Reason};
use sidecore_client::keyops::key::Key;
use sidecore_client::keyops::wait::Caller;
use sidecore_client::spec::Scheme;
use sidecore_core::policy::fair_queue::FairQueue;
use sidecore_core::session::Refusal;
use sidecore_core::time::Nanos;
use sidecore_ipc::sys::clock;
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// Most requests of all gateways that wait for a thread. Beyond that the gateway with most of them loses its last.
const MAX_WAITING_JOBS: usize = 8192;
/// Bytes of a shared secret.
const SECRET: usize = 32;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Origin {
    pub(super) gateway: Arc<str>,
    pub(super) incarnation: u64,
}

pub(super) struct Job {
    pub(super) origin: Origin,
    pub(super) ticket: u64,
    arrived: Nanos,
    work: Work,
}

enum Work {
    /// One operation, which this process can read.
    Open { key: Arc<Key>, scheme: Scheme, operation: Operation, input: Vec<u8> },
    /// One operation, sealed to the service: the key is the session that an opening names.
    Sealed { key: Arc<Key>, operation: Operation, input: Vec<u8> },
    /// A set-up or question, sealed to the service.
    Control(Vec<u8>),
}

impl Job {
    /// `None`: the scheme has no private keys, or it is sealed.
    pub(super) fn new(origin: Origin, arrived: Nanos, key: Arc<Key>, request: &Request<'_>) -> Option<Self> {
        let Task::Open { scheme, operation } = &request.task else { return None };
        let (scheme, operation, input) = (scheme.clone(), *operation, request.input.to_vec());
        let work = scheme.is_asymmetric().then_some(Work::Open { key, scheme, operation, input })?;
        Some(Self { origin, ticket: request.ticket, arrived, work })
    }

    /// For a message to the service. `None`: it is none. `opened`: the key for an opening.
    pub(super) fn relayed(
        origin: Origin,
        arrived: Nanos,
        request: &Request<'_>,
        opened: impl FnOnce(&[u8]) -> Arc<Key>,
    ) -> Option<Self> {
        let work = match Relayed::decode(request.input).filter(|_| request.task == Task::Relay)? {
            Relayed::Control(message) => Work::Control(message.to_vec()),
            Relayed::Operation { opening, operation, sealed } => {
                Work::Sealed { key: opened(opening), operation, input: sealed.to_vec() }
            }
        };
        Some(Self { origin, ticket: request.ticket, arrived, work })
    }
}

fn max_output(key: &Key, operation: Operation) -> usize {
    match operation {
        Operation::Derive | Operation::Decapsulate => SECRET,
        Operation::Sign | Operation::SignDigest | Operation::Decrypt => key.public.max_len(),
    }
}

pub(super) struct Answered {
    pub(super) origin: Origin,
    pub(super) ticket: u64,
    pub(super) arrived: Nanos,
    pub(super) work_ns: Nanos,
    pub(super) done: Done,
}

pub(super) enum Done {
    Result(Vec<u8>),
    Refused(Refusal),
    Elsewhere,
    /// The service declines a sealed message, with this text for the log.
    Declined(Refusal, String),
}

impl Done {
    pub(super) fn outcome(&self) -> Outcome<'_> {
        match self {
            Self::Result(result) => Outcome::Done(result),
            Self::Refused(reason) | Self::Declined(reason, _) => Outcome::refused(*reason),
            Self::Elsewhere => Outcome::Elsewhere,
        }
    }
}

pub(super) struct Workers {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    ready: Condvar,
}

#[derive(Default)]
struct Queue {
    jobs: FairQueue<Arc<str>, Job>,
    ended: bool,
}

impl Workers {
    /// Starts `slots` threads. `poke` triggers a check of the keys if the service or a key is gone.
    pub(super) fn start(
        slots: u16,
        options: &Options,
        poke: &SyncSender<()>,
    ) -> Result<(Self, UnboundedReceiver<Answered>), RemoteError> {
        let (answers, receiver) = unbounded_channel();
        let workers = Self { shared: Arc::default() };
        for number in 0..slots {
            let (shared, options, answers, poke) =
                (workers.shared.clone(), options.clone(), answers.clone(), poke.clone());
            let thread = thread::Builder::new().name(format!("job {number}"));
            let started = thread.spawn(move || work(&shared, &options, &answers, &poke));
            started.map_err(|source| RemoteError::TooManyJobs { slots, source })?;
        }
        Ok((workers, receiver))
    }

    /// Queues a job for its gateway's turn. Returns a job dropped from a full queue.
    pub(super) fn give(&self, job: Job) -> Option<Job> {
        let shed = self.shared.queue().give(job);
        self.shared.ready.notify_one();
        shed
    }

    pub(super) fn withdraw(&self, gateway: &Arc<str>) -> usize {
        self.shared.queue().jobs.withdraw(gateway, |_| true).len()
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.shared.queue().ended = true;
        self.shared.ready.notify_all();
    }
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        // No holder of the lock leaves the queue half changed, so a panic does no harm.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Queue {
    fn give(&mut self, job: Job) -> Option<Job> {
        let gateway = job.origin.gateway.clone();
        self.jobs.push(&gateway, job);
        if self.jobs.len() > MAX_WAITING_JOBS { self.jobs.shed() } else { None }
    }
}

fn work(shared: &Shared, options: &Options, answers: &UnboundedSender<Answered>, poke: &SyncSender<()>) {
    let mut admin = None;
    while let Some(job) = next(shared) {
        let begun = clock::now();
        let done = done(&job.work, options, &mut admin, poke);
        let work_ns = clock::now().saturating_sub(begun);
        let Job { origin, ticket, arrived, .. } = job;
        shared.queue().jobs.charge(&origin.gateway, work_ns);
        // Without a receiver the process is ending.
        let _ = answers.send(Answered { origin, ticket, arrived, work_ns, done });
    }
}

fn next(shared: &Shared) -> Option<Job> {
    let idle = |queue: &mut Queue| queue.jobs.is_empty() && !queue.ended;
    let mut queue = shared.ready.wait_while(shared.queue(), idle).unwrap_or_else(PoisonError::into_inner);
    if queue.ended { None } else { queue.jobs.next().map(|(_, job)| job) }
}

fn done(work: &Work, options: &Options, admin: &mut Option<Admin>, poke: &SyncSender<()>) -> Done {
    let ask = |key, scheme, operation: Operation, input, max_output| {
        let request = Call { key, scheme, op: operation.op(), head: &[], input, max_output };
        call(Caller::thread(options), &request)
    };
    match work {
        Work::Open { key, scheme, operation, input } => {
            done_of(ask(key, scheme.clone(), *operation, input, max_output(key, *operation)), poke)
        }
        // The scheme is in the opening.
        Work::Sealed { key, operation, input } => sealed_done(ask(key, Scheme::Noop, *operation, input, MAX_ANSWER)),
        Work::Control(message) => control_done(message, options, admin),
    }
}

/// What the service says of a set-up or question.
fn control_done(message: &[u8], options: &Options, admin: &mut Option<Admin>) -> Done {
    let Ok(mut connected) = admin.take().map_or_else(|| Admin::connect(options), Ok) else { return Done::Elsewhere };
    let done = match connected.serve(message) {
        Ok(answer) => Done::Result(answer),
        Err(Error::Service(refused)) if refused.code == RefusalCode::NoChannel => Done::Refused(Refusal::NoSession),
        Err(Error::Service(refused)) => Done::Declined(Refusal::KeyDenied, refused.text),
        Err(_) => return Done::Elsewhere,
    };
    *admin = Some(connected);
    done
}

/// Without the service's answer under its seal, the gateway's service decides what to do: only a channel that the service
/// does not know is told as such.
fn sealed_done(called: Result<CallOutcome, Failure>) -> Done {
    match called {
        Ok(Ok(answer)) => Done::Result(answer),
        Ok(Err(_)) => Done::Elsewhere,
        Err(failure) => match failure.reason {
            Reason::Replaced => Done::Refused(Refusal::NoSession),
            Reason::NotAllowed | Reason::NoKey => Done::Declined(Refusal::KeyDenied, failure.text),
            _ => Done::Elsewhere,
        },
    }
}

fn done_of(called: Result<CallOutcome, Failure>, poke: &SyncSender<()>) -> Done {
    match called {
        Ok(Ok(result)) => Done::Result(result),
        // Faults of this machine: another one may do the request.
        Ok(Err(Refusal::NoDevice | Refusal::Shutdown | Refusal::Internal | Refusal::KeyElsewhere)) => Done::Elsewhere,
        Ok(Err(refusal)) => Done::Refused(refusal),
        // On another machine the key has another limit, and the same operator.
        Err(failure) if failure.is_of_key_limit() => Done::Refused(Refusal::KeyLimit),
        Err(failure) => match failure.reason {
            Reason::Input => Done::Refused(Refusal::InputLength),
            Reason::Unsupported => Done::Refused(Refusal::Unsupported),
            _ => {
                // The next regular check comes soon anyway.
                let _ = poke.try_send(());
                Done::Elsewhere
            }
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sidecore_client::keyops::key::{Private, Public};

    const SPKI: &[u8] = include_bytes!("../../../service/src/engine/crypto/keys/test-p-256.spki.der");
    const MS: Nanos = 1_000_000;

    fn job(gateway: &str) -> Job {
        let key = Arc::new(Key::new(Public::from_spki(SPKI).unwrap(), Private::Stored("www".to_owned())));
        let origin = Origin { gateway: gateway.into(), incarnation: 1 };
        let (scheme, operation) = (Scheme::EcdsaRaw, Operation::SignDigest);
        let task = Task::Open { scheme, operation };
        Job::new(origin, 0, key, &Request { ticket: 0, key: "www", task, input: &[7; 32] }).unwrap()
    }

    #[test]
    fn a_keys_limit_is_its_answer_and_a_limit_of_the_service_is_another_machines_turn() {
        let (poke, pokes) = std::sync::mpsc::sync_channel(1);
        let done = done_of(Err(Failure::key_limit("www")), &poke);
        assert!(matches!(done.outcome().refusal(), Some(Refusal::KeyLimit)));
        assert!(pokes.try_recv().is_err(), "the keys are as they were");
        assert!(matches!(done_of(Err(Failure::new(Reason::Limit, "no lane is free")), &poke), Done::Elsewhere));
        assert!(pokes.try_recv().is_ok());
    }

    #[test]
    fn a_flood_takes_its_own_places_and_its_own_turns() {
        let mut queue = Queue::default();
        let shed = (0..2 * MAX_WAITING_JOBS).filter_map(|_| queue.give(job("bad"))).count();
        assert_eq!((shed, queue.jobs.len()), (MAX_WAITING_JOBS, MAX_WAITING_JOBS));
        for _ in 0..100 {
            let shed = queue.give(job("good"));
            assert_eq!(shed.map(|job| job.origin.gateway).as_deref(), Some("bad"));
        }
        let mut served = [0; 2];
        while served[0] < 100 {
            let (gateway, _) = queue.jobs.next().unwrap();
            queue.jobs.charge(&gateway, MS);
            served[usize::from(*gateway == *"bad")] += 1;
        }
        assert!(served[1] <= 101, "{served:?}");
    }
}
