//! The receiving side of a 10 Gbit/s network interface: on the processor's chip or behind PCI Express.
//!
//! Senders with a window each keep a link busy; the interface writes frames to memory over its bus and interrupts by
//! count and time; a driver on a hardware thread of its own for each receive queue takes batches, the protocol stack
//! delivers segment after segment, and a thread for each connection copies them out. The moderation is
//! [`Moderator`](sidecore_core::policy::notify::Moderator), the driver waits by
//! [`Waiter`](sidecore_core::policy::notify::Waiter). Modelled after: Liao and Bhuyan, "Performance Measurement of an
//! Integrated NIC Architecture with 10GbE", HOTI 2009, pages 52 to 59, and the driver of that interface in illumos.

mod attachment;
mod connection;
mod queue;
mod setup;
mod world;

use super::{Impossible, Metric, Model, Outcome};
use crate::engine::Engine;
pub(super) use setup::NetworkInterface;
use setup::{Setup, Traffic};
use sidecore_core::time::Nanos;
use world::{Nic, Tally, Work};

/// Segments that all windows together may have in flight: each is a pending event.
const MOST_IN_FLIGHT: u64 = 1 << 17;

/// Time until a run has settled, and the time that is measured after it, ns.
const WARM_UP: Nanos = 10_000_000;
const MEASURED: Nanos = 40_000_000;

pub(super) const METRICS: &[Metric] = &[
    Metric { name: "bandwidth_gbit_per_s", unit: "Gbit/s", meaning: "payload that the applications received" },
    Metric { name: "cpu_percent", unit: "%", meaning: "busy part of all hardware threads, polling included" },
    Metric { name: "driver_us_per_packet", unit: "us", meaning: "driver's time for a packet, its interrupts included" },
    Metric { name: "stack_us_per_packet", unit: "us", meaning: "protocol stack's time for a packet" },
    Metric { name: "copy_us_per_packet", unit: "us", meaning: "time to copy a packet out and free it" },
    Metric { name: "path_us_per_packet", unit: "us", meaning: "driver, stack and copy together" },
    Metric { name: "latency_us", unit: "us", meaning: "round trip of a ping-pong on the idle system, one connection" },
    Metric { name: "interrupts_per_s", unit: "1/s", meaning: "interrupts of all receive queues" },
    Metric { name: "packets_per_interrupt", unit: "1", meaning: "packets received for each interrupt" },
    Metric {
        name: "context_switches_per_s",
        unit: "1/s",
        meaning: "times a receiving thread was woken and switched in",
    },
    Metric { name: "polling_percent", unit: "%", meaning: "part of all hardware threads that polled in vain" },
];

impl Model for NetworkInterface {
    fn check(&self) -> Result<(), Impossible> {
        let wrong = |parameter, message| Err(Impossible { parameter, message });
        let (queues, threads) = (self.nic.queues.get(), self.processors());
        let (ring, kick) = (self.nic.ring.get(), self.driver.kick.get());
        let (window, segment) = (u64::from(self.client.window_bytes.get()), self.segment());
        let flying = window / segment * u64::from(self.client.connections.get());
        if queues >= threads {
            let message = format!("each has a hardware thread of its own, and of {threads} one is for readers");
            wrong("nic.queues", message)
        } else if ring < 2 * kick {
            let message = format!("{ring} buffers run out before {kick} are refilled: at least {}", 2 * kick);
            wrong("nic.ring", message)
        } else if self.nic.moderation_count.get() > ring {
            wrong("nic.moderation_count", format!("the ring holds {ring} packets: that count is never reached"))
        } else if window < segment {
            wrong("client.window_bytes", format!("no segment fits: at least {segment}"))
        } else if flying > MOST_IN_FLIGHT {
            let message = format!("{flying} segments in flight: at most {MOST_IN_FLIGHT} are simulated");
            wrong("client.window_bytes", message)
        } else {
            Ok(())
        }
    }

    fn run(&self, seed: u64) -> Outcome {
        let stream = Setup::new(self, Traffic::Stream);
        let (measured, limit, engine) = measure(stream, seed);
        let (pinged, _, pings) = measure(Setup::new(self, Traffic::PingPong), seed);
        let hardware_threads = f64::from(self.processors());
        let seconds = MEASURED as f64 / 1e9;
        let packets = measured.packets as f64;
        let per_packet = |work: Work| measured.time(work) / packets / 1e3;
        let percent = |time: f64| time / (MEASURED as f64 * hardware_threads) * 100.0;
        let (driver, stack, copy) = (per_packet(Work::Driver), per_packet(Work::Stack), per_packet(Work::Copy));
        let values = vec![
            measured.bytes as f64 * 8.0 / MEASURED as f64,
            percent(measured.busy()),
            driver,
            stack,
            copy,
            driver + stack + copy,
            pinged.round_trips_ns / pinged.round_trips as f64 / 1e3,
            measured.interrupts as f64 / seconds,
            packets / measured.interrupts as f64,
            measured.switches as f64 / seconds,
            percent(measured.time(Work::Poll)),
        ];
        let trace = engine.trace() ^ pings.trace().rotate_left(1);
        Outcome { values, limit, events: engine.events() + pings.events(), trace }
    }
}

/// What happened in the measured time, what was busiest in it, and the engine.
fn measure(setup: Setup, seed: u64) -> (Tally, String, Engine<world::Event>) {
    let mut engine = Engine::new(seed);
    let mut world = Nic::new(setup);
    world.start(&mut engine);
    engine.run(&mut world, WARM_UP);
    world.settle(WARM_UP);
    let before = world.tally().clone();
    engine.run(&mut world, WARM_UP + MEASURED);
    world.settle(WARM_UP + MEASURED);
    let measured = world.tally().since(&before);
    let limit = world.limit(&measured, MEASURED);
    (measured, limit, engine)
}
