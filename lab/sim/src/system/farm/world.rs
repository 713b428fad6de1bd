//! The world's events and their effects.

use super::dispatcher::Dispatcher;
use super::event::{Answer, FarmEvent, Message, Parcel};
use super::field::Field;
use super::parameters::Farm;
use super::pull::Pull;
use crate::engine::{self, Engine};

#[derive(Debug)]
enum Hand {
    Dispatcher(Box<Dispatcher>),
    Pull(Pull),
}

#[derive(Debug)]
pub(super) struct World {
    hand: Hand,
    pub(super) field: Field,
}

impl World {
    pub(super) fn new(set: &Farm, engine: &mut Engine<FarmEvent>) -> Self {
        let hand = match set.hand.pull.get() {
            0 => Hand::Dispatcher(Box::new(Dispatcher::new(set))),
            _ => Hand::Pull(Pull::default()),
        };
        let mut world = Self { hand, field: Field::new(set) };
        for node in 0..world.field.nodes.len() {
            world.starts(engine, node);
        }
        engine.schedule(0, FarmEvent::Comes);
        if set.hand.pull.get() == 0 {
            engine.schedule(0, FarmEvent::Looks);
        }
        if set.death.every_ms.nanos() > 0 {
            world.field.next_death(engine);
        }
        world
    }

    fn starts(&mut self, engine: &mut Engine<FarmEvent>, node: usize) {
        let life = self.field.nodes[node].life;
        match &self.hand {
            Hand::Pull(_) => {
                for _ in 0..self.field.set.hand.pull.get() {
                    let hop = self.field.hop(engine);
                    engine.after(hop, FarmEvent::Asks(node, life));
                }
            }
            Hand::Dispatcher(_) => {
                let at = self.field.back(engine, node);
                engine.schedule(at, FarmEvent::Came(Message::Joins { node, life }));
                let beat = self.field.set.death.beat_ms.nanos();
                let first = engine.random().below(beat);
                engine.after(first, FarmEvent::Beats(node, life));
            }
        }
    }

    fn comes(&mut self, engine: &mut Engine<FarmEvent>) {
        let Field { set, ended, .. } = &self.field;
        if *ended || set.is_saturated() {
            return self.hand_out(engine);
        }
        let gap = set.gap();
        let gap = engine.random().exponential(gap);
        engine.after(gap.round() as u64, FarmEvent::Comes);
        let job = self.field.add(engine);
        let mut way = self.field.hop(engine) + self.field.set.network.store_us.nanos() + self.field.hop(engine);
        if matches!(self.hand, Hand::Pull(_)) {
            way -= self.field.set.network.hop_us.nanos();
        }
        engine.after(way, FarmEvent::Waits(job));
    }

    fn hand_out(&mut self, engine: &mut Engine<FarmEvent>) {
        match &mut self.hand {
            Hand::Dispatcher(dispatcher) => dispatcher.hand_out(engine, &mut self.field),
            Hand::Pull(pull) => pull.hand_out(engine, &mut self.field),
        }
    }

    fn worked(&mut self, engine: &mut Engine<FarmEvent>, parcel: Parcel, answer: Answer) {
        let field = &mut self.field;
        if !field.nodes[parcel.node].is(parcel.life) {
            return;
        }
        field.nodes[parcel.node].worked(engine, &field.set);
        self.report_starts(engine, parcel.node);
        let field = &mut self.field;
        match &mut self.hand {
            Hand::Dispatcher(_) => {
                let at = field.back(engine, parcel.node);
                engine.schedule(at, FarmEvent::Came(Message::Answer(parcel, answer)));
            }
            Hand::Pull(_) => Pull::worked(engine, field, parcel, answer),
        }
    }

    /// The node reports the events with which it has begun, as far as it has to.
    fn report_starts(&mut self, engine: &mut Engine<FarmEvent>, node: usize) {
        for parcel in std::mem::take(&mut self.field.nodes[node].begun) {
            let at = self.field.back(engine, node);
            engine.schedule(at, FarmEvent::Came(Message::Started(parcel)));
        }
    }

    fn dies(&mut self, engine: &mut Engine<FarmEvent>) {
        if self.field.ended {
            return;
        }
        if let Some(node) = self.field.kill(engine) {
            engine.after(self.field.set.death.away_ms.nanos(), FarmEvent::Back(node));
        }
        self.field.next_death(engine);
    }

    fn begins_again(&mut self, engine: &mut Engine<FarmEvent>, node: usize) {
        self.field.nodes[node].begin(&self.field.set);
        self.starts(engine, node);
    }
}

impl engine::World for World {
    type Event = FarmEvent;

    fn handle(&mut self, engine: &mut Engine<FarmEvent>, event: FarmEvent) {
        match (event, &mut self.hand) {
            (FarmEvent::Comes, _) => self.comes(engine),
            (FarmEvent::Waits(job), _) => {
                self.field.held.push_back(job);
                self.hand_out(engine);
            }
            (FarmEvent::Reached(parcel), _) => {
                let node = &mut self.field.nodes[parcel.node];
                if node.is(parcel.life) {
                    node.take(engine, &self.field.set, parcel);
                    self.report_starts(engine, parcel.node);
                }
            }
            (FarmEvent::Worked(parcel, answer), _) => self.worked(engine, parcel, answer),
            (FarmEvent::Stored(job), _) => self.field.stored(engine, job),
            (FarmEvent::Dies, _) => self.dies(engine),
            (FarmEvent::Back(node), _) => self.begins_again(engine, node),
            (FarmEvent::Came(message), Hand::Dispatcher(dispatcher)) => {
                dispatcher.comes(engine, &mut self.field, message);
            }
            (FarmEvent::Turns, Hand::Dispatcher(dispatcher)) => {
                if let Some(stranger) = dispatcher.turns(engine, &mut self.field) {
                    self.begins_again(engine, stranger);
                }
            }
            (FarmEvent::Beats(node, life), Hand::Dispatcher(_)) => self.field.beats(engine, node, life),
            (FarmEvent::Looks, Hand::Dispatcher(dispatcher)) => dispatcher.looks(engine, &mut self.field),
            (FarmEvent::Asks(node, life), Hand::Pull(pull)) => pull.asks(engine, &mut self.field, node, life),
            (FarmEvent::Expires(job, attempt), Hand::Pull(pull)) => pull.expires(engine, &mut self.field, job, attempt),
            (event, hand) => unreachable!("{event:?} where {hand:?} hands out"),
        }
    }
}
