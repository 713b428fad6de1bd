//! The dispatcher: it carries out the decisions of core's [`NodePool`], as the real one does.

use super::event::{Answer, FarmEvent, Message, Parcel};
use super::field::Field;
use super::parameters;
use crate::engine::Engine;
use sidecore_core::inflight::Ticket;
use sidecore_core::session::{Class, Classes};
use sidecore_core::time::Nanos;
use sidecore_nodes::{BeatOutcome, DEATHS, Failed, MAX_NODES, NodeId, NodePool, Placement, Reassignment, Settings};
use std::collections::VecDeque;

const KIND: Class = Class::NOOP;
const HOPS: u32 = 2;
const MAX_CHECK_INTERVAL_NS: Nanos = 1_000_000;
/// Interval of attempts of a node that could not join, ns.
const AGAIN: Nanos = 10_000_000;

#[derive(Debug)]
pub(super) struct Dispatcher {
    farm: NodePool,
    members: Vec<Option<(u32, NodeId)>>,
    nodes: [usize; MAX_NODES],
    free_tags: Vec<u32>,
    jobs: Vec<u32>,
    inbox: VecDeque<Message>,
    works: bool,
    blocked: bool,
    /// Time of its other sends, charged with the next step, ns.
    debt: f64,
}

impl Dispatcher {
    pub(super) fn new(set: &parameters::Farm) -> Self {
        let in_flight = set.hand.in_flight.get();
        let settings = Settings {
            balance: set.hand.balance,
            in_flight,
            depth: set.hand.depth.get(),
            silence: set.death.silence_ms.nanos(),
            grace: set.death.grace_ms.nanos(),
            tries: set.hand.tries.get() as u8,
            deaths: DEATHS,
            // No node of this model hangs.
            stall: Nanos::MAX,
        };
        Self {
            farm: NodePool::new(settings),
            members: vec![None; set.node.count.get() as usize],
            nodes: [0; MAX_NODES],
            free_tags: (0..in_flight).rev().collect(),
            jobs: vec![0; in_flight as usize],
            inbox: VecDeque::new(),
            works: false,
            blocked: false,
            debt: 0.0,
        }
    }

    pub(super) fn comes(&mut self, engine: &mut Engine<FarmEvent>, field: &mut Field, message: Message) {
        self.inbox.push_back(message);
        self.begin(engine, field);
    }

    pub(super) fn hand_out(&mut self, engine: &mut Engine<FarmEvent>, field: &mut Field) {
        field.refill(engine);
        self.begin(engine, field);
    }

    fn begin(&mut self, engine: &mut Engine<FarmEvent>, field: &mut Field) {
        let message = self.inbox.front();
        if self.works || (message.is_none() && (self.blocked || field.held.is_empty())) {
            return;
        }
        self.works = true;
        // Reading a beat costs next to nothing, compared with an event and its answer.
        let own = if let Some(Message::Beat { .. } | Message::Joins { .. } | Message::Started(_)) = message {
            0.0
        } else {
            1.0
        };
        let time = own * field.set.dispatcher.event_us.ns() + std::mem::take(&mut self.debt);
        field.tally.busy += time;
        engine.after(time.round() as Nanos, FarmEvent::Turns);
    }

    /// Ends a step. Returns the node that must join again, if any.
    pub(super) fn turns(&mut self, engine: &mut Engine<FarmEvent>, field: &mut Field) -> Option<usize> {
        let mut stranger = None;
        match self.inbox.pop_front() {
            Some(Message::Answer(parcel, answer)) => self.answered(engine, field, parcel, answer),
            Some(Message::Beat { node, life, received, answered }) => {
                let is_known = self.heard(engine, field, (node, life), [received, answered]);
                stranger = Some(node).filter(|node| !is_known && field.nodes[*node].is(life));
            }
            Some(Message::Started(parcel)) => {
                if let Some(member) = self.member(parcel.node, parcel.life) {
                    self.farm.started(member, Ticket::from_word(parcel.attempt));
                }
            }
            Some(Message::Joins { node, life }) => self.joins(engine, field, node, life),
            None => self.place(engine, field),
        }
        self.works = false;
        field.refill(engine);
        self.begin(engine, field);
        stranger
    }

    /// Places the first event that may go somewhere. Those before it wait to be alone, or for another node.
    fn place(&mut self, engine: &mut Engine<FarmEvent>, field: &mut Field) {
        self.blocked = !field.held.is_empty();
        for at in 0..field.held.len() {
            let number = field.held[at];
            let job = field.jobs[number as usize];
            let size = job.units * field.set.event.unit_bytes.get();
            let Some(tag) = job.tag.or_else(|| self.free_tags.pop()) else { return };
            self.jobs[tag as usize] = number;
            field.jobs[number as usize].tag = Some(tag);
            let placed = self.farm.place(engine.now(), tag, KIND, size);
            if let Placement::Assigned { member, ticket } = placed {
                field.held.remove(at);
                self.blocked = false;
                return self.send(engine, field, tag, member, ticket);
            }
            if job.tag.is_none() {
                self.free(field, tag);
            }
            if placed != Placement::Avoided {
                return;
            }
        }
    }

    fn send(&mut self, engine: &mut Engine<FarmEvent>, field: &mut Field, tag: u32, member: NodeId, ticket: Ticket) {
        let (node, job) = (self.nodes[member.number()], self.jobs[tag as usize]);
        let life = self.members[node].map_or(0, |(life, _)| life);
        let work = field.jobs[job as usize].work;
        let reports_start = self.farm.reports_start(tag);
        let parcel = Parcel { node, life, job, attempt: ticket.to_word(), work, reports_start };
        field.send(engine, HOPS, parcel);
    }

    fn answered(&mut self, engine: &mut Engine<FarmEvent>, field: &mut Field, parcel: Parcel, answer: Answer) {
        let now = engine.now();
        let Some(member) = self.member(parcel.node, parcel.life) else { return };
        let ticket = Ticket::from_word(parcel.attempt);
        if answer.failed {
            match self.farm.failed(now, member, ticket) {
                None => return,
                Some(Failed::Again { .. }) => field.held.push_front(parcel.job),
                Some(Failed::Dead { tag, .. }) => self.give_up(field, tag),
            }
        } else {
            let Some(done) = self.farm.answered(now, member, ticket, answer.held, answer.work) else { return };
            self.free(field, done.tag);
            field.store(engine, parcel.job);
        }
        field.take_from(parcel.node, parcel.job);
        field.is_with_another(now, parcel.job);
        self.farm.reprice(now);
        self.go_on(engine, field);
    }

    fn heard(
        &mut self,
        engine: &mut Engine<FarmEvent>,
        field: &mut Field,
        (node, life): (usize, u32),
        [received, answered]: [u64; 2],
    ) -> bool {
        let Some(member) = self.member(node, life) else { return false };
        let heard = self.farm.beat(engine.now(), member, received, answered);
        if heard == BeatOutcome::Lossy {
            self.lose(engine, field, node, false);
        }
        heard == BeatOutcome::Fine
    }

    fn joins(&mut self, engine: &mut Engine<FarmEvent>, field: &mut Field, node: usize, life: u32) {
        if !field.nodes[node].is(life) {
            return;
        }
        self.lose(engine, field, node, true);
        let slots = field.set.node.slots.get() as u16;
        let beat = field.set.death.beat_ms.nanos();
        let Some(member) = self.farm.join(engine.now(), slots, Classes::all(), beat) else {
            engine.after(AGAIN, FarmEvent::Came(Message::Joins { node, life }));
            return;
        };
        self.members[node] = Some((life, member));
        self.nodes[member.number()] = node;
        self.go_on(engine, field);
    }

    pub(super) fn looks(&mut self, engine: &mut Engine<FarmEvent>, field: &mut Field) {
        let now = engine.now();
        while let Some(member) = self.farm.silent(now) {
            self.lose(engine, field, self.nodes[member.number()], false);
        }
        self.go_on(engine, field);
        let due = self.farm.due().unwrap_or(now);
        engine.schedule(due.max(now + MAX_CHECK_INTERVAL_NS), FarmEvent::Looks);
    }

    fn member(&self, node: usize, life: u32) -> Option<NodeId> {
        self.members[node].filter(|(known, _)| *known == life).map(|(_, member)| member)
    }

    fn lose(&mut self, engine: &mut Engine<FarmEvent>, field: &mut Field, node: usize, died: bool) {
        if let Some((_, member)) = self.members[node].take() {
            self.farm.lose(engine.now(), member, died);
            field.forget(node);
            self.go_on(engine, field);
        }
    }

    fn go_on(&mut self, engine: &mut Engine<FarmEvent>, field: &mut Field) {
        while let Some(moved) = self.farm.next_reassignment(engine.now()) {
            match moved {
                Reassignment::Assigned { tag, member, ticket } => {
                    self.debt += field.set.dispatcher.event_us.ns();
                    self.send(engine, field, tag, member, ticket);
                }
                Reassignment::Again { tag } => field.held.push_front(self.jobs[tag as usize]),
                Reassignment::Abandoned { tag } => self.give_up(field, tag),
            }
        }
        self.blocked = false;
        self.hand_out(engine, field);
    }

    fn give_up(&mut self, field: &mut Field, tag: u32) {
        field.give_up(self.jobs[tag as usize]);
        self.free(field, tag);
    }

    fn free(&mut self, field: &mut Field, tag: u32) {
        field.jobs[self.jobs[tag as usize] as usize].tag = None;
        self.free_tags.push(tag);
    }
}
