//! Devices: who does the work that a sidecore was asked for.
//!
//! A [`Port`] is the sidecore's end of a device. `inline` has none: the sidecore does the work at once, in the middle of
//! its own loop. `worker` is a thread behind two wait-free queues, `batch` one that does several requests side by side,
//! `emulated` a clock behind which true results wait, `remote` a process that has the work done by other machines.
//!
//! A device that dies takes its requests with it; the sidecore keeps what it needs to replay each of them elsewhere.

mod batch;
mod emulated;
mod remote;
mod worker;

pub(crate) use emulated::Emulated;
pub(crate) use remote::{Control, Fault, LinkOptions, Remote, Said};
pub(crate) use worker::{Worker, WorkerOptions};

use crate::engine::crypto::Session;
use crate::service::ParkTimes;
use crate::shm::LaneMemory;
use sidecore_core::inflight::Ticket;
use sidecore_core::policy::balance::Measured;
use sidecore_core::policy::notify::Notify;
use sidecore_core::policy::order::Schedule;
use sidecore_core::sidecore::{Health, Reply};
use sidecore_core::time::Nanos;
use sidecore_core::wire::Submission;
use std::fmt::Debug;
use std::sync::Arc;

/// A request as a device gets it. The parts that are shared are counted by the sidecore alone: a device hands its request
/// back with the reply.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) session: Arc<Session>,
    pub(crate) memory: Arc<LaneMemory>,
    pub(crate) submission: Submission,
}

/// What was done side by side so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Batches {
    /// Batches.
    pub(crate) begun: u64,
    /// Requests in them.
    pub(crate) requests: u64,
    /// Batches of as many as the device takes at most.
    pub(crate) full: u64,
    /// Results that did not verify.
    pub(crate) wrong: u64,
}

/// Key of a batch's result that did not verify.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Blame {
    /// The user and process that brought the key; `None`: a stored one.
    pub(crate) owner: Option<(u32, u32)>,
    /// The place of the stored key.
    pub(crate) key: Option<u16>,
}

/// The sidecore's end of a device. What a device has no use for does nothing.
pub(crate) trait Port: Debug {
    /// Hands a request over, to be served in its turn. The device has room: dispatch counts.
    fn submit(&mut self, ticket: Ticket, schedule: Schedule, request: Request);

    /// The next answer, if it is there at that time, ns, with its request: only the sidecore counts its shared parts down.
    fn poll(&mut self, now: Nanos) -> Option<(Reply, Request)>;

    /// Requests were submitted since the last call: the device is woken if it sleeps.
    fn ring(&mut self) {}

    /// The sidecore is about to sleep: from now on the device rings.
    fn arm(&self) {}

    /// Whether an answer is there of a device that rings.
    fn is_ready(&self) -> bool {
        false
    }

    /// The device need not ring any more.
    fn disarm(&self) {}

    /// When the next answer will be there, if that is known, ns.
    fn due(&self) -> Option<Nanos> {
        None
    }

    /// What has become of the device.
    fn health(&self) -> Health;

    /// The device dies at its next step, with what it has.
    fn kill(&mut self);

    /// Takes away a device that does not answer: from now on it cannot write to any lane.
    fn revoke(&mut self) -> Health;

    /// The device is dead and its requests are elsewhere.
    fn forget(&mut self) {}

    /// What a device that does several requests side by side has done; `None` for others.
    fn batches(&self) -> Option<Batches> {
        None
    }

    /// The next result of a batch that did not verify. Results beyond the queue's room are lost.
    fn blamed(&mut self) -> Option<Blame> {
        None
    }

    /// What a device that does several requests side by side has measured: each class once.
    fn measured(&mut self) -> Option<Measured> {
        None
    }

    /// Changes how the device waits and when it wakes its sidecore.
    fn set_notify(&self, _to_device: Notify, _from_device: Notify) {}

    /// Changes the costs of a sleep and a wake-up.
    fn set_park(&self, _park: ParkTimes) {}
}
