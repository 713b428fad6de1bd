//! A thread on a core of its own, behind two wait-free queues.
//!
//! It computes in private memory and writes the result only inside a gate. The sidecore can shut the gate of a worker
//! that does not answer. A late worker then cannot write into a lane whose request was replayed on another device.
//! Between entering the gate and queueing the reply a worker cannot die by itself. If it is found dead there all the
//! same, that one request is not replayed, because its input may have been overwritten in place.

mod gathered;

use super::batch::{Counts, Gathering};
use super::{Batches, Blame, Port, Request};
use crate::engine::execute::{Scratch, compute, deliver};
use rtrb::{Consumer, Producer, RingBuffer};
use sidecore_core::doorbell::Doorbell;
use sidecore_core::gate::Gate;
use sidecore_core::inflight::Ticket;
use sidecore_core::policy::balance::Measured;
use sidecore_core::policy::notify::{Moderator, Notify, ThreadCore, Wait, WaitLoop, Waiter, WakeDecision};
use sidecore_core::session::Refusal;
use sidecore_core::sidecore::{Health, Reply};
use sidecore_core::time::Nanos;
use sidecore_daemon::sys::park::ParkTimes;
use sidecore_daemon::sys::{cpu, wake};
use sidecore_ipc::sys::clock;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Polls of the queue between two looks at the clock.
const POLLS: u32 = 32;

const MAX_BLAMED: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WorkerKind {
    /// Does one request after the other.
    Single,
    /// Does requests side by side, where measured to be faster.
    Batch,
}

#[derive(Debug)]
pub(crate) struct WorkerOptions {
    pub(crate) name: String,
    pub(crate) kind: WorkerKind,
    pub(crate) place: ThreadCore,
    pub(crate) free: Vec<usize>,
    pub(crate) depth: u32,
    pub(crate) max_request: u32,
    pub(crate) park: ParkTimes,
    pub(crate) to_device: Notify,
    pub(crate) from_device: Notify,
    pub(crate) sidecore: Arc<OwnedFd>,
}

#[derive(Debug, Default)]
struct Shared {
    worker_armed: AtomicU64,
    sidecore_armed: AtomicU64,
    gate: Gate,
    batches: Counts,
    measured: OnceLock<Vec<Measured>>,
    killed: AtomicBool,
    to_device: AtomicU64,
    from_device: AtomicU64,
    park_cost: AtomicU64,
    wake_time: AtomicU64,
}

#[derive(Debug)]
pub(crate) struct Worker {
    requests: Producer<(Ticket, Request)>,
    replies: Consumer<(Reply, Request)>,
    shared: Arc<Shared>,
    kind: WorkerKind,
    blamed: Consumer<Blame>,
    told: usize,
    thread: JoinHandle<()>,
}

impl Worker {
    pub(crate) fn start(options: WorkerOptions) -> io::Result<Self> {
        let depth = options.depth as usize;
        let (requests, their_requests) = RingBuffer::new(depth);
        // The queue has room for an answer to each request, however late the sidecore looks.
        let (their_replies, replies) = RingBuffer::new(depth);
        let (their_blamed, blamed) = RingBuffer::new(MAX_BLAMED);
        let shared = Arc::new(Shared::default());
        shared.set_notify(options.to_device, options.from_device);
        shared.set_park(options.park);
        let (theirs, kind) = (shared.clone(), options.kind);
        let name = format!("sidecore-{}", options.name);
        let thread = thread::Builder::new().name(name).spawn(move || {
            let waiter = Waiter::new(options.to_device, options.park.cost, options.place.may_spin);
            let of_loop = Loop {
                requests: their_requests,
                answers: Answers {
                    replies: their_replies,
                    shared: theirs.clone(),
                    moderator: Moderator::new(options.from_device),
                    sidecore: options.sidecore.clone(),
                },
                shared: theirs,
                gathering: None,
                blamed: Some(their_blamed),
                scratch: Scratch::new(options.max_request),
                waits: WaitLoop::new(waiter),
                words: [0; 4],
                options,
            };
            of_loop.run();
        })?;
        Ok(Self { requests, replies, shared, kind, blamed, told: 0, thread })
    }
}

impl Port for Worker {
    // An operation of the crypto library cannot be suspended: it does its requests whole and as they come.
    fn submit(&mut self, ticket: Ticket, request: Request) {
        // A full queue would mean that dispatch gave more than the device's depth.
        let queued = self.requests.push((ticket, request)).is_ok();
        debug_assert!(queued, "more requests than the device's depth");
    }

    fn poll(&mut self, _: Nanos) -> Option<(Reply, Request)> {
        self.replies.pop().ok()
    }

    fn ring(&mut self) {
        if Doorbell(&self.shared.worker_armed).must_wake() {
            self.thread.thread().unpark();
        }
    }

    fn arm(&self) {
        Doorbell(&self.shared.sidecore_armed).arm();
    }

    fn is_ready(&self) -> bool {
        !self.replies.is_empty()
    }

    fn disarm(&self) {
        Doorbell(&self.shared.sidecore_armed).disarm();
    }

    fn health(&self) -> Health {
        if self.thread.is_finished() { self.shared.death() } else { Health::Alive }
    }

    fn kill(&mut self) {
        self.shared.killed.store(true, Ordering::Release);
        self.thread.thread().unpark();
    }

    /// Shuts the gate. A worker that is writing finishes that copy first, within microseconds: it holds no lock and
    /// its memory cannot fault. A worker that died inside leaves the gate as it was.
    fn revoke(&mut self) -> Health {
        self.kill();
        while !self.shared.gate.shut() {
            if self.thread.is_finished() {
                return self.shared.death();
            }
            thread::yield_now();
        }
        Health::Dead
    }

    /// Drops the requests that it never took, and with them their references to lanes.
    fn forget(&mut self) {
        (self.requests, self.replies) = (RingBuffer::new(0).0, RingBuffer::new(0).1);
    }

    fn batches(&self) -> Option<Batches> {
        (self.kind == WorkerKind::Batch).then(|| self.shared.batches.read())
    }

    fn blamed(&mut self) -> Option<Blame> {
        self.blamed.pop().ok()
    }

    fn measured(&mut self) -> Option<Measured> {
        let next = self.shared.measured.get()?.get(self.told).copied();
        self.told += usize::from(next.is_some());
        next
    }

    fn set_notify(&self, to_device: Notify, from_device: Notify) {
        self.shared.set_notify(to_device, from_device);
        self.thread.thread().unpark();
    }

    fn set_park(&self, park: ParkTimes) {
        self.shared.set_park(park);
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // The thread ends at its next step. The service does not wait for it: a hung thread would hang the service.
        self.kill();
    }
}

impl Shared {
    fn set_notify(&self, to_device: Notify, from_device: Notify) {
        self.to_device.store(to_device.to_word(), Ordering::Relaxed);
        self.from_device.store(from_device.to_word(), Ordering::Relaxed);
    }

    fn set_park(&self, park: ParkTimes) {
        self.park_cost.store(park.cost, Ordering::Relaxed);
        self.wake_time.store(park.wake, Ordering::Relaxed);
    }

    fn is_killed(&self) -> bool {
        self.killed.load(Ordering::Acquire)
    }

    fn death(&self) -> Health {
        self.gate.left_in().map_or(Health::Dead, |ticket| Health::DeadWriting(Ticket::from_word(ticket)))
    }
}

struct Loop {
    options: WorkerOptions,
    requests: Consumer<(Ticket, Request)>,
    answers: Answers,
    shared: Arc<Shared>,
    scratch: Scratch,
    waits: WaitLoop,
    words: [u64; 4],
    gathering: Option<Gathering>,
    blamed: Option<Producer<Blame>>,
}

struct Answers {
    replies: Producer<(Reply, Request)>,
    shared: Arc<Shared>,
    moderator: Moderator,
    sidecore: Arc<OwnedFd>,
}

impl Loop {
    fn run(mut self) {
        // The service checked that the cores exist; a core removed later costs speed only.
        let _ = match self.options.place.cpu {
            Some(cpu) => cpu::pin(cpu),
            None => cpu::limit(&self.options.free),
        };
        cpu::precise_sleep();
        let max_request = self.options.max_request;
        let blamed = self.blamed.take().filter(|_| self.options.kind == WorkerKind::Batch);
        self.gathering = blamed.map(|blamed| Gathering::measured(max_request, blamed));
        if let Some(gathering) = &self.gathering {
            self.shared.measured.get_or_init(|| gathering.found().to_vec());
        }
        while self.step().is_some() {}
        // The next device gets references of its own; these would keep the memory of lanes.
        while self.requests.pop().is_ok() {}
    }

    /// `None`: killed, or the gate is shut.
    fn step(&mut self) -> Option<()> {
        if self.shared.is_killed() {
            return None;
        }
        if self.gathering.is_some() { self.gathered_step() } else { self.single_step() }
    }

    fn single_step(&mut self) -> Option<()> {
        let Ok((ticket, request)) = self.requests.pop() else {
            self.idle();
            return Some(());
        };
        if self.waits.waiter.is_waiting() {
            self.waits.waiter.end(clock::now());
        }
        self.serve(ticket, request)
    }

    fn serve(&mut self, ticket: Ticket, request: Request) -> Option<()> {
        let start = clock::now();
        let result = compute(&request.session, &request.memory, &request.submission, &mut self.scratch);
        self.answers.answer(ticket, request, result, |now| (now.saturating_sub(start), now.saturating_sub(start)))
    }

    fn idle(&mut self) {
        self.adopt_policies();
        let mut now = clock::now();
        let ring = self.answers.moderator.due(now);
        let ring_at = self.answers.announce(ring);
        loop {
            let found = !self.requests.is_empty() || self.shared.is_killed();
            match self.waits.next(now, found) {
                Wait::Look => return,
                Wait::Spin => return self.spin(),
                Wait::Arm => Doorbell(&self.shared.worker_armed).arm(),
                Wait::Sleep { until, .. } => {
                    match until.into_iter().chain(ring_at).min() {
                        Some(until) => thread::park_timeout(Duration::from_nanos(until.saturating_sub(now))),
                        None => thread::park(),
                    }
                    now = clock::now();
                }
                Wait::Disarm => return Doorbell(&self.shared.worker_armed).disarm(),
            }
        }
    }

    fn spin(&self) {
        for _ in 0..POLLS {
            if !self.requests.is_empty() {
                return;
            }
            std::hint::spin_loop();
        }
    }

    fn adopt_policies(&mut self) {
        let load = |word: &AtomicU64| word.load(Ordering::Relaxed);
        let Shared { to_device, from_device, park_cost, wake_time, .. } = &*self.shared;
        let words = [to_device, from_device, park_cost, wake_time].map(load);
        if words == self.words {
            return;
        }
        self.words = words;
        self.waits.waiter.set_park_cost(words[2]);
        self.waits.waiter.set_wake_time(words[3]);
        if let Some(notify) = Notify::from_word(words[0]) {
            self.waits.waiter.set_policy(notify);
        }
        if let Some(notify) = Notify::from_word(words[1]) {
            self.answers.moderator.set_policy(notify);
        }
    }
}

impl Answers {
    /// Writes a result to its lane, unless the gate is shut, and queues the reply. `times`: its duration, and its
    /// part of a full batch, measured until `now`, ns. `None`: killed, or the gate is shut.
    fn answer(
        &mut self,
        ticket: Ticket,
        request: Request,
        result: Result<&[u8], Refusal>,
        times: impl FnOnce(Nanos) -> (Nanos, Nanos),
    ) -> Option<()> {
        let urgent = request.submission.is_urgent();
        let now = self.put(ticket, request, result, times)?;
        self.completed(now, 1, urgent);
        Some(())
    }

    fn put(
        &mut self,
        ticket: Ticket,
        request: Request,
        result: Result<&[u8], Refusal>,
        times: impl FnOnce(Nanos) -> (Nanos, Nanos),
    ) -> Option<Nanos> {
        if self.shared.is_killed() || !self.shared.gate.enter(ticket.to_word()) {
            return None;
        }
        let outcome = result.map(|result| {
            deliver(&request.memory, &request.submission, result);
            result.len() as u32
        });
        let now = clock::now();
        let (took, part) = times(now);
        let reply = Reply { ticket, outcome, took, part };
        self.replies.push((reply, request)).ok()?;
        self.shared.gate.leave();
        Some(now)
    }

    fn completed(&mut self, now: Nanos, count: u32, urgent: bool) {
        let ring = self.moderator.completed(now, count, urgent);
        self.announce(ring);
    }

    fn announce(&mut self, ring: WakeDecision) -> Option<Nanos> {
        match ring {
            WakeDecision::Now => {
                self.moderator.rung();
                if Doorbell(&self.shared.sidecore_armed).must_wake() {
                    wake::ring(&*self.sidecore);
                }
                None
            }
            WakeDecision::At(time) => Some(time),
            WakeDecision::Nothing => None,
        }
    }
}
