//! Devices: workers behind two hops, and emulated ones, polled by the service.

use super::client::PARK_COST;
use super::hop::{Hop, Thread};
use super::mutation::Mutation;
use super::scenario::{DevicePlan, Kind};
use super::service::{Command, Request};
use super::world::{Actor, Clock, SimEvent, World};
use super::{Invariant, result};
use sidecore_core::inflight::Ticket;
use sidecore_core::policy::notify::{Moderator, Wait, WaitLoop, Waiter, WakeDecision};
use sidecore_core::ring::MESSAGE_WORDS;
use sidecore_core::sidecore::{Health, Reply, WaitPolicies};
use sidecore_core::time::Nanos;
use std::collections::VecDeque;

#[derive(Clone, Copy, Debug)]
pub(super) struct Handed {
    pub(super) ticket: Ticket,
    pub(super) request: Request,
}

impl Handed {
    fn to_words(self) -> [u64; MESSAGE_WORDS] {
        let Request { link, tag, size, urgent } = self.request;
        [self.ticket.to_word(), link.into(), tag.into(), size.into(), urgent.into(), 0, 0]
    }

    fn from_words([ticket, link, tag, size, urgent, ..]: [u64; MESSAGE_WORDS]) -> Self {
        let request = Request { link: link as u32, tag: tag as u32, size: size as u32, urgent: urgent != 0 };
        Self { ticket: Ticket::from_word(ticket), request }
    }
}

#[derive(Clone, Copy, Debug)]
enum Pc {
    Take,
    Work(Handed, Nanos),
    /// Past the gate: the result is being written.
    Write(Handed, Reply),
    /// Answered a request; the flag is its urgency.
    Announce(bool),
    Wait,
}

#[derive(Debug)]
pub(super) struct Device {
    pub(super) plan: DevicePlan,
    /// The incarnation of the service that it belongs to.
    pub(super) service: u32,
    pub(super) handed: Hop,
    pub(super) replies: Hop,
    pub(super) thread: Thread,
    /// Drained, removed or dead as far as its service knows.
    pub(super) leaving: bool,
    pub(super) health: Health,
    pub(super) ring_at: Option<Nanos>,
    queue: VecDeque<(Handed, Nanos)>,
    free_at: Nanos,
    stalled_until: Nanos,
    /// When it last answered, or was given a request while it had none.
    pub(super) progress_at: Nanos,
    /// How many times as long everything takes, and until when.
    pub(super) slow: (u64, Nanos),
    killed: bool,
    /// Taken away with a request that it answers after all.
    late: Option<Reply>,
    last: u32,
    pub(super) hops: WaitPolicies,
    waits: WaitLoop,
    moderator: Moderator,
    pc: Pc,
}

impl Device {
    pub(super) fn new(plan: DevicePlan, service: u32, hops: WaitPolicies, may_spin: bool) -> Self {
        Self {
            plan,
            service,
            handed: Hop::new(plan.depth),
            replies: Hop::new(plan.depth),
            thread: Thread { ended: plan.kind != Kind::Worker, ..Thread::default() },
            leaving: false,
            health: Health::Alive,
            ring_at: None,
            queue: VecDeque::new(),
            free_at: 0,
            stalled_until: 0,
            progress_at: 0,
            slow: (1, 0),
            killed: false,
            late: None,
            last: 0,
            hops,
            waits: WaitLoop::new(Waiter::new(hops.to_device, PARK_COST, may_spin)),
            moderator: Moderator::new(hops.from_device),
            pc: Pc::Take,
        }
    }

    pub(super) fn is_alive(&self) -> bool {
        !self.killed && self.health == Health::Alive
    }

    pub(super) fn has(&self) -> u64 {
        let at_work = matches!(self.pc, Pc::Work(..) | Pc::Write(..));
        self.handed.waiting() + self.queue.len() as u64 + u64::from(at_work)
    }

    pub(super) fn due(&self) -> Option<Nanos> {
        self.queue.front().map(|(_, due)| *due)
    }

    /// It does nothing for so long; `None`: ever again.
    pub(super) fn stall(&mut self, now: Nanos, time: Option<Nanos>) {
        let until = time.map_or(Nanos::MAX, |time| now + time);
        self.stalled_until = self.stalled_until.max(until);
        let time = time.unwrap_or(Nanos::MAX);
        self.queue.iter_mut().for_each(|(_, due)| *due = due.saturating_add(time));
        self.free_at = self.free_at.max(now).saturating_add(time);
    }

    fn time(&self, now: Nanos, size: u32) -> Nanos {
        let factor = if now < self.slow.1 { self.slow.0 } else { 1 };
        self.plan.time(size) * factor
    }
}

impl World<'_> {
    /// Hands a request over. The device has room: dispatch counts.
    pub(super) fn hand(&mut self, device: u32, handed: Handed) {
        let now = self.now;
        let state = &mut self.devices[device as usize];
        match state.plan.kind {
            Kind::Worker => state.handed.push(&handed.to_words()),
            _ if state.killed => {}
            _ => {
                let start = state.free_at.max(now).max(state.stalled_until);
                state.free_at = start.saturating_add(state.time(now, handed.request.size));
                state.queue.push_back((handed, state.free_at));
            }
        }
        let (has, depth) = (state.has(), u64::from(state.plan.depth));
        if has > depth {
            self.fail(Invariant::Capacity, format!("device {device} of depth {depth} has {has} requests"));
        }
    }

    pub(super) fn collect(&mut self, device: u32, now: Nanos) -> Option<Reply> {
        let state = &mut self.devices[device as usize];
        if state.plan.kind == Kind::Worker {
            let [ticket, len, took, ..] = state.replies.pop()?;
            return Some(Reply { ticket: Ticket::from_word(ticket), outcome: Ok(len as u32), took, part: took });
        }
        let (handed, _) = *state.queue.front().filter(|(_, due)| *due <= now && state.stalled_until <= now)?;
        state.queue.pop_front();
        Some(self.reply(device, &handed, 0))
    }

    fn reply(&mut self, device: u32, handed: &Handed, took: Nanos) -> Reply {
        let mixed_up = self.mutation == Some(Mutation::MixUpResults);
        let state = &mut self.devices[device as usize];
        let Request { link, tag, size, .. } = handed.request;
        let right = result(link, tag, size);
        let previous = std::mem::replace(&mut state.last, right);
        let len = if mixed_up && previous != 0 { previous } else { right };
        let took = if took > 0 { took } else { state.plan.time(size) };
        Reply { ticket: handed.ticket, outcome: Ok(len), took, part: took }
    }

    pub(super) fn step_device(&mut self, clock: &mut Clock, index: u32) {
        let now = clock.now();
        let actor = Actor::Device(index);
        let device = &mut self.devices[index as usize];
        if now < device.stalled_until {
            if device.stalled_until < Nanos::MAX {
                let rest = device.stalled_until - now;
                self.go_on_after(clock, actor, rest);
            }
            return;
        }
        match device.pc {
            Pc::Take | Pc::Work(..) if device.killed => self.end_device(clock, index),
            Pc::Take => self.take(clock, index),
            Pc::Work(handed, since) => {
                let reply = self.reply(index, &handed, now - since);
                self.devices[index as usize].pc = Pc::Write(handed, reply);
                let delay = 100 + clock.random().below(2_000);
                self.go_on_after(clock, actor, delay);
            }
            Pc::Write(handed, reply) => {
                self.write(index, &handed, &reply);
                self.go_on(clock, actor);
            }
            Pc::Announce(urgent) => {
                let ring = device.moderator.completed(now, 1, urgent);
                device.pc = Pc::Take;
                self.announce_reply(clock, index, ring);
                self.go_on(clock, actor);
            }
            Pc::Wait => self.wait_device(clock, index),
        }
    }

    fn take(&mut self, clock: &mut Clock, index: u32) {
        let now = clock.now();
        let device = &mut self.devices[index as usize];
        let Some(words) = device.handed.pop() else { return self.idle_device(clock, index) };
        device.waits.waiter.end(now);
        let handed = Handed::from_words(words);
        device.pc = Pc::Work(handed, now);
        let time = device.time(now, handed.request.size);
        self.say(|| format!("device {index} begins tag {} of link {}", handed.request.tag, handed.request.link));
        self.go_on_after(clock, Actor::Device(index), time);
    }

    fn write(&mut self, index: u32, handed: &Handed, reply: &Reply) {
        let device = &mut self.devices[index as usize];
        let len = reply.outcome.unwrap_or(0).into();
        device.replies.push(&[reply.ticket.to_word(), len, reply.took, 0, 0, 0, 0]);
        device.pc = Pc::Announce(handed.request.urgent);
        self.say(|| format!("device {index} answers tag {} of link {}", handed.request.tag, handed.request.link));
    }

    fn announce_reply(&mut self, clock: &mut Clock, index: u32, ring: WakeDecision) {
        let device = &mut self.devices[index as usize];
        device.ring_at = None;
        device.replies.unrung = false;
        match ring {
            WakeDecision::Now => {
                device.moderator.rung();
                if device.replies.must_wake() {
                    self.wake(clock, Actor::Service);
                }
            }
            WakeDecision::At(at) => device.ring_at = Some(at),
            WakeDecision::Nothing => {}
        }
    }

    fn idle_device(&mut self, clock: &mut Clock, index: u32) {
        let now = clock.now();
        let device = &mut self.devices[index as usize];
        let waiter = &mut device.waits.waiter;
        if waiter.policy() != device.hops.to_device {
            waiter.set_policy(device.hops.to_device);
        }
        device.moderator.set_policy(device.hops.from_device);
        let ring = device.moderator.due(now);
        self.announce_reply(clock, index, ring);
        self.devices[index as usize].pc = Pc::Wait;
        self.wait_device(clock, index);
    }

    fn wait_device(&mut self, clock: &mut Clock, index: u32) {
        let (now, actor) = (clock.now(), Actor::Device(index));
        let blind = self.mutation == Some(Mutation::ArmAfterLook);
        let device = &mut self.devices[index as usize];
        let found = (device.handed.ready() && !blind) || device.killed;
        match device.waits.next(now, found) {
            Wait::Spin => {
                device.pc = Pc::Take;
                let owned = device.plan.owned;
                return self.spin(clock, actor, owned);
            }
            Wait::Sleep { until, .. } => {
                let until = until.into_iter().chain(device.ring_at).min();
                return self.doze(clock, actor, until);
            }
            Wait::Arm => device.handed.arm(),
            Wait::Disarm => {
                device.handed.disarm();
                device.pc = Pc::Take;
            }
            Wait::Look => device.pc = Pc::Take,
        }
        self.go_on(clock, actor);
    }

    /// The worker's thread ends. One that was at work when it was taken away answers all the same, as hardware would.
    fn end_device(&mut self, clock: &mut Clock, index: u32) {
        let device = &mut self.devices[index as usize];
        device.health = Health::Dead;
        if let Pc::Work(handed, _) = device.pc {
            let reply = self.reply(index, &handed, 1);
            self.answer_later(clock, index, reply);
        }
        self.devices[index as usize].pc = Pc::Take;
        self.end(clock, Actor::Device(index));
    }

    fn answer_later(&mut self, clock: &mut Clock, index: u32, reply: Reply) {
        self.devices[index as usize].late = Some(reply);
        let delay = clock.random().below(20_000);
        clock.after(delay, SimEvent::Late(index));
    }

    pub(super) fn answer_late(&mut self, clock: &mut Clock, index: u32) {
        let Some(reply) = self.devices[index as usize].late.take() else { return };
        if self.devices[index as usize].service != self.service.thread.incarnation {
            return;
        }
        self.say(|| format!("device {index} answers late, with ticket {:?}", reply.ticket));
        self.tell(clock, Command::Late(index, reply));
    }

    pub(super) fn crash(&mut self, clock: &mut Clock, index: u32) {
        let device = &mut self.devices[index as usize];
        device.health = match device.pc {
            Pc::Write(_, reply) => Health::DeadWriting(reply.ticket),
            _ => Health::Dead,
        };
        // What it announced late it does not announce any more; the service looks after its devices.
        (device.killed, device.ring_at) = (true, None);
        device.queue.clear();
        device.pc = Pc::Take;
        self.end(clock, Actor::Device(index));
    }

    /// The service takes it away: from now on it writes to no lane.
    pub(super) fn revoke(&mut self, clock: &mut Clock, index: u32) -> Health {
        let device = &mut self.devices[index as usize];
        device.killed = true;
        if let Pc::Write(handed, reply) = device.pc {
            // Past the gate: it finishes that copy first.
            self.write(index, &handed, &reply);
        }
        let device = &mut self.devices[index as usize];
        if let Some((handed, _)) = device.queue.pop_front() {
            device.queue.clear();
            let reply = self.reply(index, &handed, 0);
            self.answer_later(clock, index, reply);
        }
        let device = &mut self.devices[index as usize];
        if device.stalled_until == Nanos::MAX
            && let Pc::Work(..) = device.pc
        {
            self.end_device(clock, index);
        } else {
            self.wake(clock, Actor::Device(index));
        }
        match self.devices[index as usize].health {
            Health::Alive | Health::Dead => Health::Dead,
            writing @ Health::DeadWriting(_) => writing,
        }
    }
}
