//! A node's side of the protocol with its dispatcher, without NATS and a clock.
//!
//! It follows the dispatcher that it hears. If that one does not know it, or another one takes over, it joins under a
//! new incarnation and forgets its events: other nodes have them by then. Answers under an old incarnation are never
//! sent.

#[cfg(test)]
mod tests;

use super::Settings;
use super::task::{Outcome, Task};
use crate::wire::{self, Answer, Answers, Beat, DispatcherMessage, Join, Lead, NodeMessage, Octets};
use async_nats::Subject;
use bytes::Bytes;
use sidecore_assign::Payload;
use sidecore_core::time::Nanos;
use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// Silence after which any other dispatcher may be followed, ns.
const DISPATCHER_TIMEOUT: Nanos = 100_000_000;
const AGAIN: Nanos = 100_000_000;
/// Time until the next request to join after the dispatcher had no room, ns.
const LATER: Nanos = 1_000_000_000;
/// Further events whose start is reported with that of one: a message for each takes longer than a short event.
const AHEAD: usize = 31;
/// Most events that wait here, and their octets. A dispatcher that sends more breaks the protocol.
const MAX_EVENTS: usize = 65_536;
const MAX_BYTES: usize = 1 << 30;

#[derive(Debug, PartialEq)]
pub(super) enum Act {
    Listen(String),
    Say(Bytes),
    /// What was said must be on its way before anything else happens: it may end this process.
    Flush,
    Tell(String),
}

#[derive(Debug)]
pub(super) struct Begun {
    incarnation: u64,
    ticket: u64,
    arrived: Nanos,
    /// The dispatcher is to know before it begins, and does not know yet.
    reports_start: bool,
    pub(super) task: Task,
}

struct Ready {
    ticket: u64,
    arrived: Nanos,
    work: Nanos,
    outcome: Outcome,
}

pub(super) struct Link {
    settings: Settings,
    up: Subject,
    /// Most octets of a message.
    most: usize,
    random: RandomState,
    follows: Option<(u64, Nanos)>,
    incarnation: u64,
    welcome: bool,
    asks: Nanos,
    leaving: bool,
    received: u64,
    answered: u64,
    running: u32,
    queue: VecDeque<Begun>,
    queued: usize,
    ready: Vec<Ready>,
    /// What the dispatcher has to know before the work on it begins.
    started: Vec<u64>,
    acts: VecDeque<Act>,
}

impl Link {
    pub(super) fn new(settings: Settings, most: usize) -> Self {
        Self {
            up: format!("farm.{}.up", settings.farm).into(),
            settings,
            most,
            random: RandomState::new(),
            follows: None,
            incarnation: 0,
            welcome: false,
            asks: 0,
            leaving: false,
            received: 0,
            answered: 0,
            running: 0,
            queue: VecDeque::new(),
            queued: 0,
            ready: Vec::new(),
            started: Vec::new(),
            acts: VecDeque::new(),
        }
    }

    pub(super) fn up(&self) -> &Subject {
        &self.up
    }

    pub(super) fn farm(&self) -> &str {
        &self.settings.farm
    }

    /// Most octets of a result that an answer can have.
    pub(super) fn most_of_result(&self) -> usize {
        self.most.saturating_sub(2 * wire::HEAD)
    }

    /// A change means that the work on all events must end.
    pub(super) fn incarnation(&self) -> u64 {
        self.incarnation
    }

    pub(super) fn leaves(&self) -> bool {
        self.leaving
    }

    pub(super) fn is_idle(&self) -> bool {
        self.queue.is_empty() && self.running == 0 && self.ready.is_empty()
    }

    pub(super) fn lead(&mut self, now: Nanos, message: &[u8]) {
        let Some(Lead { dispatcher }) = Lead::decode(message) else { return };
        match &mut self.follows {
            Some((follows, heard)) if *follows == dispatcher => *heard = now,
            Some((follows, heard)) if *follows > dispatcher && now.saturating_sub(*heard) < DISPATCHER_TIMEOUT => {}
            _ => {
                self.follows = Some((dispatcher, now));
                self.join_anew(now);
            }
        }
    }

    pub(super) fn hear(&mut self, now: Nanos, message: &Bytes) {
        match DispatcherMessage::decode(message) {
            Some(DispatcherMessage::Welcome { dispatcher, incarnation }) => {
                self.welcome |=
                    self.follows.is_some_and(|(follows, _)| follows == dispatcher) && incarnation == self.incarnation;
            }
            Some(DispatcherMessage::Events(list)) => self.take(now, &list, message, false, false),
            Some(DispatcherMessage::ReportStart(list)) => self.take(now, &list, message, true, false),
            Some(DispatcherMessage::LargeEvents { report_start, list }) => {
                self.take(now, &list, message, report_start, true);
            }
            Some(DispatcherMessage::JoinAgain) => self.join_anew(now),
            Some(DispatcherMessage::Full { most }) => {
                let text = format!("the dispatcher has {most} nodes, and takes no more; trying again");
                self.acts.push_back(Act::Tell(text));
                self.asks = now.saturating_add(LATER);
            }
            // Any other dispatcher may be followed immediately.
            Some(DispatcherMessage::Gone) => self.follows = None,
            None => {}
        }
    }

    pub(super) fn tick(&mut self, now: Nanos) {
        if self.welcome {
            self.beat();
        } else if self.asks <= now {
            self.ask(now);
        }
    }

    pub(super) fn leave(&mut self) {
        self.leaving = true;
        if self.welcome {
            let leave = NodeMessage::Leave { node: &self.settings.name, incarnation: self.incarnation };
            self.acts.push_back(Act::Say(wire::encode(&leave, self.settings.name.len())));
        }
    }

    /// The next event to do. `None`: all slots are busy, or none waits.
    pub(super) fn begin(&mut self) -> Option<Begun> {
        if self.running >= u32::from(self.settings.slots) {
            return None;
        }
        let begun = self.queue.pop_front()?;
        self.queued -= begun.task.body.len();
        self.running += 1;
        if begun.reports_start {
            self.started.push(begun.ticket);
            for next in self.queue.iter_mut().filter(|next| next.reports_start).take(AHEAD) {
                next.reports_start = false;
                self.started.push(next.ticket);
            }
        }
        Some(begun)
    }

    pub(super) fn finish(&mut self, begun: &Begun, work: Nanos, outcome: Outcome) {
        let Begun { incarnation, ticket, arrived, .. } = *begun;
        if incarnation == self.incarnation {
            self.running -= 1;
            self.ready.push(Ready { ticket, arrived, work, outcome: self.sendable(outcome) });
        }
    }

    pub(super) fn answer(&mut self, now: Nanos) {
        for tickets in self.started.chunks(wire::MAX_LIST) {
            let started = NodeMessage::Started { incarnation: self.incarnation, tickets: tickets.to_vec() };
            self.acts.extend([Act::Say(wire::encode(&started, 10 * tickets.len())), Act::Flush]);
        }
        self.started.clear();
        let ready = std::mem::take(&mut self.ready);
        let mut rest = ready.as_slice();
        while !rest.is_empty() {
            let (list, size) = fill(now, rest, self.most);
            rest = &rest[list.len()..];
            self.answered += list.len() as u64;
            let answers = NodeMessage::Answers(Answers { incarnation: self.incarnation, list });
            self.acts.push_back(Act::Say(wire::encode(&answers, size)));
        }
        self.ready = ready;
        self.ready.clear();
    }

    pub(super) fn next_act(&mut self) -> Option<Act> {
        self.acts.pop_front()
    }

    fn take(&mut self, now: Nanos, list: &[wire::Event], message: &Bytes, reports_start: bool, is_reference: bool) {
        for event in list {
            let task = Task {
                id: event.id.to_owned(),
                kind: event.kind.to_owned(),
                body: Payload { carried: message.slice_ref(event.body.0), is_reference },
                limit: Duration::from_nanos(event.limit_ns),
            };
            self.received += 1;
            self.queued += task.body.len();
            let Self { incarnation, .. } = *self;
            self.queue.push_back(Begun { incarnation, ticket: event.ticket, arrived: now, reports_start, task });
        }
        if self.queue.len() > MAX_EVENTS || self.queued > MAX_BYTES {
            self.join_anew(now);
        }
    }

    fn join_anew(&mut self, now: Nanos) {
        self.incarnation = self.random.hash_one((now, self.incarnation));
        (self.received, self.answered, self.running, self.queued) = (0, 0, 0, 0);
        self.queue.clear();
        self.ready.clear();
        self.started.clear();
        self.welcome = false;
        let Settings { farm, name, .. } = &self.settings;
        self.acts.push_back(Act::Listen(format!("farm.{farm}.down.{name}.{}", self.incarnation)));
        self.ask(now);
    }

    fn ask(&mut self, now: Nanos) {
        self.asks = now.saturating_add(AGAIN);
        let (Some((dispatcher, _)), false) = (self.follows, self.leaving) else { return };
        let Settings { name, slots, offers, beat, .. } = &self.settings;
        let join = Join {
            node: name,
            incarnation: self.incarnation,
            dispatcher,
            slots: *slots,
            offers: offers.iter().map(String::as_str).collect(),
            beat_ns: beat.as_nanos() as Nanos,
        };
        self.acts.push_back(Act::Say(wire::encode(&NodeMessage::Join(join), 256)));
    }

    fn beat(&mut self) {
        let Self { incarnation, received, answered, running, .. } = *self;
        let beat = NodeMessage::Beat(Beat { node: &self.settings.name, incarnation, received, answered, running });
        self.acts.push_back(Act::Say(wire::encode(&beat, self.settings.name.len())));
    }

    fn sendable(&self, outcome: Outcome) -> Outcome {
        match outcome {
            Outcome::Done(result) if result.len() > self.most_of_result() => {
                let (size, most) = (result.len(), self.most_of_result());
                Outcome::Failed(format!(
                    "the result has {size} octets, and a message {most}: raise the servers' max_payload"
                ))
            }
            Outcome::Failed(reason) => Outcome::Failed(cut(reason)),
            Outcome::Refused(reason) => Outcome::Refused(cut(reason)),
            done @ Outcome::Done(_) => done,
        }
    }
}

/// The longest list of answers that fits into a message, at least one, and its size.
fn fill(now: Nanos, ready: &[Ready], most: usize) -> (Vec<Answer<'_>>, usize) {
    let mut size = wire::HEAD;
    let mut list = Vec::with_capacity(ready.len().min(wire::MAX_LIST));
    for one in ready.iter().take(wire::MAX_LIST) {
        let (outcome, octets) = match &one.outcome {
            Outcome::Done(result) if result.is_reference => (wire::Outcome::DoneLarge(Octets(result)), result.len()),
            Outcome::Done(result) => (wire::Outcome::Done(Octets(result)), result.len()),
            Outcome::Failed(reason) => (wire::Outcome::Failed { reason }, reason.len()),
            Outcome::Refused(reason) => (wire::Outcome::Refused { reason }, reason.len()),
        };
        if !list.is_empty() && size + octets + wire::HEAD > most {
            break;
        }
        size += octets + wire::HEAD;
        let held_ns = now.saturating_sub(one.arrived).max(one.work);
        list.push(Answer { ticket: one.ticket, held_ns, work_ns: one.work, outcome });
    }
    (list, size)
}

fn cut(mut reason: String) -> String {
    let mut end = wire::MAX_REASON_BYTES.min(reason.len());
    while !reason.is_char_boundary(end) {
        end -= 1;
    }
    reason.truncate(end);
    reason
}
