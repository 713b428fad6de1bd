//! What happens, event by event.

use super::attachment::Serial;
use super::connection::{Connection, Reader};
use super::queue::{Packet, Queue, State};
use super::setup::{Setup, Traffic};
use crate::engine::{Engine, World};
use crate::part::cpu::{Cpu, Level, Section, Shape};
use sidecore_core::policy::notify::{Ring, Step};
use sidecore_core::time::Nanos;

/// A driver that polls asks its policy again after this time, ns. What lands is seen at once.
const LOOK: Nanos = 500;

/// What happens.
#[derive(Clone, Copy, Debug)]
pub(super) enum Event {
    /// The sender of that connection may send so many bytes more.
    Credit(u32, u64),
    /// The client of that connection wrote a segment.
    Written(u32),
    /// The client of that connection sends its next message.
    Ping(u32),
    /// The interface has the whole frame.
    Arrived(Packet),
    /// Frame and completion are in memory.
    Landed(Packet),
    /// The moderation's timer of that queue.
    Moderated(u32),
    /// The interrupt of that queue reached its hardware thread.
    Interrupt(u32),
    /// The driver of that queue looks at its wait.
    Look(u32),
    /// The driver takes a batch.
    Take(u32),
    /// The driver is done with its batch.
    Driven(u32),
    /// The stack is done with a packet.
    Delivered(u32),
    /// A reader's section is done on that processor.
    Section(u32),
}

/// What processors spend time on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    /// Driver and its interrupts.
    Driver,
    /// Protocol stack.
    Stack,
    /// Copies.
    Copy,
    /// Calls of the application.
    Call,
    /// Wake-ups of threads.
    Wake,
    /// Polling in vain.
    Poll,
}

const KINDS: usize = Work::Poll as usize + 1;

/// Counts since the start.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    times: [f64; KINDS],
    pub(super) packets: u64,
    pub(super) bytes: u64,
    pub(super) interrupts: u64,
    pub(super) switches: u64,
    pub(super) round_trips: u64,
    pub(super) round_trips_ns: f64,
    link: f64,
    bus: f64,
}

impl Tally {
    /// Time spent on that, ns.
    pub(super) fn time(&self, work: Work) -> f64 {
        self.times[work as usize]
    }

    /// Time spent on everything, ns.
    pub(super) fn busy(&self) -> f64 {
        self.times.iter().sum()
    }

    fn add(&mut self, work: Work, time: f64) {
        self.times[work as usize] += time;
    }

    /// What came since an earlier tally.
    pub(super) fn since(&self, before: &Self) -> Self {
        Self {
            times: std::array::from_fn(|work| self.times[work] - before.times[work]),
            packets: self.packets - before.packets,
            bytes: self.bytes - before.bytes,
            interrupts: self.interrupts - before.interrupts,
            switches: self.switches - before.switches,
            round_trips: self.round_trips - before.round_trips,
            round_trips_ns: self.round_trips_ns - before.round_trips_ns,
            link: self.link - before.link,
            bus: self.bus - before.bus,
        }
    }
}

/// The machine and its clients.
#[derive(Debug)]
pub(super) struct Nic {
    setup: Setup,
    link: Serial,
    bus: Serial,
    queues: Vec<Queue>,
    connections: Vec<Connection>,
    readers: Cpu<Event>,
    tally: Tally,
}

impl Nic {
    /// Everything is idle.
    pub(super) fn new(setup: Setup) -> Self {
        let shape = Shape { cores: setup.processors(), threads: 1, shared_speed: 1.0, switch: 0, accounts: 1 };
        let ping = setup.traffic == Traffic::PingPong;
        let connections = if ping { 1 } else { setup.set.client.connections.get() };
        Self {
            link: Serial::default(),
            bus: Serial::default(),
            queues: (0..setup.set.nic.queues.get()).map(|_| Queue::new(&setup)).collect(),
            connections: vec![Connection::new(); connections as usize],
            readers: Cpu::new(shape, Event::Section),
            tally: Tally::default(),
            setup,
        }
    }

    /// Clients begin, and drivers wait.
    pub(super) fn start(&mut self, engine: &mut Engine<Event>) {
        let window = u64::from(self.setup.set.client.window_bytes.get());
        for connection in 0..self.connections.len() as u32 {
            match self.setup.traffic {
                Traffic::Stream => self.return_credit(engine, connection, window),
                Traffic::PingPong => _ = engine.after(0, Event::Ping(connection)),
            }
        }
        for queue in 0..self.queues.len() as u32 {
            self.wait(engine, queue);
        }
    }

    /// Counts since the start.
    pub(super) fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Brings the tally up to that instant: drivers that poll have polled until then.
    pub(super) fn settle(&mut self, now: Nanos) {
        for queue in 0..self.queues.len() {
            self.book_polling(now, queue as u32);
        }
        (self.tally.link, self.tally.bus) = (self.link.busy(), self.bus.busy());
    }

    /// The part that was busiest, and how busy.
    pub(super) fn limit(&self, measured: &Tally, time: Nanos) -> String {
        let time = time as f64;
        let (queues, processors) = (self.queues.len() as f64, f64::from(self.setup.processors()));
        let readers = [Work::Copy, Work::Call, Work::Wake].map(|work| measured.time(work)).iter().sum::<f64>();
        let drivers = measured.time(Work::Driver) + measured.time(Work::Stack);
        let threads = processors.min(self.connections.len() as f64);
        let parts = [
            ("sender", measured.link / time),
            ("bus", measured.bus / time),
            ("queues", drivers / time / queues),
            ("readers", readers / time / threads),
        ];
        // Work is booked when it begins, so that a saturated part may seem a batch more than full.
        let (name, part) = parts.into_iter().max_by(|a, b| a.1.total_cmp(&b.1)).expect("there are parts");
        format!("{name} {:.0} %", part.min(1.0) * 100.0)
    }

    /// The sender hears of free window after its own delay, which varies.
    fn return_credit(&mut self, engine: &mut Engine<Event>, connection: u32, bytes: u64) {
        let half = self.setup.set.client.turnaround_us.ns() / 2.0;
        let delay = half + engine.random().exponential(half);
        engine.after(delay as Nanos, Event::Credit(connection, bytes));
    }

    /// A frame goes onto the link behind those that are waiting.
    fn send(&mut self, engine: &mut Engine<Event>, connection: u32, bytes: u64) {
        let at = self.link.carry(engine.now(), self.setup.send_gap(bytes));
        engine.schedule(at, Event::Arrived(Packet { connection, bytes: bytes as u32 }));
    }

    fn send_message(&mut self, engine: &mut Engine<Event>, connection: u32) {
        self.connections[connection as usize].sent = engine.now();
        let mut left = self.setup.io;
        while left > 0 {
            let bytes = left.min(self.setup.segment);
            self.send(engine, connection, bytes);
            left -= bytes;
        }
    }

    /// Connections are spread evenly over the queues.
    fn queue_of(&self, packet: Packet) -> u32 {
        packet.connection % self.queues.len() as u32
    }

    /// The interface writes a frame to memory.
    fn write(&mut self, engine: &mut Engine<Event>, packet: Packet) {
        let at = self.bus.carry(engine.now(), self.setup.bus_time(u64::from(packet.bytes)));
        engine.schedule(at + self.setup.attachment.latency(), Event::Landed(packet));
    }

    fn landed(&mut self, engine: &mut Engine<Event>, packet: Packet) {
        let (now, number) = (engine.now(), self.queue_of(packet));
        self.book_polling(now, number);
        let queue = &mut self.queues[number as usize];
        queue.landed.push_back(packet);
        let ring = queue.moderator.completed(now, 1, false);
        match queue.state {
            State::Polling(_) => self.begin(engine, number, Work::Driver, 0.0),
            State::Armed(_) => self.ring(engine, number, ring),
            State::Ringing(_) | State::Napping(_) | State::Running => {}
        }
    }

    /// What the moderation says while the interrupt is armed.
    fn ring(&mut self, engine: &mut Engine<Event>, number: u32, ring: Ring) {
        let queue = &mut self.queues[number as usize];
        let State::Armed(since) = queue.state else { return };
        match ring {
            Ring::Now => {
                if let Some(timer) = queue.timer.take() {
                    engine.cancel(timer);
                }
                queue.state = State::Ringing(since);
                self.tally.interrupts += 1;
                engine.after(self.setup.attachment.latency(), Event::Interrupt(number));
            }
            Ring::At(at) if queue.timer.is_none() => {
                queue.timer = Some(engine.schedule(at, Event::Moderated(number)));
            }
            Ring::At(_) | Ring::Nothing => {}
        }
    }

    fn moderated(&mut self, engine: &mut Engine<Event>, number: u32) {
        let queue = &mut self.queues[number as usize];
        queue.timer = None;
        let ring = queue.moderator.due(engine.now());
        self.ring(engine, number, ring);
    }

    fn interrupt(&mut self, engine: &mut Engine<Event>, number: u32) {
        let queue = &mut self.queues[number as usize];
        if let State::Ringing(since) = queue.state {
            queue.waiter.parked(since, engine.now());
        }
        self.begin(engine, number, Work::Driver, self.setup.interrupt());
    }

    /// The driver's wait is over; it takes a batch after so much work.
    fn begin(&mut self, engine: &mut Engine<Event>, number: u32, work: Work, time: f64) {
        let queue = &mut self.queues[number as usize];
        queue.waiter.end(engine.now());
        queue.state = State::Running;
        if let Some(timer) = queue.timer.take() {
            engine.cancel(timer);
        }
        self.tally.add(work, time);
        engine.after(time as Nanos, Event::Take(number));
    }

    fn take(&mut self, engine: &mut Engine<Event>, number: u32) {
        let (packets, doorbells) = self.queues[number as usize].take();
        let time = self.setup.driver_time(packets, doorbells);
        self.tally.add(Work::Driver, time);
        engine.after(time as Nanos, Event::Driven(number));
    }

    fn driven(&mut self, engine: &mut Engine<Event>, number: u32) {
        self.queues[number as usize].refill();
        while let Some(packet) = self.queues[number as usize].next_held() {
            self.write(engine, packet);
        }
        self.deliver_next(engine, number);
    }

    fn deliver_next(&mut self, engine: &mut Engine<Event>, number: u32) {
        if self.queues[number as usize].batch.is_empty() {
            return self.end_batch(engine, number);
        }
        let time = self.setup.stack_time();
        self.tally.add(Work::Stack, time);
        engine.after(time as Nanos, Event::Delivered(number));
    }

    fn delivered(&mut self, engine: &mut Engine<Event>, number: u32) {
        if let Some(packet) = self.queues[number as usize].batch.pop_front() {
            self.tally.packets += 1;
            let connection = &mut self.connections[packet.connection as usize];
            connection.unread += u64::from(packet.bytes);
            if connection.reader == Reader::Asleep {
                connection.reader = Reader::Waking;
                self.tally.switches += 1;
                self.spend(engine, packet.connection, Work::Wake, self.setup.set.reader.wake_ns.get().round());
            }
        }
        self.deliver_next(engine, number);
    }

    /// Under moderation the driver sleeps after its batch; elsewhere it looks first whether more came.
    fn end_batch(&mut self, engine: &mut Engine<Event>, number: u32) {
        let queue = &self.queues[number as usize];
        if !queue.is_moderated() && !queue.landed.is_empty() {
            return self.begin(engine, number, Work::Driver, 0.0);
        }
        self.tally.add(Work::Driver, self.setup.rearm());
        self.wait(engine, number);
    }

    /// The driver found nothing, and its policy says how it waits.
    fn wait(&mut self, engine: &mut Engine<Event>, number: u32) {
        let now = engine.now();
        let queue = &mut self.queues[number as usize];
        match queue.waiter.step(now) {
            Step::Spin => {
                queue.state = State::Polling(now);
                queue.timer = Some(engine.after(LOOK, Event::Look(number)));
            }
            Step::Nap { until } => {
                queue.state = State::Napping(now);
                queue.timer = Some(engine.schedule(until, Event::Look(number)));
            }
            Step::Park => {
                queue.state = State::Armed(now);
                let ring = queue.moderator.due(now);
                self.ring(engine, number, ring);
            }
        }
    }

    /// The driver looks at its wait: it still polls, or its nap is over.
    fn look(&mut self, engine: &mut Engine<Event>, number: u32) {
        let now = engine.now();
        self.book_polling(now, number);
        let queue = &mut self.queues[number as usize];
        queue.timer = None;
        let State::Napping(since) = queue.state else { return self.wait(engine, number) };
        queue.waiter.parked(since, now);
        if queue.landed.is_empty() {
            self.tally.add(Work::Poll, self.setup.set.driver.interrupt_ns.get());
            return self.wait(engine, number);
        }
        self.begin(engine, number, Work::Driver, self.setup.set.driver.interrupt_ns.get());
    }

    /// A driver that polls has polled until now.
    fn book_polling(&mut self, now: Nanos, number: u32) {
        if let State::Polling(since) = &mut self.queues[number as usize].state {
            self.tally.add(Work::Poll, (now - *since) as f64);
            *since = now;
        }
    }

    /// The reader of a connection needs a processor for so long.
    fn spend(&mut self, engine: &mut Engine<Event>, connection: u32, work: Work, time: f64) {
        self.tally.add(work, time);
        self.occupy(engine, connection, time);
    }

    fn occupy(&mut self, engine: &mut Engine<Event>, connection: u32, time: f64) {
        let section = Section { owner: connection, level: Level::User, account: 0, time: time as Nanos };
        self.readers.run(engine, section);
    }

    fn section_done(&mut self, engine: &mut Engine<Event>, processor: u32) {
        let number = self.readers.finish(engine, processor).owner;
        match self.connections[number as usize].reader {
            Reader::Copying(bytes) => self.copied(engine, number, bytes),
            Reader::Sending => self.answered(engine, number),
            Reader::Waking | Reader::Asleep => self.copy(engine, number),
        }
    }

    /// The reader copies what is there, or sleeps.
    fn copy(&mut self, engine: &mut Engine<Event>, number: u32) {
        let connection = &mut self.connections[number as usize];
        if connection.unread == 0 {
            connection.reader = Reader::Asleep;
            return;
        }
        let (bytes, segments) = connection.take(self.setup.io, self.setup.segment);
        connection.reader = Reader::Copying(bytes);
        let (copy, call) = (self.setup.copy_time(bytes, segments), self.setup.call_time(bytes));
        self.tally.add(Work::Copy, copy);
        self.tally.add(Work::Call, call);
        self.occupy(engine, number, copy + call);
    }

    fn copied(&mut self, engine: &mut Engine<Event>, number: u32, bytes: u64) {
        let connection = &mut self.connections[number as usize];
        connection.unread -= bytes;
        self.tally.bytes += bytes;
        match self.setup.traffic {
            Traffic::Stream => self.return_credit(engine, number, bytes),
            Traffic::PingPong => {
                connection.message += bytes;
                if connection.message >= self.setup.io {
                    connection.message = 0;
                    connection.reader = Reader::Sending;
                    return self.spend(engine, number, Work::Call, self.setup.send_time());
                }
            }
        }
        self.copy(engine, number);
    }

    /// The answer is on its way; the client has it after link and its own delay.
    fn answered(&mut self, engine: &mut Engine<Event>, number: u32) {
        let delay =
            self.setup.fetch_time() + (self.setup.message_time() + self.setup.set.client.turnaround_us.ns()) as Nanos;
        engine.after(delay, Event::Ping(number));
        self.copy(engine, number);
    }

    fn ping(&mut self, engine: &mut Engine<Event>, number: u32) {
        if engine.now() > 0 {
            self.tally.round_trips += 1;
            self.tally.round_trips_ns += (engine.now() - self.connections[number as usize].sent) as f64;
        }
        self.send_message(engine, number);
    }
}

impl World for Nic {
    type Event = Event;

    fn handle(&mut self, engine: &mut Engine<Event>, event: Event) {
        match event {
            Event::Credit(connection, bytes) => {
                let sender = &mut self.connections[connection as usize];
                sender.credit += bytes;
                for _ in 0..sender.segments(self.setup.segment) {
                    let written = sender.writing.carry(engine.now(), self.setup.write_time());
                    engine.schedule(written, Event::Written(connection));
                }
            }
            Event::Written(connection) => self.send(engine, connection, self.setup.segment),
            Event::Ping(connection) => self.ping(engine, connection),
            Event::Arrived(packet) => {
                let queue = self.queue_of(packet) as usize;
                if self.queues[queue].accept(packet) {
                    self.write(engine, packet);
                }
            }
            Event::Landed(packet) => self.landed(engine, packet),
            Event::Moderated(queue) => self.moderated(engine, queue),
            Event::Interrupt(queue) => self.interrupt(engine, queue),
            Event::Look(queue) => self.look(engine, queue),
            Event::Take(queue) => self.take(engine, queue),
            Event::Driven(queue) => self.driven(engine, queue),
            Event::Delivered(queue) => self.delivered(engine, queue),
            Event::Section(processor) => self.section_done(engine, processor),
        }
    }
}
