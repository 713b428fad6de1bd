//! Assigns events to nodes and takes their answers: core's decisions, with the bytes that belong to them.
//!
//! It uses no NATS and no clock: messages are bytes with a subject, and the caller passes the time. The owner provides
//! events and consumes results. `T` is the owner's data for one event.
//!
//! | Step | Meaning |
//! |---|---|
//! | [`Assigner::offer`], [`Assigner::hear`], [`Assigner::tick`] | an event, a message of a node, the time |
//! | [`Assigner::pump`] | assigns waiting events |
//! | [`Assigner::next_ended`], [`Assigner::next_message`] | results and messages, until there are none |
//!
//! Limits: events and octets held (the owner stays within [`Assigner::room`]), nodes (core's), one message.

mod answers;
mod kinds;
mod node;
mod show;
mod stages;
#[cfg(test)]
mod tests;

use crate::payload::Payload;
use crate::status::Totals;
use crate::wire::{self, DispatcherMessage, Octets};
use bytes::Bytes;
use kinds::Kinds;
use node::Nodes;
use sidecore_core::inflight::Ticket;
use sidecore_core::policy::balance::Balance;
use sidecore_core::time::Nanos;
use sidecore_nodes::pending::{Pending, Placed, Priority};
use sidecore_nodes::{self as nodes, NodeId, Reassignment};
use stages::Stage;
use std::collections::VecDeque;
use std::rc::Rc;

/// Most bytes that a message adds to an event's texts and octets.
const BESIDE: usize = wire::HEAD;
const OVER: &str = "its deadline was over before it was done";
const CANCELLED: &str = "cancelled";
/// A node is lost if it answers nothing for the time limit of an event and this time, ns.
const STALL: Nanos = 5_000_000_000;

/// Urgent events have this part of the room of others, beside it.
const URGENT_PART: u32 = 4;

/// Parameters of a dispatcher.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The farm's name.
    pub farm: String,
    /// This dispatcher's number.
    pub dispatcher: u64,
    /// Which node gets the next event.
    pub balance: Balance,
    /// How often an event may fail.
    pub tries: u8,
    /// Nodes that may die under an event.
    pub deaths: u8,
    /// How long an event waits after its first failure, ns; twice as long after each further one.
    pub backoff: Nanos,
    /// Most events of the usual priority.
    pub hold: u32,
    /// Most octets of these.
    pub hold_bytes: usize,
    /// Silence after which a node is lost.
    pub silence: Nanos,
    /// Longest time of an event at a node, ns.
    pub limit: Nanos,
    /// Most octets of one message.
    pub message: usize,
}

impl Settings {
    fn most_events(&self, priority: Priority) -> u32 {
        match priority {
            Priority::Normal => self.hold,
            Priority::Urgent => (self.hold / URGENT_PART).max(1),
        }
    }

    fn most_bytes(&self, priority: Priority) -> usize {
        match priority {
            Priority::Normal => self.hold_bytes,
            // Room for the largest event.
            Priority::Urgent => (self.hold_bytes / URGENT_PART as usize).max(2 * self.message),
        }
    }
}

/// An event that is held.
#[derive(Clone, Debug)]
pub struct Event<T> {
    /// A token in the sense of [`wire::is_token`].
    pub id: Box<str>,
    /// What it is.
    pub kind: Rc<str>,
    /// Its octets.
    pub body: Payload,
    /// No result is wanted from this time on.
    pub until: Option<Nanos>,
    /// Whether it goes before others.
    pub priority: Priority,
    /// The owner's data.
    pub origin: T,
}

/// An event from the queue.
#[derive(Debug)]
pub struct NewEvent<'a, T> {
    /// A token in the sense of [`wire::is_token`].
    pub id: Box<str>,
    /// What it is.
    pub kind: &'a str,
    /// Its octets.
    pub body: Payload,
    /// No result is wanted from this time on.
    pub until: Option<Nanos>,
    /// Whether it goes before others.
    pub priority: Priority,
    /// The owner's data.
    pub origin: T,
}

impl<T> Event<T> {
    fn is_over(&self, now: Nanos) -> bool {
        self.until.is_some_and(|until| until <= now)
    }
}

/// How an event ended.
#[derive(Clone, Debug, PartialEq)]
pub enum End {
    /// With this result.
    Done(Payload),
    /// The event is abandoned.
    Dead {
        /// Why.
        reason: String,
        /// How often it failed; 0 if that is not the reason.
        tries: u8,
    },
}

impl End {
    fn over() -> Self {
        Self::Dead { reason: OVER.to_owned(), tries: 0 }
    }

    fn cancelled() -> Self {
        Self::Dead { reason: CANCELLED.to_owned(), tries: 0 }
    }
}

/// An event that ended.
#[derive(Clone, Debug)]
pub struct Ended<T> {
    /// The event.
    pub event: Event<T>,
    /// How.
    pub end: End,
    /// The node that did it.
    pub by: Option<NodeId>,
    /// When, ns.
    pub at: Nanos,
}

/// What became of an event that was offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Offered<T> {
    /// It is held under this tag.
    Held(u32),
    /// It is larger than a message to a node, and has ended.
    Ended,
    /// There is no room for it now: its origin.
    NoRoom(T),
}

/// Room for further events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// How many.
    pub events: usize,
    /// Octets of all of them.
    pub bytes: usize,
}

/// What is held of a priority.
#[derive(Clone, Copy, Debug, Default)]
struct Used {
    events: usize,
    bytes: usize,
}

#[derive(Debug)]
struct PendingEvent<T> {
    event: Event<T>,
    arrived: Nanos,
    failures: u32,
    refusals: u32,
}

/// The events and nodes of a dispatcher. `T` is the owner's data for one event.
pub struct Assigner<T> {
    settings: Settings,
    held: Pending<PendingEvent<T>>,
    kinds: Kinds,
    nodes: Nodes,
    /// By priority.
    used: [Used; Priority::ALL.len()],
    /// Held events with a deadline.
    deadlines: usize,
    ended: VecDeque<Ended<T>>,
    messages: VecDeque<(Rc<str>, Bytes)>,
    totals: Totals,
}

impl<T> Assigner<T> {
    /// `totals`: counts so far, which go on.
    pub fn new(settings: Settings, totals: Totals) -> Self {
        let hold = Priority::ALL.map(|priority| settings.most_events(priority)).iter().sum();
        let core = nodes::Settings {
            balance: settings.balance,
            in_flight: hold,
            depth: hold,
            silence: settings.silence,
            // A sent message may be under way for longer than a node may be silent.
            grace: settings.silence.saturating_mul(4),
            tries: settings.tries.max(1),
            deaths: settings.deaths.max(4),
            stall: settings.limit.saturating_add(STALL),
        };
        Self {
            held: Pending::new(core),
            kinds: Kinds::default(),
            nodes: Nodes::new(&settings.farm),
            used: Default::default(),
            deadlines: 0,
            ended: VecDeque::new(),
            messages: VecDeque::new(),
            totals,
            settings,
        }
    }

    /// Each priority has room of its own: however many others are held, there is some for urgent events, and the other
    /// way round.
    pub fn room(&self, priority: Priority) -> Room {
        let Used { events, bytes } = self.used[priority as usize];
        Room {
            events: self.held.room().min(self.most_events(priority).saturating_sub(events)),
            bytes: self.settings.most_bytes(priority).saturating_sub(bytes),
        }
    }

    /// Most events of a priority that are held at a time.
    pub fn most_events(&self, priority: Priority) -> usize {
        self.settings.most_events(priority) as usize
    }

    /// Changes the limits of octets held and of one message. Events that are held already stay.
    pub fn resize(&mut self, hold_bytes: usize, message: usize) {
        (self.settings.hold_bytes, self.settings.message) = (hold_bytes, message);
    }

    /// Whether no event is held.
    pub fn is_empty(&self) -> bool {
        self.held.room() == self.held.capacity()
    }

    /// Takes an event from the queue.
    pub fn offer(&mut self, now: Nanos, offered: NewEvent<'_, T>) -> Offered<T> {
        let NewEvent { id, kind, body, until, priority, origin } = offered;
        let (kind, class) = self.kinds.number(kind);
        let event = Event { id, kind, body, until, priority, origin };
        if event.is_over(now) {
            self.totals.seen += 1;
            self.end(now, event, End::over(), None);
            return Offered::Ended;
        }
        let (size, most) = (size_of(&event), self.settings.message);
        if size + wire::HEAD > most {
            self.totals.seen += 1;
            let reason = format!("{size} octets do not fit into a message to a node, which has {most}");
            self.end(now, event, End::Dead { reason, tries: 0 }, None);
            return Offered::Ended;
        }
        let room = self.room(priority);
        if room.events == 0 || size > room.bytes {
            return Offered::NoRoom(event.origin);
        }
        let has_deadline = event.until.is_some();
        match self.held.add(class, priority, PendingEvent { event, arrived: now, failures: 0, refusals: 0 }) {
            Ok(tag) => {
                self.totals.seen += 1;
                let used = &mut self.used[priority as usize];
                *used = Used { events: used.events + 1, bytes: used.bytes + size };
                self.deadlines += usize::from(has_deadline);
                Offered::Held(tag)
            }
            Err(pending) => Offered::NoRoom(pending.event.origin),
        }
    }

    /// Ends an event that was cancelled before it came.
    pub fn cancel_at_once(&mut self, now: Nanos, cancelled: NewEvent<'_, T>) {
        let NewEvent { id, kind, body, until, priority, origin } = cancelled;
        let (kind, _) = self.kinds.number(kind);
        self.totals.seen += 1;
        self.end(now, Event { id, kind, body, until, priority, origin }, End::cancelled(), None);
    }

    /// Ends the events that wait and are meant. Returns how many these are, and how many are with nodes, which do them.
    pub fn cancel(&mut self, now: Nanos, is_meant: impl Fn(&str, &T) -> bool) -> (u64, u64) {
        let is_one = |held: &PendingEvent<T>| is_meant(&held.event.id, &held.event.origin);
        let waiting: Vec<u32> = self.held.waiting_tags(&is_one).collect();
        for tag in &waiting {
            self.end_tag(now, *tag, End::cancelled(), None);
        }
        let with_nodes = self.held.slots().flatten().filter(|held| is_one(held)).count();
        (waiting.len() as u64, with_nodes as u64)
    }

    /// The owner's data of each `parts`-th event that is held, from number `part` on.
    pub fn origins(&self, part: usize, parts: usize) -> impl Iterator<Item = &T> {
        self.held.slots().skip(part).step_by(parts).flatten().map(|held| &held.event.origin)
    }

    /// The owner's data of the event under that tag.
    pub fn origin_mut(&mut self, tag: u32) -> Option<&mut T> {
        Some(&mut self.held.get_mut(tag)?.event.origin)
    }

    /// Looks for silent nodes, and for events whose deadline is over.
    pub fn tick(&mut self, now: Nanos) {
        while let Some(member) = self.held.pool.silent(now) {
            self.lose(now, member, false);
        }
        self.held.pool.reprice(now);
        self.end_overdue(now);
    }

    /// Ends what waits beyond its deadline. What is with a node ends there.
    fn end_overdue(&mut self, now: Nanos) {
        if self.deadlines == 0 {
            return;
        }
        let overdue: Vec<u32> = self.held.waiting_tags(|held| held.event.is_over(now)).collect();
        for tag in overdue {
            self.end_tag(now, tag, End::over(), None);
        }
    }

    /// As [`NodePool::was_away`](nodes::NodePool::was_away).
    pub fn was_away(&mut self, now: Nanos, away: Nanos) {
        self.held.pool.was_away(now, away);
    }

    /// Assigns events that wait to nodes, as far as these have credit.
    pub fn pump(&mut self, now: Nanos) {
        self.take_moved(now);
        let Self { held, nodes, .. } = self;
        let size = |event: &PendingEvent<T>| event.event.body.len();
        held.place(now, None, size, |tag, _, _, placed| {
            if let Placed::Assigned(member, ticket) = placed {
                nodes.give(member, tag, ticket);
            }
            true
        });
        self.send_events(now);
    }

    /// The next event that ended.
    pub fn next_ended(&mut self) -> Option<Ended<T>> {
        self.ended.pop_front()
    }

    /// The next message to send, with its subject.
    pub fn next_message(&mut self) -> Option<(Rc<str>, Bytes)> {
        self.messages.pop_front()
    }

    /// Records the time after a node's answer, and the age of the event since it was fed, both ns.
    pub fn returned(&mut self, by: Option<NodeId>, took: Nanos, lag: Nanos) {
        if let Some(node) = by.and_then(|member| self.nodes.get_mut(member)) {
            node.stages.record(Stage::Return, took);
            node.lag = lag;
        }
    }

    /// Counts so far.
    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// The same, for what the owner counts.
    pub fn totals_mut(&mut self) -> &mut Totals {
        &mut self.totals
    }

    /// Tells all nodes that this dispatcher ends.
    pub fn goodbye(&mut self) {
        let gone = wire::encode(&DispatcherMessage::Gone, 0);
        self.messages.extend(self.nodes.iter().map(|node| (node.subject.clone(), gone.clone())));
    }

    /// `died`: it is another process now.
    fn lose(&mut self, now: Nanos, member: NodeId, died: bool) {
        let had = self.held.pool.view(member).map_or(0, |view| view.in_flight);
        let Some(node) = self.nodes.remove(member, had) else { return };
        self.held.pool.lose(now, member, died);
        self.messages.push_back((node.subject, wire::encode(&DispatcherMessage::JoinAgain, 0)));
        self.take_moved(now);
    }

    fn take_moved(&mut self, now: Nanos) {
        while let Some(moved) = self.held.pool.next_reassignment(now) {
            match moved {
                Reassignment::Assigned { tag, member, ticket } => {
                    self.totals.redone += 1;
                    self.nodes.give(member, tag, ticket);
                }
                Reassignment::Again { tag } => self.again(tag),
                Reassignment::Abandoned { tag } => {
                    let deaths = self.settings.deaths;
                    let reason = format!("{deaths} nodes died while they had it, the last three with no other event");
                    self.end_tag(now, tag, End::Dead { reason, tries: 0 }, None);
                }
            }
        }
    }

    fn again(&mut self, tag: u32) {
        self.totals.redone += 1;
        self.held.again(tag);
    }

    fn end_tag(&mut self, now: Nanos, tag: u32, end: End, by: Option<NodeId>) {
        let Some((_, held)) = self.held.remove(tag) else { return };
        let used = &mut self.used[held.event.priority as usize];
        *used = Used { events: used.events - 1, bytes: used.bytes - size_of(&held.event) };
        self.deadlines -= usize::from(held.event.until.is_some());
        self.end(now, held.event, end, by);
    }

    fn end(&mut self, now: Nanos, event: Event<T>, end: End, by: Option<NodeId>) {
        self.totals.dead += u64::from(matches!(end, End::Dead { .. }));
        self.ended.push_back(Ended { event, end, by, at: now });
    }

    fn send_events(&mut self, now: Nanos) {
        let Self { nodes, held, messages, settings, .. } = self;
        nodes.each_given(|node, given| {
            let mut rest = given;
            while !rest.is_empty() {
                let kind = |tag: u32| (is_large(held, tag), held.pool.reports_start(tag));
                let of = kind(rest[0].0);
                let same = rest.iter().take_while(|(tag, _)| kind(*tag) == of).count();
                let (list, size) = fill(now, &rest[..same], held, settings);
                rest = &rest[list.len().max(1)..];
                let events = match of {
                    (true, report_start) => DispatcherMessage::LargeEvents { report_start, list },
                    (false, true) => DispatcherMessage::ReportStart(list),
                    (false, false) => DispatcherMessage::Events(list),
                };
                messages.push_back((node.clone(), wire::encode(&events, size)));
            }
        });
    }
}

fn fill<'a, T>(
    now: Nanos,
    given: &[(u32, Ticket)],
    held: &'a Pending<PendingEvent<T>>,
    settings: &Settings,
) -> (Vec<wire::Event<'a>>, usize) {
    let mut size = 0;
    let mut list = Vec::with_capacity(given.len().min(wire::MAX_LIST));
    for (tag, ticket) in given.iter().take(wire::MAX_LIST) {
        let Some(held) = held.get(*tag) else { break };
        let more = size_of(&held.event);
        if !list.is_empty() && size + more + wire::HEAD > settings.message {
            break;
        }
        size += more;
        let Event { id, kind, body, until, .. } = &held.event;
        let limit_ns = until.map_or(settings.limit, |until| settings.limit.min(until.saturating_sub(now).max(1)));
        list.push(wire::Event { ticket: ticket.to_word(), kind, id, body: Octets(body), limit_ns });
    }
    (list, size)
}

fn is_large<T>(held: &Pending<PendingEvent<T>>, tag: u32) -> bool {
    held.get(tag).is_some_and(|held| held.event.body.is_reference)
}

/// Most bytes of an event in a message, which also count as its memory.
fn size_of<T>(event: &Event<T>) -> usize {
    event.body.len() + event.id.len() + event.kind.len() + BESIDE
}
