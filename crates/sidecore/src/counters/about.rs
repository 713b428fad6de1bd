//! What a block says of itself beside its numbers, and the words in which it says so.

use super::text::{pack, unpack};
use crate::config::{DeviceKind, Place};
use crate::keys::MAX_NAME;
use sidecore_core::dispatch::DeviceState;
use sidecore_core::session::Class;
use std::fmt::Debug;

/// The first words of a block. The very first is its generation, see [`super::layout`].
pub trait Front: Clone + Debug {
    /// How many there are, with the generation.
    const WORDS: usize;
    /// Puts itself there. All words were 0.
    fn write(&self, words: &mut [u64]);
    /// What is there, whatever it is.
    fn read(words: &[u64]) -> Self;
}

/// Of a sidecore.
#[derive(Clone, Debug)]
pub struct SidecoreAbout {
    /// Where it runs.
    pub place: Place,
}

/// Of a device.
#[derive(Clone, Debug)]
pub struct DeviceAbout {
    /// Name, in printable characters.
    pub name: String,
    /// Kind, in printable characters.
    pub kind: String,
    /// The sidecore that it serves.
    pub sidecore: u32,
    /// Where it runs, if it is a worker.
    pub worker: Option<Place>,
    /// How far it may be used. `None`: not known.
    pub state: Option<DeviceState>,
}

/// Of an open lane.
#[derive(Clone, Debug, Default)]
pub struct LaneAbout {
    /// Process of the client.
    pub pid: u32,
    /// User of the client.
    pub uid: u32,
    /// The sidecore that it belongs to.
    pub sidecore: u32,
    /// Name of the client, in printable characters.
    pub name: String,
}

/// Of a stored key.
#[derive(Clone, Debug, Default)]
pub struct KeyAbout {
    /// Its name, in printable characters.
    pub name: String,
}

/// Of a class of requests, which has no block of its own.
#[derive(Clone, Debug)]
pub struct ClassAbout {
    /// The class.
    pub class: Class,
}

impl DeviceAbout {
    /// The word of the state.
    pub(super) const STATE: usize = 1;

    /// Where it waits, if it is a worker that is not gone.
    pub(super) fn waits(&self) -> Option<Place> {
        self.worker.filter(|_| self.state != Some(DeviceState::Gone))
    }
}

impl Front for SidecoreAbout {
    const WORDS: usize = 8;

    fn write(&self, words: &mut [u64]) {
        [words[1], words[2]] = words_of(self.place);
    }

    fn read(words: &[u64]) -> Self {
        Self { place: place_of([words[1], words[2]]) }
    }
}

impl Front for DeviceAbout {
    const WORDS: usize = 16;

    fn write(&self, words: &mut [u64]) {
        words[Self::STATE] = self.state.map_or(u64::MAX, |state| state as u64);
        words[2] = self.sidecore.into();
        words[4..8].copy_from_slice(&pack::<4>(&self.kind));
        words[8..12].copy_from_slice(&pack::<4>(&self.name));
        [words[3], words[12]] = words_of(self.worker.unwrap_or(Place { cpu: None, may_spin: false }));
    }

    fn read(words: &[u64]) -> Self {
        let states = [DeviceState::Active, DeviceState::Draining, DeviceState::Gone];
        let kind = unpack(&words[4..8]);
        Self {
            name: unpack(&words[8..12]),
            sidecore: words[2] as u32,
            worker: (kind == DeviceKind::Worker.name()).then(|| place_of([words[3], words[12]])),
            kind,
            state: states.into_iter().find(|state| *state as u64 == words[Self::STATE]),
        }
    }
}

impl Front for LaneAbout {
    const WORDS: usize = 8;

    fn write(&self, words: &mut [u64]) {
        words[1..4].copy_from_slice(&[self.pid, self.uid, self.sidecore].map(u64::from));
        words[4..8].copy_from_slice(&pack::<4>(&self.name));
    }

    fn read(words: &[u64]) -> Self {
        let [pid, uid, sidecore] = [1, 2, 3].map(|word| words[word] as u32);
        Self { pid, uid, sidecore, name: unpack(&words[4..8]) }
    }
}

impl Front for KeyAbout {
    const WORDS: usize = 1 + MAX_NAME / 8;

    fn write(&self, words: &mut [u64]) {
        words[1..Self::WORDS].copy_from_slice(&pack::<{ MAX_NAME / 8 }>(&self.name));
    }

    fn read(words: &[u64]) -> Self {
        Self { name: unpack(&words[1..Self::WORDS]) }
    }
}

/// The core that it is tied to plus 1 or 0, and whether it may spin there.
fn words_of(place: Place) -> [u64; 2] {
    [place.cpu.map_or(0, |cpu| cpu as u64 + 1), place.may_spin.into()]
}

/// The place that these words say.
fn place_of([cpu, may_spin]: [u64; 2]) -> Place {
    let cpu = usize::try_from(cpu).ok().and_then(|cpu| cpu.checked_sub(1));
    Place::new(cpu, may_spin != 0)
}
