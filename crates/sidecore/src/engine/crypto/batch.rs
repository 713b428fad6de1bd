//! Requests of several sessions of one kind, side by side, each with its own key.
//!
//! The arithmetic is `sidecore-batch`'s; this module selects the sessions and interprets the results.

use std::mem;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use sidecore_batch::{MOST, cbc, hmac, p256, rsa, x25519};
use sidecore_core::session::{Op, Refusal};

use super::Session;
use super::ecdsa;
use super::sample::Sample;

/// The key of a session with some requests that can be done side by side with others.
#[derive(Clone, Copy)]
pub(crate) enum BatchKey<'a> {
    /// RSA's private operation on a number as long as the modulus.
    Rsa(&'a rsa::Key),
    /// A signature of ECDSA on P-256, of a digest as a number.
    P256(&'a [u8; p256::LEN]),
    /// The secret shared with a peer whose public key is the input.
    X25519(&'a [u8; x25519::LEN]),
    /// Encryption of whole blocks after their initialisation vector.
    Cbc(&'a cbc::Key),
    /// The tag of a message by HMAC with SHA-256.
    Tag(&'a hmac::Key),
    /// Verification of the tag in front of a message.
    Claim(&'a hmac::Key),
}

/// Least payload of messages that are done side by side, bytes: a batch's overhead weighs less then.
pub(crate) const MESSAGES_FROM: usize = 1024;

impl BatchKey<'_> {
    /// Length of the message in an input of that length; `None`: it is no message, and all take the same time.
    pub(crate) fn message_len(self, input_len: u64) -> Option<u64> {
        let before = match self {
            Self::Rsa(_) | Self::P256(_) | Self::X25519(_) => return None,
            Self::Cbc(_) => cbc::BLOCK,
            Self::Tag(_) => 0,
            Self::Claim(_) => hmac::TAG,
        };
        Some(input_len.saturating_sub(before as u64))
    }
}

pub(crate) struct Job<'a> {
    pub(crate) key: BatchKey<'a>,
    /// The input that the session prepared.
    pub(crate) input: &'a [u8],
    /// Has the length of the session's `output_len`.
    pub(crate) output: &'a mut [u8],
    pub(crate) outcome: Outcome,
    /// For tests and drills: its result comes out wrong, where checks detect that.
    pub(crate) disturb: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// None: it has to be done alone.
    NotDone,
    /// The output begins with this number of result bytes.
    Done(usize),
    Refused(Refusal),
    /// The result did not verify and is wiped; it has to be made again.
    Wrong,
}

/// Does up to [`sidecore_batch::MOST`] jobs, all of sessions of one algorithm. Those with another kind of key or
/// other lengths than the first stay [`Outcome::NotDone`].
pub(crate) fn run(jobs: &mut [Job<'_>]) {
    match jobs.first().map(|job| job.key) {
        Some(BatchKey::Rsa(_)) => powers(jobs),
        Some(BatchKey::P256(_)) => signatures(jobs),
        Some(BatchKey::X25519(_)) => secrets(jobs),
        Some(BatchKey::Cbc(_)) => messages(jobs),
        Some(BatchKey::Tag(_) | BatchKey::Claim(_)) => tags(jobs),
        None => {}
    }
}

/// Operations that this machine does side by side, each with the name of its unit.
pub fn units() -> Vec<(&'static str, &'static str)> {
    let ifma = |is_here: bool| is_here.then_some("AVX-512-IFMA");
    let rsa = rsa::Unit::best().map(|unit| if unit == rsa::Unit::Ifma { "AVX-512-IFMA" } else { "AVX2 with FMA" });
    let cbc = cbc::Unit::best().map(|unit| if unit == cbc::Unit::Fours { "VAES" } else { "AES instructions" });
    let hmac = match hmac::Unit::ALL.map(hmac::Unit::is_here) {
        [true, true] => Some("SHA instructions, AVX-512"),
        [true, false] => Some("SHA instructions"),
        [false, true] => Some("AVX-512"),
        [false, false] => None,
    };
    let all = [
        ("RSA", rsa),
        ("P-256", ifma(p256::is_here())),
        ("X25519", ifma(x25519::is_here())),
        ("AES-CBC", cbc),
        ("HMAC-SHA-256", hmac),
    ];
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
        let mut jobs: Vec<Job<'_>> = outputs
            .map(|output| Job { key, input: &self.input, output, outcome: Outcome::NotDone, disturb: false })
            .collect();
        run(&mut jobs);
        jobs.len() == fill && jobs.iter().all(|job| matches!(job.outcome, Outcome::Done(_)))
    }
}

fn powers(jobs: &mut [Job<'_>]) {
    let (mut theirs, mut outcomes) = (Vec::with_capacity(jobs.len()), Vec::with_capacity(jobs.len()));
    for Job { key, input, output, outcome, disturb } in jobs {
        let BatchKey::Rsa(key) = key else { continue };
        theirs.push(rsa::Job { key, input, output, good: false, disturb: *disturb });
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
        theirs.push(p256::Job { private, nonce, digest, output, good: false, disturb: job.disturb });
        places.push((&mut *job.output, &mut job.outcome));
    }
    if p256::sign(&mut theirs) {
        for (job, (output, outcome)) in theirs.iter().zip(places) {
            let written = Some(&*job.output).filter(|_| job.good).and_then(|numbers| ecdsa::encode(numbers, output));
            *outcome = written.map_or(Outcome::Wrong, Outcome::Done);
        }
    }
}

fn secrets(jobs: &mut [Job<'_>]) {
    let (mut theirs, mut outcomes) = (Vec::with_capacity(jobs.len()), Vec::with_capacity(jobs.len()));
    for Job { key, input, output, outcome, disturb } in jobs {
        let BatchKey::X25519(private) = key else { continue };
        let (Ok(public), Ok(output)) = ((*input).try_into(), mem::take(output).try_into()) else { continue };
        theirs.push(x25519::Job { private, public, output, good: false, disturb: *disturb });
        outcomes.push(outcome);
    }
    if x25519::derive(&mut theirs) {
        for (job, outcome) in theirs.iter().zip(outcomes) {
            *outcome = if !job.good {
                Outcome::Wrong
            } else if *job.output == [0; x25519::LEN] {
                // As in a single operation, a peer of small order is refused.
                Outcome::Refused(Refusal::Authentication)
            } else {
                Outcome::Done(x25519::LEN)
            };
        }
    }
}

fn messages(jobs: &mut [Job<'_>]) {
    let (mut theirs, mut outcomes) = (Vec::with_capacity(jobs.len()), Vec::with_capacity(jobs.len()));
    for Job { key, input, output, outcome, .. } in jobs {
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

fn tags(jobs: &mut [Job<'_>]) {
    let mut made = [[0; hmac::TAG]; MOST];
    let (mut theirs, mut rest) = (Vec::with_capacity(jobs.len()), Vec::with_capacity(jobs.len()));
    for (Job { key, input, output, outcome, .. }, tag) in jobs.iter_mut().zip(&mut made) {
        let (claimed, key, input) = match *key {
            BatchKey::Tag(key) => (None, key, *input),
            BatchKey::Claim(key) => {
                let Some((claimed, input)) = input.split_first_chunk::<{ hmac::TAG }>() else { continue };
                (Some(claimed), key, input)
            }
            _ => continue,
        };
        theirs.push(hmac::Job { key, input, output: tag });
        rest.push((claimed, output, outcome));
    }
    if !hmac::tags(&mut theirs) {
        return;
    }
    for (job, (claimed, output, outcome)) in theirs.iter().zip(rest) {
        *outcome = match claimed {
            None => {
                output.copy_from_slice(job.output);
                Outcome::Done(hmac::TAG)
            }
            Some(claimed) if verify_slices_are_equal(claimed, job.output).is_ok() => Outcome::Done(0),
            Some(_) => Outcome::Refused(Refusal::Authentication),
        };
    }
}
