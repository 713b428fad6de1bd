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

use super::{Impossible, Metric, Outcome, System};
use crate::engine::Engine;
use crate::settings::{Kind, Parameter, Settings};
use setup::{Setup, Traffic};
use sidecore_core::time::Nanos;
use world::{Nic, Tally, Work};

/// The system `nic`.
#[derive(Debug)]
pub(super) struct NetworkInterface;

/// Time until a run has settled, and the time that is measured after it, ns.
const WARM_UP: Nanos = 10_000_000;
const MEASURED: Nanos = 40_000_000;

/// A parameter that is a number in that unit.
const fn number(name: &'static str, unit: &'static str, least: f64, most: f64) -> Parameter {
    Parameter { name, unit, kind: Kind::Number(least, most) }
}

/// A parameter that is a plain count.
const fn count(name: &'static str, unit: &'static str, least: u64, most: u64) -> Parameter {
    Parameter { name, unit, kind: Kind::Count(least, most) }
}

const PARAMETERS: &[Parameter] = &[
    Parameter { name: "nic.attachment", unit: "1", kind: Kind::Choice(&["integrated", "discrete"]) },
    count("nic.queues", "1", 1, 64),
    count("nic.ring", "1", 2, 65_536),
    count("nic.moderation_count", "1", 1, 4096),
    number("nic.moderation_us", "us", 1.0, 1e6),
    number("integrated.read_ns", "ns", 0.0, 1e5),
    number("integrated.write_ns", "ns", 0.0, 1e5),
    number("integrated.latency_ns", "ns", 0.0, 1e5),
    number("integrated.bus_gbit_per_s", "Gbit/s", 1.0, 1e4),
    count("integrated.burst_bytes", "B", 16, 4096),
    count("integrated.burst_overhead_bytes", "B", 0, 4096),
    number("integrated.sync_ns", "ns", 0.0, 1e5),
    number("integrated.cached_part", "1", 0.0, 1.0),
    number("discrete.read_ns", "ns", 0.0, 1e5),
    number("discrete.write_ns", "ns", 0.0, 1e5),
    number("discrete.latency_ns", "ns", 0.0, 1e5),
    number("discrete.bus_gbit_per_s", "Gbit/s", 1.0, 1e4),
    count("discrete.burst_bytes", "B", 16, 4096),
    count("discrete.burst_overhead_bytes", "B", 0, 4096),
    number("discrete.sync_ns", "ns", 0.0, 1e5),
    number("discrete.cached_part", "1", 0.0, 1.0),
    count("cpu.cores", "1", 1, 64),
    count("cpu.threads", "1", 1, 16),
    number("cpu.l2_ns", "ns", 0.0, 1e4),
    number("cpu.memory_ns", "ns", 0.0, 1e4),
    number("link.gbit_per_s", "Gbit/s", 0.1, 1e3),
    count("link.mtu_bytes", "B", 576, 16_000),
    count("client.connections", "1", 1, 1024),
    count("client.io_bytes", "B", 1, 1 << 30),
    count("client.window_bytes", "B", 1, 1 << 30),
    number("client.turnaround_us", "us", 0.0, 1e5),
    number("client.call_ns", "ns", 0.0, 1e6),
    number("client.segment_ns", "ns", 0.0, 1e6),
    count("client.ping_bytes", "B", 1, 65_536),
    Parameter {
        name: "driver.wait",
        unit: "1",
        kind: Kind::Choice(&["moderated", "spin", "park", "break-even", "learn", "timer"]),
    },
    number("driver.interrupt_ns", "ns", 0.0, 1e6),
    count("driver.reads", "1", 0, 64),
    count("driver.writes", "1", 0, 64),
    count("driver.kick", "1", 1, 1024),
    number("driver.packet_ns", "ns", 0.0, 1e6),
    number("driver.lines", "1", 0.0, 1e3),
    number("stack.packet_ns", "ns", 0.0, 1e6),
    number("stack.lines", "1", 0.0, 1e3),
    number("stack.send_ns", "ns", 0.0, 1e6),
    number("reader.call_ns", "ns", 0.0, 1e6),
    number("reader.wake_ns", "ns", 0.0, 1e6),
    number("reader.packet_ns", "ns", 0.0, 1e6),
    number("reader.byte_ns", "ns/B", 0.0, 1e3),
];

const METRICS: &[Metric] = &[
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

impl System for NetworkInterface {
    fn name(&self) -> &'static str {
        "nic"
    }

    fn parameters(&self) -> &'static [Parameter] {
        PARAMETERS
    }

    fn metrics(&self) -> &'static [Metric] {
        METRICS
    }

    fn check(&self, settings: &Settings) -> Result<(), Impossible> {
        setup::check(settings)
    }

    fn run(&self, settings: &Settings, seed: u64) -> Outcome {
        let stream = Setup::new(settings, Traffic::Stream);
        let (measured, limit, engine) = measure(stream, seed);
        let (pinged, _, pings) = measure(Setup::new(settings, Traffic::PingPong), seed);
        let hardware_threads = (settings.count("cpu.cores") * settings.count("cpu.threads")) as f64;
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
