//! HMAC with SHA-256 (RFC 2104), of several messages side by side, each with its own key.

use std::{array, slice};

use zeroize::Zeroizing;

use crate::MOST;
pub use crate::sha256::Unit;
use crate::sha256::{BLOCK, INITIAL, State, Stream, Units, bytes};
use crate::stack::wiped;

/// Bytes of a tag.
pub const TAG: usize = 32;

/// A key, made ready.
pub struct Key {
    /// Hash state after the inner padded key.
    inner: Box<Zeroizing<State>>,
    /// Hash state after the outer padded key.
    outer: Box<Zeroizing<State>>,
}

/// One message.
pub struct Job<'a> {
    /// The key of its tag.
    pub key: &'a Key,
    /// Of any length.
    pub input: &'a [u8],
    /// The tag.
    pub output: &'a mut [u8; TAG],
}

impl Key {
    /// Makes a key of any length ready. `None` where this machine has no [`Unit`].
    pub fn new(key: &[u8]) -> Option<Self> {
        let units = Units::here()?;
        Some(wiped(|| Self::of_units(units, key)))
    }

    fn of_units(units: Units, key: &[u8]) -> Self {
        let mut block = Zeroizing::new([0; BLOCK]);
        if key.len() > BLOCK {
            let mut states = Zeroizing::new([INITIAL]);
            units.hash(&mut *states, &[key], 0);
            block[..TAG].copy_from_slice(&*bytes(&states[0]));
        } else {
            block[..key.len()].copy_from_slice(key);
        }
        let state = |pad: u8| {
            let mut state = Box::new(Zeroizing::new(INITIAL));
            let padded = Zeroizing::new(block.map(|byte| byte ^ pad));
            units.compress(&mut [Stream { state: &mut state, blocks: slice::from_ref(&*padded) }], 1);
            state
        };
        Self { inner: state(0x36), outer: state(0x5c) }
    }

    /// The states' bytes in memory: whole, in the order of the instructions, and each word in a lane of its own for
    /// all messages.
    #[cfg(test)]
    pub(crate) fn states(&self) -> Vec<Vec<u8>> {
        let flat = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
        let of_state = |state: &State| {
            let halves = [[5, 4, 1, 0], [7, 6, 3, 2]].map(|order| flat(&order.map(|at: usize| state[at])));
            let lanes = state.map(|word| flat(&[word; MOST]));
            [&[flat(state)][..], &halves, &lanes].concat()
        };
        [&self.inner, &self.outer].iter().flat_map(|state| of_state(state)).collect()
    }
}

/// Whether this machine can do [`tags`].
pub fn is_here() -> bool {
    Units::here().is_some()
}

/// The tags of up to [`MOST`] messages side by side, whose lengths may differ. `false`: this machine cannot, or there
/// are more jobs; nothing is done then.
pub fn tags(jobs: &mut [Job<'_>]) -> bool {
    tags_if(Units::here(), jobs)
}

/// As [`tags`], by the given unit.
pub fn tags_by(unit: Unit, jobs: &mut [Job<'_>]) -> bool {
    tags_if(Units::only(unit), jobs)
}

fn tags_if(units: Option<Units>, jobs: &mut [Job<'_>]) -> bool {
    let Some(units) = units.filter(|_| jobs.len() <= MOST) else { return false };
    wiped(|| tags_of(units, jobs));
    true
}

fn tags_of(units: Units, jobs: &mut [Job<'_>]) {
    let fill = jobs.len();
    let mut states = Zeroizing::new([State::default(); MOST]);
    states.iter_mut().zip(&*jobs).for_each(|(state, job)| *state = **job.key.inner);
    let inputs: [&[u8]; MOST] = array::from_fn(|at| jobs.get(at).map_or(&[][..], |job| job.input));
    units.hash(&mut states[..fill], &inputs[..fill], BLOCK);
    let digests = states.each_ref().map(bytes);
    let digests = digests.each_ref().map(|digest| &digest[..]);
    states.iter_mut().zip(&*jobs).for_each(|(state, job)| *state = **job.key.outer);
    units.hash(&mut states[..fill], &digests[..fill], BLOCK);
    for (job, state) in jobs.iter_mut().zip(&*states) {
        *job.output = *bytes(state);
    }
}
