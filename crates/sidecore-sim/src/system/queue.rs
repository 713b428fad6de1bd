//! One queue in front of equal servers: a textbook system with known results.
//!
//! It shows the correctness of the engine and its random numbers, and the speed of the engine.

use super::{Metric, Model, metric};
use crate::engine::{Engine, World};
use crate::outcome::Outcome;
use crate::settings::{Count, Ratio, Us, settings};
use sidecore_core::time::Nanos;
use std::collections::VecDeque;

settings! {
    Queue {
        arrivals: Arrivals {
            load: Ratio<1, 99>,
            count: Count<1_000, 1_000_000_000>,
        }
        server: Server {
            count: Count<1, 4096>,
            time_us: Us<100, 1_000_000_000>,
            distribution: Distribution,
        }
    }
    Distribution = Exponential | Constant | TwoPoint;
}

pub(super) const METRICS: &[Metric] = &[
    metric("wait_us", "us", "mean time from arrival to start of service"),
    metric("total_us", "us", "mean time from arrival to end of service"),
    metric("utilisation", "1", "part of the servers' time that was used"),
];

/// Slow requests of the two-point distribution: one in ten takes 5.5 times the mean, the others half of it.
const SLOW_PART: f64 = 0.1;
const SLOW: f64 = 5.5;
const FAST: f64 = 0.5;

impl Model for Queue {
    fn run(&self, seed: u64) -> Outcome {
        let (servers, time) = (f64::from(self.server.count.get()), self.server.time_us.ns());
        let count = self.arrivals.count.get();
        let mut world = Servers {
            service: self.server,
            gap: time / (servers * self.arrivals.load.get()),
            free: self.server.count.get(),
            left: count,
            waiting: VecDeque::new(),
            waited: 0.0,
            served: 0.0,
        };
        let mut engine = Engine::new(seed);
        engine.schedule(0, QueueEvent::Arrival);
        engine.run(&mut world, Nanos::MAX - 1);
        let mean = |sum: f64| sum / f64::from(count) / 1e3;
        let utilisation = world.served / (world.gap * f64::from(count) * servers);
        let values = vec![mean(world.waited), mean(world.waited + world.served), utilisation];
        let limit = format!("servers {:.0} %", utilisation * 100.0);
        Outcome { values, limit, trace: engine.trace() }
    }
}

#[derive(Clone, Copy, Debug)]
enum QueueEvent {
    Arrival,
    Departure,
}

struct Servers {
    service: Server,
    gap: f64,
    free: u32,
    left: u32,
    waiting: VecDeque<Nanos>,
    waited: f64,
    served: f64,
}

impl Servers {
    fn start(&mut self, engine: &mut Engine<QueueEvent>, arrived: Nanos) {
        let (random, mean) = (engine.random(), self.service.time_us.ns());
        let time = match self.service.distribution {
            Distribution::Exponential => random.exponential(mean),
            Distribution::TwoPoint if random.uniform() < SLOW_PART => mean * SLOW,
            Distribution::TwoPoint => mean * FAST,
            Distribution::Constant => mean,
        };
        self.waited += (engine.now() - arrived) as f64;
        self.served += time;
        engine.after(time.round() as Nanos, QueueEvent::Departure);
    }
}

impl World for Servers {
    type Event = QueueEvent;

    fn handle(&mut self, engine: &mut Engine<QueueEvent>, event: QueueEvent) {
        match event {
            QueueEvent::Arrival => {
                self.left -= 1;
                if self.left > 0 {
                    let gap = engine.random().exponential(self.gap);
                    engine.after(gap.round() as Nanos, QueueEvent::Arrival);
                }
                if self.free == 0 {
                    self.waiting.push_back(engine.now());
                } else {
                    self.free -= 1;
                    self.start(engine, engine.now());
                }
            }
            QueueEvent::Departure => match self.waiting.pop_front() {
                Some(arrived) => self.start(engine, arrived),
                None => self.free += 1,
            },
        }
    }
}
