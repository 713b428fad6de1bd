//! A device whose work other machines do, through the socket of a gateway process.
//!
//! Each gateway has a thread, the link, which gathers input, sends requests, takes answers and verifies signatures. A
//! slow, silent or hostile gateway delays that thread alone. Sidecores share the link, each by two wait-free queues.
//! A result stays in private memory until its sidecore takes it, so a link that ends has written nothing to any lane.

mod channels;
mod link;
mod table;

pub(crate) use link::{Fault, LinkOptions, Said};

use super::{Port, Request};
use crate::engine::execute::deliver;
use link::Link;
use rtrb::{Consumer, Producer, RingBuffer};
use sidecore_core::doorbell::Doorbell;
use sidecore_core::inflight::Ticket;
use sidecore_core::sidecore::{Health, Reply};
use sidecore_core::time::Nanos;
use sidecore_daemon::sys::wake;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

struct Handed {
    ticket: Ticket,
    request: Request,
    buffer: Vec<u8>,
}

struct Answered {
    reply: Reply,
    request: Request,
    result: Vec<u8>,
}

#[derive(Debug)]
pub(crate) struct Control {
    wake: OwnedFd,
    armed: AtomicU64,
    killed: AtomicBool,
    ended: AtomicBool,
    /// Keys that the gateway has not been told of yet, and their public parts; `None`: there is no such key any more.
    known: Mutex<BTreeMap<String, Option<Vec<u8>>>>,
}

impl Control {
    /// Tells the gateway the public part of the key of this name.
    pub(crate) fn know(&self, key: &str, public: Option<&[u8]>) {
        self.known().insert(key.to_owned(), public.map(<[u8]>::to_vec));
        wake::ring(&self.wake);
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<String, Option<Vec<u8>>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn kill(&self) {
        self.killed.store(true, Ordering::Release);
        wake::ring(&self.wake);
    }

    fn is_killed(&self) -> bool {
        self.killed.load(Ordering::Acquire)
    }
}

struct End {
    requests: Consumer<Handed>,
    replies: Producer<Answered>,
    armed: Arc<AtomicU64>,
    /// Signalled when an answer is queued and the sidecore sleeps.
    sidecore: Arc<OwnedFd>,
}

pub(crate) struct Remote {
    requests: Producer<Handed>,
    replies: Consumer<Answered>,
    armed: Arc<AtomicU64>,
    control: Arc<Control>,
    spare: Vec<Vec<u8>>,
}

impl Remote {
    pub(crate) fn start(
        options: LinkOptions,
        sidecores: impl Iterator<Item = Arc<OwnedFd>>,
    ) -> io::Result<(Arc<Control>, Vec<Self>)> {
        let control = Arc::new(Control {
            wake: wake::event()?,
            armed: AtomicU64::new(0),
            killed: AtomicBool::new(false),
            ended: AtomicBool::new(false),
            known: Mutex::default(),
        });
        let depth = options.depth as usize;
        let pairs = sidecores.map(|sidecore| {
            let (requests, their_requests) = RingBuffer::new(depth);
            // The queue has room for an answer to each request, however late the sidecore looks.
            let (their_replies, replies) = RingBuffer::new(depth);
            let armed = Arc::new(AtomicU64::new(0));
            let end = End { requests: their_requests, replies: their_replies, armed: armed.clone(), sidecore };
            (Self { requests, replies, armed, control: control.clone(), spare: Vec::with_capacity(depth) }, end)
        });
        let (ports, ends): (Vec<_>, Vec<_>) = pairs.unzip();
        Link::start(options, ends, control.clone())?;
        Ok((control, ports))
    }
}

impl std::fmt::Debug for Remote {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Remote").field("control", &self.control).finish_non_exhaustive()
    }
}

impl Port for Remote {
    // The order on other machines is theirs.
    fn submit(&mut self, ticket: Ticket, request: Request) {
        let buffer = self.spare.pop().unwrap_or_default();
        // A full queue would mean that dispatch gave more than the device's depth.
        let queued = self.requests.push(Handed { ticket, request, buffer }).is_ok();
        debug_assert!(queued, "more requests than the device's depth");
    }

    fn poll(&mut self, _: Nanos) -> Option<(Reply, Request)> {
        let Answered { reply, request, result } = self.replies.pop().ok()?;
        if reply.outcome.is_ok() {
            deliver(&request.memory, &request.submission, &result);
        }
        self.spare.push(result);
        Some((reply, request))
    }

    fn ring(&mut self) {
        if Doorbell(&self.control.armed).must_wake() {
            wake::ring(&self.control.wake);
        }
    }

    fn arm(&self) {
        Doorbell(&self.armed).arm();
    }

    fn is_ready(&self) -> bool {
        !self.replies.is_empty()
    }

    fn disarm(&self) {
        Doorbell(&self.armed).disarm();
    }

    fn health(&self) -> Health {
        if self.control.ended.load(Ordering::Acquire) { Health::Dead } else { Health::Alive }
    }

    fn kill(&mut self) {
        self.control.kill();
    }

    /// The link writes to no lane, so nothing is awaited.
    fn revoke(&mut self) -> Health {
        self.kill();
        Health::Dead
    }

    /// Drops the requests that it never took, and with them their references to lanes.
    fn forget(&mut self) {
        (self.requests, self.replies) = (RingBuffer::new(0).0, RingBuffer::new(0).1);
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        self.kill();
    }
}
