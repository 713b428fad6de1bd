//! Devices: who does the work that a sidecore was asked for.
//!
//! A [`Port`] is the sidecore's end of a device. `inline` has none: the sidecore does the work at once, in the middle of
//! its own loop. `worker` is a thread behind two wait-free queues, `emulated` a clock behind which true results wait.
//!
//! A device that dies takes its requests with it; the sidecore keeps what it needs to replay each of them elsewhere.

mod emulated;
mod worker;

pub(crate) use emulated::Emulated;
pub(crate) use worker::{Worker, WorkerOptions};

use crate::engine::crypto::Session;
use crate::shm::LaneMemory;
use crate::sys::clock;
use sidecore_core::inflight::Ticket;
use sidecore_core::policy::notify::Notify;
use sidecore_core::policy::order::Schedule;
use sidecore_core::session::Refusal;
use sidecore_core::sidecore::Health;
use sidecore_core::time::Nanos;
use sidecore_core::wire::Submission;
use std::sync::Arc;

/// A request as a device gets it. The parts that are shared are counted by the sidecore alone: a device hands its job
/// back with the reply.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    pub(crate) session: Arc<Session>,
    pub(crate) memory: Arc<LaneMemory>,
    pub(crate) submission: Submission,
}

/// What a device answers.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) ticket: Ticket,
    /// Bytes written to the output extents.
    pub(crate) outcome: Result<u32, Refusal>,
    /// Time on the device itself, queueing left out.
    pub(crate) took: Nanos,
    /// Handed back, so that only the sidecore counts its shared parts down.
    pub(crate) _job: Job,
}

/// The sidecore's end of a device.
#[derive(Debug)]
pub(crate) enum Port {
    Inline,
    Worker(Worker),
    Emulated(Box<Emulated>),
}

impl Port {
    /// Hands a request over, to be served in its turn. The device has room: dispatch counts.
    #[inline]
    pub(crate) fn submit(&mut self, ticket: Ticket, schedule: Schedule, job: Job) {
        match self {
            Self::Inline => unreachable!("the sidecore does inline work itself"),
            // An operation of the crypto library cannot be suspended: it does its requests whole and as they come.
            Self::Worker(worker) => worker.submit(ticket, job),
            // The model begins its work when the request comes, not when the sidecore last knew the time.
            Self::Emulated(emulated) => emulated.submit(clock::now(), ticket, schedule, job),
        }
    }

    /// The next answer, if there is one.
    #[inline]
    pub(crate) fn poll(&mut self, now: Nanos) -> Option<Reply> {
        match self {
            Self::Inline => None,
            Self::Worker(worker) => worker.poll(),
            Self::Emulated(emulated) => emulated.poll(now),
        }
    }

    /// Requests were submitted since the last call: the device is woken if it sleeps.
    #[inline]
    pub(crate) fn ring(&mut self) {
        if let Self::Worker(worker) = self {
            worker.ring();
        }
    }

    /// The sidecore is about to sleep: from now on the device rings.
    pub(crate) fn arm(&self) {
        if let Self::Worker(worker) = self {
            worker.arm();
        }
    }

    /// Whether an answer is there of a device that rings.
    pub(crate) fn is_ready(&self) -> bool {
        match self {
            Self::Worker(worker) => worker.is_ready(),
            Self::Inline | Self::Emulated(_) => false,
        }
    }

    pub(crate) fn disarm(&self) {
        if let Self::Worker(worker) = self {
            worker.disarm();
        }
    }

    /// When the next answer will be there, if that is known.
    #[inline]
    pub(crate) fn due(&self) -> Option<Nanos> {
        match self {
            Self::Emulated(emulated) => emulated.due(),
            Self::Inline | Self::Worker(_) => None,
        }
    }

    pub(crate) fn health(&self) -> Health {
        match self {
            Self::Inline => Health::Alive,
            Self::Worker(worker) => worker.health(),
            Self::Emulated(emulated) => emulated.health(),
        }
    }

    /// The device dies at its next step, with what it has.
    pub(crate) fn kill(&mut self) {
        match self {
            Self::Inline => {}
            Self::Worker(worker) => worker.kill(),
            Self::Emulated(emulated) => emulated.kill(),
        }
    }

    /// Takes away a device that does not answer: from now on it cannot write to any lane.
    pub(crate) fn revoke(&mut self) -> Health {
        match self {
            Self::Inline => Health::Alive,
            Self::Worker(worker) => worker.revoke(),
            Self::Emulated(emulated) => {
                emulated.kill();
                Health::Dead
            }
        }
    }

    /// The device is dead and its requests are elsewhere.
    pub(crate) fn forget(&mut self) {
        if let Self::Worker(worker) = self {
            worker.forget();
        }
    }

    /// Changes how the device waits and when it wakes its sidecore.
    pub(crate) fn set_notify(&self, to_device: Notify, from_device: Notify) {
        if let Self::Worker(worker) = self {
            worker.set_notify(to_device, from_device);
        }
    }
}
