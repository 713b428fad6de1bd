//! The client's end of a lane: submitting, ringing, waiting.

use super::arena::{Arena, Buffer};
use super::{ConnectError, Error, Options, Session, trust};
use crate::control::{self, Attach, Reply, Request, Token};
use crate::report::ReportWriter;
use rustix::event::PollFlags;
use sidecore_core::layout::{ABI, Layout, advice};
use sidecore_core::policy::notify::{Audit, Notify, Wait, WaitLoop, Waiter};
use sidecore_core::ring::{Consumer, Producer};
use sidecore_core::stage::{Sampler, Stamps};
use sidecore_core::sync::Ordering;
use sidecore_core::time::Nanos;
use sidecore_core::wire::{self, Completion, Extent, Status};
use sidecore_ipc::shm::LaneMemory;
use sidecore_ipc::shm::span::Span;
use sidecore_ipc::sys::peer::listener_has_ended;
use sidecore_ipc::sys::poll::{wait_for, wait_readable, wait_two};
use sidecore_ipc::sys::verified_fd::{VerifiedFd, closed};
use sidecore_ipc::sys::wake::Ringer;
use sidecore_ipc::sys::{clock, wake};
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

/// Polls of the ring between two readings of the clock.
const POLLS: u32 = 32;
/// The transfer of a slot is started this number of submissions ahead of its use.
const PREFETCH_AHEAD: u64 = 4;
/// Polls before a spinning wait is accounted: well under a microsecond.
const FIRST_POLLS: u32 = 8;
/// Interval of a spinning client's checks of the service, ns.
const HANG_UP_CHECK: Nanos = 1_000_000;
/// Interval of reports of the client's CPU time, ns.
const REPORT_CPU: Nanos = 10_000_000;

/// Number of the next lane of this process: a buffer stores its lane's number.
static NEXT_LANE: AtomicU64 = AtomicU64::new(1);

/// A completion as the client receives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// The tag of the request.
    pub tag: u32,
    /// Result of the request.
    pub status: Status,
    /// For sampled requests: the service's stamps, and the time of receipt.
    pub stages: Option<(Stamps, Nanos)>,
}

/// Cost of a client's waits.
#[derive(Clone, Copy, Debug, Default)]
pub struct WaitReport {
    /// Completions received.
    pub received: u64,
    /// Its waits compared with the offline optimum.
    pub audit: Audit,
}

#[derive(Debug)]
pub(super) struct Lane {
    pub(super) arena: Arena,
    memory: LaneMemory,
    /// The control connection; the service closes it when it ends. `None`: the lane can no longer be used, because the
    /// program closed one of its descriptors, or because an answer timed out and could still arrive.
    socket: Option<VerifiedFd>,
    ringer: Ringer,
    wake: VerifiedFd,
    /// A wake-up came through the pipe, which has not been drained since. It is drained before the next sleep, when
    /// the service has work to do.
    woken: bool,
    timeout: Duration,
    deadline: Nanos,
    producer: Producer,
    consumer: Consumer,
    in_flight: u32,
    unrung: bool,
    max_request_bytes: u32,
    sampler: Sampler,
    waits: WaitLoop,
    spins: bool,
    /// The program's own choice; it takes precedence over the service's advice.
    notify: Option<Notify>,
    checked_at: Nanos,
    reported_at: Nanos,
}

impl Lane {
    pub(super) fn attach(options: &Options, adopt: Option<Token>) -> Result<(Self, Token), ConnectError> {
        let Options { slots, arena_bytes, notify, timeout, .. } = *options;
        let deadline = after(timeout);
        let failed = |error| ConnectError::from_io(&options.socket, timeout, error);
        let connection = trust::connect(options, deadline)?;
        let (name, reclaimable) = (options.name.clone(), options.reclaimable);
        let request = Request::Attach(Attach { abi: ABI, slots, arena_bytes, name, adopt, reclaimable });
        // A service at its limit of connections refuses before it reads a request.
        let sent = send(&connection, &request, deadline);
        let (reply, fds) = answer(&connection, deadline).map_err(|error| match sent.err().unwrap_or(error) {
            error if is_starting(&connection, &error) => ConnectError::Starting(timeout),
            error => failed(error),
        })?;
        let Reply::Attached { slots, arena_bytes, max_request_bytes, token } = reply else {
            return Err(match reply {
                Reply::Refused(reason) => ConnectError::Refused(reason),
                Reply::TooLarge(reason) => ConnectError::TooLarge(reason),
                other => ConnectError::Protocol(format!("unexpected answer {other:?}")),
            });
        };
        let layout = Layout::new(slots, arena_bytes).map_err(|error| ConnectError::Protocol(error.to_string()))?;
        let [file, ring, wake, bell]: [OwnedFd; 4] =
            fds.try_into().map_err(|_| ConnectError::Protocol("four descriptors expected".to_owned()))?;
        let (file, ringer, wake) = (VerifiedFd::new(file)?, Ringer::new(bell, ring)?, VerifiedFd::selectable(wake)?);
        let memory = LaneMemory::open(file.get().ok_or_else(closed)?, layout)?;
        let number = NEXT_LANE.fetch_add(1, Ordering::Relaxed);
        let lane = Self {
            arena: Arena::new(number, arena_bytes),
            sampler: Sampler::new(memory.advice(advice::SAMPLE_EVERY).load(Ordering::Relaxed) as u32),
            waits: WaitLoop::new(Waiter::new(Notify::Park, 0, false)),
            spins: false,
            memory,
            socket: Some(connection),
            ringer,
            wake,
            woken: false,
            timeout,
            deadline: Nanos::MAX,
            producer: Producer::new(),
            consumer: Consumer::new(),
            in_flight: 0,
            unrung: false,
            max_request_bytes,
            notify,
            checked_at: 0,
            reported_at: 0,
        };
        Ok((lane, token))
    }

    pub(super) fn took_a_start(&self) -> bool {
        self.connection().is_some_and(listener_has_ended)
    }

    #[inline]
    pub(super) fn in_flight(&self) -> u32 {
        self.in_flight
    }

    pub(super) fn max_request_bytes(&self) -> u32 {
        self.max_request_bytes
    }

    pub(super) fn slots(&self) -> u32 {
        self.memory.layout().slots()
    }

    pub(super) fn arena_bytes(&self) -> u32 {
        self.memory.layout().arena_bytes()
    }

    pub(super) fn wait_report(&self) -> WaitReport {
        WaitReport { received: self.consumer.popped(), audit: *self.waits.waiter.audit() }
    }

    pub(super) fn set_deadline(&mut self, deadline: Option<Instant>) {
        self.deadline =
            deadline.map_or(Nanos::MAX, |deadline| after(deadline.saturating_duration_since(Instant::now())));
    }

    pub(super) fn ask(&mut self, request: &Request) -> Result<Reply, Error> {
        let socket = self.socket.as_ref().ok_or_else(Error::closed)?;
        let answered = question(socket, request, after(self.timeout).min(self.deadline));
        if matches!(answered, Err(Error::NoAnswer(_))) {
            self.socket = None;
        }
        answered
    }

    /// Takes all answers that are there, and returns the number of requests that have none yet.
    pub(super) fn drain_answers(&mut self) -> u32 {
        while self.poll().is_some() {}
        self.in_flight
    }

    /// Buffers that still exist become those of another lane.
    pub(super) fn forget_buffers(&mut self) {
        self.arena = Arena::new(NEXT_LANE.fetch_add(1, Ordering::Relaxed), self.arena_bytes());
    }

    /// `None`: the lane can no longer be used.
    pub(super) fn connection(&self) -> Option<BorrowedFd<'_>> {
        self.socket.as_ref().and_then(VerifiedFd::get)
    }

    #[inline]
    pub(super) fn span(&self, buffer: &Buffer, offset: u32, len: usize) -> Result<Span<'_>, Error> {
        if buffer.lane() != self.arena.lane() {
            return Err(Error::ForeignBuffer);
        }
        let Extent { offset: start, len: room } = buffer.extent();
        if offset as usize + len > room as usize {
            return Err(Error::OutOfBounds);
        }
        self.memory.span(Extent::new(start + offset, len as u32)).ok_or(Error::OutOfBounds)
    }

    #[inline]
    pub(super) fn prefetch(&self, buffer: &Buffer) {
        if let Ok(span) = self.span(buffer, 0, buffer.extent().len as usize) {
            span.prefetch_write();
        }
    }

    #[inline]
    pub(super) fn submit(&mut self, request: wire::Request<'_>, session: Session) -> Result<(), Error> {
        if !request.is_whole() {
            return Err(Error::TooManyExtents);
        }
        if self.in_flight == self.memory.layout().slots() {
            return Err(Error::Full);
        }
        if self.sampler.next() || session.long {
            self.push_sampled(request);
        } else {
            request.push(&mut self.producer, self.memory.submission());
        }
        self.memory.prefetch_submission(self.producer.pushed() + PREFETCH_AHEAD);
        self.in_flight += 1;
        self.unrung = true;
        Ok(())
    }

    /// Takes the request by value and stays out of line: other requests are then written straight to their slots.
    #[cold]
    fn push_sampled(&mut self, mut request: wire::Request<'_>) {
        request.submitted = Some(clock::now());
        request.push(&mut self.producer, self.memory.submission());
    }

    #[inline]
    pub(super) fn ring(&mut self) {
        self.unrung = false;
        if self.memory.submission_doorbell().must_wake() && !self.ringer.ring() {
            // The next wait reports it.
            self.socket = None;
        }
    }

    pub(super) fn wake_fd(&self) -> Result<BorrowedFd<'_>, Error> {
        self.wake.get().ok_or_else(Error::closed)
    }

    /// Arms the completion doorbell and drains the pipe. `false`: a completion is ready.
    pub(super) fn arm(&mut self) -> Result<bool, Error> {
        if self.unrung {
            self.ring();
        }
        // A program with its own event loop does not report a wake-up through the pipe.
        self.woken = true;
        self.before_sleep()?;
        self.memory.completion_doorbell().arm();
        if self.consumer.ready(self.memory.completion()) {
            self.memory.completion_doorbell().disarm();
            return Ok(false);
        }
        if wait_readable(self.to_poll()?, Some(0))? { Err(self.gone()) } else { Ok(true) }
    }

    /// The service sends over the socket only answers, and a reason when the lane ends.
    pub(super) fn check(&self) -> Result<(), Error> {
        let socket = self.socket.as_ref().and_then(VerifiedFd::get).ok_or_else(Error::closed)?;
        if wait_readable(socket, Some(0))? { Err(self.gone()) } else { Ok(()) }
    }

    pub(super) fn notify(&mut self) -> Notify {
        self.adopt_advice();
        self.waits.waiter.policy()
    }

    #[inline]
    pub(super) fn poll(&mut self) -> Option<Received> {
        let completion = Completion::receive(&mut self.consumer, self.memory.completion())?;
        self.in_flight = self.in_flight.saturating_sub(1);
        // A service of this version writes no other words; a malformed one counts as a failed request.
        let Completion { tag, status, stamps } = completion.ok()?;
        let report = ReportWriter::new(self.memory.report());
        report.received(1);
        let stages = stamps.map(|stamps| (stamps, clock::now()));
        if let Some((stamps, received)) = &stages {
            report.record(stamps.deliver(*received), stamps.total(*received));
        }
        Some(Received { tag, status, stages })
    }

    #[inline]
    pub(super) fn wait(&mut self, timeout: Option<Nanos>) -> Result<Received, Error> {
        if let Some(received) = self.poll() {
            return Ok(received);
        }
        if self.unrung {
            // Without a ring the service would not see these requests, and the wait would not end.
            self.ring();
        }
        // A wait shorter than one reading of the clock is not accounted.
        if self.spins {
            for _ in 0..FIRST_POLLS {
                std::hint::spin_loop();
                if let Some(received) = self.poll() {
                    return Ok(received);
                }
            }
        }
        self.wait_slowly(timeout)
    }

    fn wait_slowly(&mut self, timeout: Option<Nanos>) -> Result<Received, Error> {
        if self.in_flight == 0 {
            return Err(Error::NothingInFlight);
        }
        self.adopt_advice();
        let start = clock::now();
        let deadline = timeout.map(|timeout| start.saturating_add(timeout));
        self.waits.begin(start);
        let mut now = start;
        let result = loop {
            if let Some(received) = self.wait_step(now, deadline)? {
                break Ok(received);
            }
            now = clock::now();
            if deadline.is_some_and(|deadline| now >= deadline) {
                break self.poll().ok_or(Error::TimedOut);
            }
        };
        now = clock::now();
        self.waits.waiter.end(now);
        self.report(now);
        result
    }

    fn report(&mut self, now: Nanos) {
        let report = ReportWriter::new(self.memory.report());
        report.store_audit(self.waits.waiter.audit());
        if now.saturating_sub(self.reported_at) > REPORT_CPU {
            self.reported_at = now;
            report.store_cpu(clock::thread_cpu());
        }
    }

    fn wait_step(&mut self, mut now: Nanos, deadline: Option<Nanos>) -> Result<Option<Received>, Error> {
        loop {
            let found = self.consumer.ready(self.memory.completion());
            match self.waits.next(now, found) {
                Wait::Look => break,
                Wait::Spin => return self.spin(now),
                Wait::Arm => {
                    self.before_sleep()?;
                    self.memory.completion_doorbell().arm();
                }
                Wait::Sleep { until, armed } => {
                    if !armed {
                        self.before_sleep()?;
                    }
                    now = self.sleep(now, until.into_iter().chain(deadline).min())?;
                }
                Wait::Disarm => {
                    self.memory.completion_doorbell().disarm();
                    break;
                }
            }
        }
        Ok(self.poll())
    }

    fn spin(&mut self, now: Nanos) -> Result<Option<Received>, Error> {
        for _ in 0..POLLS {
            if let Some(received) = self.poll() {
                return Ok(Some(received));
            }
            std::hint::spin_loop();
        }
        self.check_service(now)?;
        Ok(self.poll())
    }

    fn before_sleep(&mut self) -> Result<(), Error> {
        let wake = self.wake.get().ok_or_else(Error::closed)?;
        if std::mem::take(&mut self.woken) {
            wake::drain_pipe(wake);
        }
        Ok(())
    }

    fn sleep(&mut self, now: Nanos, until: Option<Nanos>) -> Result<Nanos, Error> {
        let timeout = until.map(|until| until.saturating_sub(now));
        let woken = wait_two(self.wake.to_poll()?, self.to_poll()?, timeout)?;
        self.woken |= woken.readable;
        if woken.hung_up && !self.consumer.ready(self.memory.completion()) {
            return Err(self.gone());
        }
        Ok(clock::now())
    }

    /// Checks every `HANG_UP_CHECK` while spinning: without a service no completion would ever appear.
    fn check_service(&mut self, now: Nanos) -> Result<(), Error> {
        if now.saturating_sub(self.checked_at) < HANG_UP_CHECK {
            return Ok(());
        }
        self.checked_at = now;
        let wake = self.wake.get().ok_or_else(Error::closed)?;
        let woken = wait_two(wake, self.to_poll()?, Some(0))?;
        if woken.hung_up && !self.consumer.ready(self.memory.completion()) {
            return Err(self.gone());
        }
        Ok(())
    }

    /// The connection's descriptor for polling, without the check that it is still this lane's.
    fn to_poll(&self) -> Result<BorrowedFd<'_>, Error> {
        Ok(self.socket.as_ref().ok_or_else(Error::closed)?.to_poll()?)
    }

    fn gone(&self) -> Error {
        self.connection().map_or_else(Error::closed, gone)
    }

    fn adopt_advice(&mut self) {
        let load = |word| self.memory.advice(word).load(Ordering::Relaxed);
        let advised = Notify::from_word(load(advice::NOTIFY)).filter(|_| self.notify.is_none());
        let spins = load(advice::MAY_SPIN) != 0;
        let park_cost = load(advice::PARK_COST);
        // A policy that the program named takes precedence: the program knows the core it runs on.
        let policy = self.notify.or(advised).unwrap_or(Notify::Park);
        let waiter = &mut self.waits.waiter;
        waiter.set_park_cost(park_cost);
        waiter.set_wake_time(load(advice::WAKE_TIME));
        let may_spin = spins || self.notify.is_some();
        waiter.set_may_spin(may_spin);
        self.spins = may_spin && policy.spins();
        if policy != waiter.policy() {
            waiter.set_policy(policy);
        }
    }
}

pub(crate) fn question(socket: &VerifiedFd, request: &Request, deadline: Nanos) -> Result<Reply, Error> {
    let start = clock::now();
    match send(socket, request, deadline).and_then(|()| answer(socket, deadline)) {
        Ok((reply, _)) => Ok(reply),
        Err(error) if error.kind() == io::ErrorKind::TimedOut => {
            let waited = Duration::from_nanos(deadline.saturating_sub(start));
            let starting = is_starting(socket, &error);
            Err(if starting { Error::Connect(ConnectError::Starting(waited)) } else { Error::NoAnswer(waited) })
        }
        Err(_) => Err(socket.get().map_or_else(Error::closed, gone)),
    }
}

/// True if the answer timed out and the process that listened at the time of connecting has ended.
fn is_starting(socket: &VerifiedFd, error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::TimedOut && socket.get().is_some_and(listener_has_ended)
}

fn gone(socket: BorrowedFd<'_>) -> Error {
    match wait_readable(socket, Some(0)) {
        Ok(true) => match control::receive::<Reply>(socket) {
            Ok((reply, _)) => Error::unexpected(reply),
            Err(_) => gone_without_a_word(),
        },
        _ => gone_without_a_word(),
    }
}

/// A service of sockets closes a connection with unknown questions, without a readable message.
fn gone_without_a_word() -> Error {
    Error::Gone("the service is gone, or what listens there is a service of sockets, or of another version".to_owned())
}

pub(crate) fn after(timeout: Duration) -> Nanos {
    clock::now().saturating_add(u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX))
}

/// `TimedOut`: the service's queue had no room until the deadline.
fn send(socket: &VerifiedFd, request: &Request, deadline: Nanos) -> io::Result<()> {
    loop {
        match control::send(ours(socket)?, request, &[]) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => happens(socket, PollFlags::OUT, deadline)?,
            other => return other,
        }
    }
}

/// `TimedOut`: the service did not answer until the deadline.
fn answer(socket: &VerifiedFd, deadline: Nanos) -> io::Result<(Reply, Vec<OwnedFd>)> {
    happens(socket, PollFlags::IN, deadline)?;
    match control::receive(ours(socket)?) {
        // The service closed with unread input; its earlier message can still be read.
        Err(error) if error.kind() == io::ErrorKind::ConnectionReset => control::receive(ours(socket)?),
        other => other,
    }
}

fn ours(socket: &VerifiedFd) -> io::Result<BorrowedFd<'_>> {
    socket.get().ok_or_else(closed)
}

fn happens(socket: &VerifiedFd, what: PollFlags, deadline: Nanos) -> io::Result<()> {
    if wait_for(socket.to_poll()?, what, Some(deadline))? { Ok(()) } else { Err(io::ErrorKind::TimedOut.into()) }
}
