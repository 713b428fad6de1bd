//! What happens, event by event.

use super::parameters::{LINE, NetworkInterface};
use super::queue::{Connection, Packet, Queue, Reader, Serial, State};
use crate::engine::{Engine, World};
use crate::part::cpu::{Cpu, Level, Section, Shape};
use crate::system::fullest;
use sidecore_core::policy::notify::{Notify, Ring, Step};
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
    /// The interrupt of that queue reached its hardware thread.
    Interrupt(u32),
    /// The timer of that queue: of its moderation, or of its driver's wait.
    Timer(u32),
    /// The driver takes a batch.
    Take(u32),
    /// The driver is done with its batch.
    Driven(u32),
    /// The stack is done with a packet.
    Delivered(u32),
    /// A reader's section is done on that processor.
    Section(u32),
}

/// What is summed up: first what processors spend time on, ns.
#[derive(Clone, Copy, Debug)]
pub(super) enum Count {
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
    Packets,
    Bytes,
    Interrupts,
    Switches,
    RoundTrips,
    RoundTripTime,
    /// Time that link and bus were busy, ns.
    Link,
    Bus,
}

/// Sums since the start, by [`Count`].
pub(super) type Tally = [f64; Count::Bus as usize + 1];

/// What the clients send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Traffic {
    /// As much as their windows allow.
    Stream,
    /// One client sends one message and waits for the answer.
    PingPong,
}

/// The machine and its clients.
pub(super) struct Nic {
    set: NetworkInterface,
    traffic: Traffic,
    /// Bytes of a call, and of a message.
    io: u64,
    /// Hardware threads that are left for readers.
    threads: u32,
    link: Serial,
    bus: Serial,
    queues: Vec<Queue>,
    connections: Vec<Connection>,
    readers: Cpu<Event>,
    tally: Tally,
}

impl Nic {
    /// Everything is idle.
    pub(super) fn new(set: &NetworkInterface, traffic: Traffic) -> Self {
        let (connections, io) = match traffic {
            Traffic::Stream => (set.client.connections.get(), set.client.io_bytes.get()),
            Traffic::PingPong => (1, set.client.ping_bytes.get()),
        };
        let threads = set.processors() - set.nic.queues.get();
        let shape = Shape { cores: threads, threads: 1, shared_speed: 1.0, switch: 0, accounts: 1 };
        Self {
            set: *set,
            traffic,
            io: io.into(),
            threads,
            link: Serial::default(),
            bus: Serial::default(),
            queues: (0..set.nic.queues.get()).map(|_| Queue::new(set)).collect(),
            connections: vec![Connection::default(); connections as usize],
            readers: Cpu::new(shape, Event::Section),
            tally: Tally::default(),
        }
    }

    /// Clients begin, and drivers wait.
    pub(super) fn start(&mut self, engine: &mut Engine<Event>) {
        let window = u64::from(self.set.client.window_bytes.get());
        for connection in 0..self.connections.len() as u32 {
            match self.traffic {
                Traffic::Stream => self.return_credit(engine, connection, window),
                Traffic::PingPong => _ = engine.after(0, Event::Ping(connection)),
            }
        }
        for queue in 0..self.queues.len() as u32 {
            self.wait(engine, queue);
        }
    }

    fn add(&mut self, count: Count, by: f64) {
        self.tally[count as usize] += by;
    }

    /// The sums at that instant: drivers that poll have polled until then.
    pub(super) fn tally_at(&mut self, now: Nanos) -> Tally {
        for queue in 0..self.queues.len() {
            self.book_polling(now, queue as u32);
        }
        (self.tally[Count::Link as usize], self.tally[Count::Bus as usize]) = (self.link.busy, self.bus.busy);
        self.tally
    }

    /// The part that was busiest in so many ns, and how busy.
    pub(super) fn limit(&self, measured: &Tally, time: f64) -> String {
        let of = |counts: &[Count]| counts.iter().map(|count| measured[*count as usize]).sum::<f64>() / time;
        let threads = self.threads.min(self.connections.len() as u32);
        let (name, part) = fullest(&[
            ("sender", of(&[Count::Link])),
            ("bus", of(&[Count::Bus])),
            ("queues", of(&[Count::Driver, Count::Stack]) / self.queues.len() as f64),
            ("readers", of(&[Count::Copy, Count::Call, Count::Wake]) / f64::from(threads)),
        ]);
        // Work is booked when it begins, so that a saturated part may seem a batch more than full.
        format!("{name} {:.0} %", part.min(1.0) * 100.0)
    }

    /// The sender hears of free window after its own delay, which varies.
    fn return_credit(&mut self, engine: &mut Engine<Event>, connection: u32, bytes: u64) {
        let half = self.set.client.turnaround_us.ns() / 2.0;
        let delay = half + engine.random().exponential(half);
        engine.after(delay as Nanos, Event::Credit(connection, bytes));
    }

    /// A frame goes onto the link behind those that are waiting, as fast as sender and link allow.
    fn send(&mut self, engine: &mut Engine<Event>, connection: u32, bytes: u64) {
        let gap = self.set.wire_time(bytes).max(self.set.client.segment_ns.get());
        let at = self.link.carry(engine.now(), gap);
        engine.schedule(at, Event::Arrived(Packet { connection, bytes: bytes as u32 }));
    }

    /// The interface writes a frame to memory.
    fn write(&mut self, engine: &mut Engine<Event>, packet: Packet) {
        let at = self.bus.carry(engine.now(), self.set.bus_time(u64::from(packet.bytes)));
        engine.schedule(at + self.set.attachment().latency(), Event::Landed(packet));
    }

    fn landed(&mut self, engine: &mut Engine<Event>, packet: Packet) {
        let (now, number) = (engine.now(), packet.connection % self.queues.len() as u32);
        self.book_polling(now, number);
        let queue = &mut self.queues[number as usize];
        queue.landed.push_back(packet);
        let ring = queue.moderator.completed(now, 1, false);
        match queue.state {
            State::Polling(_) => self.begin(engine, number, 0.0),
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
                _ = queue.timer.take().and_then(|timer| engine.cancel(timer));
                queue.state = State::Ringing(since);
                self.add(Count::Interrupts, 1.0);
                engine.after(self.set.attachment().latency(), Event::Interrupt(number));
            }
            Ring::At(at) if queue.timer.is_none() => queue.timer = Some(engine.schedule(at, Event::Timer(number))),
            Ring::At(_) | Ring::Nothing => {}
        }
    }

    /// The driver's wait is over; it takes a batch after so much work.
    fn begin(&mut self, engine: &mut Engine<Event>, number: u32, time: f64) {
        let queue = &mut self.queues[number as usize];
        queue.waiter.end(engine.now());
        queue.state = State::Running;
        _ = queue.timer.take().and_then(|timer| engine.cancel(timer));
        self.add(Count::Driver, time);
        engine.after(time as Nanos, Event::Take(number));
    }

    /// The stack takes the next packet of the batch, if there is one. Under moderation the driver sleeps after its batch;
    /// elsewhere it looks first whether more came.
    fn deliver_next(&mut self, engine: &mut Engine<Event>, number: u32) {
        let queue = &self.queues[number as usize];
        if !queue.batch.is_empty() {
            let stack = &self.set.stack;
            let time = stack.packet_ns.get() + stack.lines.get() * self.set.line();
            self.add(Count::Stack, time);
            engine.after(time as Nanos, Event::Delivered(number));
        } else if !matches!(queue.waiter.policy(), Notify::Coalesce { .. }) && !queue.landed.is_empty() {
            self.begin(engine, number, 0.0);
        } else {
            let registers = f64::from(self.set.driver.writes.get());
            self.add(Count::Driver, registers * self.set.attachment().write_ns.get());
            self.wait(engine, number);
        }
    }

    fn delivered(&mut self, engine: &mut Engine<Event>, number: u32) {
        if let Some(packet) = self.queues[number as usize].batch.pop_front() {
            self.add(Count::Packets, 1.0);
            let connection = &mut self.connections[packet.connection as usize];
            connection.unread += u64::from(packet.bytes);
            if connection.reader == Reader::Asleep {
                connection.reader = Reader::Waking;
                self.add(Count::Switches, 1.0);
                self.spend(engine, packet.connection, &[(Count::Wake, self.set.reader.wake_ns.get().round())]);
            }
        }
        self.deliver_next(engine, number);
    }

    /// The driver found nothing, and its policy says how it waits.
    fn wait(&mut self, engine: &mut Engine<Event>, number: u32) {
        let now = engine.now();
        let queue = &mut self.queues[number as usize];
        match queue.waiter.step(now) {
            Step::Spin => {
                queue.state = State::Polling(now);
                queue.timer = Some(engine.after(LOOK, Event::Timer(number)));
            }
            Step::Nap { until } => {
                queue.state = State::Napping(now);
                queue.timer = Some(engine.schedule(until, Event::Timer(number)));
            }
            Step::Park => {
                queue.state = State::Armed(now);
                let ring = queue.moderator.due(now);
                self.ring(engine, number, ring);
            }
        }
    }

    /// The timer rings: what was put off is due, or the driver looks at its wait: it still polls, or its nap is over.
    fn look(&mut self, engine: &mut Engine<Event>, number: u32) {
        let now = engine.now();
        self.book_polling(now, number);
        let queue = &mut self.queues[number as usize];
        queue.timer = None;
        match queue.state {
            State::Armed(_) => {
                let ring = queue.moderator.due(now);
                self.ring(engine, number, ring);
            }
            State::Napping(since) => {
                queue.waiter.parked(since, now);
                let time = self.set.driver.interrupt_ns.get();
                if !queue.landed.is_empty() {
                    return self.begin(engine, number, time);
                }
                self.add(Count::Poll, time);
                self.wait(engine, number);
            }
            State::Polling(_) | State::Ringing(_) | State::Running => self.wait(engine, number),
        }
    }

    /// A driver that polls has polled until now.
    fn book_polling(&mut self, now: Nanos, number: u32) {
        if let State::Polling(since) = &mut self.queues[number as usize].state {
            let polled = now - std::mem::replace(since, now);
            self.add(Count::Poll, polled as f64);
        }
    }

    /// The reader of a connection needs a processor for that.
    fn spend(&mut self, engine: &mut Engine<Event>, connection: u32, work: &[(Count, f64)]) {
        let mut sum = 0.0;
        for (count, time) in work {
            self.add(*count, *time);
            sum += time;
        }
        let section = Section { owner: connection, level: Level::User, account: 0, time: sum as Nanos };
        self.readers.run(engine, section);
    }

    /// The reader copies what is there, or sleeps.
    fn copy(&mut self, engine: &mut Engine<Event>, number: u32) {
        let connection = &mut self.connections[number as usize];
        if connection.unread == 0 {
            connection.reader = Reader::Asleep;
            return;
        }
        let (bytes, segments) = connection.take(self.io, self.set.segment());
        connection.reader = Reader::Copying(bytes);
        let reader = &self.set.reader;
        let copy =
            bytes as f64 * (reader.byte_ns.get() + self.set.line() / LINE) + segments as f64 * reader.packet_ns.get();
        let call = bytes.div_ceil(self.io) as f64 * reader.call_ns.get();
        self.spend(engine, number, &[(Count::Copy, copy), (Count::Call, call)]);
    }

    fn copied(&mut self, engine: &mut Engine<Event>, number: u32, bytes: u64) {
        let connection = &mut self.connections[number as usize];
        connection.unread -= bytes;
        self.tally[Count::Bytes as usize] += bytes as f64;
        match self.traffic {
            Traffic::Stream => self.return_credit(engine, number, bytes),
            Traffic::PingPong => {
                connection.message += bytes;
                if connection.message >= self.io {
                    connection.message = 0;
                    connection.reader = Reader::Sending;
                    let frames = self.io.div_ceil(self.set.segment()) as f64;
                    let send = self.set.stack.send_ns.get() + self.set.attachment().write_ns.get();
                    return self.spend(engine, number, &[(Count::Call, frames * send)]);
                }
            }
        }
        self.copy(engine, number);
    }

    /// The answer is on its way: from its doorbell on the interface reads the descriptor and then the payload, each there
    /// and back. The client has it after link and its own delay.
    fn answered(&mut self, engine: &mut Engine<Event>, number: u32) {
        let fetch = 5 * self.set.attachment().latency();
        let (full, last) = ((self.io - 1) / self.set.segment(), (self.io - 1) % self.set.segment() + 1);
        let time = |payload| self.set.wire_time(payload) + self.set.bus_time(payload);
        let rest = full as f64 * time(self.set.segment()) + time(last) + self.set.client.turnaround_us.ns();
        engine.after(fetch + rest as Nanos, Event::Ping(number));
        self.copy(engine, number);
    }

    /// The client has its answer, if it sent something, and sends its next message.
    fn ping(&mut self, engine: &mut Engine<Event>, number: u32) {
        let sent = std::mem::replace(&mut self.connections[number as usize].sent, engine.now());
        if engine.now() > 0 {
            self.add(Count::RoundTrips, 1.0);
            self.add(Count::RoundTripTime, (engine.now() - sent) as f64);
        }
        let mut left = self.io;
        while left > 0 {
            let bytes = left.min(self.set.segment());
            self.send(engine, number, bytes);
            left -= bytes;
        }
    }
}

impl World for Nic {
    type Event = Event;

    fn handle(&mut self, engine: &mut Engine<Event>, event: Event) {
        match event {
            Event::Credit(connection, bytes) => {
                let segment = self.set.segment();
                // Time of the calls by which a client writes a full segment.
                let time = segment as f64 / self.io as f64 * self.set.client.call_ns.get();
                let sender = &mut self.connections[connection as usize];
                sender.credit += bytes;
                for _ in 0..sender.segments(segment) {
                    let written = sender.writing.carry(engine.now(), time);
                    engine.schedule(written, Event::Written(connection));
                }
            }
            Event::Written(connection) => self.send(engine, connection, self.set.segment()),
            Event::Ping(connection) => self.ping(engine, connection),
            Event::Arrived(packet) => {
                // Connections are spread evenly over the queues.
                let queue = packet.connection as usize % self.queues.len();
                if self.queues[queue].accept(packet) {
                    self.write(engine, packet);
                }
            }
            Event::Landed(packet) => self.landed(engine, packet),
            Event::Interrupt(number) => {
                let queue = &mut self.queues[number as usize];
                if let State::Ringing(since) = queue.state {
                    queue.waiter.parked(since, engine.now());
                }
                self.begin(engine, number, self.set.interrupt());
            }
            Event::Timer(queue) => self.look(engine, queue),
            Event::Take(number) => {
                let (packets, doorbells) = self.queues[number as usize].take();
                let (NetworkInterface { driver, .. }, attachment) = (&self.set, self.set.attachment());
                let packet = driver.packet_ns.get() + driver.lines.get() * self.set.line() + attachment.sync_ns.get();
                let time = packets as f64 * packet + doorbells as f64 * attachment.write_ns.get();
                self.add(Count::Driver, time);
                engine.after(time as Nanos, Event::Driven(number));
            }
            Event::Driven(queue) => {
                self.queues[queue as usize].refill();
                while let Some(packet) = self.queues[queue as usize].next_held() {
                    self.write(engine, packet);
                }
                self.deliver_next(engine, queue);
            }
            Event::Delivered(queue) => self.delivered(engine, queue),
            Event::Section(processor) => {
                let number = self.readers.finish(engine, processor, None, &[]).owner;
                match self.connections[number as usize].reader {
                    Reader::Copying(bytes) => self.copied(engine, number, bytes),
                    Reader::Sending => self.answered(engine, number),
                    Reader::Waking | Reader::Asleep => self.copy(engine, number),
                }
            }
        }
    }
}
