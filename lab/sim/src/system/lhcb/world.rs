//! The world's events and their effects. End 0 sends, end 1 receives; in a ping-pong both do both.

use super::end::{End, INTERRUPT, OUT, Task};
use super::event::{LhcbEvent, Packet};
use super::parameters::{Lhcb, Traffic};
use crate::engine::{Engine, World};
use sidecore_core::time::Nanos;

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Done {
    /// Working time of the processor, ns.
    pub(super) busy: f64,
    pub(super) carried: f64,
    pub(super) interrupts: f64,
    pub(super) packets: f64,
}

/// Counts since the start: payloads in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sums {
    pub(super) sent: f64,
    pub(super) received: f64,
    pub(super) dropped: f64,
    pub(super) round_trips: f64,
    /// In ns.
    pub(super) round_trip_time: f64,
    pub(super) ends: [Done; 2],
}

impl Sums {
    pub(super) fn since(&self, before: &Self) -> Self {
        let done = |end: usize| {
            let (now, then) = (&self.ends[end], &before.ends[end]);
            Done {
                busy: now.busy - then.busy,
                carried: now.carried - then.carried,
                interrupts: now.interrupts - then.interrupts,
                packets: now.packets - then.packets,
            }
        };
        Self {
            sent: self.sent - before.sent,
            received: self.received - before.received,
            dropped: self.dropped - before.dropped,
            round_trips: self.round_trips - before.round_trips,
            round_trip_time: self.round_trip_time - before.round_trip_time,
            ends: [done(0), done(1)],
        }
    }
}

pub(super) struct Net {
    set: Lhcb,
    traffic: Traffic,
    payload: u64,
    ends: [End; 2],
    /// The end whose turn it is in a ping-pong, and the time of sending the message.
    turn: Option<usize>,
    sent_at: Nanos,
    sums: Sums,
}

impl Net {
    pub(super) fn new(set: &Lhcb, traffic: Traffic) -> Self {
        Self {
            set: *set,
            traffic,
            payload: set.payload(traffic),
            ends: [End::new(set, 0), End::new(set, 1)],
            turn: Some(0),
            sent_at: 0,
            sums: Sums::default(),
        }
    }

    pub(super) fn start(&mut self, engine: &mut Engine<LhcbEvent>) {
        self.go_on(engine, 0, 0.0);
    }

    pub(super) fn sums(&self) -> Sums {
        let ends = [0, 1].map(|end| {
            let end: &End = &self.ends[end];
            Done {
                busy: end.cpu.booked.iter().sum(),
                carried: end.bus.carried,
                interrupts: end.interrupts as f64,
                packets: end.packets as f64,
            }
        });
        Sums { ends, ..self.sums }
    }

    fn may_send(&self, end: usize) -> bool {
        let socket = &self.set.socket;
        let room = match self.traffic {
            Traffic::PingPong => return self.turn == Some(end),
            Traffic::Tcp => socket.window_bytes.get(),
            Traffic::Udp => socket.send_bytes.get(),
        };
        end == 0 && self.ends[0].outstanding + self.payload <= room.into()
    }

    /// The program at this end takes received data, or sends, or sleeps. `wake`: time to switch it in, ns.
    fn go_on(&mut self, engine: &mut Engine<LhcbEvent>, number: usize, wake: f64) {
        let (set, traffic) = (&self.set, self.traffic);
        let may_send = self.may_send(number);
        let end = &mut self.ends[number];
        if let Some(bytes) = end.socket.pop_front() {
            let copy = bytes as f64 * set.receive.byte_ns.get();
            let untold = end.untold + bytes;
            // TCP acknowledges every second segment; its calls take all available data.
            let tells = if traffic == Traffic::Tcp && untold >= 2 * self.payload { untold } else { 0 };
            end.untold = if traffic == Traffic::Tcp { untold - tells } else { 0 };
            let ack = if tells > 0 { set.kernel.ack_ns.get() } else { 0.0 };
            let call = if traffic == Traffic::Tcp && wake <= 0.0 { 0.0 } else { set.receive.call_ns.get() };
            end.work(engine, Task::Takes(bytes, tells), wake + call + copy + ack);
        } else if may_send {
            let time = set.send.packet_ns.get() + self.payload as f64 * set.send.byte_ns.get();
            end.work(engine, Task::Sends, wake + time);
        } else {
            end.task = Task::Asleep;
        }
    }

    fn wake(&mut self, engine: &mut Engine<LhcbEvent>, number: usize) {
        if self.ends[number].task == Task::Asleep && (!self.ends[number].socket.is_empty() || self.may_send(number)) {
            self.go_on(engine, number, self.set.kernel.wake_ns.get());
        }
    }

    fn worked(&mut self, engine: &mut Engine<LhcbEvent>, number: usize) {
        let (payload, traffic) = (self.payload, self.traffic);
        let end = &mut self.ends[number];
        match end.task {
            Task::Sends => {
                end.outstanding += payload;
                end.cross(engine, OUT, Packet::Data(payload), traffic);
                self.sums.sent += payload as f64;
                if traffic == Traffic::PingPong {
                    self.turn = None;
                    if number == 0 {
                        self.sent_at = engine.now();
                    }
                }
            }
            Task::Takes(bytes, tells) => {
                self.sums.received += bytes as f64;
                if tells > 0 {
                    end.cross(engine, OUT, Packet::Ack(tells), traffic);
                }
                if traffic == Traffic::PingPong {
                    self.turn = Some(number);
                    if number == 0 {
                        self.sums.round_trips += 1.0;
                        self.sums.round_trip_time += (engine.now() - self.sent_at) as f64;
                    }
                }
            }
            Task::Asleep => {}
        }
        self.go_on(engine, number, 0.0);
    }

    fn handled(&mut self, engine: &mut Engine<LhcbEvent>, number: usize) {
        let (came, gone) = self.ends[number].handled();
        let room = u64::from(self.set.socket.receive_bytes.get());
        let end = &mut self.ends[number];
        let mut queued: u64 = end.socket.iter().sum();
        for packet in came {
            match packet {
                Packet::Ack(bytes) => end.outstanding -= bytes,
                Packet::Data(bytes) => {
                    end.packets += 1;
                    // The window guarantees room for TCP data.
                    if self.traffic != Traffic::Tcp && queued + bytes > room {
                        self.sums.dropped += bytes as f64;
                    } else {
                        queued += bytes;
                        end.socket.push_back(bytes);
                    }
                }
            }
        }
        if self.traffic != Traffic::Tcp {
            end.outstanding -= gone.iter().sum::<u64>();
        }
        self.wake(engine, number);
        self.ends[number].rearm(engine, number, &self.set);
    }

    fn crossed(&mut self, engine: &mut Engine<LhcbEvent>, number: usize) {
        while let Some(way) = self.ends[number].bus.finish(engine) {
            let end = &mut self.ends[number];
            let packet = end.crossed(engine, way, self.traffic);
            if way == OUT {
                let time = self.set.wire_time(packet.frame(self.traffic));
                end.link_free = end.link_free.max(engine.now() as f64) + time;
                let at = end.link_free + self.set.link.latency_us.ns();
                engine.schedule(at.ceil() as Nanos, LhcbEvent::Carried(number, packet));
            } else {
                end.land(engine, packet, number, &self.set);
            }
        }
    }
}

impl World for Net {
    type Event = LhcbEvent;

    fn handle(&mut self, engine: &mut Engine<LhcbEvent>, event: LhcbEvent) {
        match event {
            LhcbEvent::Bus(number) => self.crossed(engine, number),
            LhcbEvent::Carried(from, packet) => {
                self.ends[from].went(engine, packet, from, &self.set);
                if let (false, Packet::Data(bytes)) =
                    (self.ends[1 - from].arrived(engine, packet, self.traffic), packet)
                {
                    self.sums.dropped += bytes as f64;
                }
            }
            LhcbEvent::Timer(number) => self.ends[number].timer(engine, number, &self.set),
            LhcbEvent::Section(number) => {
                let done = self.ends[number].cpu.finish(engine, 0, None, &[]);
                if done.owner == INTERRUPT {
                    self.handled(engine, number);
                } else {
                    self.worked(engine, number);
                }
            }
        }
    }
}
