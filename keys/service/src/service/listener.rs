//! The control thread: accepts clients, gives them lanes within their limits, opens sessions, and changes the
//! service.
//!
//! It does not wait for clients: one that does not read its answers loses its connection. For administrators it does
//! wait: for sidecores that carry out a change, and for the disk that keeps a key. Users take turns, by time
//! ([`FairQueue`](sidecore_core::policy::fair_queue::FairQueue)), a message of one connection at a time. The next
//! message of a connection is read after the answer to the one before. The
//! [`JobQueues`](super::job_queue::JobQueues) parse clients' keys, and the [`Reaper`](super::reaper::Reaper) frees the
//! objects of ended connections: a client controls how long either takes.

mod attach;
mod audit;
mod certificates;
mod complaints;
mod complete;
mod connection;
mod connections;
mod creators;
mod descriptors;
mod gateways;
mod keys;
pub(super) mod limits;
mod report;
mod room;
mod serving;
mod sessions;
mod settings;
pub(super) mod state;
mod succession;
mod transfer;
mod usage;
mod waiting;

use super::command::{Event, Lane, LaneKey};
use super::jobs::ControlJob;
use crate::control::{self, Refused, Reply, Request};
use crate::events;
use connections::receive_request;
use limits::LIMITS_INTERVAL_NS;
use sidecore_core::time::Nanos;
use sidecore_counters::LaneCounter;
use sidecore_daemon::sys::peer::Credentials;
use sidecore_daemon::sys::poller::{BATCH, Poller};
use sidecore_ipc::sys::clock;
use state::{LISTENER, Listener, WAKE, Work};
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use waiting::{ROOM_INTERVAL_NS, Waiting};

/// Interval of copies of clients' reports to the counter file while there is traffic, ns; the heartbeat's
/// period.
const PUBLISH: Nanos = 250_000_000;
/// Most batches of ready sources, and most events, between two rounds of answers.
const MAX_SOURCE_BATCHES: usize = 64;
const MAX_EVENTS: usize = 256;
/// Time of answers before the thread looks for further ready sources, ns.
const ROUND: Nanos = 50_000;

impl Listener {
    pub(super) fn run(mut self, stop: &AtomicBool) {
        let (mut publish_at, mut events_wait) = (0, false);
        while !stop.load(Ordering::Acquire) {
            let now = clock::now();
            if now >= publish_at {
                self.publish(now);
                self.tell_overdue(now);
                self.look_after_next(now);
                publish_at = now + PUBLISH;
            }
            let idle = self.turns.is_empty() && !events_wait;
            let room = (!self.queue.is_empty()).then_some(now + ROOM_INTERVAL_NS);
            // The next service has set the queue's length, and its own name, by now.
            let wide = if self.succeeding.former.accepts() { self.door.set_backlog(now) } else { None };
            let until = [room, self.resumes, wide].into_iter().flatten().fold(publish_at, Nanos::min);
            self.look_around(if idle { until.saturating_sub(now) } else { 0 });
            if self.resumes.is_some_and(|resumes| resumes <= clock::now()) {
                self.accept();
            }
            self.look_for_room();
            events_wait = self.hear_events();
            self.take_turns(stop);
            self.reaper.start_threads();
        }
        self.leave();
    }

    fn look_around(&mut self, timeout: Nanos) {
        let mut timeout = timeout;
        for _ in 0..MAX_SOURCE_BATCHES {
            let numbers: Vec<u64> = self.poller.wait(Some(timeout)).collect();
            let last = numbers.len() < BATCH;
            for number in numbers {
                self.happened(number);
            }
            if last {
                return;
            }
            timeout = 0;
        }
    }

    /// Takes events of other threads. `true`: there may be more.
    fn hear_events(&mut self) -> bool {
        for _ in 0..MAX_EVENTS {
            if let Ok(event) = self.setup.events.try_recv() {
                self.heard(event);
            } else if let Ok((key, result)) = self.results.try_recv() {
                let reply = self.complete(key, result).unwrap_or_else(Reply::Refused);
                self.conclude(key, &reply);
            } else {
                return false;
            }
        }
        true
    }

    fn happened(&mut self, number: u64) {
        match number {
            LISTENER => self.accept(),
            WAKE => {}
            _ => match self.processes.get(&number).copied() {
                Some(_) => self.process_ended(number),
                None => {
                    if let Some(connection) = self.connections.get(&number) {
                        self.turns.push(&self.quotas.tenant(connection.client), Work::Listen(number));
                    }
                }
            },
        }
    }

    fn take_turns(&mut self, stop: &AtomicBool) {
        let mut now = clock::now();
        let end = now + ROUND;
        while now < end && !stop.load(Ordering::Acquire) {
            let Some((user, work)) = self.turns.next() else { break };
            match work {
                Work::Listen(key) => self.serve(key),
                Work::End(key) => self.disconnect(key),
                Work::Attach(key) => self.attach_again(key),
            }
            let before = std::mem::replace(&mut now, clock::now());
            self.turns.charge(&user, now - before);
        }
    }

    fn heard(&mut self, event: Event) {
        match event {
            Event::Fault(key, fault, left) => {
                let why = format!("its client broke the protocol ({})", fault.name());
                self.tell_fault(key, &why);
                self.lane_ended(key, &why, left);
            }
            Event::NoRoom(key, left) => {
                let why = "the sidecore's tables are full";
                self.tell_refusal(key, &Reply::Refused(Refused::limit(why)));
                self.lane_ended(key, why, left);
            }
            Event::LaneClosed(key, left) => self.dispose(key, left),
            Event::Freed(key) => self.freed(key),
            Event::SessionClosed(key) => self.conclude(key, &Reply::Done),
            Event::Gateway(key, said) => self.gateway_said(key, said),
            Event::DeviceLost { device, sidecore, loss } => events::device_lost(&device, sidecore, loss),
            Event::RequestRefused(key, place, refusal, quiet) => self.tell_refused_request(key, place, refusal, quiet),
            Event::KeyLimited(place) => {
                if let Some((name, rate)) = self.setup.store.rate(place) {
                    events::key_limited(name, rate);
                }
            }
            Event::WrongResult { device, blame } => self.tell_blame(&device, blame),
        }
    }

    fn lane_ended(&mut self, key: LaneKey, why: &str, left: Box<Lane>) {
        if let Some(connection) = self.connections.get(&key) {
            // Only to send the reason; the connection ends in any case.
            let _ = control::send(&connection.socket, &Reply::Ended(why.to_owned()), &[]);
            self.disconnect(key);
        }
        self.dispose(key, Some(left));
    }

    fn serve(&mut self, key: LaneKey) {
        let Some(connection) = self.connections.get(&key) else { return };
        let answered = match receive_request(&connection.socket, &mut self.room) {
            Ok((request, speaker)) => match self.recognise(key, speaker) {
                Ok(()) => self.answer(key, request),
                Err(why) => self.refuse_for_good(key, why),
            },
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                self.refuse_for_good(key, Request::of_no_message())
            }
            // A request of another version comes as its refusal.
            Err(error) => error.downcast().and_then(|refused: Refused| self.reply(key, &Reply::Refused(refused))),
        };
        if answered.and_then(|()| self.listen_again(key)).is_err() {
            self.disconnect(key);
        }
    }

    /// Checks that the sender of the connection's first message wrote this one. A child that inherited the
    /// connection, or a process that became another user since, loses the rights of the first one.
    fn recognise(&mut self, key: LaneKey, speaker: Credentials) -> Result<(), Refused> {
        let Some(connection) = self.connections.get_mut(&key) else { return Ok(()) };
        let connected = connection.client.1;
        let first = *connection.speaker.get_or_insert(speaker);
        let Credentials { pid, uid, gid, .. } = speaker;
        ensure!(pid == connected, "process {pid} speaks on a connection of process {connected}: connect again");
        ensure!(uid == first.uid, "user {uid} speaks on a connection of user {}: connect again", first.uid);
        ensure!(gid == first.gid, "group {gid} speaks on a connection of group {}: connect again", first.gid);
        Ok(())
    }

    fn refuse_for_good(&mut self, key: LaneKey, why: Refused) -> io::Result<()> {
        self.tell_fault(key, &why);
        if let Some(connection) = self.connections.get(&key) {
            let _ = control::send(&connection.socket, &Reply::Refused(why), &[]);
        }
        Err(io::ErrorKind::PermissionDenied.into())
    }

    fn listen_again(&mut self, key: LaneKey) -> io::Result<()> {
        match self.connections.get_mut(&key) {
            Some(connection) if !connection.busy => {
                let known = std::mem::replace(&mut connection.polled, true);
                let watch = if known { Poller::watch_again } else { Poller::add_once };
                watch(&self.poller, &connection.socket, key)
            }
            _ => Ok(()),
        }
    }

    fn answer(&mut self, key: LaneKey, request: Request) -> io::Result<()> {
        let reply = match request {
            Request::Attach(attach) => return self.give_lane(key, Waiting::new(attach, clock::now())),
            Request::OpenSession(spec) => self.open_session(key, spec),
            // The sidecore reports when it is done: no later request may find the session.
            Request::CloseSession { handle } => self.close_session(key, handle).map(|()| None),
            Request::Set(texts) => self.set_and_tell(key, &texts).map(Some),
            Request::Settings => Ok(Some(Reply::Settings(self.setup.config.settings()))),
            Request::KeyInfo { name } => self.key_info(key, &name).map(|info| Some(Reply::KeyInfo(info))),
            Request::Keys(command) => self.keys(key, command),
            Request::MyKeys { after, known } => self.my_keys(key, &after, known).map(Some),
            Request::Certificate { name, index } => {
                self.certificate(key, &name, index).map(|certificate| Some(Reply::Certificate(certificate)))
            }
            Request::Identifiers { after } => self.identifiers(key, &after).map(Some),
            Request::Serve(message) => self.serve_other(key, &message).map(Some),
            Request::ServingAddress => self.serving_address().map(Some),
            Request::MakeKey(kind) => self.make_key(key, kind).map(|()| None),
            Request::Gateway(hello) => match self.gateway(key, &hello) {
                Ok(()) => return Ok(()),
                Err(reason) => Err(reason),
            },
            Request::Succeed(step) => match self.succeed(key, step, clock::now()) {
                Ok(None) => return Ok(()),
                other => other,
            },
            Request::PublicPart { kind, raw } => {
                self.jobs.push(self.tenant(key), key, ControlJob::PublicPart { kind, raw });
                Ok(None)
            }
        };
        match reply {
            Ok(Some(reply)) => self.reply(key, &reply),
            Ok(None) => {
                if let Some(connection) = self.connections.get_mut(&key) {
                    connection.busy = true;
                }
                Ok(())
            }
            Err(reason) => self.reply(key, &Reply::Refused(reason)),
        }
    }

    fn conclude(&mut self, key: LaneKey, reply: &Reply) {
        let Some(connection) = self.connections.get_mut(&key) else { return };
        connection.busy = false;
        if self.reply(key, reply).and_then(|()| self.listen_again(key)).is_err() {
            self.disconnect(key);
        }
    }

    fn reply(&mut self, key: LaneKey, reply: &Reply) -> io::Result<()> {
        self.reply_with(key, reply, &[])
    }

    fn reply_with(&mut self, key: LaneKey, reply: &Reply, fds: &[BorrowedFd<'_>]) -> io::Result<()> {
        self.tell_refusal(key, reply);
        let connection = self.connections.get(&key).ok_or(io::ErrorKind::NotConnected)?;
        control::send(&connection.socket, reply, fds)
    }

    fn publish(&mut self, now: Nanos) {
        self.setup.counters.heartbeat(now);
        if self.usage.is_due(now) {
            self.look_at_usage(now);
        }
        if now >= self.limits_at {
            self.publish_limits();
            self.look_at_channels(now);
            self.limits_at = now + LIMITS_INTERVAL_NS;
        }
        for attached in self.connections.values_mut().filter_map(|connection| connection.attached.as_mut()) {
            let requests = attached.counters.get(LaneCounter::Submitted);
            if requests != attached.published {
                attached.published = requests;
                report::publish(attached.memory.report(), &attached.counters);
            }
        }
    }
}
