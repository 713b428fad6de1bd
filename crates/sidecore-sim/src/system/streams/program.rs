//! The program: one thread that sends on many connections and never waits for one of them.

use super::connection::{Connection, Ring};
use super::parameters::{Load, Path, Streams, strayed, whole};
use super::world::{Both, Count, Event};
use crate::engine::{Engine, Timer};
use sidecore_core::streams::hold::Holder;
use sidecore_core::streams::rule::Advice;
use sidecore_core::time::Nanos;
use std::collections::VecDeque;

/// What the program is at.
#[derive(Clone, Copy, Debug)]
enum Doing {
    /// Nothing; what it did last has ended.
    Nothing,
    /// It goes on with the message under way.
    Sending(u32),
    /// So many bytes of a message go to the kernel.
    Giving(u32, u32),
    /// So many bytes of a message go to a ring.
    Writing(u32, u32),
    /// So many bytes of a ring go to the kernel.
    Draining(u32, u32),
    /// The connection enters a ring.
    Entering(u32),
    /// The kernel was asked and took nothing.
    Refused(u32),
    /// A request is received.
    Receiving(u32),
    /// The sidecore makes room in that ring: it spins, since then.
    Awaiting(u32, Nanos),
    /// It sleeps.
    Asleep(Option<Timer>),
}

/// See the module.
#[derive(Debug)]
pub(super) struct Program {
    doing: Doing,
    /// The connection that is next in turn.
    next: u32,
    /// Paced: messages to be sent, and when more are.
    due: f64,
    tick: Nanos,
    /// When the quiet connection has its next message.
    quiet: Nanos,
    /// Pipelined: whose request is answered, and sends that are left of the answer.
    answering: (u32, u32),
    /// Requests that wait.
    pub(super) requests: VecDeque<u32>,
    received: u32,
    /// The ring that is in the way was given to the kernel, as far as that took it.
    drained: bool,
}

impl Program {
    pub(super) fn new(set: &Streams) -> Self {
        Self {
            doing: Doing::Nothing,
            next: 0,
            due: 0.0,
            tick: 0,
            quiet: if set.has_quiet() { 0 } else { Nanos::MAX },
            answering: (0, 0),
            requests: VecDeque::new(),
            received: 0,
            drained: false,
        }
    }

    /// The first instant at which it has something to do by itself.
    fn due_at(&self, load: Load) -> Option<Nanos> {
        let tick = if load == Load::Paced { self.tick } else { Nanos::MAX };
        Some(tick.min(self.quiet)).filter(|at| *at < Nanos::MAX)
    }
}

impl Both {
    /// What it did has ended.
    pub(super) fn program_goes_on(&mut self, engine: &mut Engine<Event>) {
        match std::mem::replace(&mut self.program.doing, Doing::Nothing) {
            Doing::Nothing | Doing::Awaiting(..) | Doing::Asleep(_) => self.begin(engine),
            Doing::Sending(stream) => self.send(engine, stream),
            Doing::Giving(stream, bytes) => {
                self.accepted(stream, bytes);
                self.given(engine, stream, bytes);
                self.proceed(engine, stream, 0.0);
            }
            Doing::Writing(stream, bytes) => {
                self.ring(stream).tail += u64::from(bytes);
                self.accepted(stream, bytes);
                if self.connection(stream).left == 0 {
                    self.add(Count::Ringed, 1.0);
                }
                let told = self.tell(engine, stream);
                self.proceed(engine, stream, told);
            }
            Doing::Draining(stream, bytes) => {
                self.moved(engine, stream, bytes);
                self.program.drained = true;
                let told = self.tell(engine, stream);
                self.spend(engine, told, Doing::Sending(stream));
            }
            Doing::Entering(stream) => {
                let ring = Ring::new(self.set.ring_bytes());
                let connection = self.connection(stream);
                connection.rule.promoted();
                connection.ring = Some(ring);
                self.add(Count::Promotions, 1.0);
                self.promoted.push_back(stream);
                let told = self.knock(engine);
                self.spend(engine, told, Doing::Sending(stream));
            }
            Doing::Refused(stream) => {
                self.connection(stream).blocked = self.connection(stream).socket.is_awaited;
                self.begin(engine);
            }
            Doing::Receiving(client) => {
                self.receive(client);
                self.begin(engine);
            }
        }
    }

    /// So much CPU time passes, and then comes that.
    fn spend(&mut self, engine: &mut Engine<Event>, time: f64, then: Doing) {
        let time = time.round() as Nanos;
        self.add(Count::Program, time as f64);
        self.program.doing = then;
        engine.after(time, Event::Program);
    }

    /// So many bytes of the message under way are accepted.
    fn accepted(&mut self, stream: u32, bytes: u32) {
        let connection = self.connection(stream);
        connection.left -= bytes;
        connection.sent += u64::from(bytes);
        let ended = connection.left == 0;
        self.program.drained = false;
        if ended {
            self.add(Count::Messages, 1.0);
        }
    }

    /// After so much CPU time: the rest of the message under way, or the next one.
    fn proceed(&mut self, engine: &mut Engine<Event>, stream: u32, told: f64) {
        let rest = self.connection(stream).left > 0;
        let then = if rest { Doing::Sending(stream) } else { Doing::Nothing };
        if told > 0.0 || rest {
            self.spend(engine, told, then);
        } else {
            self.begin(engine);
        }
    }

    /// The next thing to do, or none.
    fn begin(&mut self, engine: &mut Engine<Event>) {
        self.refill(engine.now());
        let Some(stream) = self.choose(engine) else { return self.sleep(engine) };
        let set = self.set.program;
        let is_new = self.connection(stream).left == 0;
        if is_new && set.load == Load::Pipelined && self.program.answering == (stream, 0) {
            let time = strayed(self.set.kernel.receive_ns.get(), engine.random());
            return self.spend(engine, time as f64, Doing::Receiving(stream));
        }
        if is_new {
            self.connection(stream).left = set.message_bytes.get();
            self.message_begins(engine, stream);
        }
        let connection = self.connection(stream);
        let advice = match set.path {
            Path::Kernel => Advice::Stay,
            Path::Rule => connection.rule.sends(connection.left as usize),
        };
        match advice {
            Advice::Promote => return self.spend(engine, self.set.promotion.program_us.ns(), Doing::Entering(stream)),
            Advice::Demote(_) => self.leave(stream),
            Advice::Stay => {}
        }
        self.send(engine, stream);
    }

    /// Which connection is next. One that has a request is to be received from where no answer is under way.
    fn choose(&mut self, engine: &Engine<Event>) -> Option<u32> {
        let count = self.set.program.connections.get();
        let is_due = |quiet: &Connection| self.program.quiet <= engine.now() || quiet.left > 0;
        if self.connections.get(count as usize).is_some_and(|quiet| !quiet.blocked && is_due(quiet)) {
            return Some(count);
        }
        match self.set.program.load {
            Load::Paced if self.program.due < 1.0 => None,
            Load::Pipelined => {
                let (client, left) = self.program.answering;
                if left > 0 || self.connection(client).left > 0 {
                    return Some(client).filter(|client| !self.connection(*client).blocked);
                }
                let client = self.program.requests.pop_front()?;
                self.program.answering = (client, 0);
                Some(client)
            }
            Load::FlatOut | Load::Paced => {
                let next = self.program.next;
                let mut turn = (0..count).map(|step| (next + step) % count);
                turn.find(|stream| !self.connections[*stream as usize].blocked)
            }
        }
    }

    /// A message of that connection begins, and what it is one of has one less.
    fn message_begins(&mut self, engine: &mut Engine<Event>, stream: u32) {
        let (now, set) = (engine.now(), self.set.program);
        if stream == set.connections.get() {
            self.connection(stream).watch(now);
            let gap = engine.random().exponential(set.quiet_every_us.ns());
            self.program.quiet = self.program.quiet.max(now) + whole(gap);
            return;
        }
        match set.load {
            Load::FlatOut => {}
            Load::Paced => self.program.due -= 1.0,
            Load::Pipelined => {
                self.program.answering.1 -= 1;
                if self.program.answering.1 == 0 {
                    self.connection(stream).watch(now);
                }
            }
        }
        self.program.next = (stream + 1) % set.connections.get();
    }

    /// Goes on with the message under way, on the path where the connection is.
    fn send(&mut self, engine: &mut Engine<Event>, stream: u32) {
        let drained = self.program.drained;
        let connection = self.connection(stream);
        let left = connection.left;
        let Some(ring) = &connection.ring else {
            let taken = self.offer(engine, stream, left);
            let then = if taken == 0 { Doing::Refused(stream) } else { Doing::Giving(stream, taken) };
            let time = strayed(self.set.send(taken), engine.random());
            return self.spend(engine, time as f64, then);
        };
        let (cursors, leaves) = (ring.cursors(), ring.leaves);
        let room = if leaves { 0 } else { cursors.room() };
        if leaves && cursors.waiting() == 0 {
            connection.ring = None;
            self.program.drained = false;
            self.add(Count::Demotions, 1.0);
            return self.spend(engine, self.set.promotion.back_us.ns(), Doing::Sending(stream));
        }
        if room >= left || (drained && room > 0) {
            let bytes = left.min(room);
            return self.spend(engine, self.set.write(bytes) as f64, Doing::Writing(stream, bytes));
        }
        if drained {
            self.program.drained = false;
            return self.spend(engine, self.set.kernel.refused_ns.get(), Doing::Refused(stream));
        }
        if ring.hold().holder() == Some(Holder::Sidecore) {
            self.program.doing = Doing::Awaiting(stream, engine.now());
            return;
        }
        let taken = ring.hold().take(Holder::Program);
        debug_assert!(taken, "nobody has it");
        let bytes = self.offer(engine, stream, cursors.waiting());
        let time = strayed(self.set.send(bytes), engine.random());
        self.spend(engine, time as f64, Doing::Draining(stream, bytes));
    }

    /// The connection leaves its ring as soon as that is empty.
    fn leave(&mut self, stream: u32) {
        if let Some(ring) = &mut self.connection(stream).ring {
            ring.leaves = true;
        }
    }

    fn receive(&mut self, client: u32) {
        let set = self.set.program;
        let turned = self.program.received.checked_div(set.turns_after.get()).is_some_and(|turns| turns % 2 == 1);
        self.program.answering.1 = if turned { 1 } else { set.replies.get() };
        self.program.received += 1;
        if matches!(self.connection(client).rule.receives(), Advice::Demote(_)) {
            self.leave(client);
        }
    }

    /// The sidecore has let that stream go.
    pub(super) fn let_go(&mut self, engine: &mut Engine<Event>, stream: u32) {
        if let Doing::Awaiting(awaited, since) = self.program.doing
            && awaited == stream
        {
            self.add(Count::Program, (engine.now() - since) as f64);
            self.program.doing = Doing::Nothing;
            self.send(engine, stream);
        }
    }

    /// Messages of the bursts until now are due.
    fn refill(&mut self, now: Nanos) {
        let set = self.set.program;
        let burst = f64::from(set.rate_per_s.get()) * set.tick_us.ns() / 1e9;
        while set.load == Load::Paced && self.program.tick <= now {
            self.program.due += burst;
            self.program.tick += set.tick_us.nanos();
        }
    }

    fn sleep(&mut self, engine: &mut Engine<Event>) {
        let due = self.program.due_at(self.set.program.load).filter(|at| *at > engine.now());
        self.program.doing = Doing::Asleep(due.map(|at| engine.schedule(at, Event::Due)));
    }

    /// Something happened for which the program may sleep.
    pub(super) fn wake_program(&mut self, engine: &mut Engine<Event>) {
        if let Doing::Asleep(timer) = self.program.doing {
            let _ = timer.and_then(|timer| engine.cancel(timer));
            self.add(Count::Program, self.set.wake.sleep_us.ns());
            self.program.doing = Doing::Nothing;
            engine.after(self.set.wake.latency_us.nanos(), Event::Program);
        }
    }

    /// The instant came for which it slept.
    pub(super) fn program_is_due(&mut self, engine: &mut Engine<Event>) {
        self.spend(engine, self.set.wake.sleep_us.ns(), Doing::Nothing);
    }
}
