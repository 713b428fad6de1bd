//! Requests of several sessions of one kind, side by side, each with its own key.
//!
//! The arithmetic is `sidecore-batch`'s; this module selects the sessions and interprets the results.

use sidecore_batch::{MOST, cbc, p256, rsa};
use sidecore_core::session::Op;

use super::Session;
use super::ecdsa;
use super::sample::Sample;

#[derive(Clone, Copy)]
pub(crate) enum BatchKey<'a> {
    /// RSA's private operation on a number as long as the modulus.
    Rsa(&'a rsa::Key),
    /// A signature of ECDSA on P-256, of a digest as a number.
    P256(&'a [u8; p256::LEN]),
    /// Encryption of whole blocks behind their initialisation vector.
    Cbc(&'a cbc::Key),
}

/// Least payload of messages that are done side by side, bytes: a batch's overhead weighs less then.
pub(crate) const MESSAGES_FROM: usize = 1024;

impl BatchKey<'_> {
    /// Length of the message in an input of that length; `None`: it is no message, and all take the same time.
    pub(crate) fn message_len(self, input_len: u64) -> Option<u64> {
        match self {
            Self::Rsa(_) | Self::P256(_) => None,
            Self::Cbc(_) => Some(input_len.saturating_sub(cbc::BLOCK as u64)),
        }
    }
}

pub(crate) struct Job<'a> {
    pub(crate) key: BatchKey<'a>,
    /// The input that the session prepared.
    pub(crate) input: &'a [u8],
    /// Has the length of the session's `output_len`.
    pub(crate) output: &'a mut [u8],
    pub(crate) outcome: Outcome,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It has to be done alone.
    NotDone,
    Done(usize),
    /// The result did not verify and is wiped; it has to be made again.
    Wrong,
}

/// Does up to [`sidecore_batch::MOST`] jobs, all of sessions of one algorithm. Those with another kind of key or
/// other lengths than the first stay [`Outcome::NotDone`].
pub(crate) fn run(jobs: &mut [Job<'_>]) {
    match jobs.first().map(|job| job.key) {
        Some(BatchKey::Rsa(_)) => powers(jobs),
        Some(BatchKey::P256(_)) => signatures(jobs),
        Some(BatchKey::Cbc(_)) => messages(jobs),
        None => {}
    }
}

/// Operations that this machine does side by side, each with the name of its unit.
pub fn units() -> Vec<(&'static str, &'static str)> {
    let ifma = |is_here: bool| is_here.then_some("AVX-512-IFMA");
    let cbc = cbc::Unit::best().map(|unit| if unit == cbc::Unit::Fours { "VAES" } else { "AES instructions" });
    let all = [("RSA", ifma(rsa::is_here())), ("P-256", ifma(p256::is_here())), ("AES-CBC", cbc)];
    all.into_iter().filter_map(|(operation, unit)| Some((operation, unit?))).collect()
}

/// One request several times, side by side: for measurements.
#[derive(Debug)]
pub struct SideBySide {
    session: Session,
    op: Op,
    input: Vec<u8>,
    outputs: Vec<Vec<u8>>,
}

impl SideBySide {
    /// `None`: this machine does not do such requests side by side.
    pub fn new(sample: &Sample) -> Option<Self> {
        let session = Session::open(&sample.spec).ok()?;
        session.batched(sample.op)?;
        let mut input = sample.input.clone();
        session.prepare(sample.op, &mut input)?;
        let outputs = vec![vec![0; sample.output_len]; MOST];
        Some(Self { session, op: sample.op, input, outputs })
    }

    /// Does it `fill` times in one batch, at most [`MOST`]. Returns whether each result was good.
    pub fn run(&mut self, fill: usize) -> bool {
        let Some(key) = self.session.batched(self.op) else { return false };
        let outputs = self.outputs.iter_mut().take(fill);
        let mut jobs: Vec<Job<'_>> =
            outputs.map(|output| Job { key, input: &self.input, output, outcome: Outcome::NotDone }).collect();
        run(&mut jobs);
        jobs.len() == fill && jobs.iter().all(|job| matches!(job.outcome, Outcome::Done(_)))
    }
}

fn powers(jobs: &mut [Job<'_>]) {
    let (mut theirs, mut outcomes) = (Vec::with_capacity(jobs.len()), Vec::with_capacity(jobs.len()));
    for Job { key, input, output, outcome } in jobs {
        let BatchKey::Rsa(key) = key else { continue };
        theirs.push(rsa::Job { key, input, output, good: false });
        outcomes.push(outcome);
    }
    if rsa::private(&mut theirs) {
        for (job, outcome) in theirs.iter().zip(outcomes) {
            *outcome = if job.good { Outcome::Done(job.output.len()) } else { Outcome::Wrong };
        }
    }
}

fn signatures(jobs: &mut [Job<'_>]) {
    let Some(nonces) = ecdsa::nonces() else { return };
    let mut signatures = [[0; 2 * p256::LEN]; MOST];
    let (mut theirs, mut places) = (Vec::with_capacity(jobs.len()), Vec::with_capacity(jobs.len()));
    for ((job, nonce), output) in jobs.iter_mut().zip(nonces.iter()).zip(&mut signatures) {
        let (BatchKey::P256(private), Ok(digest)) = (job.key, job.input.try_into()) else { continue };
        theirs.push(p256::Job { private, nonce, digest, output, good: false });
        places.push((&mut *job.output, &mut job.outcome));
    }
    if p256::sign(&mut theirs) {
        for (job, (output, outcome)) in theirs.iter().zip(places) {
            let written = Some(&*job.output).filter(|_| job.good).and_then(|numbers| ecdsa::encode(numbers, output));
            *outcome = written.map_or(Outcome::Wrong, Outcome::Done);
        }
    }
}

fn messages(jobs: &mut [Job<'_>]) {
    let (mut theirs, mut outcomes) = (Vec::with_capacity(jobs.len()), Vec::with_capacity(jobs.len()));
    for Job { key, input, output, outcome } in jobs {
        let BatchKey::Cbc(key) = key else { continue };
        let Some((vector, input)) = input.split_first_chunk() else { continue };
        theirs.push(cbc::Job { key, vector, input, output });
        outcomes.push(outcome);
    }
    if cbc::encrypt(&mut theirs) {
        for (job, outcome) in theirs.iter().zip(outcomes) {
            *outcome = Outcome::Done(job.output.len());
        }
    }
}
