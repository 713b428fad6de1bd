//! One queue in front of equal servers: the textbook's system, whose answers are known.
//!
//! It shows that the engine and its random numbers are right, and how fast the engine is.

use super::{Impossible, Metric, Outcome, System};
use crate::engine::{Engine, World};
use crate::settings::{Kind, Parameter, Settings};
use sidecore_core::time::Nanos;
use std::collections::VecDeque;

/// The system `queue`.
#[derive(Debug)]
pub(super) struct Queue;

const PARAMETERS: &[Parameter] = &[
    Parameter { name: "arrivals.load", unit: "1", kind: Kind::Number(0.01, 0.99) },
    Parameter { name: "arrivals.count", unit: "1", kind: Kind::Count(1_000, 1_000_000_000) },
    Parameter { name: "server.count", unit: "1", kind: Kind::Count(1, 4096) },
    Parameter { name: "server.time_us", unit: "us", kind: Kind::Number(0.1, 1e6) },
    Parameter { name: "server.distribution", unit: "1", kind: Kind::Choice(&["exponential", "constant", "two-point"]) },
];

const METRICS: &[Metric] = &[
    Metric { name: "wait_us", unit: "us", meaning: "mean time from arrival to start of service" },
    Metric { name: "total_us", unit: "us", meaning: "mean time from arrival to end of service" },
    Metric { name: "utilisation", unit: "1", meaning: "part of the servers' time that was used" },
];

/// Slow requests of the two-point distribution: one in ten takes 5.5 times the mean, the others half of it.
const SLOW_PART: f64 = 0.1;
const SLOW: f64 = 5.5;
const FAST: f64 = 0.5;

impl System for Queue {
    fn name(&self) -> &'static str {
        "queue"
    }

    fn parameters(&self) -> &'static [Parameter] {
        PARAMETERS
    }

    fn metrics(&self) -> &'static [Metric] {
        METRICS
    }

    fn check(&self, _: &Settings) -> Result<(), Impossible> {
        Ok(())
    }

    fn run(&self, settings: &Settings, seed: u64) -> Outcome {
        let (servers, time) = (settings.count("server.count"), settings.exact_nanos("server.time_us"));
        let count = settings.count("arrivals.count");
        let mut world = Servers {
            service: settings.word("server.distribution"),
            time,
            gap: time / (servers as f64 * settings.number("arrivals.load")),
            free: servers,
            left: count,
            waiting: VecDeque::new(),
            waited: 0.0,
            served: 0.0,
        };
        let mut engine = Engine::new(seed);
        engine.schedule(0, Event::Arrival);
        engine.run(&mut world, Nanos::MAX - 1);
        let mean = |sum: f64| sum / count as f64 / 1e3;
        let utilisation = world.served / (world.gap * count as f64 * servers as f64);
        let values = vec![mean(world.waited), mean(world.waited + world.served), utilisation];
        let limit = format!("servers {:.0} %", utilisation * 100.0);
        Outcome { values, limit, events: engine.events(), trace: engine.trace() }
    }
}

#[derive(Clone, Copy, Debug)]
enum Event {
    Arrival,
    Departure,
}

#[derive(Debug)]
struct Servers {
    service: &'static str,
    time: f64,
    gap: f64,
    free: u64,
    left: u64,
    waiting: VecDeque<Nanos>,
    waited: f64,
    served: f64,
}

impl Servers {
    fn start(&mut self, engine: &mut Engine<Event>, arrived: Nanos) {
        let random = engine.random();
        let time = match self.service {
            "exponential" => random.exponential(self.time),
            "two-point" if random.uniform() < SLOW_PART => self.time * SLOW,
            "two-point" => self.time * FAST,
            _ => self.time,
        };
        self.waited += (engine.now() - arrived) as f64;
        self.served += time;
        engine.after(time.round() as Nanos, Event::Departure);
    }
}

impl World for Servers {
    type Event = Event;

    fn handle(&mut self, engine: &mut Engine<Event>, event: Event) {
        match event {
            Event::Arrival => {
                self.left -= 1;
                if self.left > 0 {
                    let gap = engine.random().exponential(self.gap);
                    engine.after(gap.round() as Nanos, Event::Arrival);
                }
                if self.free == 0 {
                    self.waiting.push_back(engine.now());
                } else {
                    self.free -= 1;
                    self.start(engine, engine.now());
                }
            }
            Event::Departure => match self.waiting.pop_front() {
                Some(arrived) => self.start(engine, arrived),
                None => self.free += 1,
            },
        }
    }
}
