//! Two computers with one processor each, joined by one link: throughput of a TCP or UDP stream between two programs.
//!
//! Each interface reaches memory over a bus of its own, used in both directions. It raises interrupts by count and
//! time of received and sent frames, by [`Moderator`](sidecore_core::policy::notify::Moderator). An interrupt's work
//! goes before the program's, on the same processor. Modelled after: W. Thannhaeuser, "Network Performance
//! Optimisation and Load Balancing", slides.

mod end;
mod event;
mod parameters;
mod world;

use super::{Metric, Model, Rule, fullest, metric};
use crate::engine::Engine;
use crate::outcome::Outcome;
pub(super) use parameters::Lhcb;
use parameters::Traffic;
use sidecore_core::time::Nanos;
use world::{Net, Sums};

/// Time for a run to settle, and measured time after it, ns.
const WARM_UP: Nanos = 50_000_000;
const MEASURED: Nanos = 400_000_000;

pub(super) const METRICS: &[Metric] = &[
    metric("tcp_mbit_per_s", "Mbit/s", "payload that the program received by TCP"),
    metric("udp_sent_mbit_per_s", "Mbit/s", "payload that the program sent by UDP"),
    metric("udp_received_mbit_per_s", "Mbit/s", "payload that the program received by UDP"),
    metric("udp_lost_percent", "%", "part of what was sent by UDP that the receiver dropped"),
    metric("latency_us", "us", "round trip of a ping-pong on the idle system"),
    metric("sender_cpu_percent", "%", "busy part of the sender's processor, by UDP"),
    metric("receiver_cpu_percent", "%", "busy part of the receiver's processor, by UDP"),
    metric("bus_percent", "%", "part of what the sender's bus can carry, by UDP"),
    metric("tcp_receiver_cpu_percent", "%", "busy part of the receiver's processor, by TCP"),
    metric("interrupts_per_s", "1/s", "the receiver's interrupts, by UDP"),
    metric("packets_per_interrupt", "1", "packets received for each interrupt, by UDP"),
];

impl Model for Lhcb {
    fn rules(&self) -> Vec<Rule> {
        let ring = self.nic.ring.get();
        let window = 2 * self.payload(Traffic::Tcp);
        let datagram = self.payload(Traffic::Udp);
        let too_many = format!("the ring holds {ring} frames: that count is never reached");
        let flying = u64::from(self.socket.window_bytes.get()) / self.payload(Traffic::Tcp);
        let too_wide =
            format!("{flying} segments in flight, more than the ring's {ring}: nothing that is lost is sent again");
        let too_small = |least: u64| format!("no two packets fit: at least {least}");
        vec![
            (self.nic.moderation_count.get() > ring, "nic.moderation_count", too_many),
            (u64::from(self.socket.window_bytes.get()) < window, "socket.window_bytes", too_small(window)),
            (flying > ring.into(), "socket.window_bytes", too_wide),
            (u64::from(self.socket.send_bytes.get()) < 2 * datagram, "socket.send_bytes", too_small(2 * datagram)),
            (
                u64::from(self.socket.receive_bytes.get()) < 2 * datagram,
                "socket.receive_bytes",
                too_small(2 * datagram),
            ),
            (
                u64::from(self.socket.ping_bytes.get()) > datagram,
                "socket.ping_bytes",
                format!("a message is one packet, at most {datagram}"),
            ),
        ]
    }

    fn run(&self, seed: u64) -> Outcome {
        let [(tcp, one), (udp, two), (ping, three)] =
            [Traffic::Tcp, Traffic::Udp, Traffic::PingPong].map(|traffic| measure(self, traffic, seed));
        let rate = |bytes: f64| bytes * 8e3 / MEASURED as f64;
        let percent = |part: f64| part / MEASURED as f64 * 100.0;
        let (sender, receiver) = (udp.ends[0], udp.ends[1]);
        let bus = sender.carried / self.bus_bytes_per_ns();
        let limits = [("sender", sender.busy), ("receiver", receiver.busy), ("bus", bus)];
        let (name, part) = fullest(&limits.map(|(name, time)| (name, percent(time))));
        let values = vec![
            rate(tcp.received),
            rate(udp.sent),
            rate(udp.received),
            100.0 * udp.dropped / udp.sent,
            ping.round_trip_time / ping.round_trips / 1e3,
            percent(sender.busy),
            percent(receiver.busy),
            percent(bus),
            percent(tcp.ends[1].busy),
            receiver.interrupts / (MEASURED as f64 / 1e9),
            receiver.packets / receiver.interrupts,
        ];
        let trace = one ^ two.rotate_left(1) ^ three.rotate_left(2);
        Outcome { values, limit: format!("{name} {:.0} %", part.min(100.0)), trace }
    }
}

fn measure(set: &Lhcb, traffic: Traffic, seed: u64) -> (Sums, u64) {
    let mut engine = Engine::new(seed);
    let mut world = Net::new(set, traffic);
    world.start(&mut engine);
    let [before, after] = [WARM_UP, WARM_UP + MEASURED].map(|until| {
        engine.run(&mut world, until);
        world.sums()
    });
    (after.since(&before), engine.trace())
}
