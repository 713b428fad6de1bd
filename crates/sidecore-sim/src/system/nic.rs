//! The receiving side of a 10 Gbit/s network interface: on the processor's chip or behind PCI Express.
//!
//! Senders with a window each keep a link busy; the interface writes frames to memory over its bus and interrupts by
//! count and time; a driver on a hardware thread of its own for each receive queue takes batches, the protocol stack
//! delivers segment after segment, and a thread for each connection copies them out. The moderation is
//! [`Moderator`](sidecore_core::policy::notify::Moderator), the driver waits by
//! [`Waiter`](sidecore_core::policy::notify::Waiter). Modelled after: Liao and Bhuyan, "Performance Measurement of an
//! Integrated NIC Architecture with 10GbE", HOTI 2009, pages 52 to 59, and the driver of that interface in illumos.

mod parameters;
mod queue;
mod world;

use super::{Metric, Model, Outcome, Rule, metric};
use crate::engine::Engine;
pub(super) use parameters::NetworkInterface;
use sidecore_core::time::Nanos;
use world::{Count, Nic, Tally, Traffic};

/// Segments that all windows together may have in flight: each is a pending event.
const MOST_IN_FLIGHT: u64 = 1 << 17;

/// Time until a run has settled, and the time that is measured after it, ns.
const WARM_UP: Nanos = 10_000_000;
const MEASURED: Nanos = 40_000_000;

pub(super) const METRICS: &[Metric] = &[
    metric("bandwidth_gbit_per_s", "Gbit/s", "payload that the applications received"),
    metric("cpu_percent", "%", "busy part of all hardware threads, polling included"),
    metric("driver_us_per_packet", "us", "driver's time for a packet, its interrupts included"),
    metric("stack_us_per_packet", "us", "protocol stack's time for a packet"),
    metric("copy_us_per_packet", "us", "time to copy a packet out and free it"),
    metric("path_us_per_packet", "us", "driver, stack and copy together"),
    metric("latency_us", "us", "round trip of a ping-pong on the idle system, one connection"),
    metric("interrupts_per_s", "1/s", "interrupts of all receive queues"),
    metric("packets_per_interrupt", "1", "packets received for each interrupt"),
    metric("context_switches_per_s", "1/s", "times a receiving thread was woken and switched in"),
    metric("polling_percent", "%", "part of all hardware threads that polled in vain"),
];

impl Model for NetworkInterface {
    fn rules(&self) -> Vec<Rule> {
        let (queues, threads) = (self.nic.queues.get(), self.processors());
        let (ring, kick) = (self.nic.ring.get(), self.driver.kick.get());
        let (window, segment) = (u64::from(self.client.window_bytes.get()), self.segment());
        let flying = window / segment * u64::from(self.client.connections.get());
        let of_threads = format!("each has a hardware thread of its own, and of {threads} one is for readers");
        let too_few = format!("{ring} buffers run out before {kick} are refilled: at least {}", 2 * kick);
        let too_many = format!("the ring holds {ring} packets: that count is never reached");
        let too_far = format!("{flying} segments in flight: at most {MOST_IN_FLIGHT} are simulated");
        vec![
            (queues >= threads, "nic.queues", of_threads),
            (ring < 2 * kick, "nic.ring", too_few),
            (self.nic.moderation_count.get() > ring, "nic.moderation_count", too_many),
            (window < segment, "client.window_bytes", format!("no segment fits: at least {segment}")),
            (flying > MOST_IN_FLIGHT, "client.window_bytes", too_far),
        ]
    }

    fn run(&self, seed: u64) -> Outcome {
        let (measured, limit, trace) = measure(self, Traffic::Stream, seed);
        let (pinged, _, pings) = measure(self, Traffic::PingPong, seed);
        let of = |count: Count| measured[count as usize];
        let per_packet = |work| of(work) / of(Count::Packets) / 1e3;
        let per_second = |count| of(count) / (MEASURED as f64 / 1e9);
        let percent = |time: f64| time / (MEASURED as f64 * f64::from(self.processors())) * 100.0;
        let (driver, stack, copy) = (per_packet(Count::Driver), per_packet(Count::Stack), per_packet(Count::Copy));
        let values = vec![
            of(Count::Bytes) * 8.0 / MEASURED as f64,
            percent(measured[..=Count::Poll as usize].iter().sum()),
            driver,
            stack,
            copy,
            driver + stack + copy,
            pinged[Count::RoundTripTime as usize] / pinged[Count::RoundTrips as usize] / 1e3,
            per_second(Count::Interrupts),
            of(Count::Packets) / of(Count::Interrupts),
            per_second(Count::Switches),
            percent(of(Count::Poll)),
        ];
        Outcome { values, limit, trace: trace ^ pings.rotate_left(1) }
    }
}

/// What happened in the measured time, what was busiest in it, and the hash of the run.
fn measure(set: &NetworkInterface, traffic: Traffic, seed: u64) -> (Tally, String, u64) {
    let mut engine = Engine::new(seed);
    let mut world = Nic::new(set, traffic);
    world.start(&mut engine);
    let [before, after] = [WARM_UP, WARM_UP + MEASURED].map(|until| {
        engine.run(&mut world, until);
        world.tally_at(until)
    });
    let measured = std::array::from_fn(|count| after[count] - before[count]);
    (measured, world.limit(&measured, MEASURED as f64), engine.trace())
}
