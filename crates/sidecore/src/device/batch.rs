//! Requests that are done side by side: which wait, when they are begun with (core's `policy::gather` decides), and the work.
//!
//! Only what is measured to be faster that way on this machine is gathered, per class and fill; a batch device does
//! everything else as a worker does. A result that does not verify does not leave: the crypto library makes it again.

use super::{Batches, Request};
use crate::engine::crypto::Session;
use crate::engine::crypto::sample::sample;
use crate::engine::execute::{Scratch, collect, compute, room_of};
use crate::sys::clock;
use sidecore_batch::rsa::{self, Job};
use sidecore_core::inflight::Ticket;
use sidecore_core::policy::gather::{Begin, Gather, MOST};
use sidecore_core::session::{Algorithm, Class, Op, Refusal};
use sidecore_core::time::Nanos;
use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use zeroize::Zeroizing;

/// Requests that wait here, at most. All others wait in the queue.
const ROOM: usize = 2 * MOST;
/// Runs of each batch that is measured, of which the fastest counts.
const RUNS: u32 = 2;
/// Of whose keys several operations are done side by side.
const ALGORITHMS: [Algorithm; 4] = [Algorithm::Rsa1024, Algorithm::Rsa2048, Algorithm::Rsa3072, Algorithm::Rsa4096];
/// Bytes of the longest modulus.
const LONGEST: usize = 512;

const _: () = assert!(MOST == sidecore_batch::MOST, "core and the arithmetic agree on the largest batch");

/// What was done so far, for the sidecore to read.
#[derive(Debug, Default)]
pub(super) struct Counts {
    begun: AtomicU64,
    requests: AtomicU64,
    full: AtomicU64,
    wrong: AtomicU64,
}

impl Counts {
    fn add(&self, requests: usize, is_full: bool, wrong: u64) {
        let more =
            [(&self.begun, 1), (&self.requests, requests as u64), (&self.full, is_full.into()), (&self.wrong, wrong)];
        for (count, more) in more {
            count.fetch_add(more, Ordering::Relaxed);
        }
    }

    pub(super) fn read(&self) -> Batches {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Batches { begun: of(&self.begun), requests: of(&self.requests), full: of(&self.full), wrong: of(&self.wrong) }
    }
}

/// A request that waits for others.
pub(super) struct Waiting {
    pub(super) ticket: Ticket,
    pub(super) request: Request,
    since: Nanos,
}

/// Private memory for one of the requests of a batch.
struct Place {
    input: Zeroizing<Vec<u8>>,
    number: Zeroizing<Vec<u8>>,
    result: Zeroizing<Vec<u8>>,
    state: State,
}

/// How far a request of a batch is.
enum State {
    /// Its number is there, and is to be done.
    Ready,
    /// Its result is there.
    Done,
    Refused(Refusal),
}

/// The requests that wait, and what the device knows of its times.
pub(super) struct Gathering {
    /// By class; `None`: not gathered.
    gathers: Box<[Option<Gather>]>,
    waiting: VecDeque<Waiting>,
    begun: Vec<Waiting>,
    places: [Place; MOST],
    /// One result in so many batches is disturbed; 0: none.
    disturb: u32,
    count: u32,
}

impl fmt::Debug for Gathering {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gathering").field("waiting", &self.waiting.len()).finish_non_exhaustive()
    }
}

impl Gathering {
    /// Measures what pays here, which takes up to some hundred milliseconds.
    pub(super) fn measured(disturb: u32) -> Self {
        let place = |_| Place {
            input: Zeroizing::default(),
            number: vec![0; LONGEST].into(),
            result: vec![0; LONGEST].into(),
            state: State::Done,
        };
        Self {
            gathers: measure(),
            waiting: VecDeque::with_capacity(ROOM),
            begun: Vec::with_capacity(MOST),
            places: std::array::from_fn(place),
            disturb,
            count: 0,
        }
    }

    pub(super) fn has_room(&self) -> bool {
        self.waiting.len() < ROOM
    }

    /// Whether it is to be gathered with others.
    pub(super) fn takes(&self, request: &Request) -> bool {
        self.gather_of(request).is_some() && request.session.batched(request.submission.op()).is_some()
    }

    /// A request that it takes waits from now on, ns.
    pub(super) fn push(&mut self, ticket: Ticket, request: Request, now: Nanos) {
        let class = request.session.class(request.submission.op());
        if let Some(gather) = class.and_then(|class| self.gathers[class.index()].as_mut()) {
            gather.arrived(now);
        }
        self.waiting.push_back(Waiting { ticket, request, since: now });
    }

    /// What is done at `now` with those that wait; `None`: none does.
    pub(super) fn next(&self, now: Nanos) -> Option<Begin> {
        let oldest = self.waiting.front()?;
        let gather = self.gather_of(&oldest.request)?;
        let alike = || self.waiting.iter().filter(|other| is_alike(&oldest.request, &other.request));
        let urgent = alike().any(|waiting| waiting.request.submission.is_urgent());
        Some(gather.decide(now, alike().count(), oldest.since, urgent))
    }

    /// Does so many of those that can be done with the oldest, and leaves their outcomes for [`finished`](Self::finished).
    pub(super) fn begin(&mut self, fill: usize, scratch: &mut Scratch, counts: &Counts) {
        self.choose(fill);
        for (place, waiting) in self.places.iter_mut().zip(&self.begun) {
            place.prepare(&waiting.request, scratch);
        }
        let fill = self.begun.len();
        let gather = self.begun.first().and_then(|first| self.gather_of(&first.request));
        let Some(most) = gather.filter(|gather| gather.is_together(fill)).map(Gather::full) else {
            self.one_after_another(scratch);
            return;
        };
        let wrong = self.side_by_side(scratch);
        counts.add(fill, fill >= most, wrong);
    }

    /// The next of the requests that were begun with, and its outcome; the last first.
    pub(super) fn finished(&mut self) -> Option<(Waiting, Result<&[u8], Refusal>)> {
        let done = self.begun.pop()?;
        let place = &self.places[self.begun.len()];
        let outcome = if let State::Refused(why) = place.state { Err(why) } else { Ok(&place.result[..]) };
        Some((done, outcome))
    }

    fn gather_of(&self, request: &Request) -> Option<&Gather> {
        self.gathers[request.session.class(request.submission.op())?.index()].as_ref()
    }

    /// Which of the requests that were begun with is to be disturbed.
    fn disturbed(&mut self) -> Option<usize> {
        self.count = self.count.wrapping_add(1);
        let is_due = self.disturb > 0 && self.count.is_multiple_of(self.disturb);
        is_due.then(|| (self.count / self.disturb) as usize % self.begun.len().max(1))
    }

    /// Takes so many that can be done with the oldest, in the order of their arrival.
    fn choose(&mut self, fill: usize) {
        self.begun.clear();
        self.begun.extend(self.waiting.pop_front());
        let mut at = 0;
        while self.begun.len() < fill.min(MOST) && at < self.waiting.len() {
            if is_alike(&self.begun[0].request, &self.waiting[at].request) {
                self.begun.extend(self.waiting.remove(at));
            } else {
                at += 1;
            }
        }
    }

    /// Returns how many results did not verify.
    fn side_by_side(&mut self, scratch: &mut Scratch) -> u64 {
        let disturbed = self.disturbed();
        let (mut jobs, mut owners) = (Vec::with_capacity(MOST), Vec::with_capacity(MOST));
        for (at, (place, waiting)) in self.places.iter_mut().zip(&self.begun).enumerate() {
            let key = waiting.request.session.batched(waiting.request.submission.op());
            let (State::Ready, Some(key)) = (&place.state, key) else { continue };
            place.state = State::Done;
            let (input, output) = (&place.number[..], &mut place.result[..]);
            jobs.push(Job { key, input, output, good: false, disturb: disturbed == Some(at) });
            owners.push(at);
        }
        rsa::private(&mut jobs);
        let good = owners.iter().zip(&jobs);
        let wrong: Vec<usize> = good.filter(|(_, job)| !job.good).map(|(at, _)| *at).collect();
        for at in &wrong {
            self.places[*at].state = State::Ready;
        }
        self.one_after_another(scratch);
        wrong.len() as u64
    }

    /// Does what is left.
    fn one_after_another(&mut self, scratch: &mut Scratch) {
        for (place, waiting) in self.places.iter_mut().zip(&self.begun) {
            if let State::Ready = place.state {
                place.alone(&waiting.request, scratch);
            }
        }
    }
}

impl Place {
    /// Reads the request once, checks it, and makes the number. What cannot be made a number is done as a worker does it.
    fn prepare(&mut self, request: &Request, scratch: &mut Scratch) {
        let (session, submission) = (&request.session, &request.submission);
        let len = match room_of(session, submission) {
            Ok(len) => len,
            Err(why) => {
                self.state = State::Refused(why);
                return;
            }
        };
        collect(&request.memory, submission, &mut self.input);
        self.number.resize(len, 0);
        self.result.resize(len, 0);
        match session.prepare(submission.op(), &self.input, &mut self.number) {
            Some(()) => self.state = State::Ready,
            None => self.alone(request, scratch),
        }
    }

    /// As a worker does it.
    fn alone(&mut self, request: &Request, scratch: &mut Scratch) {
        self.state = match compute(&request.session, &request.memory, &request.submission, scratch) {
            Ok(result) => {
                self.result.clear();
                self.result.extend_from_slice(result);
                State::Done
            }
            Err(why) => State::Refused(why),
        };
    }
}

/// Whether two requests are of one class, so that their numbers have one length.
fn is_alike(one: &Request, other: &Request) -> bool {
    let class = |request: &Request| request.session.class(request.submission.op());
    class(one) == class(other)
}

/// What is worth gathering on this machine, by class.
fn measure() -> Box<[Option<Gather>]> {
    let mut gathers = vec![None; Class::COUNT].into_boxed_slice();
    for algorithm in ALGORITHMS.into_iter().filter(|_| rsa::is_here()) {
        let gather = Class::of(algorithm, Op::Sign).and_then(measure_class).filter(Gather::pays);
        for class in [Op::Sign, Op::SignDigest].into_iter().filter_map(|op| Class::of(algorithm, op)) {
            gathers[class.index()].clone_from(&gather);
        }
    }
    gathers
}

fn measure_class(class: Class) -> Option<Gather> {
    let sample = sample(class, 32, 1);
    let session = Session::open(&sample.spec).ok()?;
    let key = session.batched(sample.op)?;
    let (mut number, mut outputs) = (vec![0; key.modulus_len()], vec![vec![0; key.modulus_len()]; MOST]);
    session.prepare(sample.op, &sample.input, &mut number)?;
    let single = fastest(|| session.run(sample.op, 0, &sample.input, &mut outputs[0]).is_ok())?;
    let mut times = [Nanos::MAX; MOST];
    for (at, time) in times.iter_mut().enumerate() {
        *time = fastest(|| {
            let job = |output| Job { key, input: &number, output, good: false, disturb: false };
            let mut jobs: Vec<Job<'_>> = outputs[..=at].iter_mut().map(|output| job(&mut output[..])).collect();
            rsa::private(&mut jobs) && jobs.iter().all(|job| job.good)
        })?;
    }
    Some(Gather::new(times, single))
}

/// `None`: it went wrong once.
fn fastest(mut work: impl FnMut() -> bool) -> Option<Nanos> {
    let mut took = Nanos::MAX;
    for _ in 0..RUNS {
        let start = clock::now();
        if !work() {
            return None;
        }
        took = took.min(clock::now() - start);
    }
    Some(took)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_every_length_are_signed_so_that_the_library_verifies_them() {
        // Without such a unit there is nothing to compare, as the tests of `sidecore-batch` say.
        for algorithm in ALGORITHMS.into_iter().filter(|_| rsa::is_here()) {
            let class = Class::of(algorithm, Op::Sign).unwrap();
            let samples: Vec<_> = (0..MOST as u64).map(|seed| sample(class, 32, seed)).collect();
            let sessions: Vec<_> = samples.iter().map(|sample| Session::open(&sample.spec).unwrap()).collect();
            let keys: Vec<_> = sessions.iter().map(|session| session.batched(Op::Sign).unwrap()).collect();
            let len = keys[0].modulus_len();
            let (mut numbers, mut outputs) = (vec![vec![0; len]; MOST], vec![vec![0; len]; MOST]);
            for ((session, sample), number) in sessions.iter().zip(&samples).zip(&mut numbers) {
                session.prepare(Op::Sign, &sample.input, number).unwrap();
            }
            let parts = keys.iter().zip(&numbers).zip(&mut outputs);
            let mut jobs: Vec<_> =
                parts.map(|((key, input), output)| Job { key, input, output, good: false, disturb: false }).collect();
            assert!(rsa::private(&mut jobs) && jobs.iter().all(|job| job.good), "{algorithm:?}");
            for ((session, sample), signature) in sessions.iter().zip(&samples).zip(&outputs) {
                let signed = [&signature[..], &sample.input].concat();
                session.run(Op::Verify, len, &signed, &mut []).expect("a signature of the sample's key");
            }
        }
    }

    #[test]
    fn keys_that_batches_do_not_take_are_done_by_themselves() {
        let class = Class::from_name("p-256-sign").unwrap();
        let session = Session::open(&sample(class, 32, 1).spec).unwrap();
        assert!(session.batched(Op::Sign).is_none());
        let class = Class::from_name("rsa-2048-decrypt").unwrap();
        let session = Session::open(&sample(class, 32, 1).spec).unwrap();
        assert!(session.batched(Op::Decrypt).is_none());
    }
}
