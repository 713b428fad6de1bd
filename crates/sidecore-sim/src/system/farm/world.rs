//! What happens, event by event.

use super::dispatcher::{Dispatcher, Message};
use super::field::{Field, Hand};
use super::node::{Answer, Parcel};
use super::parameters::Farm;
use super::pull::Pull;
use crate::engine::{self, Engine};

/// What happens.
#[derive(Clone, Copy, Debug)]
pub(super) enum Event {
    /// The next event is to come.
    Comes,
    /// An event is where it is handed out.
    Waits(u32),
    /// It reached its node.
    Reached(Parcel),
    /// Its node did it.
    Worked(Parcel, Answer),
    /// A message is at the dispatcher, and the dispatcher is done with what it had begun.
    Came(Message),
    Turns,
    /// A result is stored.
    Stored(u32),
    /// That node beats, in that life.
    Beats(usize, u32),
    /// The dispatcher looks for who is silent.
    Looks,
    /// A node dies, and comes back.
    Dies,
    Back(usize),
    /// A node's request for an event is at the server.
    Asks(usize, u32),
    /// The server has waited long enough for this attempt to be acknowledged.
    Expires(u32, u64),
}

/// The farm, and who hands out in it.
#[derive(Debug)]
pub(super) struct World {
    hand: Hand,
    pub(super) field: Field,
}

impl World {
    /// All nodes come at time 0, and so does the first event.
    pub(super) fn new(set: &Farm, engine: &mut Engine<Event>) -> Self {
        let hand = match set.hand.pull.get() {
            0 => Hand::Dispatcher(Box::new(Dispatcher::new(set))),
            _ => Hand::Pull(Pull::default()),
        };
        let mut world = Self { hand, field: Field::new(set) };
        for node in 0..world.field.nodes.len() {
            world.starts(engine, node);
        }
        engine.schedule(0, Event::Comes);
        if set.hand.pull.get() == 0 {
            engine.schedule(0, Event::Looks);
        }
        if set.death.every_ms.nanos() > 0 {
            world.field.next_death(engine);
        }
        world
    }

    /// A node is there: it joins, or asks for its first events.
    fn starts(&mut self, engine: &mut Engine<Event>, node: usize) {
        let life = self.field.nodes[node].life;
        match &self.hand {
            Hand::Pull(_) => {
                for _ in 0..self.field.set.hand.pull.get() {
                    let hop = self.field.hop(engine);
                    engine.after(hop, Event::Asks(node, life));
                }
            }
            Hand::Dispatcher(_) => {
                let at = self.field.back(engine, node);
                engine.schedule(at, Event::Came(Message::Joins { node, life }));
                let beat = self.field.set.death.beat_ms.nanos();
                let first = engine.random().below(beat);
                engine.after(first, Event::Beats(node, life));
            }
        }
    }

    fn comes(&mut self, engine: &mut Engine<Event>) {
        let Field { set, ended, .. } = &self.field;
        if *ended || set.is_saturated() {
            return self.hand_out(engine);
        }
        let gap = set.gap();
        let gap = engine.random().exponential(gap);
        engine.after(gap.round() as u64, Event::Comes);
        let job = self.field.add(engine);
        let mut way = self.field.hop(engine) + self.field.set.network.store_us.nanos() + self.field.hop(engine);
        if matches!(self.hand, Hand::Pull(_)) {
            way -= self.field.set.network.hop_us.nanos();
        }
        engine.after(way, Event::Waits(job));
    }

    fn hand_out(&mut self, engine: &mut Engine<Event>) {
        match &mut self.hand {
            Hand::Dispatcher(dispatcher) => dispatcher.hand_out(engine, &mut self.field),
            Hand::Pull(pull) => pull.hand_out(engine, &mut self.field),
        }
    }

    fn worked(&mut self, engine: &mut Engine<Event>, parcel: Parcel, answer: Answer) {
        let field = &mut self.field;
        if !field.nodes[parcel.node].is(parcel.life) {
            return;
        }
        field.nodes[parcel.node].worked(engine, &field.set);
        match &mut self.hand {
            Hand::Dispatcher(_) => {
                let at = field.back(engine, parcel.node);
                engine.schedule(at, Event::Came(Message::Answer(parcel, answer)));
            }
            Hand::Pull(_) => Pull::worked(engine, field, parcel, answer),
        }
    }

    fn dies(&mut self, engine: &mut Engine<Event>) {
        if self.field.ended {
            return;
        }
        if let Some(node) = self.field.kill(engine) {
            engine.after(self.field.set.death.away_ms.nanos(), Event::Back(node));
        }
        self.field.next_death(engine);
    }

    fn begins_again(&mut self, engine: &mut Engine<Event>, node: usize) {
        self.field.nodes[node].begin(&self.field.set);
        self.starts(engine, node);
    }
}

impl engine::World for World {
    type Event = Event;

    fn handle(&mut self, engine: &mut Engine<Event>, event: Event) {
        match (event, &mut self.hand) {
            (Event::Comes, _) => self.comes(engine),
            (Event::Waits(job), _) => {
                self.field.held.push_back(job);
                self.hand_out(engine);
            }
            (Event::Reached(parcel), _) => {
                let node = &mut self.field.nodes[parcel.node];
                if node.is(parcel.life) {
                    node.take(engine, &self.field.set, parcel);
                }
            }
            (Event::Worked(parcel, answer), _) => self.worked(engine, parcel, answer),
            (Event::Stored(job), _) => self.field.stored(engine, job),
            (Event::Dies, _) => self.dies(engine),
            (Event::Back(node), _) => self.begins_again(engine, node),
            (Event::Came(message), Hand::Dispatcher(dispatcher)) => {
                dispatcher.comes(engine, &mut self.field, message);
            }
            (Event::Turns, Hand::Dispatcher(dispatcher)) => {
                if let Some(stranger) = dispatcher.turns(engine, &mut self.field) {
                    self.begins_again(engine, stranger);
                }
            }
            (Event::Beats(node, life), Hand::Dispatcher(_)) => self.field.beats(engine, node, life),
            (Event::Looks, Hand::Dispatcher(dispatcher)) => dispatcher.looks(engine, &mut self.field),
            (Event::Asks(node, life), Hand::Pull(pull)) => pull.asks(engine, &mut self.field, node, life),
            (Event::Expires(job, attempt), Hand::Pull(pull)) => pull.expires(engine, &mut self.field, job, attempt),
            (event, hand) => unreachable!("{event:?} where {hand:?} hands out"),
        }
    }
}
