//! Clients: submit, ring, look, wait as their policy says, and find out that the service died.

use super::hop::{Hop, Thread};
use super::mutation::Mutation;
use super::scenario::{Hostile, LanePlan, Load, SESSIONS, class_of};
use super::service::Command;
use super::world::{Actor, Clock, SimEvent, World};
use super::{Invariant, result};
use sidecore_core::policy::notify::{Notify, Wait, WaitLoop, Waiter};
use sidecore_core::session::{Op, Refusal};
use sidecore_core::time::Nanos;
use sidecore_core::wire::{self, Completion, Extent, NoCompletion, Status, Submission};

/// Bytes of each lane's arena.
pub(super) const ARENA: u32 = 1 << 16;
/// Larger requests are refused, bytes.
pub(super) const MAX_REQUEST: u64 = 32 << 10;
/// Cost of a sleep and a wake-up, ns.
pub(super) const PARK_COST: Nanos = 4_000;

/// A request as its client knows it. Its tag is its place in the list.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    /// Times that it was answered, or reported as lost.
    pub(super) answers: u32,
    /// The right answer: refused with this reason, or done with this result.
    expected: Result<u32, Refusal>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pc {
    Act,
    Ring,
    Poll,
    Wait,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Done,
    Died,
    /// The service ended it: the client broke the protocol.
    Fault,
    ServiceGone,
}

#[derive(Debug)]
pub(super) struct Link {
    pub(super) tenant: u32,
    pub(super) lane: u32,
    pub(super) plan: LanePlan,
    pub(super) submission: Hop,
    pub(super) completion: Hop,
    pub(super) thread: Thread,
    pub(super) advice: Notify,
    pub(super) requests: Vec<Request>,
    pub(super) in_flight: u32,
    pub(super) service: u32,
    pub(super) ended: Option<End>,
    pub(super) hostile: Option<Hostile>,
    /// It reads no completions until then.
    pub(super) deaf: Option<Nanos>,
    pub(super) left: u32,
    next_at: Nanos,
    waits: WaitLoop,
    pc: Pc,
    gone: bool,
    pub(super) accepted: bool,
}

impl Link {
    /// It ended, or it will never read its completions.
    pub(super) fn is_settled(&self) -> bool {
        let deaf = self.deaf == Some(Nanos::MAX) && self.completion.waiting() == u64::from(self.in_flight);
        self.ended.is_some() || (deaf && (self.left == 0 || self.in_flight >= self.most()))
    }

    pub(super) fn rest(&mut self, until: Nanos) {
        self.next_at = self.next_at.max(until);
    }

    fn most(&self) -> u32 {
        match self.plan.load {
            Load::Closed(depth) => depth.min(self.plan.slots),
            Load::Open(_) => self.plan.slots,
        }
    }

    fn may_submit(&self, now: Nanos) -> bool {
        self.deadline().is_some_and(|at| at <= now)
    }

    fn deadline(&self) -> Option<Nanos> {
        (self.left > 0 && self.in_flight < self.most()).then_some(self.next_at)
    }
}

impl World<'_> {
    pub(super) fn connect(&mut self, clock: &mut Clock, tenant: u32, lane: u32, left: u32) {
        let client = &self.plan.clients[tenant as usize];
        let plan = client.lanes[lane as usize];
        let owned = client.owned || self.mutation == Some(Mutation::SpinUnowned);
        let advice = self.service.hops.client;
        let link = self.links.len() as u32;
        self.links.push(Link {
            tenant,
            lane,
            plan,
            submission: Hop::new(plan.slots),
            completion: Hop::new(plan.slots),
            thread: Thread::default(),
            advice,
            requests: Vec::new(),
            in_flight: 0,
            service: self.service.thread.incarnation,
            ended: None,
            hostile: None,
            deaf: None,
            left,
            next_at: 0,
            waits: WaitLoop::new(Waiter::new(advice, PARK_COST, owned)),
            pc: Pc::Act,
            gone: false,
            accepted: false,
        });
        self.say(|| format!("client {tenant} connects as link {link} for {left} requests"));
        self.tell(clock, Command::AddLane(link));
        self.go_on(clock, Actor::Client(link));
    }

    pub(super) fn step_client(&mut self, clock: &mut Clock, index: u32) {
        let link = &mut self.links[index as usize];
        if link.hostile.is_some() {
            return self.attack(clock, index);
        }
        match link.pc {
            Pc::Act => self.act(clock, index),
            Pc::Ring => {
                link.pc = Pc::Act;
                if link.submission.must_wake() {
                    self.ring_service(clock, index);
                }
                self.go_on(clock, Actor::Client(index));
            }
            Pc::Poll => self.poll(clock, index),
            Pc::Wait => self.wait(clock, index),
        }
    }

    fn ring_service(&mut self, clock: &mut Clock, index: u32) {
        if self.mutated(clock, Mutation::DropClientRing, 4) {
            return self.say(|| format!("link {index} must ring the service and does not"));
        }
        self.say(|| format!("link {index} rings the service"));
        self.ring(clock, index);
    }

    fn act(&mut self, clock: &mut Clock, index: u32) {
        let now = clock.now();
        let link = &mut self.links[index as usize];
        if link.deaf.is_some_and(|until| until <= now) {
            link.deaf = None;
        }
        if link.may_submit(now) && !link.gone {
            return self.submit(clock, index);
        }
        if link.submission.unrung {
            link.pc = Pc::Ring;
            return self.go_on(clock, Actor::Client(index));
        }
        if let (Some(until), false) = (link.deaf, link.gone) {
            let until = link.deadline().map_or(until, |at| until.min(at));
            return self.sleep(clock, Actor::Client(index), Some(until).filter(|until| *until < Nanos::MAX));
        }
        link.pc = Pc::Poll;
        self.poll(clock, index);
    }

    fn submit(&mut self, clock: &mut Clock, index: u32) {
        let tag = self.links[index as usize].requests.len() as u32;
        let (extent, request, expected) = self.request(clock, index, tag);
        let link = &mut self.links[index as usize];
        link.requests.push(Request { answers: 0, expected });
        link.submission.submit(&wire::Request { inputs: &[extent], outputs: &[extent], ..request });
        link.in_flight += 1;
        link.left -= 1;
        self.requests += 1;
        if let Load::Open(gap) = link.plan.load {
            link.next_at = clock.now() + clock.random().exponential(gap as f64) as Nanos;
        }
        // It rings after one submission or after several.
        link.pc = if clock.random().below(2) == 0 { Pc::Ring } else { Pc::Act };
        self.say(|| format!("link {index} submits tag {tag}"));
        self.go_on(clock, Actor::Client(index));
    }

    fn request(
        &self,
        clock: &mut Clock,
        index: u32,
        tag: u32,
    ) -> (Extent, wire::Request<'static>, Result<u32, Refusal>) {
        let now = clock.now();
        let random = clock.random();
        let plain = self.plan.backlogged;
        let which = if plain { 0 } else { random.below(SESSIONS.len() as u64) as usize };
        let size = if plain { 1_024 } else { (16 << random.below(11)) as u32 };
        let (mut session, mut op, mut size) = (which as u32 + 1, SESSIONS[which].1, size);
        match random.below(64) {
            0 if !plain => session = 77,
            1 if !plain => op = Op::Derive,
            2 if !plain => size = MAX_REQUEST as u32 + 1,
            _ => {}
        }
        let expected = match class_of(session, op) {
            Err(refusal) => Err(refusal),
            Ok(_) if u64::from(size) > MAX_REQUEST => Err(Refusal::TooLarge),
            Ok(_) => Ok(result(index, tag, size)),
        };
        let extent = Extent::new(random.below(1_024) as u32, size);
        let urgent = random.below(8) == 0;
        let submitted = (random.below(4) == 0).then_some(now);
        let (inputs, outputs): (&[Extent], &[Extent]) = (&[], &[]);
        let request = wire::Request { tag, op, session, head_len: 0, inputs, outputs, urgent, submitted };
        (extent, request, expected)
    }

    fn poll(&mut self, clock: &mut Clock, index: u32) {
        let link = &mut self.links[index as usize];
        if link.deaf.is_some() && !link.gone {
            link.pc = Pc::Act;
            return self.act(clock, index);
        }
        if let Some(completion) = link.completion.pop_completion() {
            link.waits.waiter.end(clock.now());
            link.pc = Pc::Act;
            self.receive(clock, index, completion);
            return self.go_on(clock, Actor::Client(index));
        }
        if link.gone {
            return self.report_lost(clock, index);
        }
        if link.in_flight == 0 && link.left == 0 {
            return self.hang_up_client(clock, index, End::Done);
        }
        if link.in_flight == 0 || link.may_submit(clock.now()) {
            link.waits.waiter.end(clock.now());
            link.pc = Pc::Act;
            let until = Some(link.next_at);
            return self.sleep(clock, Actor::Client(index), until);
        }
        link.pc = if link.submission.unrung { Pc::Ring } else { Pc::Wait };
        self.go_on(clock, Actor::Client(index));
    }

    fn receive(&mut self, clock: &mut Clock, index: u32, completion: Result<Completion, NoCompletion>) {
        let now = clock.now();
        let Ok(Completion { tag, status, stamps }) = completion else {
            return self.fail(Invariant::Answer, format!("link {index} got words that are no completion"));
        };
        clock.note(u64::from(tag) ^ u64::from(index) << 48);
        let link = &mut self.links[index as usize];
        let Some(request) = link.requests.get_mut(tag as usize) else {
            return self.fail(Invariant::Once, format!("link {index} got tag {tag}, which it never submitted"));
        };
        request.answers += 1;
        link.in_flight = link.in_flight.saturating_sub(1);
        let Request { answers, expected } = *request;
        self.say(|| format!("link {index} receives tag {tag}: {status:?}"));
        if answers > 1 {
            self.fail(Invariant::Once, format!("tag {tag} of link {index} was answered {answers} times"));
        }
        if stamps.is_some_and(|s| !(s.submitted <= s.handed && s.handed <= s.taken && s.taken <= now)) {
            self.fail(Invariant::Answer, format!("stage times of tag {tag} of link {index}: {stamps:?}"));
        }
        let right = match (status, expected) {
            (Status::Done { len }, Ok(result)) => len == result,
            (Status::Refused(Refusal::NoDevice) | Status::DeviceFailed { .. }, Ok(_)) => true,
            (Status::Refused(refusal), Err(reason)) => refusal == reason,
            _ => false,
        };
        if !right {
            let what = format!("tag {tag} of link {index} was answered {status:?} where {expected:?} is right");
            self.fail(Invariant::Answer, what);
        }
    }

    fn wait(&mut self, clock: &mut Clock, index: u32) {
        let now = clock.now();
        let link = &mut self.links[index as usize];
        let waiter = &mut link.waits.waiter;
        if link.advice != waiter.policy() {
            waiter.set_policy(link.advice);
        }
        let found = link.completion.ready() && self.mutation != Some(Mutation::ArmAfterLook);
        match link.waits.next(now, found) {
            Wait::Spin => {
                link.pc = if link.may_submit(now) { Pc::Act } else { Pc::Poll };
                let owned = self.plan.clients[link.tenant as usize].owned;
                return self.spin(clock, Actor::Client(index), owned);
            }
            // The socket is readable: nobody sleeps on it.
            Wait::Sleep { .. } if link.gone => {}
            Wait::Sleep { until, .. } => {
                let until = until.into_iter().chain(link.deadline()).min();
                return self.doze(clock, Actor::Client(index), until);
            }
            Wait::Arm => link.completion.arm(),
            Wait::Disarm => {
                link.completion.disarm();
                link.pc = Pc::Poll;
            }
            Wait::Look => link.pc = Pc::Poll,
        }
        self.go_on(clock, Actor::Client(index));
    }

    pub(super) fn hang_up(&mut self, clock: &mut Clock, index: u32) {
        let link = &mut self.links[index as usize];
        if link.ended.is_some() {
            return;
        }
        link.gone = true;
        self.say(|| format!("link {index} learns that the service died"));
        self.wake(clock, Actor::Client(index));
    }

    fn report_lost(&mut self, clock: &mut Clock, index: u32) {
        let link = &mut self.links[index as usize];
        for request in link.requests.iter_mut().filter(|request| request.answers == 0) {
            request.answers = u32::from(self.mutation != Some(Mutation::ForgetLost));
            link.in_flight = link.in_flight.saturating_sub(1);
        }
        self.say(|| format!("link {index} reports what was lost"));
        self.end_link(clock, index, End::ServiceGone);
        self.come_back(clock, index);
    }

    fn come_back(&mut self, clock: &mut Clock, index: u32) {
        let Link { tenant, lane, left, .. } = self.links[index as usize];
        if left > 0 && self.service.thread.ended {
            self.reconnecting.push((tenant, lane, left));
        } else if left > 0 {
            self.connect(clock, tenant, lane, left);
        }
    }

    pub(super) fn hang_up_client(&mut self, clock: &mut Clock, index: u32, end: End) {
        self.end_link(clock, index, end);
        let delay = clock.random().below(5_000);
        clock.after(delay, SimEvent::Closed(index));
    }

    /// Ends the connection. A living client has one answer for each of its requests.
    pub(super) fn end_link(&mut self, clock: &mut Clock, index: u32, end: End) {
        self.end(clock, Actor::Client(index));
        let link = &mut self.links[index as usize];
        link.ended = Some(end);
        let told = matches!(end, End::Done | End::ServiceGone) && link.hostile.is_none();
        if let Some(tag) = link.requests.iter().position(|request| told && request.answers != 1) {
            let answers = link.requests[tag].answers;
            self.fail(Invariant::Once, format!("tag {tag} of link {index} was answered {answers} times at its end"));
        }
    }

    pub(super) fn kill_client(&mut self, clock: &mut Clock, index: u32, returns: bool) {
        self.say(|| format!("the client of link {index} dies"));
        self.hang_up_client(clock, index, End::Died);
        if returns {
            self.come_back(clock, index);
        }
    }

    fn attack(&mut self, clock: &mut Clock, index: u32) {
        let link = &mut self.links[index as usize];
        let Some(how) = link.hostile else { return };
        let random = clock.random();
        let mut words =
            *Submission::new(9, Op::Noop, 1, &[Extent::new(0, 64)], &[]).unwrap_or(Submission::EMPTY).words();
        match how {
            Hostile::UnknownOp => words[0] |= 0xff << 32,
            Hostile::ReservedBits => words[0] |= (4 + random.below(252) / 4 * 4) << 40,
            Hostile::TooManyExtents => words[0] |= 0x33 << 48,
            Hostile::OutsideArena => words[2] = random.bits() | u64::from(ARENA) << 32,
            Hostile::HeadTooLong => words[1] |= 65 << 32,
            Hostile::Flood => words = std::array::from_fn(|_| random.bits()),
            Hostile::Scribble => {
                use sidecore_core::sync::Ordering;
                for _ in 0..40 {
                    let at = random.below(link.submission.slots.len() as u64) as usize;
                    let word = &link.submission.slots[at].0[random.below(8) as usize];
                    word.store(random.below(1 << 20), Ordering::Relaxed);
                }
                link.submission.bell().0.store(random.bits(), Ordering::Relaxed);
                link.completion.bell().0.store(random.bits(), Ordering::Relaxed);
            }
        }
        let pushes = if how == Hostile::Flood { link.plan.slots + 1 } else { 1 };
        for _ in 0..pushes {
            link.submission.push(&words);
        }
        let must_wake = link.submission.must_wake();
        self.say(|| format!("link {index} breaks the protocol: {how:?}"));
        if must_wake {
            self.ring(clock, index);
        }
        self.end(clock, Actor::Client(index));
        let delay = clock.random().below(60_000);
        clock.after(delay, SimEvent::Closed(index));
    }
}
