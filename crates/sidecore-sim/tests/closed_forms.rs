//! The engine against queues whose mean waiting time is known, within 1 %.
//!
//! Waiting times in a long queue are strongly correlated, so 1 % needs tens of millions of requests. The means of gaps
//! and of service times are known too, and a batch with short gaps or long services has long waits. So the estimate is
//! corrected by linear regression of the batches' waits on both (control variates; Law and Kelton, "Simulation
//! Modeling and Analysis", chapter 11). It is unbiased except for terms of the order of one batch in all.

use sidecore_core::time::Nanos;
use sidecore_sim::engine::{Engine, Random, World};
use std::collections::VecDeque;

/// Mean service time, ns: long, so that rounding to nanoseconds is negligible.
const SERVICE: f64 = 100_000.0;
const BATCHES: usize = 200;
const LOADS: [f64; 3] = [0.5, 0.8, 0.9];

#[derive(Clone, Copy, Debug)]
enum Service {
    Exponential,
    Constant,
    /// One in ten takes 5.5 times the mean, the others half of it.
    TwoPoint,
    /// One in four has the mean 2.5, the others 0.5: both exponential.
    Hyperexponential,
}

impl Service {
    fn draw(self, random: &mut Random) -> f64 {
        let slow = |random: &mut Random, part| random.uniform() < part;
        match self {
            Self::Exponential => random.exponential(SERVICE),
            Self::Constant => SERVICE,
            Self::TwoPoint => SERVICE * if slow(random, 0.1) { 5.5 } else { 0.5 },
            Self::Hyperexponential => {
                let mean = if slow(random, 0.25) { 2.5 } else { 0.5 };
                random.exponential(SERVICE * mean)
            }
        }
    }

    /// Second moment over the square of the mean.
    fn second_moment(self) -> f64 {
        match self {
            Self::Exponential => 2.0,
            Self::Constant => 1.0,
            Self::TwoPoint => 0.1 * 5.5 * 5.5 + 0.9 * 0.25,
            Self::Hyperexponential => 2.0 * (0.25 * 2.5 * 2.5 + 0.75 * 0.25),
        }
    }
}

/// Sums over one batch of requests: gaps before them, service times, waiting times.
type Batch = [f64; 3];

struct Queue {
    service: Service,
    gap: f64,
    free: u32,
    waiting: VecDeque<(Nanos, usize)>,
    arrived: usize,
    requests: usize,
    batches: Vec<Batch>,
}

#[derive(Clone, Copy)]
enum QueueEvent {
    Arrival,
    Departure,
}

impl Queue {
    fn start(&mut self, engine: &mut Engine<QueueEvent>, arrived: Nanos, batch: usize) {
        let time = self.service.draw(engine.random());
        let [_, served, waited] = &mut self.batches[batch];
        (*served, *waited) = (*served + time, *waited + (engine.now() - arrived) as f64);
        engine.after(time.round() as Nanos, QueueEvent::Departure);
    }
}

impl World for Queue {
    type Event = QueueEvent;

    fn handle(&mut self, engine: &mut Engine<QueueEvent>, event: QueueEvent) {
        match event {
            QueueEvent::Arrival => {
                let batch = self.arrived * BATCHES / self.requests;
                self.arrived += 1;
                if self.arrived < self.requests {
                    let gap = engine.random().exponential(self.gap);
                    self.batches[self.arrived * BATCHES / self.requests][0] += gap;
                    engine.after(gap.round() as Nanos, QueueEvent::Arrival);
                }
                if self.free == 0 {
                    self.waiting.push_back((engine.now(), batch));
                } else {
                    self.free -= 1;
                    self.start(engine, engine.now(), batch);
                }
            }
            QueueEvent::Departure => match self.waiting.pop_front() {
                Some((arrived, batch)) => self.start(engine, arrived, batch),
                None => self.free += 1,
            },
        }
    }
}

/// Mean waiting time in units of the service time, corrected by the known means of gaps and services.
fn waiting(service: Service, servers: u32, load: f64, requests: usize) -> f64 {
    let gap = SERVICE / (f64::from(servers) * load);
    let batches = vec![[0.0; 3]; BATCHES];
    let mut queue = Queue { service, gap, free: servers, waiting: VecDeque::new(), arrived: 0, requests, batches };
    let mut engine = Engine::new(1);
    engine.schedule(0, QueueEvent::Arrival);
    engine.run(&mut queue, Nanos::MAX - 1);
    let each = (requests / BATCHES) as f64;
    let samples: Vec<[f64; 3]> = queue
        .batches
        .iter()
        .map(|[gaps, served, waited]| [gaps / each / gap - 1.0, served / each / SERVICE - 1.0, waited / each / SERVICE])
        .collect();
    corrected(&samples)
}

/// The last column's mean at 0 of the first two, whose means are known to be 0: least squares.
fn corrected(samples: &[[f64; 3]]) -> f64 {
    let count = samples.len() as f64;
    let mean = [0, 1, 2].map(|i| samples.iter().map(|sample| sample[i]).sum::<f64>() / count);
    let cov = |i: usize, j: usize| samples.iter().map(|s| (s[i] - mean[i]) * (s[j] - mean[j])).sum::<f64>();
    let (gaps, served, both) = (cov(0, 0), cov(1, 1), cov(0, 1));
    let determinant = gaps * served - both * both;
    // With constant services only the gaps vary.
    let slopes = if served > 1e-12 {
        [(cov(0, 2) * served - cov(1, 2) * both) / determinant, (cov(1, 2) * gaps - cov(0, 2) * both) / determinant]
    } else {
        [cov(0, 2) / gaps, 0.0]
    };
    mean[2] - slopes[0] * mean[0] - slopes[1] * mean[1]
}

/// Pollaczek and Khinchine, in units of the service time.
fn one_server(load: f64, second_moment: f64) -> f64 {
    load * second_moment / (2.0 * (1.0 - load))
}

/// Erlang's C over the spare capacity, in units of the service time.
fn many_servers(servers: u32, load: f64) -> f64 {
    let offered = f64::from(servers) * load;
    let (mut term, mut sum) = (1.0, 1.0);
    for number in 1..servers {
        term *= offered / f64::from(number);
        sum += term;
    }
    let last = term * offered / f64::from(servers) / (1.0 - load);
    last / (sum + last) / (f64::from(servers) * (1.0 - load))
}

fn agrees(service: Service, servers: u32, requests: [usize; 3]) {
    for (load, requests) in LOADS.into_iter().zip(requests) {
        let expected =
            if servers == 1 { one_server(load, service.second_moment()) } else { many_servers(servers, load) };
        let found = waiting(service, servers, load, requests);
        let off = found / expected - 1.0;
        println!("{service:?} k {servers} load {load}: {found:.4} for {expected:.4}, off by {:.2} %", off * 100.0);
        assert!(off.abs() < 0.01, "{service:?}, {servers} servers, load {load}: {found} for {expected}");
    }
}

#[test]
fn exponential_services_at_one_server() {
    agrees(Service::Exponential, 1, [4_000_000, 6_000_000, 12_000_000]);
}

#[test]
fn exponential_services_at_several_servers() {
    assert!((many_servers(1, 0.8) - one_server(0.8, 2.0)).abs() < 1e-12);
    agrees(Service::Exponential, 4, [4_000_000, 4_000_000, 8_000_000]);
}

#[test]
fn constant_services() {
    agrees(Service::Constant, 1, [2_000_000, 4_000_000, 8_000_000]);
}

#[test]
fn services_of_two_lengths() {
    agrees(Service::TwoPoint, 1, [4_000_000, 4_000_000, 12_000_000]);
}

#[test]
fn hyperexponential_services() {
    agrees(Service::Hyperexponential, 1, [8_000_000, 12_000_000, 12_000_000]);
}
