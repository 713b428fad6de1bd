//! Devices of a sidecore.
//!
//! A [`Port`] is the sidecore's end of a device. `inline` has no port: the sidecore does the work within its own
//! loop. `worker` is a thread behind two wait-free queues, and `batch` one that does several requests side by side.
//! `emulated` is a clock that delays true results, and `remote` a gateway process to other machines.
//!
//! A device that dies takes its requests with it. The sidecore keeps the data for a replay of each of them on another
//! device.

mod batch;
mod emulated;
mod remote;
mod worker;

pub(crate) use emulated::Emulated;
pub(crate) use remote::{Control, Fault, LinkOptions, Remote, Said};
pub(crate) use worker::{Worker, WorkerKind, WorkerOptions};

use crate::engine::crypto::Session;
use crate::shm::LaneMemory;
use sidecore_core::inflight::Ticket;
use sidecore_core::policy::balance::Measured;
use sidecore_core::policy::notify::Notify;
use sidecore_core::sidecore::{Health, Reply};
use sidecore_core::time::Nanos;
use sidecore_core::wire::Submission;
use sidecore_daemon::sys::park::ParkTimes;
use std::fmt::Debug;
use std::sync::Arc;

/// A request for a device. Only the sidecore counts references to its shared parts: a device returns its request with
/// the reply.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) session: Arc<Session>,
    pub(crate) memory: Arc<LaneMemory>,
    pub(crate) submission: Submission,
    pub(crate) user: u32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Batches {
    pub(crate) begun: u64,
    pub(crate) requests: u64,
    pub(crate) full: u64,
    pub(crate) wrong: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Blame {
    /// The user and process that brought the key; `None`: a stored one.
    pub(crate) owner: Option<(u32, u32)>,
    pub(crate) key: Option<u16>,
}

pub(crate) trait Port: Debug {
    /// The device has room: dispatch counts.
    fn submit(&mut self, ticket: Ticket, request: Request);

    /// The next answer by that time, ns, with its request: only the sidecore drops its shared parts.
    fn poll(&mut self, now: Nanos) -> Option<(Reply, Request)>;

    fn ring(&mut self) {}

    /// The sidecore is about to sleep: from now on the device rings.
    fn arm(&self) {}

    fn is_ready(&self) -> bool {
        false
    }

    fn disarm(&self) {}

    /// The time of the next answer, if known, ns.
    fn due(&self) -> Option<Nanos> {
        None
    }

    fn health(&self) -> Health;

    fn kill(&mut self);

    /// Removes a device that does not answer: from now on it cannot write to any lane.
    fn revoke(&mut self) -> Health;

    /// The device is dead and its requests have moved to others.
    fn forget(&mut self) {}

    fn batches(&self) -> Option<Batches> {
        None
    }

    /// The next result of a batch that did not verify. Results beyond the queue's room are lost.
    fn blamed(&mut self) -> Option<Blame> {
        None
    }

    fn measured(&mut self) -> Option<Measured> {
        None
    }

    fn set_notify(&self, _to_device: Notify, _from_device: Notify) {}

    fn set_park(&self, _park: ParkTimes) {}
}
