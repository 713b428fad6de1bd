//! Requests done side by side: their gathering, the start of a batch (decided by core's `policy::gather`), and the
//! work.
//!
//! Only requests measured to be faster that way on this machine are gathered, per class and fill; a batch device does
//! everything else as a worker does. A result that does not verify is not released: the crypto library makes it
//! again.

use super::{Batches, Blame, Request};
use crate::engine::crypto::Session;
use crate::engine::crypto::batch::{self, Job, MESSAGES_FROM, Outcome, SideBySide};
use crate::engine::crypto::sample::sample;
use crate::engine::execute::{OUTPUT_EXTRA, Scratch, collect, compute, room_of};
use crate::sys::measuring;
use rtrb::Producer;
use sidecore_core::inflight::Ticket;
use sidecore_core::policy::balance::Measured;
use sidecore_core::policy::gather::{BatchPolicy, Begin, MAX_BATCH};
use sidecore_core::session::{Algorithm, Class, Op, Refusal};
use sidecore_core::time::Nanos;
use sidecore_ipc::sys::clock;
use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use zeroize::Zeroizing;

/// Most requests that wait here. All others wait in the queue.
const ROOM: usize = 2 * MAX_BATCH;
/// Least and most runs of each measured batch; the fastest counts. Runs end early once all together take
/// [`LONG_ENOUGH`].
const RUNS: (u32, u32) = (3, 50);
const LONG_ENOUGH: Nanos = 1_000_000;
/// Algorithms for batches. The first operation of each is measured; the others take as long.
const KINDS: [(Algorithm, &[Op]); 7] = [
    (Algorithm::Rsa1024, &[Op::Sign, Op::SignDigest]),
    (Algorithm::Rsa2048, &[Op::Sign, Op::SignDigest]),
    (Algorithm::Rsa3072, &[Op::Sign, Op::SignDigest]),
    (Algorithm::Rsa4096, &[Op::Sign, Op::SignDigest]),
    (Algorithm::P256, &[Op::Sign, Op::SignDigest]),
    (Algorithm::Aes128Cbc, &[Op::Encrypt]),
    (Algorithm::Aes256Cbc, &[Op::Encrypt]),
];

const _: () = assert!(MAX_BATCH == sidecore_batch::MOST, "core and the arithmetic agree on the largest batch");

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

pub(super) struct Waiting {
    pub(super) ticket: Ticket,
    pub(super) request: Request,
    kind: Kind,
    since: Nanos,
}

/// Requests of one kind can be done side by side. A short message does not wait for a long one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kind {
    class: Class,
    /// The power of two below the length of the message, where its work depends on it.
    size: Option<u32>,
}

struct BatchSlot {
    input: Zeroizing<Vec<u8>>,
    result: Zeroizing<Vec<u8>>,
    state: SlotState,
}

enum SlotState {
    Ready,
    Done(usize),
    Refused(Refusal),
}

pub(super) struct Gathering {
    /// By class; `None`: not gathered.
    gathers: Box<[Option<BatchPolicy>]>,
    found: Vec<Measured>,
    waiting: VecDeque<Waiting>,
    begun: Vec<Waiting>,
    places: [BatchSlot; MAX_BATCH],
    blamed: Producer<Blame>,
}

impl fmt::Debug for Gathering {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gathering").field("waiting", &self.waiting.len()).finish_non_exhaustive()
    }
}

impl Gathering {
    /// Measures the gain of each class on this machine, which takes up to some hundred milliseconds. For requests of
    /// up to `max_request` bytes of input. `blamed` takes the keys of results that did not verify.
    pub(super) fn measured(max_request: u32, blamed: Producer<Blame>) -> Self {
        // Unused room costs no memory, and a buffer that grows would leave a copy without a wipe.
        let room = || Zeroizing::new(Vec::with_capacity(max_request as usize + OUTPUT_EXTRA));
        let place = |_| BatchSlot { input: room(), result: room(), state: SlotState::Done(0) };
        let (gathers, found) = measure();
        Self {
            gathers,
            found,
            waiting: VecDeque::with_capacity(ROOM),
            begun: Vec::with_capacity(MAX_BATCH),
            places: std::array::from_fn(place),
            blamed,
        }
    }

    pub(super) fn found(&self) -> &[Measured] {
        &self.found
    }

    pub(super) fn has_room(&self) -> bool {
        self.waiting.len() < ROOM
    }

    pub(super) fn kind_of(&self, request: &Request) -> Option<Kind> {
        let (session, submission) = (&request.session, &request.submission);
        let class = session.class(submission.op())?;
        self.gathers[class.index()].as_ref()?;
        let key = session.batched(submission.op())?;
        let Some(len) = key.message_len(submission.input_len()) else { return Some(Kind { class, size: None }) };
        (len >= MESSAGES_FROM as u64).then(|| Kind { class, size: len.checked_ilog2() })
    }

    pub(super) fn push(&mut self, ticket: Ticket, request: Request, kind: Kind, now: Nanos) {
        if let Some(gather) = &mut self.gathers[kind.class.index()] {
            gather.arrived(now);
        }
        self.waiting.push_back(Waiting { ticket, request, kind, since: now });
    }

    pub(super) fn next(&self, now: Nanos) -> Option<Begin> {
        let oldest = self.waiting.front()?;
        let gather = self.gathers[oldest.kind.class.index()].as_ref()?;
        let alike = || self.waiting.iter().filter(|other| other.kind == oldest.kind);
        let urgent = alike().any(|waiting| waiting.request.submission.is_urgent());
        Some(gather.decide(now, alike().count(), oldest.since, urgent))
    }

    pub(super) fn begin(&mut self, fill: usize, scratch: &mut Scratch, counts: &Counts) {
        self.choose(fill);
        for (place, waiting) in self.places.iter_mut().zip(&self.begun) {
            place.prepare(&waiting.request, scratch);
        }
        let fill = self.begun.len();
        let gather = self.begun.first().and_then(|first| self.gathers[first.kind.class.index()].as_ref());
        let Some(most) = gather.filter(|gather| gather.is_together(fill)).map(BatchPolicy::full) else {
            self.one_after_another(scratch);
            return;
        };
        let wrong = self.side_by_side(scratch);
        counts.add(fill, fill >= most, wrong);
    }

    /// Part of a full batch of each request in the batch, if that took `took` ns.
    pub(super) fn part_of(&self, took: Nanos) -> Nanos {
        let gather = self.begun.first().and_then(|first| self.gathers[first.kind.class.index()].as_ref());
        gather.map_or(took, |gather| gather.part_of(self.begun.len(), took))
    }

    /// The last request comes first.
    pub(super) fn finished(&mut self) -> Option<(Waiting, Result<&[u8], Refusal>)> {
        let done = self.begun.pop()?;
        let place = &self.places[self.begun.len()];
        let outcome = match place.state {
            SlotState::Refused(why) => Err(why),
            SlotState::Done(len) => Ok(&place.result[..len]),
            SlotState::Ready => Err(Refusal::Internal),
        };
        Some((done, outcome))
    }

    pub(super) fn is_finished(&self) -> bool {
        self.begun.is_empty()
    }

    fn choose(&mut self, fill: usize) {
        self.begun.clear();
        self.begun.extend(self.waiting.pop_front());
        let mut at = 0;
        while self.begun.len() < fill.min(MAX_BATCH) && at < self.waiting.len() {
            if self.begun[0].kind == self.waiting[at].kind {
                self.begun.extend(self.waiting.remove(at));
            } else {
                at += 1;
            }
        }
    }

    fn side_by_side(&mut self, scratch: &mut Scratch) -> u64 {
        let mut jobs = Vec::with_capacity(MAX_BATCH);
        let mut states = Vec::with_capacity(MAX_BATCH);
        let mut sessions = Vec::with_capacity(MAX_BATCH);
        for (place, waiting) in self.places.iter_mut().zip(&self.begun) {
            let key = waiting.request.session.batched(waiting.request.submission.op());
            let (SlotState::Ready, Some(key)) = (&place.state, key) else { continue };
            let (input, output) = (&place.input[..], &mut place.result[..]);
            jobs.push(Job { key, input, output, outcome: Outcome::NotDone });
            states.push(&mut place.state);
            sessions.push(&waiting.request.session);
        }
        batch::run(&mut jobs);
        #[cfg(test)]
        drill::spoil(&mut jobs);
        let with =
            |outcome: fn(&Outcome) -> bool| jobs.iter().zip(&sessions).filter(move |(job, _)| outcome(&job.outcome));
        with(|outcome| matches!(outcome, Outcome::Done(_))).for_each(|(_, session)| session.acquit());
        let wrong = || with(|outcome| *outcome == Outcome::Wrong);
        for (_, session) in wrong() {
            session.blame();
            // A full queue already holds other reports.
            let _ = self.blamed.push(Blame { owner: session.owner(), key: session.key() });
        }
        let wrong = wrong().count();
        for (job, state) in jobs.iter().zip(states) {
            *state = match job.outcome {
                Outcome::Done(len) => SlotState::Done(len),
                Outcome::NotDone | Outcome::Wrong => SlotState::Ready,
            };
        }
        self.one_after_another(scratch);
        wrong as u64
    }

    fn one_after_another(&mut self, scratch: &mut Scratch) {
        for (place, waiting) in self.places.iter_mut().zip(&self.begun) {
            if let SlotState::Ready = place.state {
                place.alone(&waiting.request, scratch);
            }
        }
    }
}

impl BatchSlot {
    /// Reads the request once, checks it, and prepares it for the batch. Any other is done as a worker does it.
    fn prepare(&mut self, request: &Request, scratch: &mut Scratch) {
        let (session, submission) = (&request.session, &request.submission);
        let len = match room_of(session, submission) {
            Ok(len) => len,
            Err(why) => {
                self.state = SlotState::Refused(why);
                return;
            }
        };
        collect(&request.memory, submission, &mut self.input);
        self.result.resize(len, 0);
        match session.prepare(submission.op(), &mut self.input) {
            Some(()) => self.state = SlotState::Ready,
            None => self.alone(request, scratch),
        }
    }

    fn alone(&mut self, request: &Request, scratch: &mut Scratch) {
        self.state = match compute(&request.session, &request.memory, &request.submission, scratch) {
            Ok(result) => {
                self.result.clear();
                self.result.extend_from_slice(result);
                SlotState::Done(result.len())
            }
            Err(why) => SlotState::Refused(why),
        };
    }
}

fn measure() -> (Box<[Option<BatchPolicy>]>, Vec<Measured>) {
    let _undisturbed = measuring::shared();
    let (mut gathers, mut found) = (vec![None; Class::COUNT].into_boxed_slice(), Vec::new());
    for (algorithm, ops) in KINDS {
        let classes = || ops.iter().filter_map(|op| Class::of(algorithm, *op));
        let measured = classes().next().and_then(measure_class).filter(|(gather, _)| gather.pays());
        let Some((gather, measured)) = measured else { continue };
        for class in classes() {
            gathers[class.index()] = Some(gather.clone());
            found.push(Measured { class, ..measured });
        }
    }
    (gathers, found)
}

fn measure_class(class: Class) -> Option<(BatchPolicy, Measured)> {
    let sample = sample(class, MESSAGES_FROM, 1);
    let mut side_by_side = SideBySide::new(&sample)?;
    let (session, mut output) = (Session::open(&sample.spec).ok()?, vec![0; sample.output_len]);
    let (mut single, mut times, mut all) = (Nanos::MAX, [Nanos::MAX; MAX_BATCH], 0);
    for run in 0..RUNS.1 {
        if run >= RUNS.0 && all >= LONG_ENOUGH {
            break;
        }
        // Alternating runs: other load slows both alike.
        single = single.min(timed(|| session.run(sample.op, 0, &sample.input, &mut output).is_ok())?);
        for (at, time) in times.iter_mut().enumerate() {
            *time = (*time).min(timed(|| side_by_side.run(at + 1))?);
        }
        all += single;
    }
    let gather = BatchPolicy::new(times, single);
    let size = sample.input.len() as u32;
    // Messages are gathered from that length on, other inputs at any length.
    let from = session.batched(sample.op)?.message_len(size.into()).map_or(0, |_| size);
    let measured = Measured { class, size, from, part: gather.part(), ends: gather.ends() };
    Some((gather, measured))
}

/// Measures CPU time, which other programs on this core do not lengthen. `None`: the work failed.
fn timed(mut work: impl FnMut() -> bool) -> Option<Nanos> {
    let start = clock::thread_cpu();
    work().then(|| clock::thread_cpu() - start)
}

#[cfg(test)]
mod drill;
#[cfg(test)]
mod tests;
