//! Requests through a lane. Payload is copied into the arena before each request, and the result out of it afterwards,
//! as in a program with its own data.

use super::{Measured, OVERSLEEP, Stages};
use crate::bench::error::BenchError;
use sidecore::client::{Buffer, Client, Error, Received, Request, Session};
use sidecore::core::wire::{Extent, Status};
use sidecore::engine::crypto::sample::Sample;
use sidecore_ipc::sys::clock;
use sidecore_sim::engine::Random;
use std::thread;
use std::time::Duration;

const BATCH: u64 = 256;
/// Completions are counted in larger batches until one batch lasts this long, ns.
const MIN_BATCH_NS: u64 = 20_000;
const RING_EVERY: usize = 32;
/// A run with fewer requests continues until one of them carried stage times: otherwise it measured nothing.
const FEW: u64 = 64;
const TAKE: usize = 8;

/// One request's place in the arena. The result overwrites the payload if it fits.
struct RequestSlot {
    buffer: Buffer,
    input: Extent,
    output: Extent,
    /// Scheduled submission time under open load, ns; 0: closed load.
    due: u64,
}

pub(super) struct Arrivals {
    pub(super) per_s: f64,
    pub(super) burst: u32,
    pub(super) seed: u64,
}

pub(super) struct Load<'c> {
    client: &'c mut Client,
    session: Session,
    sample: Sample,
    others: Vec<(f64, Sample)>,
    output: Vec<u8>,
    places: Vec<RequestSlot>,
    free: Vec<u32>,
    stages: Stages,
    failed: u64,
    idled: u64,
    /// Requests submitted since the last notification of the doorbell.
    unrung: usize,
}

impl<'c> Load<'c> {
    pub(super) fn most(client: &Client, sample: &Sample) -> u32 {
        (client.arena_bytes() / (room(sample) + 64)).clamp(1, client.slots())
    }

    pub(super) fn new(client: &'c mut Client, sample: Sample, depth: u32) -> Result<Self, Error> {
        let session = client.open_session(&sample.spec)?;
        let depth = depth.min(Self::most(client, &sample)).max(1);
        let places = (0..depth).map(|_| place(client, &sample)).collect::<Result<Vec<_>, _>>()?;
        Ok(Self {
            client,
            session,
            output: vec![0; sample.output_len],
            sample,
            others: Vec::new(),
            free: (0..places.len() as u32).collect(),
            places,
            stages: Stages::new(),
            failed: 0,
            idled: 0,
            unrung: 0,
        })
    }

    pub(super) fn mixed(client: &'c mut Client, mut samples: Vec<(f64, Sample)>) -> Result<Self, BenchError> {
        samples.sort_by_key(|(_, sample)| sample.input.len());
        let (_, largest) = samples.pop().ok_or(BenchError::State("a mix of nothing"))?;
        let depth = Self::most(client, &largest);
        Ok(Self { others: samples, ..Self::new(client, largest, depth)? })
    }

    pub(super) fn closed(mut self, ns: u64) -> Result<Measured, BenchError> {
        let begun = self.begin();
        while !self.free.is_empty() {
            self.submit(0, None)?;
        }
        self.client.ring();
        let (mut ops, mut batch, mut looked) = (0, 1, 0);
        loop {
            let enough = ops + batch;
            while ops < enough {
                ops += self.exchange()?;
            }
            let took = clock::now() - begun.at;
            if took - looked < MIN_BATCH_NS {
                batch = (batch * 2).min(BATCH);
            }
            looked = took;
            if took >= ns && self.is_enough(ops) {
                return self.end(&begun, ops, took);
            }
        }
    }

    /// Takes one to a few available completions and submits the next request in the place of each. The doorbell is
    /// notified once a batch, and before every wait.
    fn exchange(&mut self) -> Result<u64, Error> {
        let mut count = if self.sample.input.is_empty() { self.exchange_bare()? } else { self.exchange_payload()? };
        if count == 0 {
            self.client.ring();
            self.unrung = 0;
            let received = self.client.wait()?;
            self.replace(&received)?;
            count = 1;
        }
        self.unrung += count;
        if self.unrung >= RING_EVERY {
            self.client.ring();
            self.unrung = 0;
        }
        Ok(count as u64)
    }

    /// Without payload there is nothing to prefetch. State kept on the stack here would only compete with stores to
    /// slots.
    fn exchange_bare(&mut self) -> Result<usize, Error> {
        let mut count = 0;
        while count < TAKE
            && let Some(received) = self.client.poll()
        {
            self.replace(&received)?;
            count += 1;
        }
        Ok(count)
    }

    fn exchange_payload(&mut self) -> Result<usize, Error> {
        let mut taken = [None; TAKE];
        let mut count = 0;
        while count < TAKE
            && let Some(received) = self.client.poll()
        {
            self.client.prefetch(&self.places[received.tag as usize].buffer);
            taken[count] = Some(received);
            count += 1;
        }
        taken.iter().flatten().try_for_each(|received| self.replace(received))?;
        Ok(count)
    }

    fn replace(&mut self, received: &Received) -> Result<(), Error> {
        self.received(received)?;
        self.submit(0, None)
    }

    /// Arrivals of a Poisson process. The time of a request counts from its scheduled submission, so a stalled system
    /// cannot hide its stall.
    pub(super) fn open(mut self, arrivals: &Arrivals, ns: u64) -> Result<Measured, BenchError> {
        let begun = self.begin();
        // The choice of a sample has its own generator, so a simulation with the same seed has the same arrivals.
        let (mut random, mut draws) = (Random::new(arrivals.seed), Random::new(!arrivals.seed));
        let (mut now, mut next, mut ops) = (begun.at, begun.at as f64, 0);
        let (burst_at, mut burst) = (begun.at + ns / 5, arrivals.burst);
        let mut end = begun.at + ns;
        while now < end {
            let is_burst = burst > 0 && burst_at <= next as u64;
            let due = if is_burst { burst_at } else { next as u64 };
            if now >= due && !self.free.is_empty() {
                let other = self.draw(&mut draws);
                self.submit(due, other)?;
                self.client.ring();
                if is_burst {
                    burst -= 1;
                } else {
                    next += random.exponential(1e9 / arrivals.per_s);
                }
            } else if let Some(received) = self.take(if self.free.is_empty() { end } else { due.min(end) })? {
                self.received(&received)?;
                ops += 1;
            }
            now = clock::now();
            if now >= end && !self.is_enough(ops) {
                end = now + ns;
            }
        }
        self.end(&begun, ops, now - begun.at)
    }

    fn is_enough(&self, ops: u64) -> bool {
        ops >= FEW || !self.stages.0[0].is_empty()
    }

    /// The next completion until then. With nothing in flight, only waits.
    fn take(&mut self, until: u64) -> Result<Option<Received>, Error> {
        if let Some(received) = self.client.poll() {
            return Ok(Some(received));
        }
        if self.client.in_flight() > 0 {
            return self.client.wait_for(until.saturating_sub(clock::now()).max(1));
        }
        self.idle(until);
        Ok(None)
    }

    /// Waits for the next arrival. Its CPU time belongs to the punctual load and not to a policy.
    fn idle(&mut self, until: u64) {
        let left = until.saturating_sub(clock::now());
        if left > OVERSLEEP {
            thread::sleep(Duration::from_nanos(left - OVERSLEEP));
        }
        let awake = clock::now();
        while clock::now() < until {
            std::hint::spin_loop();
        }
        self.idled += clock::now() - awake;
    }

    /// Index of the next of the other samples. `None`: the main sample.
    fn draw(&self, random: &mut Random) -> Option<usize> {
        if self.others.is_empty() {
            return None;
        }
        let mut left = random.uniform();
        self.others.iter().position(|(part, _)| {
            left -= part;
            left < 0.0
        })
    }

    fn submit(&mut self, due: u64, other: Option<usize>) -> Result<(), Error> {
        let Some(tag) = self.free.pop() else { return Ok(()) };
        let place = &mut self.places[tag as usize];
        let sample = other.map_or(&self.sample, |other| &self.others[other].1);
        place.due = due;
        if !self.others.is_empty() {
            place.fit(sample);
        }
        if !sample.input.is_empty() {
            self.client.write(&place.buffer, 0, &sample.input)?;
        }
        let (inputs, outputs) = ([place.input], [place.output]);
        let (session, op, head_len) = (self.session, sample.op, sample.head_len as u32);
        let request = Request { session, op, head_len, inputs: &inputs, outputs: &outputs, urgent: false };
        self.client.submit(tag, &request)
    }

    fn received(&mut self, received: &Received) -> Result<(), Error> {
        let place = &self.places[received.tag as usize];
        match received.status {
            Status::Done { len } => {
                let len = (len as usize).min(self.output.len());
                let offset = place.output.offset - place.buffer.extent().offset;
                if len > 0 {
                    self.client.read(&place.buffer, offset, &mut self.output[..len])?;
                }
            }
            Status::Refused(_) | Status::DeviceFailed { .. } => self.failed += 1,
        }
        if let Some((mut stamps, at)) = received.stages {
            if place.due > 0 {
                stamps.submitted = stamps.submitted.min(place.due);
            }
            self.stages.record(&stamps, at);
        }
        self.free.push(received.tag);
        Ok(())
    }

    fn begin(&self) -> Begun {
        Begun { empty_polls: self.empty_polls(), at: clock::now(), cpu: clock::thread_cpu() }
    }

    fn empty_polls(&self) -> u64 {
        self.client.wait_report().audit.empty_polls
    }

    fn end(self, begun: &Begun, ops: u64, ns: u64) -> Result<Measured, BenchError> {
        let cpu_ns = (clock::thread_cpu() - begun.cpu).saturating_sub(self.idled);
        while self.client.in_flight() > 0 {
            self.client.wait()?;
        }
        let empty_polls = self.empty_polls() - begun.empty_polls;
        let mut measured = Measured { ops, ns, began: begun.at, cpu_ns, empty_polls, ..Measured::default() };
        let Self { client, session, places, stages, failed, .. } = self;
        for place in places {
            client.free(place.buffer);
        }
        client.close_session(session)?;
        if failed > 0 {
            return Err(BenchError::Refused(failed));
        }
        stages.add_to(&mut measured);
        Ok(measured)
    }
}

struct Begun {
    empty_polls: u64,
    at: u64,
    cpu: u64,
}

/// Bytes of arena for one request: its input, and room for a longer result.
fn room(sample: &Sample) -> u32 {
    (sample.input.len() + sample.output_len + 16) as u32
}

fn place(client: &mut Client, sample: &Sample) -> Result<RequestSlot, Error> {
    let buffer = client.alloc(room(sample))?;
    let nothing = Extent::new(buffer.extent().offset, 0);
    let mut place = RequestSlot { buffer, input: nothing, output: nothing, due: 0 };
    place.fit(sample);
    Ok(place)
}

impl RequestSlot {
    /// Adapts the place to a sample that fits. The output begins at the payload if both have about the same length,
    /// otherwise behind the input.
    fn fit(&mut self, sample: &Sample) {
        let Extent { offset: start, len: room } = self.buffer.extent();
        self.input = Extent::new(start, sample.input.len() as u32);
        let prefix = sample.payload_offset() as u32;
        let after = (sample.input.len() as u32).next_multiple_of(16).min(sample.input.len() as u32 + 15);
        let offset = if sample.in_place() { prefix } else { after };
        self.output = Extent::new(start + offset, room - offset);
    }
}
