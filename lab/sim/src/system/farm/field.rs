//! Events, nodes and the network between them, for both ways of assigning.

use super::event::{FarmEvent, Message, Parcel};
use super::node::Node;
use super::parameters::Farm;
use super::tally::Tally;
use crate::engine::Engine;
use sidecore_core::time::Nanos;
use std::collections::VecDeque;

const ENOUGH: usize = 64;

#[derive(Clone, Copy, Debug)]
pub(super) struct Job {
    /// Size in units, which determines its bytes, and its units of work.
    pub(super) units: u32,
    pub(super) work: f64,
    came: Nanos,
    pub(super) handed: u32,
    pub(super) stored: u32,
    pub(super) given_up: bool,
    pub(super) tag: Option<u32>,
    /// The death of its node, until another node has it.
    died: Option<usize>,
}

#[derive(Clone, Copy, Debug)]
struct Death {
    at: Nanos,
    left: u32,
}

#[derive(Debug)]
pub(super) struct Field {
    pub(super) set: Farm,
    pub(super) nodes: Vec<Node>,
    has: Vec<Vec<u32>>,
    pub(super) jobs: Vec<Job>,
    /// Unassigned events, oldest first.
    pub(super) held: VecDeque<u32>,
    deaths: Vec<Death>,
    pub(super) tally: Tally,
    pub(super) ended: bool,
}

impl Field {
    pub(super) fn new(set: &Farm) -> Self {
        let count = set.node.count.get() as usize;
        Self {
            set: *set,
            nodes: (0..count).map(|number| Node::new(number, set)).collect(),
            has: vec![Vec::new(); count],
            jobs: Vec::new(),
            held: VecDeque::new(),
            deaths: Vec::new(),
            tally: Tally::default(),
            ended: false,
        }
    }

    pub(super) fn add(&mut self, engine: &mut Engine<FarmEvent>) -> u32 {
        let (least, most) = (self.set.event.least_units.get(), self.set.event.most_units.get());
        let units = least + engine.random().below(u64::from(most - least) + 1) as u32;
        let came = engine.now();
        let stray = self.set.event.stray.get();
        let more = if stray > 0.0 { engine.random().exponential(stray) } else { 0.0 };
        let work = f64::from(units) * (1.0 - stray + more);
        self.jobs.push(Job { units, work, came, handed: 0, stored: 0, given_up: false, tag: None, died: None });
        self.jobs.len() as u32 - 1
    }

    pub(super) fn refill(&mut self, engine: &mut Engine<FarmEvent>) {
        while self.set.is_saturated() && !self.ended && self.held.len() < ENOUGH {
            let job = self.add(engine);
            self.held.push_back(job);
        }
    }

    /// Time from a program to the server or back, ns.
    pub(super) fn hop(&self, engine: &mut Engine<FarmEvent>) -> Nanos {
        let spread = self.set.network.spread_us.ns();
        let more = if spread > 0.0 { engine.random().exponential(spread) } else { 0.0 };
        (self.set.network.hop_us.ns() + more).round() as Nanos
    }

    /// Time of arrival at the dispatcher of a message that the node sends now: after its earlier messages.
    pub(super) fn back(&mut self, engine: &mut Engine<FarmEvent>, node: usize) -> Nanos {
        let at = engine.now() + self.hop(engine) + self.hop(engine);
        let last = &mut self.nodes[node].back;
        *last = at.max(*last);
        *last
    }

    pub(super) fn send(&mut self, engine: &mut Engine<FarmEvent>, hops: u32, parcel: Parcel) {
        let at = engine.now();
        let job = &mut self.jobs[parcel.job as usize];
        job.handed += 1;
        self.tally.redone += u64::from(job.handed > 1);
        self.is_with_another(at, parcel.job);
        self.has[parcel.node].push(parcel.job);
        let way: Nanos = (0..hops).map(|_| self.hop(engine)).sum();
        let there = &mut self.nodes[parcel.node].there;
        *there = (at + way).max(*there);
        engine.schedule(*there, FarmEvent::Reached(parcel));
    }

    pub(super) fn take_from(&mut self, node: usize, job: u32) {
        if let Some(place) = self.has[node].iter().position(|has| *has == job) {
            self.has[node].swap_remove(place);
        }
    }

    pub(super) fn forget(&mut self, node: usize) {
        self.has[node].clear();
    }

    pub(super) fn is_with_another(&mut self, at: Nanos, job: u32) {
        let Some(number) = self.jobs[job as usize].died.take() else { return };
        let death = &mut self.deaths[number];
        death.left -= 1;
        if death.left == 0 {
            self.tally.gaps.push(at - death.at);
        }
    }

    pub(super) fn store(&mut self, engine: &mut Engine<FarmEvent>, job: u32) -> Nanos {
        let at = engine.now() + self.hop(engine) + self.set.network.store_us.nanos();
        engine.schedule(at, FarmEvent::Stored(job));
        at
    }

    pub(super) fn stored(&mut self, engine: &mut Engine<FarmEvent>, number: u32) {
        let job = &mut self.jobs[number as usize];
        job.stored += 1;
        // The server refuses a second result.
        if job.stored == 1 {
            self.tally.did(job.work, engine.now() - job.came);
        }
    }

    pub(super) fn give_up(&mut self, job: u32) {
        self.jobs[job as usize].given_up = true;
        self.tally.dead += 1;
    }

    pub(super) fn beats(&mut self, engine: &mut Engine<FarmEvent>, number: usize, life: u32) {
        let node = &self.nodes[number];
        if node.is(life) {
            let (received, answered) = (node.received, node.answered);
            let at = self.back(engine, number);
            engine.schedule(at, FarmEvent::Came(Message::Beat { node: number, life, received, answered }));
            engine.after(self.set.death.beat_ms.nanos(), FarmEvent::Beats(number, life));
        }
    }

    pub(super) fn kill(&mut self, engine: &mut Engine<FarmEvent>) -> Option<usize> {
        let living: Vec<usize> = (0..self.nodes.len()).filter(|node| self.nodes[*node].lives).collect();
        let node = *living.get(engine.random().below(living.len() as u64) as usize)?;
        self.nodes[node].lives = false;
        let lost = std::mem::take(&mut self.has[node]);
        for job in &lost {
            self.jobs[*job as usize].died = Some(self.deaths.len());
        }
        self.deaths.push(Death { at: engine.now(), left: lost.len() as u32 });
        Some(node)
    }

    /// Schedules the next death, at half to one and a half times the mean interval.
    pub(super) fn next_death(&self, engine: &mut Engine<FarmEvent>) {
        let every = self.set.death.every_ms.nanos();
        let after = every / 2 + engine.random().below(every);
        engine.after(after, FarmEvent::Dies);
    }
}
