//! What happens, event by event, and what program and sidecore share.

use super::connection::{Connection, Ring};
use super::parameters::{Load, Streams, strayed};
use super::program::Program;
use super::sidecore::Sidecore;
use crate::engine::{Engine, World};
use crate::system::fullest;
use sidecore_core::streams::bell::Rung;
use sidecore_core::time::Nanos;
use sidecore_core::words::Line;
use std::collections::VecDeque;

/// What happens.
#[derive(Clone, Copy, Debug)]
pub(super) enum Event {
    /// The program is done with what it did, or awake.
    Program,
    /// An instant came for which the program sleeps.
    Due,
    /// The sidecore is done with what it did, or awake.
    Sidecore,
    /// The sidecore wakes by itself.
    Timer,
    /// A connection that was full takes more again.
    Writable(u32),
    /// A client's request is there.
    Request(u32),
}

/// What is summed up: first what the two spend time on, ns.
#[derive(Clone, Copy, Debug)]
pub(super) enum Count {
    Program,
    Sidecore,
    /// Messages accepted from the program, and of these through rings.
    Messages,
    Ringed,
    /// Calls that gave something to the kernel, and how much.
    Calls,
    Bytes,
    Promotions,
    Demotions,
}

/// Sums since the start, by [`Count`].
pub(super) type Tally = [f64; Count::Demotions as usize + 1];

/// Both and all between them.
pub(super) struct Both {
    pub(super) set: Streams,
    /// The quiet one is behind the others.
    pub(super) connections: Vec<Connection>,
    pub(super) program: Program,
    pub(super) sidecore: Sidecore,
    /// The doorbell's armed word.
    pub(super) doorbell: Line,
    /// Streams that were announced, and connections whose sockets were passed on.
    pub(super) announced: VecDeque<u32>,
    pub(super) promoted: VecDeque<u32>,
    pub(super) tally: Tally,
    /// How long messages of the quiet connection took to the kernel, ns.
    pub(super) quiet: Vec<Nanos>,
}

impl Both {
    /// Both begin; clients have sent nothing yet.
    pub(super) fn new(set: &Streams, engine: &mut Engine<Event>) -> Self {
        let own = set.program.connections.get();
        let all = own + u32::from(set.has_quiet());
        let (size, rate) = (f64::from(set.receiver.socket_bytes.get()), set.receiver.gbit_per_s.get() / 8.0);
        engine.after(0, Event::Program);
        engine.after(0, Event::Sidecore);
        if set.program.load == Load::Pipelined {
            for client in 0..own {
                let delay = engine.random().exponential(set.turnaround());
                engine.after(delay as Nanos, Event::Request(client));
            }
        }
        Self {
            set: *set,
            connections: (0..all).map(|_| Connection::new(size, rate)).collect(),
            program: Program::new(set),
            sidecore: Sidecore::new(set, all),
            doorbell: Line::default(),
            announced: VecDeque::new(),
            promoted: VecDeque::new(),
            tally: Tally::default(),
            quiet: Vec::new(),
        }
    }

    pub(super) fn add(&mut self, count: Count, by: f64) {
        self.tally[count as usize] += by;
    }

    pub(super) fn connection(&mut self, stream: u32) -> &mut Connection {
        &mut self.connections[stream as usize]
    }

    /// The ring of a stream that has one.
    pub(super) fn ring(&mut self, stream: u32) -> &mut Ring {
        self.connection(stream).ring.as_mut().expect("who is at work on a ring has one")
    }

    /// The kernel takes what it has room for of so many bytes, and will say when it has room again if it is less.
    pub(super) fn offer(&mut self, engine: &mut Engine<Event>, stream: u32, bytes: u32) -> u32 {
        let socket = &mut self.connection(stream).socket;
        let taken = socket.take(engine.now(), bytes);
        if taken < bytes && !socket.is_awaited {
            socket.is_awaited = true;
            engine.after(socket.writable_after(), Event::Writable(stream));
        }
        taken
    }

    /// A call has ended by which the kernel took so many bytes.
    pub(super) fn given(&mut self, engine: &mut Engine<Event>, stream: u32, bytes: u32) {
        if bytes == 0 {
            return;
        }
        self.add(Count::Calls, 1.0);
        self.add(Count::Bytes, bytes.into());
        let is_quiet = stream == self.set.program.connections.get();
        for begun in self.connections[stream as usize].given(bytes) {
            if is_quiet {
                self.quiet.push(engine.now() - begun);
            } else {
                let turnaround = strayed(self.set.turnaround(), engine.random());
                engine.after(turnaround, Event::Request(stream));
            }
        }
    }

    /// Whoever held a stream moved so many bytes of its ring, and lets go.
    pub(super) fn moved(&mut self, engine: &mut Engine<Event>, stream: u32, bytes: u32) {
        let ring = self.ring(stream);
        ring.head = ring.cursors().moved(bytes);
        ring.hold().release();
        self.given(engine, stream, bytes);
    }

    /// The program has written to a ring or has let it go. Returns what telling the sidecore takes, ns.
    pub(super) fn tell(&mut self, engine: &mut Engine<Event>, stream: u32) -> f64 {
        match self.ring(stream).bell().ring() {
            Rung::Announce => {
                self.announced.push_back(stream);
                self.set.ring.announce_ns.get() + self.knock(engine)
            }
            Rung::Watched | Rung::Shut => 0.0,
        }
    }

    /// Something awaits the sidecore. Returns what waking it takes where it sleeps, ns.
    pub(super) fn knock(&mut self, engine: &mut Engine<Event>) -> f64 {
        if !self.doorbell().must_wake() {
            return 0.0;
        }
        self.wake_sidecore(engine);
        self.set.wake.send_us.ns()
    }

    fn writable(&mut self, engine: &mut Engine<Event>, stream: u32) {
        let connection = self.connection(stream);
        (connection.socket.is_awaited, connection.blocked) = (false, false);
        if connection.ring.as_ref().is_some_and(|ring| ring.open) {
            self.sidecore.announce(stream);
            self.wake_sidecore(engine);
        }
        self.wake_program(engine);
    }

    /// What was used most in so many ns, and how much of it.
    pub(super) fn limit(&self, measured: &Tally, time: f64) -> String {
        let of = |count: Count| measured[count as usize] / time;
        let receivers = self.set.receiver.gbit_per_s.get() / 8.0 * f64::from(self.set.program.connections.get());
        let (name, part) = fullest(&[
            ("receivers", of(Count::Bytes) / receivers),
            ("program", of(Count::Program)),
            ("sidecore", of(Count::Sidecore)),
        ]);
        // Work is booked when it begins, so that a saturated part may seem a step more than full.
        format!("{name} {:.0} %", part.min(1.0) * 100.0)
    }
}

impl World for Both {
    type Event = Event;

    fn handle(&mut self, engine: &mut Engine<Event>, event: Event) {
        match event {
            Event::Program => self.program_goes_on(engine),
            Event::Due => self.program_is_due(engine),
            Event::Sidecore => self.sidecore_goes_on(engine),
            Event::Timer => self.sidecore_is_due(engine),
            Event::Writable(stream) => self.writable(engine, stream),
            Event::Request(client) => {
                self.program.requests.push_back(client);
                self.wake_program(engine);
            }
        }
    }
}
