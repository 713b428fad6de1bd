//! Devices of a pool: rings, engines, batches.

use crate::engine::Random;
use sidecore_core::inflight::Ticket;
use sidecore_core::policy::gather::{BatchPolicy, Begin};
use sidecore_core::time::Nanos;
use std::collections::VecDeque;

/// Time of an operation on an engine.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Time {
    /// Fixed, and per byte, ns.
    Linear { fixed: f64, per_byte: f64 },
    /// Sizes in order, bytes, each with its time, ns. Linear between them, constant outside.
    BySize(Vec<(f64, f64)>),
    /// Times of batches of 1, 2, … requests, ns; larger ones are done one after another.
    ByFill(Vec<f64>),
}

impl Time {
    /// Time of one request alone, ns.
    pub(super) fn alone(&self, bytes: u32) -> f64 {
        let bytes = f64::from(bytes);
        match self {
            Self::Linear { fixed, per_byte } => fixed + per_byte * bytes,
            Self::ByFill(times) => times[0],
            Self::BySize(points) => {
                let after = points.partition_point(|(size, _)| *size < bytes);
                match (after.checked_sub(1).map(|at| points[at]), points.get(after)) {
                    (Some((low, least)), Some((high, most))) => least + (most - least) * (bytes - low) / (high - low),
                    (Some((_, time)), None) | (None, Some(&(_, time))) => time,
                    (None, None) => 0.0,
                }
            }
        }
    }

    /// Addition of each of that number of requests to a batch, ns.
    fn in_batch(&self, bytes: u32, fill: usize) -> f64 {
        match self {
            Self::ByFill(times) => {
                let (whole, rest) = (fill / times.len(), fill % times.len());
                let last = if rest == 0 { 0.0 } else { times[rest - 1] };
                (times[times.len() - 1] * whole as f64 + last) / fill as f64
            }
            _ => self.alone(bytes),
        }
    }
}

/// Devices that are alike.
#[derive(Clone, Debug)]
pub(super) struct Kind {
    pub(super) name: String,
    pub(super) count: u32,
    pub(super) engines: u32,
    pub(super) ring: u32,
    /// There and back, ns.
    pub(super) latency: Nanos,
    pub(super) on_bus: bool,
    pub(super) exponential: bool,
    /// Reported times as a multiple of the true ones.
    pub(super) reports: f64,
    /// Whether batches begin as on the service's batch device, and its policy, if the plan has its times.
    pub(super) like_service: bool,
    pub(super) gather: Option<BatchPolicy>,
    /// Least and most requests of a batch.
    pub(super) batch: (usize, usize),
    pub(super) linger: Nanos,
    pub(super) launch: f64,
    /// From, until, factor.
    pub(super) slow: (Nanos, Nanos, f64),
    /// Death and return of the first device, ns; 0: never.
    pub(super) fails: (Nanos, Nanos),
    /// By operation.
    pub(super) times: Vec<Option<Time>>,
}

impl Kind {
    /// A request's part of a device's time where the device is full, ns.
    pub(super) fn part(&self, operation: usize, bytes: u32) -> Option<f64> {
        let time = self.times[operation].as_ref()?;
        let fill = self.batch.1;
        let whole = self.launch / fill as f64 + time.in_batch(bytes, fill);
        Some(whole / f64::from(self.engines))
    }

    /// Time that the device reports for each request of a batch, ns.
    pub(super) fn reported(&self, fill: usize, time: Nanos) -> Nanos {
        let share = match &self.gather {
            Some(policy) => policy.part_of(fill, time) as f64,
            None => time as f64 / fill as f64 / f64::from(self.engines),
        };
        (share * self.reports).round() as Nanos
    }
}

/// A request on a device.
#[derive(Clone, Copy, Debug)]
pub(super) struct Task {
    pub(super) ticket: Ticket,
    pub(super) operation: usize,
    pub(super) bytes: u32,
}

/// One device.
#[derive(Debug)]
pub(super) struct Device {
    pub(super) kind: usize,
    /// Whether times of slowness and death are its own: it is the first of its kind.
    pub(super) is_first: bool,
    /// Requests with their time of arrival, or at which [`Self::gather`] saw them, ns.
    waiting: VecDeque<(Task, Nanos)>,
    gather: Option<BatchPolicy>,
    /// Number of waiting requests that it saw.
    seen: usize,
    /// By engine.
    working: Vec<Vec<Task>>,
    idle: Vec<usize>,
    /// A look at the ring is scheduled for this time.
    pub(super) due: Option<Nanos>,
    /// Rises with each death: events of an earlier life have no effect.
    pub(super) life: u32,
    /// Time of engines in work, ns.
    pub(super) busy: f64,
}

/// A batch that begins.
#[derive(Clone, Copy, Debug)]
pub(super) struct Begun {
    pub(super) engine: usize,
    pub(super) time: Nanos,
    pub(super) fill: usize,
}

impl Device {
    pub(super) fn new(number: usize, is_first: bool, kind: &Kind) -> Self {
        let engines = kind.engines as usize;
        Self {
            kind: number,
            is_first,
            waiting: VecDeque::new(),
            gather: kind.gather.clone(),
            seen: 0,
            working: vec![Vec::new(); engines],
            idle: (0..engines).rev().collect(),
            due: None,
            life: 0,
            busy: 0.0,
        }
    }

    pub(super) fn submit(&mut self, now: Nanos, task: Task) {
        self.waiting.push_back((task, now));
    }

    /// Begins a batch if an engine is idle and requests or time suffice. Else says when to look again.
    pub(super) fn begin(&mut self, now: Nanos, kind: &Kind, random: &mut Random) -> Result<Begun, Option<Nanos>> {
        let (Some((_, since)), Some(engine)) = (self.waiting.front(), self.idle.last().copied()) else {
            return Err(None);
        };
        let until = since + kind.linger;
        let fill = match &mut self.gather {
            Some(policy) => {
                for (_, since) in self.waiting.iter_mut().skip(self.seen) {
                    policy.arrived(now);
                    *since = now;
                }
                self.seen = self.waiting.len();
                match policy.decide(now, self.seen, self.waiting[0].1, false) {
                    Begin::Now(fill) => fill,
                    Begin::At(until) => return Err(Some(until)),
                }
            }
            None if self.waiting.len() < kind.batch.0 && now < until => return Err(Some(until)),
            None => self.waiting.len().min(kind.batch.1),
        };
        self.idle.pop();
        self.seen = self.seen.saturating_sub(fill);
        let tasks = &mut self.working[engine];
        tasks.extend(self.waiting.drain(..fill).map(|(task, _)| task));
        let added =
            |task: &Task| kind.times[task.operation].as_ref().map_or(0.0, |time| time.in_batch(task.bytes, fill));
        let mean = kind.launch + tasks.iter().map(added).sum::<f64>();
        let work = if kind.exponential { random.exponential(mean) } else { mean };
        let (from, to, factor) = kind.slow;
        let is_slow = self.is_first && now >= from && (to == 0 || now < to);
        let time = if is_slow { work * factor } else { work };
        self.busy += time;
        Ok(Begun { engine, time: time.round() as Nanos, fill })
    }

    /// The requests of an engine that has ended.
    pub(super) fn end(&mut self, engine: usize) -> Vec<Task> {
        self.idle.push(engine);
        std::mem::take(&mut self.working[engine])
    }

    /// All requests and work are lost.
    pub(super) fn die(&mut self) {
        self.waiting.clear();
        self.seen = 0;
        self.working.iter_mut().for_each(Vec::clear);
        self.idle = (0..self.working.len()).rev().collect();
        self.due = None;
        self.life += 1;
    }
}
